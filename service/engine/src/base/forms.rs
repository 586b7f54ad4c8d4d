//! Parameters and results of the engine's public functions.

use std::sync::Arc;

use history::event::OperatorAction;
use history::{
    Branching, CallerName, Event, EventId, Heartbeat, Outbox, Payload, RequestKey, Run, Timestamp, UpdateStatus,
    Warning,
};
use serde::{Deserialize, Serialize};
use store::HeadKey;
use uuid::Uuid;

/// Reference to a run. Without a run id, it refers to the newest run of the workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// Domain of the run.
    pub domain: Arc<str>,
    /// Workflow id of the run.
    pub workflow_id: Arc<str>,
    /// Run id; `None` for the newest run.
    pub run_id: Option<Uuid>,
}

/// Result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Id of the new run, or of the existing open run that is used instead.
    pub run_id: Uuid,
    /// True if an earlier request with the same idempotency key started the run.
    pub repeated: bool,
    /// True if a run was already open and is used instead of a new one.
    pub existing: bool,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Id of the run that the command was applied to.
    pub run_id: Uuid,
    /// Id of the first event that the command recorded.
    pub event_id: EventId,
    /// True if an earlier request with the same idempotency key recorded the command.
    pub repeated: bool,
    /// The query results in the decider's answer reflect this version of the run. Present only for the answer to a
    /// turn. The version is lower than the run's current version if relevant events were recorded that the decider has
    /// not seen.
    pub reflects: Option<EventId>,
    /// For the answer to a turn: the status, after the command, of each update that the answer concerns. Empty for
    /// other commands.
    pub judged: Vec<UpdateStatus>,
    /// Version of the run after the command.
    pub version: EventId,
    /// Warnings about recorded decisions that are probably mistakes.
    pub warnings: Vec<Warning>,
}

/// State of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// State of the run, computed from its history.
    pub run: Run,
    /// Latest heartbeats of the run's open activities.
    pub heartbeats: Vec<Heartbeat>,
    /// Pending effects of this run and of earlier runs with the same workflow id. Empty unless this run is the newest.
    pub owed: Outbox,
    /// Id of the run that a reset has started. The reset continued this run, or an earlier run with the same workflow
    /// id.
    pub reset_as: Option<Uuid>,
}

/// Maximum size in bytes of a page of events as JSON. A larger event gets a separate page. Source: `docs/limits.md`.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Range of events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    /// Only events after this id; 0 for all.
    pub after: EventId,
    /// Only events before this id; `None` for all.
    pub before: Option<EventId>,
    /// True to read the newest event first.
    pub reverse: bool,
    /// Maximum number of events; 0 is treated as 1.
    pub limit: usize,
    /// Maximum total size of the events as JSON, in bytes. A larger event is returned as the only event.
    pub bytes_max: usize,
    /// True to omit payloads. Payloads in packs are then not read.
    pub leaves_payloads_out: bool,
    /// True to add the `activityId` to events that refer to an activity by its ActivityScheduled event.
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
    /// Id of the run.
    pub run_id: Uuid,
    /// Events in the requested order.
    pub events: Vec<Event>,
    /// Id of the run's newest event.
    pub last_event_id: EventId,
    /// True if the run has closed.
    pub closed: bool,
    /// Value of `before` for the next page if `reverse` is set, otherwise value of `after` for the next page. `None` on
    /// the last page.
    pub next: Option<EventId>,
}

impl RunRef {
    /// Returns the key of the workflow id in the store.
    pub(crate) fn key(&self) -> HeadKey {
        HeadKey::new(Arc::clone(&self.domain), Arc::clone(&self.workflow_id))
    }
}

/// A task list without pollers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpolled {
    /// Name of the task list.
    pub task_list: String,
    /// True if the list is for decider tasks, false if for activity tasks.
    pub is_decider: bool,
    /// End of the list's last poll, or the start of the service if that is later.
    pub since: Timestamp,
}

impl std::fmt::Display for Unpolled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { task_list, is_decider, since } = self;
        let what = if *is_decider { "turns" } else { "activities" };
        write!(f, "list `{task_list}` has had no pollers for {what} since {since}")
    }
}

/// Reason why the waiting turn of a run has not been started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnWait {
    /// The task list has no pollers.
    Unpolled(Unpolled),
    /// The turn is held back until a certain time.
    HeldBack {
        /// True if the turn is the run's first, whose start was delayed. False if it follows a failed turn.
        is_first: bool,
        /// Time at which the turn can be started.
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
    /// Id of the run.
    pub run_id: Uuid,
    /// Version of the run.
    pub version: EventId,
    /// Masked hash of the query result that the caller has. If given, the caller is notified only of a different
    /// result.
    pub hash: Option<u64>,
}

/// A decider's answer to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryOutcome {
    /// The query's result.
    Result(#[serde(deserialize_with = "history::payload_present")] Option<Payload>),
    /// The decider has no query of this name.
    Unknown {
        /// Names of the queries that the decider has.
        known: Vec<String>,
    },
    /// The query failed. The turn is not affected.
    Failed {
        /// Machine-readable reason.
        reason: String,
        /// Human-readable message.
        message: Option<String>,
    },
}

/// Parameters for deleting runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// True to terminate an open run first. If false, deleting an open run fails.
    pub terminates: bool,
    /// Reason to record if the run is terminated.
    pub reason: Option<String>,
    /// Identity of the caller to record if the run is terminated.
    pub identity: Option<String>,
    /// Name of the caller's credential, to record if the run is terminated.
    pub by: Option<CallerName>,
}

/// Parameters for a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Event from which the new run continues the old one.
    pub branching: Branching,
    /// Identity of the operator, and the operator's reason.
    pub operator: OperatorAction,
    /// Idempotency key.
    pub key: Option<RequestKey>,
    /// Name of the caller's credential.
    pub by: Option<CallerName>,
}

/// Result of an import from another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasImported {
    /// Id of the imported run.
    pub run_id: Uuid,
    /// True if the run had already been imported.
    pub repeated: bool,
}

/// Result of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasReset {
    /// Id of the new run.
    pub run_id: Uuid,
    /// Id of the run whose history the new run copies.
    pub base_run_id: Uuid,
    /// Id of the last copied event.
    pub base_event_id: u64,
    /// True if an earlier request with the same idempotency key made the reset.
    pub repeated: bool,
}

/// A piece of the output of an activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputChunk {
    /// Position in the stream: 0, 1, 2, …
    pub offset: u64,
    /// Attempt of the activity that appended the chunk.
    pub attempt: u32,
    /// Time at which the service received the chunk.
    pub at: Timestamp,
    /// Text or other JSON value.
    pub data: Payload,
}

/// The event that ended an activity. Both fields are absent if the event could not be found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputEnd {
    /// Id of the event.
    pub event_id: Option<EventId>,
    /// Type of the event, such as `ActivitySuccess`.
    pub event: Option<String>,
}

/// Selection of output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRange {
    /// Activity id.
    pub activity_id: String,
    /// ActivityScheduled event of the activity. If `None`, the newest activity with this id.
    pub scheduled_event_id: Option<EventId>,
    /// Stream that the caller has read before. If the stream was lost, the request fails.
    pub stream: Option<u64>,
    /// Offset of the first chunk.
    pub from: u64,
}

/// Chunks of an activity's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputPage {
    /// Run of the activity.
    pub run_id: Uuid,
    /// ActivityScheduled event of the activity.
    pub scheduled_event_id: EventId,
    /// Identifies the stream; `None` if the activity has appended nothing.
    pub stream: Option<u64>,
    /// Offset of the oldest chunk that is kept, or of the next chunk if none is kept.
    pub first: u64,
    /// Chunks, oldest first.
    pub chunks: Vec<OutputChunk>,
    /// Offset from which to continue.
    pub next: u64,
    /// Present if the activity has ended and no chunk follows this page.
    pub end: Option<OutputEnd>,
}

impl OutputPage {
    /// Returns true if a reader at the offset `from` need not wait: there are chunks, chunks were lost, or no chunk
    /// follows.
    pub(crate) fn has_news(&self, from: u64) -> bool {
        !self.chunks.is_empty() || self.first > from || self.end.is_some()
    }
}

/// Result of appending output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedOutput {
    /// Identifies the stream.
    pub stream: u64,
    /// Offset of the next chunk.
    pub next: u64,
    /// True if the activity should stop.
    pub cancel_requested: bool,
    /// True if an operator has paused the activity or its run.
    pub paused: bool,
}
