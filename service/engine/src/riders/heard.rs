//! What those who wait for riders hear in the end.

use history::{EventId, Payload};

use crate::{QueryOutcome, Refusal};

/// An answer to a query, and of what.
#[derive(Debug, Clone)]
pub(crate) struct DeciderAnswer {
    /// The newest news that it has seen.
    pub(crate) version: EventId,
    pub(crate) outcome: QueryOutcome,
}

/// What came of an update, as far as its turn goes.
#[derive(Debug, Clone)]
pub(crate) enum UpdateHeard {
    /// It is done.
    Done { event_id: EventId, version: EventId, result: Option<Payload> },
    /// It was accepted, and is not done yet.
    Accepted,
    /// It was rejected, and nothing is recorded.
    Rejected { reason: String, details: Option<Payload> },
    /// The turn is over, and said nothing to it.
    Unanswered,
    /// It will not come to a decider any more.
    Refused(Refusal),
    /// Its run has gone on as another one.
    GoneOn,
}
