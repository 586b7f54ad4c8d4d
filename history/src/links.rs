//! What a run keeps of its dealings with other runs, beside its state: effects that it owes them, and what of theirs it
//! has. Not a fold of the history: a closed run still delivers, and what it has seen is forgotten once nobody can ask
//! again. See `docs/adr/0005-effects-on-other-runs.md`.

mod errand;
mod outbox;
mod seen;

use minicbor::{Decode, Encode};

pub use errand::{Errand, ErrandTask, child_run_id};
pub use outbox::{Effect, EffectKind, Outbox};
pub use seen::{Seen, SeenOrigin};

/// See the module. Empty, and without a byte, for runs that have nothing to do with others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Links {
    /// What it owes to others.
    #[cbor(n(0), skip_if = "Outbox::is_empty")]
    pub outbox: Outbox,
    /// What it has of others.
    #[cbor(n(1), skip_if = "Seen::is_empty")]
    pub seen: Seen,
}

impl Links {
    /// Whether it has nothing to do with others.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests;
