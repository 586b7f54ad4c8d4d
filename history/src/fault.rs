//! Faults: why a request was refused. A refused request records nothing.

use uuid::Uuid;

use crate::event::EventId;
use crate::run::Status;

/// Why a command was refused. Nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The run has closed.
    #[error("the run has closed ({status})")]
    RunClosed {
        /// How.
        status: Status,
    },
    /// A run of this workflow id is open.
    #[error("a run of this workflow id is open: {run_id}")]
    AlreadyOpen {
        /// Which.
        run_id: Uuid,
    },
    /// The workflow id was used before, and the reuse policy does not allow another run.
    #[error("this workflow id was used by run {run_id}, which closed ({status}), and the reuse policy refuses another")]
    ReuseRefused {
        /// By which run.
        run_id: Uuid,
        /// How it closed.
        status: Status,
    },
    /// The turn was answered before with this very token.
    #[error("this turn was completed before")]
    TurnCompleted,
    /// The turn is no longer the decider's: it timed out, was given back, or never was.
    #[error("this turn is no longer yours: it timed out, was given back, or never was")]
    TurnLost,
    /// The turn is not waiting for a decider.
    #[error("no turn {scheduled_event_id} is waiting")]
    TurnNotWaiting {
        /// The turn asked for.
        scheduled_event_id: EventId,
    },
    /// The activity is not open: it was answered, timed out, or never was.
    #[error("this activity is no longer open: it was answered, timed out, or never was")]
    ActivityClosed,
    /// The activity is not waiting for a runner.
    #[error("no activity {scheduled_event_id} is waiting")]
    ActivityNotWaiting {
        /// The activity asked for.
        scheduled_event_id: EventId,
    },
    /// The run is paused, and its deciders are asked nothing.
    #[error("the run is paused")]
    RunPaused,
    /// It is paused already.
    #[error("it is paused already")]
    AlreadyPaused,
    /// It is not paused.
    #[error("it is not paused")]
    NotPaused,
    /// The activity cannot be tried again, or needs not.
    #[error("the activity cannot be tried again: {problem}")]
    ActivityNotRetryable {
        /// Why.
        problem: String,
    },
    /// Nobody asked for the activity to be canceled.
    #[error("nobody asked for this activity to be canceled")]
    CancelNotRequested,
    /// The run has moved on since the version that the request names.
    #[error("the run has moved on: expected version {expected}, found {found}")]
    VersionMoved {
        /// What the request named.
        expected: EventId,
        /// What is.
        found: EventId,
    },
    /// An answer to an update that the turn was not asked to judge, and that no earlier one accepted.
    #[error("no update `{update_id}` is to be answered")]
    UpdateUnknown {
        /// Which.
        update_id: String,
    },
    /// An update that was accepted before; by another turn, so that this one has not seen it.
    #[error("update `{update_id}` was accepted before")]
    UpdateKnown {
        /// Which.
        update_id: String,
    },
    /// As many updates as may be were accepted and wait for their answers.
    #[error("{max} updates of this run were accepted and are not answered yet")]
    OpenUpdatesLimit {
        /// How many may be.
        max: usize,
    },
    /// The state of the run has no room for it.
    #[error("the state of the run would have {found} bytes reserved, at most {max} are allowed")]
    StateLimit {
        /// How many it would.
        found: usize,
        /// How many may be: [`limits::STATE_BYTES_MAX`](crate::limits::STATE_BYTES_MAX).
        max: usize,
    },
    /// No run can branch off at this event.
    #[error("no run can go on from event {event_id}; the nearest events from which one can: {}", nearest(*before, *after))]
    NotAResetPoint {
        /// The event asked for.
        event_id: EventId,
        /// The last before it that could be.
        before: Option<EventId>,
        /// The first after it that could be.
        after: Option<EventId>,
    },
    /// The run cannot be reset to this event, although others can.
    #[error("the run cannot be reset: {problem}")]
    ResetRefused {
        /// Why.
        problem: String,
    },
    /// A field is not acceptable.
    #[error("`{field}` {problem}")]
    Invalid {
        /// Which, as a path into the request.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A field is larger than it may be.
    #[error("`{field}` has {found} {unit}, at most {max} are allowed")]
    TooLarge {
        /// Which, as a path into the request.
        field: String,
        /// Its size.
        found: usize,
        /// The limit.
        max: usize,
        /// What both are counted in.
        #[serde(default)]
        unit: Unit,
    },
}

/// What the size of a field is counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Unit {
    /// Bytes.
    #[default]
    Bytes,
    /// Characters.
    Characters,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Characters => "characters",
        })
    }
}

impl Fault {
    /// The stable code of the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RunClosed { .. } => "run-closed",
            Self::AlreadyOpen { .. } => "workflow-already-open",
            Self::ReuseRefused { .. } => "workflow-id-reuse-refused",
            Self::TurnCompleted => "turn-completed",
            Self::TurnLost => "turn-lost",
            Self::TurnNotWaiting { .. } => "turn-not-waiting",
            Self::ActivityClosed => "activity-closed",
            Self::ActivityNotWaiting { .. } => "activity-not-waiting",
            Self::RunPaused => "run-paused",
            Self::AlreadyPaused => "already-paused",
            Self::NotPaused => "not-paused",
            Self::ActivityNotRetryable { .. } => "activity-not-retryable",
            Self::CancelNotRequested => "cancel-not-requested",
            Self::VersionMoved { .. } => "version-moved",
            Self::UpdateUnknown { .. } => "update-unknown",
            Self::UpdateKnown { .. } => "update-known",
            Self::OpenUpdatesLimit { .. } => "open-updates-limit",
            Self::StateLimit { .. } => "state-limit",
            Self::NotAResetPoint { .. } => "not-a-reset-point",
            Self::ResetRefused { .. } => "reset-refused",
            Self::Invalid { .. } => "invalid-field",
            Self::TooLarge { .. } => "too-large",
        }
    }

    /// Whether the refusal depends on the run's state, so that a refusal computed on an old state may be wrong.
    pub fn depends_on_state(&self) -> bool {
        match self {
            Self::RunClosed { .. }
            | Self::AlreadyOpen { .. }
            | Self::ReuseRefused { .. }
            | Self::TurnCompleted
            | Self::TurnLost
            | Self::TurnNotWaiting { .. }
            | Self::ActivityClosed
            | Self::ActivityNotWaiting { .. }
            | Self::RunPaused
            | Self::AlreadyPaused
            | Self::NotPaused
            | Self::ActivityNotRetryable { .. }
            | Self::CancelNotRequested
            | Self::VersionMoved { .. }
            | Self::UpdateUnknown { .. }
            | Self::UpdateKnown { .. }
            | Self::NotAResetPoint { .. }
            | Self::ResetRefused { .. }
            | Self::OpenUpdatesLimit { .. }
            | Self::StateLimit { .. } => true,
            Self::Invalid { .. } | Self::TooLarge { .. } => false,
        }
    }
}

fn nearest(before: Option<EventId>, after: Option<EventId>) -> String {
    let known: Vec<String> = before.into_iter().chain(after).map(|id| id.to_string()).collect();
    if known.is_empty() { "none".to_owned() } else { known.join(" and ") }
}
