//! Outcomes of queries and updates for their callers.

use history::{EventId, Payload};

use crate::{QueryOutcome, Refusal};

/// Answer to a query, with the version of the run that it reflects.
#[derive(Debug, Clone)]
pub(crate) struct DeciderAnswer {
    /// Newest version of the run that the answer reflects.
    pub(crate) version: EventId,
    pub(crate) outcome: QueryOutcome,
}

/// Outcome of an update when its turn ends.
#[derive(Debug, Clone)]
pub(crate) enum UpdateTurnOutcome {
    /// The update was accepted and completed.
    Done { event_id: EventId, version: EventId, result: Option<Payload> },
    /// The update was accepted but is not completed yet.
    Accepted,
    /// The update was rejected. Nothing is recorded.
    Rejected { reason: String, details: Option<Payload> },
    /// The turn has ended without an answer to the update.
    Unanswered,
    /// The update failed. No decider will get it.
    Refused(Refusal),
    /// Another run continues the update's run.
    Continued,
}
