//! Activities: the decisions about them, their deadlines and their state. Module `runner` contains the commands of
//! runners, and module `operator` contains manual changes.
//!
//! | activity is | input | result |
//! |---|---|---|
//! | not open | ScheduleActivity | ActivityScheduled |
//! | not open | CancelActivity | ActivityTaskCancelFailed (`ActivityIdUnknown`) |
//! | not open | `StartActivity` (a poll) | fails with activity-not-waiting |
//! | not open | a runner's result | fails with activity-closed |
//! | open | ScheduleActivity | ActivityScheduleFailed (`ActivityIdAlreadyInUse`) |
//! | open | the run closes | removed |
//! | waiting | CancelActivity | ActivityTaskCancel, ActivityCanceled |
//! | waiting | `StartActivity` | ActivityStarted |
//! | waiting | a runner's result | fails with activity-closed |
//! | waiting | a deadline | ActivityScheduledTimeout, or ActivityTimedOut (`ScheduleToClose`) |
//! | held | CancelActivity | ActivityTaskCancel |
//! | held | `StartActivity` | fails with activity-not-waiting |
//! | held | a runner's result | ActivitySuccess, ActivityFailed, or ActivityCanceled after ActivityTaskCancel |
//! | held | a deadline | ActivityTimedOut (`StartToClose`, `Heartbeat`, `ScheduleToClose`) |
//! | paused | `StartActivity` | fails with activity-not-waiting |
//! | paused | a deadline | none, except for `ScheduleToClose` while no runner holds the activity |
//!
//! Apart from these rows, a paused activity behaves like one that is not paused. Scheduling also fails in these cases:
//!
//! * [`OPEN_ACTIVITIES_MAX`](limits::OPEN_ACTIVITIES_MAX) activities are open (`OpenActivitiesLimit`).
//! * The state of the run has no space for another activity (`StateLimit`).
//! * The activity type is deprecated (`ActivityTypeDeprecated`).
//!
//! ActivityScheduleFailed, ActivityTaskCancelFailed and all events that close an activity schedule a turn.
//! ActivityScheduled, ActivityStarted and ActivityTaskCancel do not. If an activity has a retry policy, an attempt that
//! fails or times out records no event as long as another attempt follows; see `runner`.

mod operator;
mod runner;

use std::sync::Arc;

use crate::command::{Heartbeat, TaskId};
use crate::decision::{CancelActivity, ScheduleActivity};
use crate::decision_context::{DecisionContext, Registration};
use crate::dialect;
use crate::event::{
    ActivityCanceled, ActivityNotStartedCause, ActivityOptionsChanged, ActivityPaused, ActivityScheduleFailed,
    ActivityScheduleFailedCause, ActivityScheduled, ActivityScheduledTimeout, ActivityTaskCancel,
    ActivityTaskCancelFailed, ActivityTaskCancelFailedCause, Event, EventId, EventKind, OperatorAction,
};
use crate::fault::Fault;
use crate::limits;
use crate::rules::swf;
use crate::run::{Deadline, DeadlineKind, Fingerprint, ListClocks, PausedActivity, PendingActivity, Released, Run};
use crate::time::Timestamp;
use crate::transition::{Transition, must_be_open};
use crate::validate;

pub(crate) use runner::Report;

pub(crate) fn validate_schedule(
    field: &impl Fn(&str) -> String,
    it: &ScheduleActivity,
    is_swf: bool,
) -> Result<(), Fault> {
    // The activity id of a Lambda task is longer, because it has a prefix.
    let chars_max = if is_swf { dialect::SWF_ACTIVITY_ID_CHARS_MAX } else { limits::NAME_CHARS_MAX };
    validate::name_up_to(&field("activityId"), &it.activity_id, chars_max)?;
    validate::no_dots(&field("activityId"), &it.activity_id)?;
    validate::type_name(&field("activityType"), &it.activity_type)?;
    it.task_list.as_ref().map_or(Ok(()), |list| validate::name(&field("taskList"), list))?;
    validate::payload(&field("input"), it.input.as_ref())?;
    // SWF accepts zero as a timeout.
    if is_swf {
        validate::spans(&field("timeouts"), it.timeouts)?;
    } else {
        validate::timeouts(&field("timeouts"), it.timeouts)?;
    }
    validate::control(field, it.control.as_deref())?;
    validate::concurrency_key(field("concurrencyKey"), it.concurrency_key.as_deref())?;
    validate::retry(&field("retry"), it.retry.as_ref())
}

/// Returns the activity for which a runner holds `task`. Used for requests that are not commands, such as heartbeats.
///
/// # Errors
///
/// [`Fault::RunClosed`] if the run is closed, or [`Fault::ActivityClosed`] if the runner no longer holds the
/// activity.
pub fn held(run: &Run, task: TaskId) -> Result<&PendingActivity, Fault> {
    must_be_open(run)?;
    let activity = run.activities.get(&task.scheduled_event_id).map(Arc::as_ref);
    activity.filter(|activity| activity.task(task.scheduled_event_id) == Some(task)).ok_or(Fault::ActivityClosed)
}

/// State of an activity that a runner holds, as heartbeats report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldState {
    /// True if the activity should stop.
    pub cancel_requested: bool,
    /// True if an operator has paused the activity or its run. The runner may still answer.
    pub paused: bool,
}

impl HeldState {
    /// Returns true if a runner that knows the state `known` must be notified of this state.
    pub fn is_news_to(self, known: Self) -> bool {
        self.cancel_requested || (self.paused && !known.paused)
    }
}

/// Returns the state of an activity that a runner holds.
///
/// # Errors
///
/// As for [`held`].
pub fn held_state(run: &Run, task: TaskId) -> Result<HeldState, Fault> {
    let activity = held(run, task)?;
    let paused = activity.paused.is_some() || run.paused.is_some();
    Ok(HeldState { cancel_requested: activity.cancel_event_id.is_some(), paused })
}

pub(crate) fn not_scheduled(
    it: &ScheduleActivity,
    cause: ActivityScheduleFailedCause,
    decision_event_id: EventId,
) -> EventKind {
    let (activity_id, activity_type) = (it.activity_id.clone(), it.activity_type.clone());
    let failed = ActivityScheduleFailed { activity_id, activity_type, cause, decision_event_id };
    EventKind::ActivityScheduleFailed(failed)
}

pub(crate) fn not_canceled(
    it: &CancelActivity,
    cause: ActivityTaskCancelFailedCause,
    decision_event_id: EventId,
) -> EventKind {
    let activity_id = it.activity_id.clone();
    EventKind::ActivityTaskCancelFailed(ActivityTaskCancelFailed { activity_id, cause, decision_event_id })
}

impl Transition {
    /// Schedules an activity. Returns `true` if the activity could not be scheduled. The decider has not seen that
    /// failure, so a later closing decision of the same answer also fails, unless it is forced.
    pub(crate) fn schedule_activity(
        &mut self,
        it: &ScheduleActivity,
        context: &DecisionContext,
        decision: EventId,
        now: Timestamp,
    ) -> bool {
        let kind = self.scheduled(it, context, decision).unwrap_or_else(|cause| not_scheduled(it, cause, decision));
        let has_failed = self.run.needs_decider(&kind);
        let scheduled_event_id = self.push(now, kind);
        if !has_failed && swf::lacks_role(&self.run.started, it) {
            let (last_failure, cause) = (None, Some(ActivityNotStartedCause::LambdaRoleUndefined));
            let timeout = ActivityScheduledTimeout { scheduled_event_id, activity_id: None, last_failure, cause };
            self.push(now, EventKind::ActivityScheduledTimeout(timeout));
            return true;
        }
        has_failed
    }

    fn scheduled(
        &mut self,
        it: &ScheduleActivity,
        context: &DecisionContext,
        decision_event_id: EventId,
    ) -> Result<EventKind, ActivityScheduleFailedCause> {
        use ActivityScheduleFailedCause as Cause;
        let is_swf = self.run.started.is_swf();
        let registration = context.of_activity(it);
        if *registration == Registration::Deprecated {
            return Err(Cause::ActivityTypeDeprecated);
        }
        if let Some(cause) = swf::undefined_activity(it, context).filter(|_| is_swf) {
            return Err(cause);
        }
        if self.run.activity(&it.activity_id).is_some() {
            return Err(Cause::ActivityIdAlreadyInUse);
        }
        if self.run.activities.len() >= limits::OPEN_ACTIVITIES_MAX {
            return Err(Cause::OpenActivitiesLimit);
        }
        let started = &self.run.started;
        let defaults = registration.defaults();
        let list = it.task_list.as_ref().or(defaults.and_then(|defaults| defaults.task_list.as_ref()));
        let timeouts = it.timeouts.or(defaults.map(|defaults| defaults.timeouts).unwrap_or_default());
        let scheduled = Box::new(ActivityScheduled {
            activity_id: it.activity_id.clone(),
            activity_type: it.activity_type.clone(),
            task_list: list.unwrap_or(&started.task_list).clone(),
            input: it.input.clone(),
            timeouts: if is_swf { timeouts } else { timeouts.or(started.activity_timeouts) },
            decision_event_id,
            retry: it.retry.clone(),
            control: it.control.clone(),
            task_priority: it.task_priority.or(defaults.and_then(|defaults| defaults.task_priority)),
            concurrency_key: it.concurrency_key.clone(),
        });
        let pending = PendingActivity::new(&scheduled, self.run.last_timestamp);
        let has_space = self.has_space(|space| space.activity(&pending));
        if has_space { Ok(EventKind::ActivityScheduled(scheduled)) } else { Err(Cause::StateLimit) }
    }

    /// Asks an activity to stop. Returns `true` if a later closing decision of the same answer must fail, because the
    /// decider has not seen an event that this decision caused.
    pub(crate) fn cancel_activity(&mut self, it: &CancelActivity, decision_event_id: EventId, now: Timestamp) -> bool {
        let Some((scheduled_event_id, activity)) = self.run.activity(&it.activity_id) else {
            self.push(now, not_canceled(it, ActivityTaskCancelFailedCause::ActivityIdUnknown, decision_event_id));
            return true;
        };
        let has_started = activity.held_since().is_some();
        let cancel = ActivityTaskCancel { activity_id: it.activity_id.clone(), scheduled_event_id, decision_event_id };
        let cancel_event_id = self.push(now, EventKind::ActivityTaskCancel(cancel));
        if has_started {
            return false;
        }
        // No runner holds the activity, so it is canceled at once. The decider expects this event, so it may still
        // close the run in the same answer.
        let canceled = ActivityCanceled {
            scheduled_event_id,
            activity_id: None,
            started_event_id: None,
            cancel_event_id,
            details: None,
        };
        self.push(now, EventKind::ActivityCanceled(canceled));
        // In SWF, the decider must see the ActivityCanceled event before it can close the run.
        self.run.started.is_swf()
    }

    pub(crate) fn end_activity_backoff(&mut self, scheduled_event_id: EventId) {
        if self.run.activities.contains_key(&scheduled_event_id) {
            self.change_attempts(scheduled_event_id, |attempts| attempts.not_before = None);
        }
    }

    pub(crate) fn activity_waited_too_long(&mut self, scheduled_event_id: EventId, now: Timestamp) {
        let Some(activity) = self.run.activities.get(&scheduled_event_id) else { return };
        let last_failure = activity.last_failure().cloned();
        let timeout = ActivityScheduledTimeout { scheduled_event_id, activity_id: None, last_failure, cause: None };
        self.push(now, EventKind::ActivityScheduledTimeout(timeout));
    }
}

impl Run {
    pub(crate) fn apply_activity_scheduled(&mut self, event: &Event, it: &ActivityScheduled) {
        if !self.is_lambda(&it.task_list) {
            self.last_activity_at = Some(event.at());
        }
        let fingerprint = Fingerprint::of(it);
        self.successes.notice(fingerprint, event.id);
        let pending = PendingActivity { fingerprint: Some(fingerprint), ..PendingActivity::new(it, event.at()) };
        self.activities.insert(event.id, pending);
    }

    pub(crate) fn apply_activity_success(&mut self, scheduled_event_id: EventId) {
        if let Some(fingerprint) = self.activities.get(&scheduled_event_id).and_then(|it| it.fingerprint) {
            self.successes.remember(fingerprint);
        }
        self.activities.remove(scheduled_event_id);
    }

    pub(crate) fn apply_activity_started(&mut self, event: &Event, scheduled_event_id: EventId) {
        if let Some(activity) = self.activities.get_mut(scheduled_event_id) {
            activity.started_event_id = Some(event.id);
            activity.started_at = Some(event.at());
        }
    }

    pub(crate) fn apply_activity_cancel(&mut self, event: &Event, scheduled_event_id: EventId) {
        if let Some(activity) = self.activities.get_mut(scheduled_event_id) {
            activity.cancel_event_id = Some(event.id);
        }
    }

    pub(crate) fn apply_activity_paused(&mut self, event: &Event, it: &ActivityPaused) {
        if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
            let operator = OperatorAction { identity: it.identity.clone(), reason: it.reason.clone() };
            let (event_id, at, cause) = (event.id, event.at(), it.cause);
            activity.paused = Some(Box::new(PausedActivity { event_id, at, cause, operator }));
        }
    }

    /// Applies the event of a resume or an immediate retry.
    pub(crate) fn release_activity(&mut self, event: &Event, scheduled_event_id: EventId) {
        if let Some(activity) = self.activities.get_mut(scheduled_event_id) {
            activity.paused = None;
            activity.release(Released { event_id: event.id, at: event.at() });
        }
    }

    pub(crate) fn apply_activity_options_changed(&mut self, event: &Event, it: &ActivityOptionsChanged) {
        if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
            if activity.task_list != it.task_list {
                activity.release(Released { event_id: event.id, at: event.at() });
            }
            activity.task_list.clone_from(&it.task_list);
            activity.timeouts = it.timeouts;
            activity.retry.clone_from(&it.retry);
        }
    }

    /// Passes the deadlines of all activities, and the times of their next attempts, to `show`.
    pub(crate) fn each_activity_deadline(
        &self,
        heartbeats: &[Heartbeat],
        lists: ListClocks<'_>,
        show: &mut impl FnMut(Deadline),
    ) {
        // No runner can take an activity of a paused run, so its wait for a runner does not time out.
        let is_paused = self.paused.is_some();
        let heartbeats = by_activity(heartbeats);
        for (&scheduled_event_id, activity) in self.activities.iter() {
            let timeouts = &activity.timeouts;
            let what = DeadlineKind::ActivityScheduleToClose { scheduled_event_id };
            self.show_deadline_after(activity.scheduled_at, timeouts.schedule_to_close, what, show);
            let may_be_taken = !is_paused && activity.paused.is_none();
            // The delay before an attempt follows the service's clock, which keeps running when the run's clock is
            // stopped.
            if let Some(at) = activity.not_before().filter(|_| may_be_taken) {
                show(Deadline { at, what: DeadlineKind::ActivityRetry { scheduled_event_id } });
            }
            let Some(started_at) = activity.held_since() else {
                if may_be_taken {
                    let what = DeadlineKind::ActivityScheduleToStart { scheduled_event_id };
                    let stops = lists.stopped.activities.get(&activity.task_list);
                    let (since, limit) = (activity.waits_since(), timeouts.schedule_to_start);
                    self.show_wait(since, limit, (lists, stops), what, show);
                }
                continue;
            };
            let what = DeadlineKind::ActivityStartToClose { scheduled_event_id };
            self.show_deadline_after(started_at, timeouts.start_to_close, what, show);
            if timeouts.heartbeat.is_some() {
                let heartbeat = heartbeats.binary_search_by_key(&scheduled_event_id, |(id, _)| *id).ok();
                let heartbeat = heartbeat.and_then(|place| heartbeats.get(place));
                let alive_at = heartbeat.map_or(started_at, |(_, at)| started_at.max(*at));
                let what = DeadlineKind::ActivityHeartbeat { scheduled_event_id };
                self.show_deadline_after(alive_at, timeouts.heartbeat, what, show);
            }
        }
    }
}

/// Returns the time of each activity's latest heartbeat. If the list has several heartbeats of an activity, the first
/// one counts.
fn by_activity(heartbeats: &[Heartbeat]) -> Vec<(EventId, Timestamp)> {
    let mut alive: Vec<_> = heartbeats.iter().map(|heartbeat| (heartbeat.scheduled_event_id, heartbeat.at)).collect();
    // The sort is stable, so the first heartbeat of an activity stays first. It is fast if the list is already sorted.
    alive.sort_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
    alive.dedup_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
    alive
}

#[cfg(test)]
mod tests;
