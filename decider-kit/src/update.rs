//! Updates: judged and answered by the turn that they come with (S1-E).

use baton_history::{Payload, UpdateAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decisions::Decisions;
use crate::payload::payload;

/// Why an update is rejected that a decider has no name for.
pub(crate) const UNKNOWN_UPDATE: &str = "unknown-update";

/// Why an update is rejected whose input is not what is read.
const BAD_INPUT: &str = "bad-input";

/// An update that somebody asks for. It is in the history only once it is accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The caller's name for this one update.
    pub id: String,
    /// What kind of update it is.
    pub name: String,
    /// What it says.
    pub input: Option<Payload>,
    /// Who asks.
    pub identity: Option<String>,
}

impl Update {
    /// What it says, as a `T`.
    ///
    /// # Errors
    ///
    /// Why to [reject](Verdict::reject) it: `bad-input`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Rejection> {
        let text = self.input.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).map_err(|error| Rejection::of(BAD_INPUT, &error.to_string()))
    }
}

impl From<baton_client::body::TaskUpdate> for Update {
    fn from(asked: baton_client::body::TaskUpdate) -> Self {
        let baton_client::body::TaskUpdate { id, name, input, identity } = asked;
        Self { id, name, input, identity }
    }
}

impl From<baton_history::ProposedUpdate> for Update {
    fn from(asked: baton_history::ProposedUpdate) -> Self {
        let baton_history::ProposedUpdate { update_id: id, name, input, identity, .. } = asked;
        Self { id, name, input, identity }
    }
}

/// Why an update is rejected. Nothing of it is recorded, and its caller is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    pub(crate) reason: String,
    pub(crate) details: Option<Payload>,
}

impl Rejection {
    /// For this reason, of 1 to 256 characters, for programs.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), details: None }
    }

    /// For this reason, and with more about it.
    pub fn of<T: Serialize + ?Sized>(reason: impl Into<String>, details: &T) -> Self {
        Self { reason: reason.into(), details: Some(payload(details)) }
    }

    /// Nobody here knows updates of this name, but of these.
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

/// What a decider says to an update.
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

    /// It is accepted and done, with this answer.
    pub fn accept<T: Serialize + ?Sized>(result: &T) -> Self {
        Self::of(baton_history::Verdict::Done { result: Some(payload(result)) })
    }

    /// It is accepted, and a later turn will answer, with [`Decisions::complete_update`] or [`Decisions::fail_update`].
    /// Its caller waits until then.
    pub fn accept_for_later() -> Self {
        Self::of(baton_history::Verdict::Later)
    }

    /// It is rejected, and nothing of it is recorded.
    pub fn reject(rejection: impl Into<Rejection>) -> Self {
        rejection.into().into()
    }

    /// What is done for it, recorded together with it, or not at all. Not for a rejection.
    pub fn and(mut self, decisions: Decisions) -> Self {
        self.decisions = self.decisions.and(decisions);
        self
    }

    /// Whether it is rejected.
    pub fn is_rejected(&self) -> bool {
        matches!(self.verdict, baton_history::Verdict::Rejected { .. })
    }
}

/// What a turn comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// These decisions.
    Turn(Decisions),
    /// It was made for updates, all of which are rejected: nothing of it is recorded, and the state is as it was.
    Nothing(Vec<UpdateAnswer>),
}

impl TurnEnd {
    /// Its decisions; only answers to updates where nothing of it is recorded.
    pub(crate) fn into_decisions(self) -> Decisions {
        match self {
            Self::Turn(decisions) => decisions,
            Self::Nothing(updates) => Decisions { updates, ..Decisions::new() },
        }
    }
}
