//! What is open in a run: its turn, its activities, children and timers, and what is on its way to others.

use minicbor::{Decode, Encode};

use super::{Fingerprint, Tries};
use crate::command::TaskId;
use crate::event::{
    ActivityPausedCause, ActivityScheduled, ActivityTimeouts, ByHand, ChildPolicy, EventId, LastFailure, TurnList,
};
use crate::retry::RetryPolicy;
use crate::time::{Duration, Timestamp};

/// A turn that waits for a decider.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TurnTask {
    /// Its DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Since when a decider could have taken it: when it was scheduled, or when the turn before it ended.
    #[n(1)]
    pub waits_since: Timestamp,
    /// See [`crate::event::DeciderScheduled::attempt`].
    #[n(2)]
    pub attempt: u32,
    /// Not handed out before.
    #[n(3)]
    pub not_before: Option<Timestamp>,
    /// Where it waits, if not on the list of the run's start.
    #[n(4)]
    pub task_list: Option<String>,
    /// How long it may wait there, where the run's start does not say it.
    #[n(5)]
    pub schedule_to_start: Option<Duration>,
}

/// Where turns wait, if not on the list of the run's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct TurnLists {
    /// For good.
    #[n(0)]
    pub for_good: Option<String>,
    /// Until one of them times out.
    #[n(1)]
    pub for_now: Option<TurnList>,
}

/// A turn that a decider holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Turn {
    /// Its DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its DeciderStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// When it was started.
    #[n(2)]
    pub started_at: Timestamp,
    /// See [`crate::event::DeciderScheduled::attempt`].
    #[n(3)]
    pub attempt: u32,
    /// Where it waited, if not on the list of the run's start.
    #[n(4)]
    pub task_list: Option<String>,
}

/// An activity that is scheduled and not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingActivity {
    /// The decider's name for it.
    pub activity_id: String,
    /// Its type.
    pub activity_type: String,
    /// The task list where it waits, or was taken from.
    pub task_list: String,
    /// When it was scheduled.
    pub scheduled_at: Timestamp,
    /// Its timeouts.
    pub timeouts: ActivityTimeouts,
    /// Its ActivityStarted.
    pub started_event_id: Option<EventId>,
    /// When it was started; with a retry policy see [`PendingActivity::held_since`].
    pub started_at: Option<Timestamp>,
    /// The newest ActivityTaskCancel.
    pub cancel_event_id: Option<EventId>,
    /// Whether and when it is tried again.
    pub retry: Option<RetryPolicy>,
    /// What has been tried: kept beside the history, which says nothing of it before the activity closes. `None` without
    /// a retry policy, and before the first try.
    pub tries: Option<Box<Tries>>,
    /// Whether it is paused: not handed out.
    pub paused: Option<Box<PausedActivity>>,
    /// Since when it waits for a runner by somebody's hand, rather than since it was scheduled.
    pub released: Option<Released>,
    /// How it is preferred to others on its list: higher first.
    pub task_priority: Option<i32>,
    /// What tells it from others once it has succeeded; `None` where an earlier version opened it.
    pub fingerprint: Option<Fingerprint>,
}

impl PendingActivity {
    /// One that was scheduled at this instant.
    pub(crate) fn new(it: &ActivityScheduled, at: Timestamp) -> Self {
        Self {
            activity_id: it.activity_id.clone(),
            activity_type: it.activity_type.clone(),
            task_list: it.task_list.clone(),
            scheduled_at: at,
            timeouts: it.timeouts,
            started_event_id: None,
            started_at: None,
            cancel_event_id: None,
            retry: it.retry.clone(),
            tries: None,
            paused: None,
            released: None,
            task_priority: it.task_priority,
            fingerprint: None,
        }
    }

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
        let waits_since = self.tries.as_ref().and_then(|tries| tries.waits_since);
        let released_at = self.released.map(|released| released.at);
        waits_since.or(released_at).unwrap_or(self.scheduled_at)
    }

    /// It waits for a runner from here on, unless its next try has yet to come.
    pub(crate) fn release(&mut self, released: Released) {
        self.released = Some(released);
        if let Some(tries) = self.tries.as_mut().filter(|tries| tries.not_before.is_none_or(|at| at <= released.at)) {
            tries.waits_since = None;
        }
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

/// That an activity is paused.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PausedActivity {
    /// Its ActivityPaused.
    #[n(0)]
    pub event_id: EventId,
    /// Since when.
    #[n(1)]
    pub at: Timestamp,
    /// Why, for programs.
    #[n(2)]
    pub cause: ActivityPausedCause,
    /// Who did it, and why.
    #[n(3)]
    pub by_hand: ByHand,
}

/// That an activity was given free by hand to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Released {
    /// The event that says so.
    #[n(0)]
    pub event_id: EventId,
    /// When.
    #[n(1)]
    pub at: Timestamp,
}

/// The turns that were lost since one was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LostTurns {
    /// When the first of them was.
    #[n(0)]
    pub since: Timestamp,
    /// The newest one's DeciderFailed or DeciderTimedOut.
    #[n(1)]
    pub event_id: EventId,
}

/// A child that is wanted and of which it is not known that it has closed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingChild {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
    /// What becomes of it when this run closes first.
    #[n(2)]
    pub policy: ChildPolicy,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: Option<EventId>,
}

/// A timer that is set and has neither expired nor been taken back.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingTimer {
    /// Its TimerScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// When it expires.
    #[n(1)]
    pub expires_at: Timestamp,
    /// When it was set, in a run of which spans are wanted.
    #[n(2)]
    pub set_at: Option<Timestamp>,
    /// How long it runs; `None` where an earlier version set it.
    #[n(3)]
    pub after: Option<Duration>,
}

/// A signal or cancel request that is on its way to another run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingExternal {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
}
