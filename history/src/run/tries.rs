//! The tries of an activity with a retry policy.
//!
//! They are state beside the history: a retry records nothing, and the history tells of the last try only, when
//! the activity closes. Whoever rebuilds a run from its history alone begins to count anew.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::LastFailure;
use crate::payload::PackRef;
use crate::time::Timestamp;

/// What has been tried so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Tries {
    /// How often a runner took it. Never goes back, so that no two of them hold the same task.
    #[n(0)]
    pub starts: u32,
    /// How many tries have failed or timed out.
    #[n(1)]
    pub failures: u32,
    /// The try that a runner holds.
    #[n(2)]
    pub held: Option<HeldTry>,
    /// The next try is not handed out before this instant.
    #[n(3)]
    pub not_before: Option<Timestamp>,
    /// Since when the next try could have been taken.
    #[n(4)]
    pub waits_since: Option<Timestamp>,
    /// How the newest try ended that was followed by another.
    #[n(5)]
    pub last_failure: Option<LastFailure>,
}

/// A try that a runner holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HeldTry {
    /// Since when.
    #[n(0)]
    pub at: Timestamp,
    /// Who took it.
    #[n(1)]
    pub identity: Option<String>,
    /// Where the identity and the credential are kept that are not here.
    #[n(2)]
    pub kept: Option<PackRef>,
    /// With what credential.
    #[n(3)]
    pub by: Option<CallerName>,
}

impl Tries {
    pub(crate) fn start(&mut self, at: Timestamp, identity: Option<String>, by: Option<CallerName>) {
        self.starts = self.starts.saturating_add(1);
        self.held = Some(HeldTry { at, identity, kept: None, by });
        self.not_before = None;
        self.waits_since = None;
    }

    pub(crate) fn fail(&mut self, failure: LastFailure, next_at: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.held = None;
        self.not_before = (next_at > failure.at).then_some(next_at);
        self.waits_since = Some(next_at);
        self.last_failure = Some(failure);
    }

    /// It may be taken at once, whoever has it and whatever it waits for.
    pub(crate) fn release(&mut self) {
        self.held = None;
        self.not_before = None;
    }

    /// It never reached its runner: as if it had not been taken.
    pub(crate) fn give_back(&mut self, at: Timestamp) {
        self.held = None;
        self.waits_since = Some(at);
    }
}
