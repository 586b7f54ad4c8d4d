//! Updates: requests that a turn judges and answers.

use baton_history::{Payload, UpdateAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decisions::Decisions;
use crate::payload::payload;

/// Rejection reason for an update whose name the decider does not know.
pub(crate) const UNKNOWN_UPDATE: &str = "unknown-update";

/// Rejection reason for an update whose input does not have the expected type.
const BAD_INPUT: &str = "bad-input";

/// An update requested by a caller. It is recorded in the history only if it is accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Id of this update, chosen by the caller.
    pub id: String,
    /// Update name, which selects the handler.
    pub name: String,
    /// Input of the update.
    pub input: Option<Payload>,
    /// Identity of the caller.
    pub identity: Option<String>,
}

impl Update {
    /// Returns the input as a `T`.
    ///
    /// # Errors
    ///
    /// Returns a `bad-input` rejection if the input is not a `T`. Pass it to [`Verdict::reject`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Rejection> {
        let text = self.input.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).map_err(|error| Rejection::of(BAD_INPUT, &error.to_string()))
    }
}

impl From<baton_client::body::TaskUpdate> for Update {
    fn from(update: baton_client::body::TaskUpdate) -> Self {
        let baton_client::body::TaskUpdate { id, name, input, identity } = update;
        Self { id, name, input, identity }
    }
}

impl From<baton_history::ProposedUpdate> for Update {
    fn from(update: baton_history::ProposedUpdate) -> Self {
        let baton_history::ProposedUpdate { update_id: id, name, input, identity, .. } = update;
        Self { id, name, input, identity }
    }
}

/// Reason why an update is rejected. It is returned to the caller, and nothing is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    pub(crate) reason: String,
    pub(crate) details: Option<Payload>,
}

impl Rejection {
    /// Creates a rejection with this reason for programs (1 to 256 characters).
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), details: None }
    }

    /// Creates a rejection with a reason and details.
    pub fn of<T: Serialize + ?Sized>(reason: impl Into<String>, details: &T) -> Self {
        Self { reason: reason.into(), details: Some(payload(details)) }
    }

    /// Creates the rejection of an unknown update name, listing the known names.
    pub fn unknown<'a>(known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(UNKNOWN_UPDATE, &known.into_iter().collect::<Vec<_>>())
    }
}

impl From<&str> for Rejection {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Rejection {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

/// Answer of a decider to an update.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Verdict {
    pub(crate) verdict: baton_history::Verdict,
    pub(crate) decisions: Decisions,
}

impl From<Rejection> for Verdict {
    fn from(rejection: Rejection) -> Self {
        let Rejection { reason, details } = rejection;
        Self::of(baton_history::Verdict::Rejected { reason, details })
    }
}

impl Verdict {
    fn of(verdict: baton_history::Verdict) -> Self {
        Self { verdict, decisions: Decisions::new() }
    }

    /// Accepts and completes the update with this result.
    pub fn accept<T: Serialize + ?Sized>(result: &T) -> Self {
        Self::of(baton_history::Verdict::Done { result: Some(payload(result)) })
    }

    /// Accepts the update. A later turn answers it with [`Decisions::complete_update`] or [`Decisions::fail_update`];
    /// the caller waits until then.
    pub fn accept_for_later() -> Self {
        Self::of(baton_history::Verdict::Later)
    }

    /// Rejects the update. Nothing is recorded.
    pub fn reject(rejection: impl Into<Rejection>) -> Self {
        rejection.into().into()
    }

    /// Adds decisions that are recorded together with the accepted update. Do not add any to a rejection.
    pub fn and(mut self, decisions: Decisions) -> Self {
        self.decisions = self.decisions.and(decisions);
        self
    }

    /// Returns whether the update is rejected.
    pub fn is_rejected(&self) -> bool {
        matches!(self.verdict, baton_history::Verdict::Rejected { .. })
    }
}

/// Outcome of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// Decisions to record.
    Turn(Decisions),
    /// The turn existed only for updates, and all of them were rejected. Nothing is recorded and the state is
    /// unchanged.
    Nothing(Vec<UpdateAnswer>),
}

impl TurnEnd {
    /// Returns the decisions. If nothing is to be recorded, they contain only the answers to updates.
    pub(crate) fn into_decisions(self) -> Decisions {
        match self {
            Self::Turn(decisions) => decisions,
            Self::Nothing(updates) => Decisions { updates, ..Decisions::new() },
        }
    }
}
