//! Links of a run, which are stored with its state: undelivered effects on other runs, effects accepted from them,
//! the polls that received its started tasks, and a reset made after its close.
//!
//! They are not a fold of the history: a closed run still delivers effects, and accepted effects are forgotten once
//! they cannot be repeated. See `docs/adr/0005-effects-on-other-runs.md`.

mod outbound;
mod outbox;
mod owed;
mod planned;
mod seen;
mod sent;

use minicbor::{Decode, Encode};

use crate::ids::RunId;

pub use outbound::{OutboundAction, OutboundEffect, child_run_id};
pub(crate) use outbox::taken_over;
pub use outbox::{Effect, EffectKind, Outbox};
pub(crate) use owed::owed;
pub use planned::PlannedReset;
pub use seen::{SeenOrigin, TakenEffects};
pub use sent::{PollId, Sent};

/// Links of a run. Empty, and omitted from the stored form, for a run without links and started tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Links {
    /// Undelivered effects on other runs.
    #[cbor(n(0), skip_if = "Outbox::is_empty")]
    pub outbox: Outbox,
    /// Effects accepted from other runs.
    #[cbor(n(1), skip_if = "TakenEffects::is_empty")]
    pub seen: TakenEffects,
    /// Polls that received started tasks.
    #[cbor(n(2), skip_if = "Sent::is_empty")]
    pub sent: Sent,
    /// Reset made after the run had closed, when its history could no longer record it.
    #[n(3)]
    pub reset: Option<Box<PlannedReset>>,
}

impl Links {
    /// Returns `true` if there are no links.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.seen.is_empty() && self.sent.is_empty() && self.reset.is_none()
    }

    /// Returns the links that a new run of the workflow id takes over from the closed run `from`: its undelivered
    /// effects, and the effects that were accepted.
    #[must_use]
    pub fn handed_over(self, from: RunId) -> Self {
        Self { outbox: self.outbox.handed_over(from), seen: self.seen, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
