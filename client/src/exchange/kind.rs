//! What is exchanged: turns or activities, and how they are asked for.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{ActivityReply, ActivityTask, DeciderTask, TurnReply};

/// What a list has: turns or activities.
pub trait TaskKind: Send + 'static {
    /// A task.
    type Task: DeserializeOwned + Send + 'static;
    /// An answer to one.
    type Reply: Serialize + Send + 'static;
    /// The segment of the path that says so.
    const SEGMENT: &'static str;
}

/// Turns.
#[derive(Debug)]
pub enum TurnKind {}

/// Activities.
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

/// How tasks are asked for.
#[derive(Debug, Clone, Default)]
pub struct ExchangeSettings {
    /// Who asks; shown in the history.
    pub identity: String,
    /// Tasks that are worked on at the same time.
    pub at_once: usize,
    /// Whether queries are answered.
    pub queries: bool,
    /// The most updates that a turn may ask to judge.
    pub updates: Option<usize>,
    /// The least time between two tasks that are taken.
    pub interval: Option<Duration>,
}

/// An answer to a task.
#[derive(Debug)]
pub struct TaskReply<K: TaskKind, C> {
    /// What is said.
    pub reply: K::Reply,
    /// How long to go on trying while the service is away.
    pub patience: Duration,
    /// What its host wants to know when it is known what became of it.
    pub context: C,
}
