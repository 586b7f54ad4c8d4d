//! Faults: reasons why a request is refused. A refused request records nothing.

use uuid::Uuid;

use crate::event::EventId;
use crate::run::Status;

/// Reason why a command was refused. Nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The run is closed.
    #[error("the run has closed ({status})")]
    RunClosed {
        /// Status of the closed run.
        status: Status,
    },
    /// A run with this workflow id is open.
    #[error("a run with this workflow id is open: {run_id}")]
    AlreadyOpen {
        /// Id of the open run.
        run_id: Uuid,
    },
    /// An earlier run used the workflow id, and the reuse policy forbids another run with this id.
    #[error("this workflow id was used by run {run_id}, which closed ({status}), and the reuse policy forbids another")]
    ReuseRefused {
        /// Id of the earlier run.
        run_id: Uuid,
        /// Status of the earlier run.
        status: Status,
    },
    /// The turn that the token identifies is already completed.
    #[error("this turn was already completed")]
    TurnCompleted,
    /// The decider no longer holds the turn: the turn timed out, failed, or never existed.
    #[error("you no longer hold this turn: it timed out, failed, or never existed")]
    TurnLost,
    /// The turn is not waiting for a decider.
    #[error("no turn {scheduled_event_id} is waiting")]
    TurnNotWaiting {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
    },
    /// The activity is not open: it has closed or timed out, or never existed.
    #[error("this activity is not open: it closed, timed out, or never existed")]
    ActivityClosed,
    /// The activity is not waiting for a runner.
    #[error("no activity {scheduled_event_id} is waiting")]
    ActivityNotWaiting {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// The run consists of a single activity. It has no decider, so it cannot get signals, queries or updates.
    #[error("the run consists of a single activity and has no decider")]
    NoDecider,
    /// The run is paused, so no request can be passed to its decider.
    #[error("the run is paused")]
    RunPaused,
    /// The run or activity is already paused.
    #[error("it is already paused")]
    AlreadyPaused,
    /// The run or activity is not paused.
    #[error("it is not paused")]
    NotPaused,
    /// The activity cannot be retried manually.
    #[error("the activity cannot be retried: {problem}")]
    ActivityNotRetryable {
        /// Reason why it cannot be retried.
        problem: String,
    },
    /// The activity has no cancel request.
    #[error("this activity has no cancel request")]
    CancelNotRequested,
    /// The run is not at the version that the request requires.
    #[error("the run has changed: expected version {expected}, found {found}")]
    VersionMismatch {
        /// Required version.
        expected: EventId,
        /// Current version.
        found: EventId,
    },
    /// The decider answered an update that this turn did not contain and no earlier turn has accepted.
    #[error("update `{update_id}` was not proposed in this turn and does not wait for an answer")]
    UnknownUpdate {
        /// Update id.
        update_id: String,
    },
    /// The decider answered an update that another turn has already accepted.
    #[error("update `{update_id}` was already accepted")]
    UpdateAlreadyAccepted {
        /// Update id.
        update_id: String,
    },
    /// The run has reached its limit of accepted updates that have no answer yet.
    #[error("{max} accepted updates of this run have no answer yet, which is the limit")]
    OpenUpdatesLimit {
        /// Value of the limit.
        max: usize,
    },
    /// The state of the run has no space for the change.
    #[error("the state of the run would have {found} bytes reserved, at most {max} are allowed")]
    StateLimit {
        /// Bytes that the state would reserve.
        found: usize,
        /// Value of the limit: [`limits::STATE_BYTES_MAX`](crate::limits::STATE_BYTES_MAX).
        max: usize,
    },
    /// A reset cannot continue from this event.
    #[error("no run can continue from event {event_id}; the nearest possible events: {}", nearest(*before, *after))]
    InvalidResetPoint {
        /// Event that the request names.
        event_id: EventId,
        /// Nearest earlier event from which a reset can continue.
        before: Option<EventId>,
        /// Nearest later event from which a reset can continue.
        after: Option<EventId>,
    },
    /// The reset is refused for another reason, for example because a child was open at the event.
    #[error("the run cannot be reset: {problem}")]
    ResetNotPossible {
        /// Reason for the refusal.
        problem: String,
    },
    /// A field is invalid.
    #[error("`{field}` {problem}")]
    Invalid {
        /// Path of the field in the request.
        field: String,
        /// Description of the mistake and of what is expected.
        problem: String,
    },
    /// A field is too large.
    #[error("`{field}` has {found} {unit}, at most {max} are allowed")]
    TooLarge {
        /// Path of the field in the request.
        field: String,
        /// Size of the field.
        found: usize,
        /// Value of the limit.
        max: usize,
        /// Unit of `found` and `max`.
        #[serde(default)]
        unit: Unit,
    },
}

/// Unit in which the size of a field is measured.
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
    /// Returns the stable error code used in responses.
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
            Self::NoDecider => "no-decider",
            Self::RunPaused => "run-paused",
            Self::AlreadyPaused => "already-paused",
            Self::NotPaused => "not-paused",
            Self::ActivityNotRetryable { .. } => "activity-not-retryable",
            Self::CancelNotRequested => "cancel-not-requested",
            Self::VersionMismatch { .. } => "version-mismatch",
            Self::UnknownUpdate { .. } => "unknown-update",
            Self::UpdateAlreadyAccepted { .. } => "update-already-accepted",
            Self::OpenUpdatesLimit { .. } => "open-updates-limit",
            Self::StateLimit { .. } => "state-limit",
            Self::InvalidResetPoint { .. } => "invalid-reset-point",
            Self::ResetNotPossible { .. } => "reset-not-possible",
            Self::Invalid { .. } => "invalid-field",
            Self::TooLarge { .. } => "too-large",
        }
    }

    /// Returns `true` if the refusal depends on the run's state. Such a refusal may be wrong if the state was outdated.
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
            | Self::NoDecider
            | Self::RunPaused
            | Self::AlreadyPaused
            | Self::NotPaused
            | Self::ActivityNotRetryable { .. }
            | Self::CancelNotRequested
            | Self::VersionMismatch { .. }
            | Self::UnknownUpdate { .. }
            | Self::UpdateAlreadyAccepted { .. }
            | Self::InvalidResetPoint { .. }
            | Self::ResetNotPossible { .. }
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
