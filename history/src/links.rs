//! What a run keeps beside its state: effects that it owes to other runs, what of theirs it has, to which polls its
//! started tasks went, and that it was reset after it had closed. Not a fold of the history: a closed run still delivers, and what it has seen is forgotten once nobody can ask
//! again. See `docs/adr/0005-effects-on-other-runs.md`.

mod errand;
mod outbox;
mod owed;
mod planned;
mod seen;
mod sent;

use minicbor::{Decode, Encode};

use crate::ids::RunId;

pub use errand::{Errand, ErrandTask, child_run_id};
pub(crate) use outbox::taken_over;
pub use outbox::{Effect, EffectKind, Outbox};
pub(crate) use owed::owed;
pub use planned::PlannedReset;
pub use seen::{SeenOrigin, TakenEffects};
pub use sent::{PollId, Sent};

/// See the module. Empty, and without a byte, for runs that have nothing to do with others and no started task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Links {
    /// What it owes to others.
    #[cbor(n(0), skip_if = "Outbox::is_empty")]
    pub outbox: Outbox,
    /// What it has of others.
    #[cbor(n(1), skip_if = "TakenEffects::is_empty")]
    pub seen: TakenEffects,
    /// Where its started tasks went.
    #[cbor(n(2), skip_if = "Sent::is_empty")]
    pub sent: Sent,
    /// Which run goes on in its place, where it was reset after it had closed: then its history no longer can say so.
    #[n(3)]
    pub reset: Option<Box<PlannedReset>>,
}

impl Links {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.seen.is_empty() && self.sent.is_empty() && self.reset.is_none()
    }

    /// What a new run of the same workflow id takes over from the run `from`, which has closed: what that owes, and what has
    /// been seen.
    #[must_use]
    pub fn handed_over(self, from: RunId) -> Self {
        Self { outbox: self.outbox.handed_over(from), seen: self.seen, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
