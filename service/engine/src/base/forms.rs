//! What callers give and get: runs by name, and what became of what was asked of them.

use std::sync::Arc;

use history::event::ByHand;
use history::{
    Branching, CallerName, Event, EventId, Heartbeat, Outbox, Payload, RequestKey, Run, Timestamp, UpdateStatus,
    Warning,
};
use serde::{Deserialize, Serialize};
use store::HeadKey;
use uuid::Uuid;

/// Names a run, or with no run id the newest one of its workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The domain.
    pub domain: Arc<str>,
    /// The workflow id.
    pub workflow_id: Arc<str>,
    /// The run.
    pub run_id: Option<Uuid>,
}

/// A start that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The new run.
    pub run_id: Uuid,
    /// Whether it is an earlier request with the same key that started it.
    pub repeated: bool,
    /// Whether the run was open already, and is used instead of a new one.
    pub existing: bool,
}

/// A command that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// On this run.
    pub run_id: Uuid,
    /// The first of its events.
    pub event_id: EventId,
    /// Whether it is an earlier request with the same key that was recorded.
    pub repeated: bool,
    /// For the answer to a turn: the newest news that the decider's answer reflects. Where the decider has not seen all
    /// news, it is a version that the run no longer has.
    pub reflects: Option<EventId>,
    /// For the answer to a turn with updates: how each of the answers leaves its update.
    pub judged: Vec<UpdateStatus>,
    /// The run's version after it.
    pub version: EventId,
    /// What was recorded and is probably not meant.
    pub warnings: Vec<Warning>,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// The fold of its history.
    pub run: Run,
    /// The newest heartbeats of its open activities.
    pub beats: Vec<Heartbeat>,
    /// What it owes to others, and runs of its workflow id before it; nothing unless it is the newest.
    pub owed: Outbox,
    /// The run that goes on from an earlier event of it, or of one before it, since it was reset.
    pub reset_as: Option<Uuid>,
}

/// Most bytes of a page of events, as JSON. An event that is larger comes alone. Source: `docs/limits.md`.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Which events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    /// Only events after this one; 0 for all.
    pub after: EventId,
    /// Only events before this one.
    pub before: Option<EventId>,
    /// Newest first.
    pub reverse: bool,
    /// At most so many; 0 is taken as 1.
    pub limit: usize,
    /// Most bytes of their JSON forms. An event that is larger is read alone.
    pub bytes_max: usize,
    /// Payloads are left out, and those that are kept apart are not fetched.
    pub leaves_payloads_out: bool,
    /// Whether events that refer to an activity by its ActivityScheduled carry its `activityId` too.
    pub names_activities: bool,
}

impl Default for EventRange {
    fn default() -> Self {
        Self {
            after: 0,
            before: None,
            reverse: false,
            limit: 1_000,
            bytes_max: PAGE_BYTES_MAX,
            leaves_payloads_out: false,
            names_activities: false,
        }
    }
}

/// Events of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// The run.
    pub run_id: Uuid,
    /// The events, in the order asked for.
    pub events: Vec<Event>,
    /// The run's newest event.
    pub last_event_id: EventId,
    /// Whether the run has closed.
    pub closed: bool,
    /// Where to go on: the next page's `after`, or with `reverse` its `before`. `None` when nothing is left.
    pub next: Option<EventId>,
}

impl RunRef {
    /// Where the runs of its workflow id are stored.
    pub(crate) fn key(&self) -> HeadKey {
        HeadKey::new(Arc::clone(&self.domain), Arc::clone(&self.workflow_id))
    }
}

/// A list that nobody polls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpolled {
    /// Its name.
    pub task_list: String,
    /// Whether it is one of deciders; else it is one of runners.
    pub is_decider: bool,
    /// When the last poll of it ended, or the service started.
    pub since: Timestamp,
}

impl std::fmt::Display for Unpolled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { task_list, is_decider, since } = self;
        let what = if *is_decider { "turns" } else { "activities" };
        write!(f, "nobody polls list `{task_list}` for {what} since {since}")
    }
}

/// What keeps the waiting turn of a run from being taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnWait {
    /// Its list has no pollers.
    Unpolled(Unpolled),
    /// It is held back.
    HeldBack {
        /// Whether it is the run's first; else one that a decider gave back.
        is_first: bool,
        /// When it can be taken.
        until: Timestamp,
    },
}

impl std::fmt::Display for TurnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unpolled(unpolled) => unpolled.fmt(f),
            Self::HeldBack { is_first: true, until } => {
                write!(f, "the run's first turn is held back until {until}")
            }
            Self::HeldBack { is_first: false, until } => {
                write!(f, "a decider gave the run's turn back, and the turn is held back until {until}")
            }
        }
    }
}

/// What a caller has seen of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenVersion {
    /// The run.
    pub run_id: Uuid,
    /// Its version.
    pub version: EventId,
    /// The hash of the query's result, where it is only a different result that is news to the caller.
    pub hash: Option<u64>,
}

/// What a decider makes of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryOutcome {
    /// The answer.
    Result(#[serde(deserialize_with = "history::payload_present")] Option<Payload>),
    /// It knows no query of this name, but these.
    Unknown {
        /// The names that it knows.
        known: Vec<String>,
    },
    /// The query failed. Nothing else did.
    Failed {
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: Option<String>,
    },
}

/// How runs are deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Whether an open run is terminated first; it is refused otherwise.
    pub terminates: bool,
    /// Why, for the termination.
    pub reason: Option<String>,
    /// Who deletes, for the termination.
    pub identity: Option<String>,
    /// The name of the credential of whoever deletes, for the termination.
    pub by: Option<CallerName>,
}

/// How a run is reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// From where the new run goes on.
    pub branching: Branching,
    /// Who does it, and why.
    pub by_hand: ByHand,
    /// The same key never does it twice.
    pub key: Option<RequestKey>,
    /// The name of the credential of whoever does it.
    pub by: Option<CallerName>,
}

/// A run that was taken over from another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasImported {
    /// The run.
    pub run_id: Uuid,
    /// Whether it was there already.
    pub repeated: bool,
}

/// A reset that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasReset {
    /// The run that goes on.
    pub run_id: Uuid,
    /// The run whose history it has.
    pub base_run_id: Uuid,
    /// The last event of that.
    pub base_event_id: u64,
    /// Whether it is an earlier request with the same key that did it.
    pub repeated: bool,
}
