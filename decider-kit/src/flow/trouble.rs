//! Why a turn of a flow is given back.

use baton_history::EventId;

/// Why a turn of a flow cannot be decided. The turn is given back with it (DeciderFailed), the run stays open, and the
/// next decider, perhaps with other code, tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The code does not do what the history says that it did.
    #[error(
        "the code does not match the history: event {event_id} is {expected}, but the code issued {found}; run the code \
         that wrote this history, or tell the versions apart with `ctx.patched`"
    )]
    Mismatch {
        /// The event of the history.
        event_id: EventId,
        /// What it says.
        expected: String,
        /// What the code did.
        found: String,
    },
    /// The flow waits, but for nothing that could ever come.
    #[error(
        "the flow waits for nothing that a history could bring: it is pending, but on no activity, timer, signal or \
         cancellation; it may only await futures of its context, and what is made of them ({open})"
    )]
    Deadlock {
        /// What is open all the same.
        open: String,
    },
    /// The flow keeps asking to be polled.
    #[error("the flow was polled {polls} times without an event between: it runs in circles")]
    Spins {
        /// How often.
        polls: u32,
    },
    /// The code panicked.
    #[error("the flow panicked: {message}{advice}")]
    Panicked {
        /// What it said.
        message: String,
        /// What to do, where that is known.
        advice: &'static str,
    },
    /// The code spawned a task.
    #[error(
        "the flow spawned a task (`tokio::spawn` or the like), which no replay could repeat; use `join!` for what goes on \
         side by side, and an activity for work"
    )]
    Spawned,
    /// A payload is not what the code reads.
    #[error("event {event_id}: {what} is not what the flow reads: {error}")]
    Unreadable {
        /// The event that carries it.
        event_id: EventId,
        /// Whose payload.
        what: String,
        /// Why.
        error: String,
    },
    /// The state belongs to a turn that the history lost.
    #[error("the flow has run the turn of event {ran}, which the history does not complete")]
    RanAhead {
        /// The DeciderStarted of that turn.
        ran: EventId,
    },
    /// The history does not begin at its beginning.
    #[error("the history does not begin with WorkflowStarted")]
    NoBeginning,
}

impl FlowError {
    /// The kind of trouble, for programs: the `reason` of the DeciderFailed.
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
