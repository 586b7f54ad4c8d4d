//! Links of a run to other runs and to polls. They are stored with the run's state: undelivered effects on other runs,
//! effects accepted from other runs, the polls that received started tasks, and a reset made after the run had closed.
//!
//! Links cannot be computed from the history. A closed run still delivers effects, although its history no longer
//! changes. Accepted effects are forgotten as soon as they cannot be delivered again. See
//! `docs/adr/0005-effects-on-other-runs.md`.

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

/// Links of a run. Empty links are not stored.
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
    /// Reset made after the run had closed. The run's history cannot record it, because no event follows a close.
    #[n(3)]
    pub reset: Option<Box<PlannedReset>>,
}

impl Links {
    /// Returns `true` if there are no links.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.seen.is_empty() && self.sent.is_empty() && self.reset.is_none()
    }

    /// Returns the links that a new run of the workflow id takes over from the closed run `from`: the undelivered
    /// effects and the accepted effects.
    #[must_use]
    pub fn handed_over(self, from: RunId) -> Self {
        Self { outbox: self.outbox.handed_over(from), seen: self.seen, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
