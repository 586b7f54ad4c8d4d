//! The state of a run: a fold of its events, and never anything else (S4.9).

mod activities;
mod clock;
mod deadlines;
mod future;
mod standing;
mod tries;
mod updates;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dialect::SwfRun;
use crate::event::{
    ActivityPausedCause, ActivityTimeouts, ByHand, ChildPolicy, DeciderFailedCause, Event, EventId, EventKind, Origin,
    RequestKey, WorkflowStarted,
};
use crate::limits;
use crate::retry::RetryPolicy;
use crate::schedule::Scheduled;
use crate::time::{Duration, Timestamp};

pub use activities::Activities;
pub use clock::{RunClock, RunPause};
pub use deadlines::{Deadline, DeadlineKind};
pub use future::{Coming, ComingKind};
pub use standing::Standing;
pub use tries::{HeldTry, Tries};
pub use updates::{PendingUpdate, UpdateStanding, Updates};

/// Whether a run is open, and how it closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum Status {
    /// Not closed.
    #[default]
    #[n(0)]
    Open,
    /// WorkflowSuccess.
    #[n(1)]
    Success,
    /// WorkflowFailed.
    #[n(2)]
    Failed,
    /// WorkflowCanceled.
    #[n(3)]
    Canceled,
    /// WorkflowTimedOut.
    #[n(4)]
    TimedOut,
    /// WorkflowTerminated.
    #[n(5)]
    Terminated,
    /// WorkflowContinuedAsNew.
    #[n(6)]
    ContinuedAsNew,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Success,
        Self::Failed,
        Self::Canceled,
        Self::TimedOut,
        Self::Terminated,
        Self::ContinuedAsNew,
    ];

    /// The word used on the wire, in lists and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::TimedOut => "timed-out",
            Self::Terminated => "terminated",
            Self::ContinuedAsNew => "continued-as-new",
        }
    }

    /// The status with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

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
}

/// An activity that is scheduled and not closed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingActivity {
    /// The decider's name for it.
    #[n(0)]
    pub activity_id: String,
    /// Its type.
    #[n(1)]
    pub activity_type: String,
    /// The task list where it waits, or was taken from.
    #[n(2)]
    pub task_list: String,
    /// When it was scheduled.
    #[n(3)]
    pub scheduled_at: Timestamp,
    /// Its timeouts.
    #[n(4)]
    pub timeouts: ActivityTimeouts,
    /// Its ActivityStarted.
    #[n(5)]
    pub started_event_id: Option<EventId>,
    /// When it was started; with a retry policy see [`PendingActivity::held_since`].
    #[n(6)]
    pub started_at: Option<Timestamp>,
    /// The newest ActivityTaskCancel.
    #[n(7)]
    pub cancel_event_id: Option<EventId>,
    /// Whether and when it is tried again.
    #[n(8)]
    pub retry: Option<RetryPolicy>,
    /// What has been tried: kept beside the history, which says nothing of it before the activity closes. `None` without
    /// a retry policy, and before the first try.
    #[n(9)]
    pub tries: Option<Box<Tries>>,
    /// Whether it is paused: not handed out.
    #[n(10)]
    pub paused: Option<Box<PausedActivity>>,
    /// Since when it waits for a runner by somebody's hand, rather than since it was scheduled.
    #[n(11)]
    pub released: Option<Released>,
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

/// A timer that is set and has neither expired nor been taken back.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingTimer {
    /// Its TimerScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// When it expires.
    #[n(1)]
    pub expires_at: Timestamp,
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

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Run {
    /// How it was started.
    #[n(0)]
    pub started: RunStart,
    /// Whether it is open.
    #[n(1)]
    pub status: Status,
    /// When it closed.
    #[n(2)]
    pub closed_at: Option<Timestamp>,
    /// The newest event; 0 before the first.
    #[n(3)]
    pub last_event_id: EventId,
    /// The newest event's time.
    #[n(4)]
    pub last_timestamp: Timestamp,
    /// The version token (D11): the newest event that is news.
    #[n(5)]
    pub version: EventId,
    /// The turn that waits for a decider.
    #[n(6)]
    pub turn_task: Option<TurnTask>,
    /// The turn that a decider holds.
    #[n(7)]
    pub turn: Option<Turn>,
    /// The DeciderStarted of the last *completed* turn, where the next window begins (D2); 0 before the first.
    #[n(8)]
    pub previous_started_event_id: EventId,
    /// How many turns in a row have failed or timed out since one was completed.
    #[n(9)]
    pub turns_lost: u32,
    /// Open activities, by their ActivityScheduled.
    #[n(10)]
    pub activities: Activities,
    /// Open timers, by their name.
    #[n(11)]
    pub timers: BTreeMap<String, PendingTimer>,
    /// Whether somebody asked for the run to be canceled.
    #[n(12)]
    pub cancel_requested: bool,
    /// The newest keyed requests and the first event that each caused; oldest first.
    #[n(13)]
    pub request_keys: VecDeque<(RequestKey, EventId)>,
    /// Signals and cancel requests on their way to others, by their ExternalSignalScheduled or ExternalCancelScheduled.
    #[cbor(n(14), skip_if = "BTreeMap::is_empty")]
    pub externals: BTreeMap<EventId, PendingExternal>,
    /// The signals that the last completed turn said it waits for (N8).
    #[n(15)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
    /// Open children, by their ChildScheduled.
    #[cbor(n(16), skip_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<EventId, PendingChild>,
    /// Updates that were accepted and not answered, and the newest that were.
    #[cbor(n(17), default, skip_if = "Updates::is_empty")]
    pub updates: Updates,
    /// The run that tries again, where this one failed or took too long and has one.
    #[cbor(n(18), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    pub retried_as: Option<Uuid>,
    /// When its clock stood still.
    #[cbor(n(19), default, skip_if = "RunClock::is_plain")]
    pub clock: RunClock,
    /// Whether it is paused; of a run that another goes on for, whether it was.
    #[n(20)]
    pub paused: Option<Box<RunPause>>,
}

/// What a run keeps of its WorkflowStarted.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RunStart {
    /// The workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The run id.
    #[n(1)]
    #[cbor(with = "crate::codec::uuid")]
    pub run_id: Uuid,
    /// The workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// The task list of its deciders.
    #[n(3)]
    pub task_list: String,
    /// When.
    #[n(4)]
    pub at: Timestamp,
    /// From start to close, at most.
    #[n(5)]
    pub execution_timeout: Duration,
    /// From DeciderStarted to the answer, at most.
    #[n(6)]
    pub decider_start_to_close: Duration,
    /// From DeciderScheduled to DeciderStarted, at most.
    #[n(7)]
    pub decider_schedule_to_start: Option<Duration>,
    /// Defaults of activities.
    #[n(8)]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags.
    #[n(9)]
    pub tags: Vec<String>,
    /// How long it stays readable after it closed.
    #[n(10)]
    pub retention: Duration,
    /// How long its first turn waits.
    #[n(11)]
    pub start_after: Option<Duration>,
    /// The event of the parent that wanted it, where the run is a child.
    #[n(12)]
    pub parent: Option<Origin>,
    /// From the first turn to close of this one run, at most.
    #[n(13)]
    pub run_timeout: Option<Duration>,
    /// The run that this one goes on for.
    #[cbor(n(14), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Since when the execution timeout counts, where that is not this run's own beginning.
    #[n(15)]
    pub execution_from: Option<Timestamp>,
    /// Whether and when the workflow is tried again after it failed or took too long.
    #[n(16)]
    pub retry: Option<RetryPolicy>,
    /// With a retry policy: which try this run is.
    #[n(17)]
    pub attempt: Option<u32>,
    /// The schedule that started it, or the run that it goes on for.
    #[n(18)]
    pub schedule: Option<Scheduled>,
    /// Present where the run speaks SWF's dialect.
    #[n(19)]
    pub swf: Option<SwfRun>,
}

impl RunStart {
    /// Whether it speaks SWF's dialect.
    pub fn is_swf(&self) -> bool {
        self.swf.is_some()
    }

    /// What becomes of a child with this policy of its own when this run closes like that. In SWF's dialect this run's policy
    /// says it, for all children, and only when it is terminated or times out (SWF.md §8.8).
    pub fn policy_at_close(&self, of_child: ChildPolicy, close: &EventKind) -> ChildPolicy {
        match (&self.swf, close) {
            (None, _) => of_child,
            (Some(swf), EventKind::WorkflowTerminated(it)) => it.child_policy.unwrap_or(swf.child_policy),
            (Some(swf), EventKind::WorkflowTimedOut(_)) => swf.child_policy,
            (Some(_), _) => ChildPolicy::Abandon,
        }
    }

    /// Since when its execution timeout counts.
    pub fn execution_from(&self) -> Timestamp {
        self.execution_from.unwrap_or_else(|| self.first_turn_at())
    }

    /// When its first turn is handed out at the earliest.
    pub fn first_turn_at(&self) -> Timestamp {
        self.at.plus(self.start_after.unwrap_or_default())
    }
}

/// A task that waits for somebody to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRef<'a> {
    /// A turn.
    Turn(&'a TurnTask),
    /// An activity.
    Activity(ActivityTask<'a>),
}

/// An activity that waits for a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityTask<'a> {
    /// Its ActivityScheduled.
    pub scheduled_event_id: EventId,
    /// The rest of it.
    pub activity: &'a PendingActivity,
}

impl Run {
    /// The state after event 1.
    pub fn begin(at: Timestamp, started: &WorkflowStarted, key: Option<RequestKey>) -> Self {
        let mut run = Self {
            started: RunStart {
                workflow_id: started.workflow_id.clone(),
                run_id: started.run_id,
                workflow_type: started.workflow_type.clone(),
                task_list: started.task_list.clone(),
                at,
                execution_timeout: started.execution_timeout,
                decider_start_to_close: started.decider_start_to_close,
                decider_schedule_to_start: started.decider_schedule_to_start,
                activity_timeouts: started.activity_timeouts,
                tags: started.tags.clone(),
                retention: started.retention,
                start_after: started.start_after,
                parent: started.parent.clone(),
                run_timeout: started.run_timeout,
                continued_from: started.continued_from,
                execution_from: started.execution_from,
                swf: started.swf.clone(),
                retry: started.retry.clone(),
                attempt: started.attempt,
                schedule: started.schedule.clone(),
            },
            status: Status::Open,
            closed_at: None,
            last_event_id: 1,
            last_timestamp: at,
            version: 1,
            turn_task: None,
            turn: None,
            previous_started_event_id: 0,
            turns_lost: 0,
            activities: Activities::default(),
            timers: BTreeMap::new(),
            cancel_requested: false,
            request_keys: VecDeque::new(),
            externals: BTreeMap::new(),
            awaiting: Vec::new(),
            children: BTreeMap::new(),
            updates: Updates::default(),
            retried_as: None,
            clock: RunClock::default(),
            paused: None,
        };
        run.remember(key, 1);
        run
    }

    /// The state that a whole history means; `None` when it does not begin with a WorkflowStarted.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut events = events.into_iter();
        let first = events.next()?;
        let EventKind::WorkflowStarted(started) = &first.kind else {
            return None;
        };
        let mut run = Self::begin(first.timestamp, started, first.key);
        for event in events {
            run.evolve(event);
        }
        Some(run)
    }

    /// Takes one more event into the state. Total: stored events are facts, and facts are not argued with.
    pub fn evolve(&mut self, event: &Event) {
        self.last_event_id = event.id;
        self.last_timestamp = event.timestamp;
        if event.kind.is_news() {
            self.version = event.id;
        }
        self.remember(event.key, event.id);
        match &event.kind {
            EventKind::WorkflowStarted(started) => *self = Self::begin(event.timestamp, started, event.key),
            EventKind::WorkflowSuccess(_) => self.close(Status::Success, event),
            EventKind::WorkflowFailed(_) => self.close(Status::Failed, event),
            EventKind::WorkflowCanceled(_) => self.close(Status::Canceled, event),
            EventKind::WorkflowContinuedAsNew(_) => self.close(Status::ContinuedAsNew, event),
            EventKind::WorkflowTimedOut(_) => self.close(Status::TimedOut, event),
            EventKind::WorkflowTerminated(it) => {
                if let (Some(swf), Some(policy)) = (&mut self.started.swf, it.child_policy) {
                    swf.child_policy = policy;
                }
                self.close(Status::Terminated, event);
            }
            EventKind::WorkflowCancelRequested(_) => self.cancel_requested = true,
            EventKind::DeciderScheduled(it) => {
                self.turn_task = Some(TurnTask {
                    scheduled_event_id: event.id,
                    waits_since: event.timestamp,
                    attempt: it.attempt,
                    not_before: it.not_before,
                });
            }
            EventKind::DeciderStarted(it) => {
                let attempt = self.turn_task.take().map_or(1, |task| task.attempt);
                self.turn = Some(Turn {
                    scheduled_event_id: it.scheduled_event_id,
                    started_event_id: event.id,
                    started_at: event.timestamp,
                    attempt,
                });
            }
            EventKind::DeciderCompleted(it) => {
                self.end_turn(event.timestamp);
                self.turns_lost = 0;
                self.previous_started_event_id = it.started_event_id;
                self.awaiting.clone_from(&it.awaiting);
            }
            EventKind::DeciderTimedOut(it) => {
                self.turns_lost = self.turns_lost.saturating_add(1);
                match it.started_event_id {
                    Some(_) => self.end_turn(event.timestamp),
                    None => self.turn_task = None,
                }
            }
            EventKind::DeciderFailed(it) => {
                // A turn that never reached its decider says nothing about the decider.
                if it.cause == DeciderFailedCause::Reported {
                    self.turns_lost = self.turns_lost.saturating_add(1);
                }
                self.end_turn(event.timestamp);
                if let (Some(task), Some(_)) = (&mut self.turn_task, it.next_not_before) {
                    task.not_before = it.next_not_before;
                }
            }
            EventKind::ActivityScheduled(it) => {
                let activity = PendingActivity {
                    activity_id: it.activity_id.clone(),
                    activity_type: it.activity_type.clone(),
                    task_list: it.task_list.clone(),
                    scheduled_at: event.timestamp,
                    timeouts: it.timeouts,
                    started_event_id: None,
                    started_at: None,
                    cancel_event_id: None,
                    retry: it.retry.clone(),
                    tries: None,
                    paused: None,
                    released: None,
                };
                self.activities.insert(event.id, activity);
            }
            EventKind::ActivityStarted(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    activity.started_event_id = Some(event.id);
                    activity.started_at = Some(event.timestamp);
                }
            }
            EventKind::ActivitySuccess(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityFailed(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityCanceled(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTimedOut(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityScheduledTimeout(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTaskCancel(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    activity.cancel_event_id = Some(event.id);
                }
            }
            EventKind::ActivityPaused(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
                    let (event_id, at, cause) = (event.id, event.timestamp, it.cause);
                    activity.paused = Some(Box::new(PausedActivity { event_id, at, cause, by_hand }));
                }
            }
            EventKind::WorkflowPaused(it) => {
                let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
                let (event_id, at, stops_clock) = (event.id, event.timestamp, it.stop_clocks);
                self.paused = Some(Box::new(RunPause { event_id, at, stops_clock, by_hand }));
                if stops_clock {
                    self.clock.stop(at);
                }
            }
            EventKind::WorkflowResumed(_) => self.resume(event),
            EventKind::ActivityResumed(it) => self.release(it.scheduled_event_id, event),
            EventKind::ActivityRetried(it) => self.release(it.scheduled_event_id, event),
            EventKind::ActivityOptionsChanged(it) => {
                let released = Released { event_id: event.id, at: event.timestamp };
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    if activity.task_list != it.task_list {
                        activity.released = Some(released);
                    }
                    activity.task_list.clone_from(&it.task_list);
                    activity.timeouts = it.timeouts;
                    activity.retry.clone_from(&it.retry);
                }
            }
            EventKind::TimerScheduled(it) => {
                // While the clock stands still, it is set to what the clock shows.
                let set_at = self.clock.stopped_at().unwrap_or(event.timestamp);
                let timer = PendingTimer { scheduled_event_id: event.id, expires_at: set_at.plus(it.after) };
                self.timers.insert(it.timer_id.clone(), timer);
            }
            EventKind::TimerExpired(it) => drop(self.timers.remove(&it.timer_id)),
            EventKind::TimerCanceled(it) => drop(self.timers.remove(&it.timer_id)),
            EventKind::ChildScheduled(it) => {
                let child = PendingChild {
                    workflow_id: it.workflow_id.clone(),
                    decision_event_id: it.decision_event_id,
                    policy: it.child_policy,
                    started_event_id: None,
                };
                self.children.insert(event.id, child);
            }
            EventKind::ChildScheduleFailed(it) => {
                if let Some(scheduled_event_id) = it.scheduled_event_id {
                    self.children.remove(&scheduled_event_id);
                }
            }
            EventKind::ChildStarted(it) => {
                if let Some(child) = self.children.get_mut(&it.scheduled_event_id) {
                    child.started_event_id = Some(event.id);
                }
            }
            EventKind::ChildSuccess(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildFailed(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildTimedOut(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildCanceled(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildTerminated(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ExternalSignalScheduled(it) => {
                self.external(event.id, &it.workflow_id, it.decision_event_id);
            }
            EventKind::ExternalCancelScheduled(it) => {
                self.external(event.id, &it.workflow_id, it.decision_event_id);
            }
            EventKind::ExternalSignalDelivered(it) => drop(self.externals.remove(&it.scheduled_event_id)),
            EventKind::ExternalCancelDelivered(it) => drop(self.externals.remove(&it.scheduled_event_id)),
            EventKind::ExternalSignalFailed(it) => self.external_failed(it.scheduled_event_id),
            EventKind::ExternalCancelFailed(it) => self.external_failed(it.scheduled_event_id),
            EventKind::UpdateAccepted(it) => self.updates.accept(event.id, event.timestamp, it),
            EventKind::UpdateCompleted(it) => self.updates.end(event.id, it.accepted_event_id, &it.update_id),
            EventKind::UpdateFailed(it) => self.updates.end(event.id, it.accepted_event_id, &it.update_id),
            EventKind::WorkflowCloseFailed(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_) => {}
        }
    }

    fn release(&mut self, scheduled_event_id: EventId, event: &Event) {
        if let Some(activity) = self.activities.get_mut(scheduled_event_id) {
            activity.paused = None;
            activity.released = Some(Released { event_id: event.id, at: event.timestamp });
        }
    }

    /// What waited while it was paused waits for somebody from here on; its timers go on where they were.
    fn resume(&mut self, event: &Event) {
        self.paused = None;
        if let Some((stopped_at, span)) = self.clock.go(event.timestamp) {
            for timer in self.timers.values_mut().filter(|timer| timer.expires_at > stopped_at) {
                timer.expires_at = timer.expires_at.plus(span);
            }
        }
        if let Some(task) = &mut self.turn_task {
            task.waits_since = event.timestamp;
        }
        self.activities.release(Released { event_id: event.id, at: event.timestamp });
    }

    fn external(&mut self, event_id: EventId, workflow_id: &str, decision_event_id: EventId) {
        let pending = PendingExternal { workflow_id: workflow_id.to_owned(), decision_event_id };
        self.externals.insert(event_id, pending);
    }

    fn external_failed(&mut self, scheduled_event_id: Option<EventId>) {
        if let Some(scheduled_event_id) = scheduled_event_id {
            self.externals.remove(&scheduled_event_id);
        }
    }

    fn end_turn(&mut self, at: Timestamp) {
        self.turn = None;
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
    }

    fn close(&mut self, status: Status, event: &Event) {
        self.status = status;
        self.closed_at = Some(event.timestamp);
        self.turn_task = None;
        self.turn = None;
        self.activities.clear();
        self.timers.clear();
        self.externals.clear();
        self.awaiting.clear();
        self.children.clear();
        self.clock.go(event.timestamp);
        self.updates.close();
        let followed_by = event.kind.followed_by().filter(|_| status != Status::ContinuedAsNew);
        self.retried_as = followed_by.map(|(run_id, _)| run_id);
        if !self.goes_on() {
            self.paused = None;
        }
    }

    fn remember(&mut self, key: Option<RequestKey>, event_id: EventId) {
        if let Some(key) = key {
            if self.request_keys.len() >= limits::REQUEST_KEYS_MAX {
                self.request_keys.pop_front();
            }
            self.request_keys.push_back((key, event_id));
        }
    }

    /// Whether an event of this run must be looked at by a decider: in SWF's dialect a child that has begun, too (SWF.md §6).
    pub fn is_looked_at(&self, kind: &EventKind) -> bool {
        kind.schedules_decider() || (self.started.is_swf() && matches!(kind, EventKind::ChildStarted(_)))
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// Whether another run goes on for it, which may have yet to begin: it continued as new, or is tried again.
    pub fn goes_on(&self) -> bool {
        self.status == Status::ContinuedAsNew || self.retried_as.is_some()
    }

    /// Whether nothing will ever wake it (N8): it is open, no turn waits or is out, nothing is open, and
    /// its last turn did not say that it waits for a signal. All that is left is its execution timeout, or somebody who
    /// finds out.
    pub fn is_stuck(&self) -> bool {
        self.is_open()
            && self.turn.is_none()
            && self.turn_task.is_none()
            && self.activities.is_empty()
            && self.timers.is_empty()
            && self.externals.is_empty()
            && self.children.is_empty()
            && self.awaiting.is_empty()
    }

    /// Whether it waits for somebody: an activity of it is paused, and no runner has that.
    pub fn is_blocked(&self) -> bool {
        let waits = |activity: &PendingActivity| activity.paused.is_some() && activity.held_since().is_none();
        self.is_open() && self.activities.values().any(waits)
    }

    /// How it stands, in one word for lists.
    pub fn standing(&self) -> Standing {
        if !self.is_open() {
            Standing::Closed(self.status)
        } else if self.paused.is_some() {
            Standing::Paused
        } else if self.is_blocked() {
            Standing::Blocked
        } else if self.is_stuck() {
            Standing::Stuck
        } else {
            Standing::Open
        }
    }

    /// The first event that the request with this key caused, if it is remembered.
    pub fn event_of_request(&self, key: RequestKey) -> Option<EventId> {
        self.request_keys.iter().rev().find(|(known, _)| *known == key).map(|(_, event_id)| *event_id)
    }

    /// The open activity with this name.
    pub fn activity(&self, activity_id: &str) -> Option<(EventId, &PendingActivity)> {
        self.activities.named(activity_id)
    }

    /// The tasks that wait to be taken: the turn first, then activities in the order they were scheduled.
    ///
    /// A turn waits only while no decider holds one (S3.37). Those that are held back ([`TurnTask::not_before`],
    /// [`PendingActivity::not_before`]) are among them; the caller must not hand them out before their time.
    pub fn waiting_tasks(&self) -> impl Iterator<Item = TaskRef<'_>> {
        let is_paused = self.paused.is_some();
        let turn = if self.turn.is_none() && !is_paused { self.turn_task.as_ref().map(TaskRef::Turn) } else { None };
        let may_be_taken = move |activity: &PendingActivity| {
            !is_paused && activity.held_since().is_none() && activity.paused.is_none()
        };
        let activities = self.activities.iter().filter(move |(_, activity)| may_be_taken(activity));
        turn.into_iter().chain(activities.map(|(scheduled_event_id, activity)| {
            TaskRef::Activity(ActivityTask { scheduled_event_id: *scheduled_event_id, activity })
        }))
    }

    /// What of the state the history tells: all but the tries of activities. This is the fold of the events (S4.9).
    #[must_use]
    pub fn told(mut self) -> Self {
        self.activities.forget_tries();
        self
    }

    /// What has been tried of an open activity, to be changed.
    pub(crate) fn tries_mut(&mut self, scheduled_event_id: EventId) -> Option<&mut Tries> {
        let activity = self.activities.get_mut(scheduled_event_id)?;
        Some(activity.tries.get_or_insert_default())
    }

    /// When the run will have been closed for long enough to be forgotten; `None` while it is open.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.closed_at.map(|at| at.plus(self.started.retention))
    }
}
