//! Attempts of an activity with a retry policy.
//!
//! They are not part of the history: a retry records no event, and only the last attempt is recorded when the
//! activity closes. A run rebuilt from its history alone therefore counts attempts from the beginning.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::LastFailure;
use crate::payload::PackRef;
use crate::time::Timestamp;

/// Attempts of an activity so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Attempts {
    /// Number of times that a runner took it. It never decreases, so that no two runners hold the same task id.
    #[n(0)]
    pub starts: u32,
    /// Number of attempts that failed or timed out.
    #[n(1)]
    pub failures: u32,
    /// Attempt that a runner holds.
    #[n(2)]
    pub held: Option<HeldAttempt>,
    /// Earliest time at which the next attempt is handed out.
    #[n(3)]
    pub not_before: Option<Timestamp>,
    /// Time from which the next attempt could be taken.
    #[n(4)]
    pub waits_since: Option<Timestamp>,
    /// Outcome of the latest attempt that was followed by another.
    #[n(5)]
    pub last_failure: Option<LastFailure>,
}

/// An attempt that a runner holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HeldAttempt {
    /// Time at which the runner took it.
    #[n(0)]
    pub at: Timestamp,
    /// Identity of the runner.
    #[n(1)]
    pub identity: Option<String>,
    /// Location of an identity and credential that are stored in a pack.
    #[n(2)]
    pub kept: Option<PackRef>,
    /// Name of the runner's credential.
    #[n(3)]
    pub by: Option<CallerName>,
}

impl Attempts {
    pub(crate) fn start(&mut self, at: Timestamp, identity: Option<String>, by: Option<CallerName>) {
        self.starts = self.starts.saturating_add(1);
        self.held = Some(HeldAttempt { at, identity, kept: None, by });
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

    /// Makes the activity available at once, even if a runner holds it or it is delayed.
    pub(crate) fn release(&mut self) {
        self.held = None;
        self.not_before = None;
    }

    /// Undoes a start that never reached its runner.
    pub(crate) fn give_back(&mut self, at: Timestamp) {
        self.held = None;
        self.waits_since = Some(at);
    }
}
