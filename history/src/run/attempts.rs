//! Attempts of an activity with a retry policy.
//!
//! Attempts are not part of the history: a retry records no event, and only the last attempt is recorded, when the
//! activity closes. If a state is rebuilt from the history alone, its attempts are therefore counted from the
//! beginning.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::LastFailure;
use crate::payload::PackRef;
use crate::time::Timestamp;

/// Attempts of an activity so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Attempts {
    /// Number of times that runners took the activity. It never decreases, so that each task id is given to only one
    /// runner.
    #[n(0)]
    pub starts: u32,
    /// Number of attempts that failed or timed out.
    #[n(1)]
    pub failures: u32,
    /// Attempt that a runner holds.
    #[n(2)]
    pub held: Option<HeldAttempt>,
    /// Earliest time at which a runner gets the next attempt.
    #[n(3)]
    pub not_before: Option<Timestamp>,
    /// Time from which the wait of the next attempt counts.
    #[n(4)]
    pub waits_since: Option<Timestamp>,
    /// Outcome of the latest attempt that was followed by another attempt.
    #[n(5)]
    pub last_failure: Option<LastFailure>,
}

/// An attempt that a runner holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HeldAttempt {
    /// Time at which the runner took the activity.
    #[n(0)]
    pub at: Timestamp,
    /// Identity of the runner.
    #[n(1)]
    pub identity: Option<String>,
    /// Location of the identity and the credential name if they are stored in a pack, outside the state.
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

    /// Makes the activity available at once. This ends the attempt in progress, or the delay before the next attempt.
    pub(crate) fn release(&mut self) {
        self.held = None;
        self.not_before = None;
    }

    /// Undoes the start of an attempt that could not be delivered to a runner.
    pub(crate) fn give_back(&mut self, at: Timestamp) {
        self.held = None;
        self.waits_since = Some(at);
    }
}
