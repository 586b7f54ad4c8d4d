//! Errors that make a flow give its turn back.

use baton_history::EventId;

/// Reason why a turn of a flow cannot be decided. The turn is given back with this reason (DeciderFailed), and the run
/// stays open. The next decider, possibly with corrected code, decides the turn again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The code does not match the history.
    #[error(
        "the code does not match the history: event {event_id} is {expected}, but the code issued {found}; run the \
         code that wrote this history, or separate the versions with `ctx.patched`"
    )]
    Mismatch {
        /// Id of the recorded event.
        event_id: EventId,
        /// Recorded decision.
        expected: String,
        /// Decision of the code.
        found: String,
    },
    /// The flow waits for something that no event can bring.
    #[error(
        "the flow is deadlocked: it does not wait for an activity, timer, signal or cancellation; it must await only \
         futures of its context and combinations of them ({open})"
    )]
    Deadlock {
        /// Open steps that the flow does not await.
        open: String,
    },
    /// The flow wakes itself endlessly.
    #[error("the flow was polled {polls} times without a new event: it wakes itself in an endless loop")]
    Spins {
        /// Number of polls.
        polls: u32,
    },
    /// The code panicked.
    #[error("the flow panicked: {message}{advice}")]
    Panicked {
        /// Panic message.
        message: String,
        /// Advice on how to fix the code, if known.
        advice: &'static str,
    },
    /// The code spawned a task.
    #[error(
        "the flow spawned a task (e.g. with `tokio::spawn`), which a replay cannot repeat; use `join!` for \
         concurrency, and an activity for work"
    )]
    Spawned,
    /// A payload does not have the type that the code expects.
    #[error("event {event_id}: cannot read {what}: {error}")]
    Unreadable {
        /// Id of the event that contains the payload.
        event_id: EventId,
        /// Description of the payload.
        what: String,
        /// Deserialization error.
        error: String,
    },
    /// The state includes the effects of a turn that was lost (timed out or given back) according to the history.
    #[error("the flow has already run the turn of event {ran}, which timed out or was returned")]
    RanAhead {
        /// Id of the DeciderStarted event of the lost turn.
        ran: EventId,
    },
    /// The history does not begin with WorkflowStarted.
    #[error("the history does not begin with WorkflowStarted")]
    NoBeginning,
}

impl FlowError {
    /// Returns the kind of error for programs, which is the `reason` of the DeciderFailed event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "flow-mismatch",
            Self::Deadlock { .. } => "flow-deadlock",
            Self::Spins { .. } => "flow-spins",
            Self::Panicked { .. } => "flow-panicked",
            Self::Spawned => "flow-spawned",
            Self::Unreadable { .. } => "flow-unreadable",
            Self::RanAhead { .. } => "flow-ran-ahead",
            Self::NoBeginning => "flow-no-beginning",
        }
    }
}
