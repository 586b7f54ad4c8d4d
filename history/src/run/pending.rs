//! Open items of a run: its turn, activities, children, timers, and requests to other runs.

use minicbor::{Decode, Encode};

use super::{Attempts, Fingerprint};
use crate::command::TaskId;
use crate::event::{
    ActivityPausedCause, ActivityScheduled, ActivityTimeouts, ChildPolicy, EventId, LastFailure, OperatorAction,
    TurnList,
};
use crate::retry::RetryPolicy;
use crate::time::{Duration, Timestamp};

/// A turn that waits for a decider.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TurnTask {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Time from which the turn's wait for a decider counts: when it was scheduled, or when the previous turn ended.
    #[n(1)]
    pub waits_since: Timestamp,
    /// Attempt number, as in [`crate::event::DeciderScheduled::attempt`].
    #[n(2)]
    pub attempt: u32,
    /// Earliest time at which a decider gets the turn.
    #[n(3)]
    pub not_before: Option<Timestamp>,
    /// Task list on which the turn waits. Absent if it is the list given at the start of the run.
    #[n(4)]
    pub task_list: Option<String>,
    /// Schedule-to-start timeout. Absent if it is the timeout given at the start of the run.
    #[n(5)]
    pub schedule_to_start: Option<Duration>,
}

/// Task lists for a run's turns, if they differ from the list given at the start of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct TurnLists {
    /// Permanent task list.
    #[n(0)]
    pub for_good: Option<String>,
    /// Temporary task list, used until a turn on this list times out.
    #[n(1)]
    pub for_now: Option<TurnList>,
}

/// A turn that a decider holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Turn {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the turn's DeciderStarted event.
    #[n(1)]
    pub started_event_id: EventId,
    /// Time at which the decider took the turn.
    #[n(2)]
    pub started_at: Timestamp,
    /// Attempt number, as in [`crate::event::DeciderScheduled::attempt`].
    #[n(3)]
    pub attempt: u32,
    /// Task list from which the turn was taken. Absent if it is the list given at the start of the run.
    #[n(4)]
    pub task_list: Option<String>,
}

/// An open activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingActivity {
    /// Activity id chosen by the decider.
    pub activity_id: String,
    /// Activity type.
    pub activity_type: String,
    /// Task list on which the activity waits, or from which a runner took it.
    pub task_list: String,
    /// Time at which the activity was scheduled.
    pub scheduled_at: Timestamp,
    /// Timeouts.
    pub timeouts: ActivityTimeouts,
    /// Id of the activity's ActivityStarted event.
    pub started_event_id: Option<EventId>,
    /// Time at which a runner took the activity. For an activity with a retry policy, use
    /// [`PendingActivity::held_since`].
    pub started_at: Option<Timestamp>,
    /// Id of the newest ActivityTaskCancel event.
    pub cancel_event_id: Option<EventId>,
    /// Retry policy.
    pub retry: Option<RetryPolicy>,
    /// Attempts made so far. The history does not contain them before the activity closes. `None` before the first
    /// attempt, and for an activity without a retry policy.
    pub attempts: Option<Box<Attempts>>,
    /// Pause of the activity. A paused activity cannot be taken by a runner.
    pub paused: Option<Box<PausedActivity>>,
    /// Event of a resume, retry or reset. If present, the wait for a runner counts from this event, not from the
    /// scheduling.
    pub released: Option<Released>,
    /// Priority on the task list: higher first.
    pub task_priority: Option<i32>,
    /// Concurrency key. Without one, the run's key applies.
    pub concurrency_key: Option<String>,
    /// Fingerprint, to detect that the activity is scheduled again after it has succeeded. `None` if an earlier version
    /// scheduled the activity.
    pub fingerprint: Option<Fingerprint>,
}

impl PendingActivity {
    /// Creates the state of an activity that was scheduled at this time.
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
            attempts: None,
            paused: None,
            released: None,
            task_priority: it.task_priority,
            concurrency_key: it.concurrency_key.clone(),
            fingerprint: None,
        }
    }

    /// Returns the number of the current or next attempt: 1, 2, 3, …
    pub fn attempt(&self) -> u32 {
        self.attempts.as_ref().map_or(0, |attempts| attempts.failures).saturating_add(1)
    }

    /// Returns `true` if the activity is paused and no runner holds it, so that only an operator can continue it.
    pub fn is_blocked(&self) -> bool {
        self.paused.is_some() && self.held_since().is_none()
    }

    /// Returns the time at which a runner took the activity, or `None` if no runner holds it.
    pub fn held_since(&self) -> Option<Timestamp> {
        self.started_at.or_else(|| Some(self.attempts.as_ref()?.held.as_ref()?.at))
    }

    /// Returns the earliest time at which a runner gets the next attempt, if the retry policy delays it.
    pub fn not_before(&self) -> Option<Timestamp> {
        self.attempts.as_ref()?.not_before
    }

    /// Returns the time from which the wait for a runner counts. It is in the future if the activity is delayed.
    pub fn waits_since(&self) -> Timestamp {
        let waits_since = self.attempts.as_ref().and_then(|attempts| attempts.waits_since);
        let released_at = self.released.map(|released| released.at);
        waits_since.or(released_at).unwrap_or(self.scheduled_at)
    }

    /// Restarts the wait for a runner, unless the next attempt is delayed beyond the time of `released`.
    pub(crate) fn release(&mut self, released: Released) {
        self.released = Some(released);
        if let Some(attempts) =
            self.attempts.as_mut().filter(|attempts| attempts.not_before.is_none_or(|at| at <= released.at))
        {
            attempts.waits_since = None;
        }
    }

    /// Returns the outcome of the previous attempt.
    pub fn last_failure(&self) -> Option<&LastFailure> {
        self.attempts.as_ref()?.last_failure.as_ref()
    }

    /// Returns the task id with which the runner reports a result, or `None` if no runner holds the activity.
    pub fn task(&self, scheduled_event_id: EventId) -> Option<TaskId> {
        match (self.started_event_id, &self.attempts) {
            (Some(started_event_id), _) => Some(TaskId { scheduled_event_id, started_event_id, start: 0 }),
            (None, Some(attempts)) => attempts.held.as_ref().map(|_| TaskId {
                scheduled_event_id,
                started_event_id: 0,
                start: attempts.starts,
            }),
            (None, None) => None,
        }
    }
}

/// Pause of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PausedActivity {
    /// Id of the ActivityPaused event.
    #[n(0)]
    pub event_id: EventId,
    /// Time of the pause.
    #[n(1)]
    pub at: Timestamp,
    /// Cause, for programs.
    #[n(2)]
    pub cause: ActivityPausedCause,
    /// Identity of the operator, and the reason.
    #[n(3)]
    pub operator: OperatorAction,
}

/// Event from which the wait for a runner counts, such as a resume, a retry or a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Released {
    /// Id of the event.
    #[n(0)]
    pub event_id: EventId,
    /// Time of the event.
    #[n(1)]
    pub at: Timestamp,
}

/// Consecutive turns that failed or timed out since the last completed turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LostTurns {
    /// Time at which the first of these turns was lost.
    #[n(0)]
    pub since: Timestamp,
    /// Id of the DeciderFailed or DeciderTimedOut event of the newest of these turns.
    #[n(1)]
    pub event_id: EventId,
}

/// A child that the run has requested and whose close has not been reported.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingChild {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(1)]
    pub decision_event_id: EventId,
    /// Effect on the child if this run closes before the child.
    #[n(2)]
    pub policy: ChildPolicy,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: Option<EventId>,
}

/// A timer that is set, and has neither expired nor been canceled.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingTimer {
    /// Id of the TimerScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Time at which the timer expires.
    #[n(1)]
    pub expires_at: Timestamp,
    /// Time at which the timer was set. Recorded only if the run's spans are exported.
    #[n(2)]
    pub set_at: Option<Timestamp>,
    /// Duration of the timer. `None` if the timer was set by an earlier version of Baton, which did not store it.
    #[n(3)]
    pub after: Option<Duration>,
}

/// A signal or cancel request that was sent to another run and has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingExternal {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(1)]
    pub decision_event_id: EventId,
}
