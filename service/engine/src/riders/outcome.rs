//! Outcomes of queries and updates for their callers.

use history::{EventId, Payload};

use crate::{QueryOutcome, Refusal};

/// Answer to a query, with its version.
#[derive(Debug, Clone)]
pub(crate) struct DeciderAnswer {
    /// The newest version that the answer reflects.
    pub(crate) version: EventId,
    pub(crate) outcome: QueryOutcome,
}

/// Outcome of an update, as far as its turn determines it.
#[derive(Debug, Clone)]
pub(crate) enum UpdateTurnOutcome {
    /// Completed.
    Done { event_id: EventId, version: EventId, result: Option<Payload> },
    /// Accepted but not completed.
    Accepted,
    /// Rejected; nothing is recorded.
    Rejected { reason: String, details: Option<Payload> },
    /// The turn is over, without an answer to it.
    Unanswered,
    /// No decider will get it any more.
    Refused(Refusal),
    /// Its run continues as another one.
    Continued,
}
