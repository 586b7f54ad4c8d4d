//! Kinds of exchanges, for turns and for activities, and their settings.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{ActivityReply, ActivityTask, DeciderTask, TurnReply};

/// Kind of the tasks in a list.
pub trait TaskKind: Send + 'static {
    /// A task.
    type Task: DeserializeOwned + Send + 'static;
    /// An answer to a task.
    type Reply: Serialize + Send + 'static;
    /// Path segment of the kind in the URL of an exchange.
    const SEGMENT: &'static str;
}

/// Tasks of deciders.
#[derive(Debug)]
pub enum TurnKind {}

/// Tasks of runners.
#[derive(Debug)]
pub enum ActivityKind {}

impl TaskKind for TurnKind {
    type Task = DeciderTask;
    type Reply = TurnReply;
    const SEGMENT: &'static str = "decider";
}

impl TaskKind for ActivityKind {
    type Task = ActivityTask;
    type Reply = ActivityReply;
    const SEGMENT: &'static str = "activity";
}

/// Settings of the exchanges of a host.
#[derive(Debug, Clone, Default)]
pub struct ExchangeSettings {
    /// Name of the poller; recorded in the history.
    pub identity: String,
    /// Maximum number of tasks in progress.
    pub at_once: usize,
    /// True if the host answers queries.
    pub queries: bool,
    /// Maximum number of updates that the host accepts in one turn.
    pub updates: Option<usize>,
    /// Minimum time between taking two tasks.
    pub interval: Option<Duration>,
    /// Workflow id of the only run whose tasks the host takes; `None` for the tasks of all runs.
    pub workflow_id: Option<String>,
}

/// An answer to a task.
#[derive(Debug)]
pub struct TaskReply<K: TaskKind, C> {
    /// The answer.
    pub reply: K::Reply,
    /// Time limit for retries while the service is unavailable.
    pub patience: Duration,
    /// Data that the host needs when the outcome of the answer is known.
    pub context: C,
}
