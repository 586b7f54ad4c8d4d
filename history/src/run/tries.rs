//! The tries of an activity with a retry policy.
//!
//! They are state beside the history: a retry records nothing, and the history tells of the last try only, when
//! the activity closes. Whoever rebuilds a run from its history alone begins to count anew.

use minicbor::{Decode, Encode};

use super::PendingActivity;
use crate::author::CallerName;
use crate::command::TaskId;
use crate::event::EventId;
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

impl PendingActivity {
    /// Which try it is in, or waits for: 1, 2, 3, …
    pub fn attempt(&self) -> u32 {
        self.tries.as_ref().map_or(0, |tries| tries.failures).saturating_add(1)
    }

    /// Whether it waits for somebody: it is paused, and no runner has it.
    pub fn is_blocked(&self) -> bool {
        self.paused.is_some() && self.held_since().is_none()
    }

    /// Since when a runner holds it; `None` while it waits for one.
    pub fn held_since(&self) -> Option<Timestamp> {
        self.started_at.or_else(|| Some(self.tries.as_ref()?.held.as_ref()?.at))
    }

    /// Not handed out before this instant.
    pub fn not_before(&self) -> Option<Timestamp> {
        self.tries.as_ref()?.not_before
    }

    /// Since when a runner could have taken it, or will be able to.
    pub fn waits_since(&self) -> Timestamp {
        let waits_since = self.tries.as_ref().and_then(|tries| tries.waits_since).unwrap_or(self.scheduled_at);
        self.released.map_or(waits_since, |released| waits_since.max(released.at))
    }

    /// How the try before this one ended.
    pub fn last_failure(&self) -> Option<&LastFailure> {
        self.tries.as_ref()?.last_failure.as_ref()
    }

    /// What the runner who holds it answers with; `None` while it waits for one.
    pub fn task(&self, scheduled_event_id: EventId) -> Option<TaskId> {
        match (self.started_event_id, &self.tries) {
            (Some(started_event_id), _) => Some(TaskId { scheduled_event_id, started_event_id, start: 0 }),
            (None, Some(tries)) => {
                tries.held.as_ref().map(|_| TaskId { scheduled_event_id, started_event_id: 0, start: tries.starts })
            }
            (None, None) => None,
        }
    }
}
