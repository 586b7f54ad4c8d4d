//! Parameters and results of the engine's calls.

use std::sync::Arc;

use history::event::OperatorAction;
use history::{
    Branching, CallerName, Event, EventId, Heartbeat, Outbox, Payload, RequestKey, Run, Timestamp, UpdateStatus,
    Warning,
};
use serde::{Deserialize, Serialize};
use store::HeadKey;
use uuid::Uuid;

/// Reference to a run, or without a run id to the newest run of a workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The domain.
    pub domain: Arc<str>,
    /// The workflow id.
    pub workflow_id: Arc<str>,
    /// The run.
    pub run_id: Option<Uuid>,
}

/// Result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The new run.
    pub run_id: Uuid,
    /// Whether an earlier request with the same key started it.
    pub repeated: bool,
    /// Whether an open run is used instead of a new one.
    pub existing: bool,
}

/// Result of a recorded command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The run of the command.
    pub run_id: Uuid,
    /// Its first event.
    pub event_id: EventId,
    /// Whether an earlier request with the same key recorded it.
    pub repeated: bool,
    /// For the answer to a turn: the version of the newest relevant change that the answer reflects. If the decider
    /// has not seen all such changes, it is a version that the run no longer has.
    pub reflects: Option<EventId>,
    /// For the answer to a turn with updates: the status of each update after its answer.
    pub judged: Vec<UpdateStatus>,
    /// Version of the run after the command.
    pub version: EventId,
    /// Warnings about recorded decisions that are probably mistakes.
    pub warnings: Vec<Warning>,
}

/// State of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// State computed from its history.
    pub run: Run,
    /// Latest heartbeats of its open activities.
    pub heartbeats: Vec<Heartbeat>,
    /// Pending effects of this run and of earlier runs of its workflow id. Empty unless this run is the newest.
    pub owed: Outbox,
    /// The run that continues from an earlier event of this run, or of a run before it, after a reset.
    pub reset_as: Option<Uuid>,
}

/// Maximum size of a page of events, in bytes of JSON. A larger event is the only one of its page. Source:
/// `docs/limits.md`.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Range of events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    /// Only events after this one; 0 for all.
    pub after: EventId,
    /// Only events before this one.
    pub before: Option<EventId>,
    /// Whether the newest event comes first.
    pub reverse: bool,
    /// Maximum number of events; 0 is treated as 1.
    pub limit: usize,
    /// Maximum size in bytes of JSON. A larger event is read alone.
    pub bytes_max: usize,
    /// Whether payloads are omitted. Payloads that are stored separately are then not read.
    pub leaves_payloads_out: bool,
    /// Whether events that refer to an activity by its ActivityScheduled also have its `activityId`.
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

/// Page of a run's events.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// The run.
    pub run_id: Uuid,
    /// Events in the requested order.
    pub events: Vec<Event>,
    /// The newest event of the run.
    pub last_event_id: EventId,
    /// Whether the run has closed.
    pub closed: bool,
    /// Start of the next page: its `after`, or with `reverse` its `before`. `None` on the last page.
    pub next: Option<EventId>,
}

impl RunRef {
    /// Key of the workflow id in the store.
    pub(crate) fn key(&self) -> HeadKey {
        HeadKey::new(Arc::clone(&self.domain), Arc::clone(&self.workflow_id))
    }
}

/// A task list without pollers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpolled {
    /// Its name.
    pub task_list: String,
    /// Whether it is a list of decider tasks; otherwise of activity tasks.
    pub is_decider: bool,
    /// End of its last poll, or start of the service.
    pub since: Timestamp,
}

impl std::fmt::Display for Unpolled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { task_list, is_decider, since } = self;
        let what = if *is_decider { "turns" } else { "activities" };
        write!(f, "list `{task_list}` has had no pollers for {what} since {since}")
    }
}

/// Reason why the waiting turn of a run is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnWait {
    /// Its list has no pollers.
    Unpolled(Unpolled),
    /// The turn is delayed.
    HeldBack {
        /// Whether it is the run's first turn; otherwise it follows a failed one.
        is_first: bool,
        /// When it becomes available.
        until: Timestamp,
    },
}

impl std::fmt::Display for TurnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unpolled(unpolled) => unpolled.fmt(f),
            Self::HeldBack { is_first: true, until } => {
                write!(f, "the run's first turn is delayed until {until}")
            }
            Self::HeldBack { is_first: false, until } => {
                write!(f, "a decider failed the run's turn, and its retry is delayed until {until}")
            }
        }
    }
}

/// The version of a run that a caller has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenVersion {
    /// The run.
    pub run_id: Uuid,
    /// Version of the run.
    pub version: EventId,
    /// Hash of the query's result, if the caller wants to be notified only of a different result.
    pub hash: Option<u64>,
}

/// A decider's answer to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryOutcome {
    /// The result.
    Result(#[serde(deserialize_with = "history::payload_present")] Option<Payload>),
    /// The decider has no query of this name.
    Unknown {
        /// Names of its queries.
        known: Vec<String>,
    },
    /// The query failed. The turn is not affected.
    Failed {
        /// Reason for programs.
        reason: String,
        /// Message for people.
        message: Option<String>,
    },
}

/// Options for deleting runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Whether an open run is terminated first; otherwise the request is refused.
    pub terminates: bool,
    /// Reason, for the termination.
    pub reason: Option<String>,
    /// Identity of the caller, for the termination.
    pub identity: Option<String>,
    /// Name of the caller's credential, for the termination.
    pub by: Option<CallerName>,
}

/// Options for a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Event from which the new run continues.
    pub branching: Branching,
    /// Identity of the operator, and the reason.
    pub operator: OperatorAction,
    /// Idempotency key.
    pub key: Option<RequestKey>,
    /// Name of the caller's credential.
    pub by: Option<CallerName>,
}

/// Result of an import from another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasImported {
    /// The run.
    pub run_id: Uuid,
    /// Whether the run was imported before.
    pub repeated: bool,
}

/// Result of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasReset {
    /// The new run.
    pub run_id: Uuid,
    /// The run whose history it copies.
    pub base_run_id: Uuid,
    /// The last copied event.
    pub base_event_id: u64,
    /// Whether an earlier request with the same key did it.
    pub repeated: bool,
}
