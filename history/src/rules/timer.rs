//! Timers: a decider sets a timer, and the timer expires unless the decider cancels it first.
//!
//! | timer is | StartTimer | CancelTimer | it is due | the run closes |
//! |---|---|---|---|---|
//! | not set | TimerScheduled | TimerCancelFailed (`TimerIdUnknown`) | – | – |
//! | set | TimerScheduleFailed (`TimerIdAlreadyInUse`) | TimerCanceled | TimerExpired | removed |
//!
//! Setting a timer also fails if [`OPEN_TIMERS_MAX`](limits::OPEN_TIMERS_MAX) timers are set (`OpenTimersLimit`), or if
//! the state of the run has no space for another timer (`StateLimit`). TimerExpired, TimerScheduleFailed and
//! TimerCancelFailed schedule a turn; TimerScheduled and TimerCanceled do not. A timer id can be used again after the
//! timer has expired or was canceled.
//!
//! | run is paused | set timer | it is due |
//! |---|---|---|
//! | with its clock running | runs on | TimerExpired; the turn waits for the resume |
//! | with its clock stopped | stops, and continues on resume | later by the duration of the stop |

use crate::decision::{CancelTimer, StartTimer};
use crate::event::{
    Event, EventId, EventKind, TimerCancelFailed, TimerCancelFailedCause, TimerCanceled, TimerExpired,
    TimerScheduleFailed, TimerScheduleFailedCause, TimerScheduled,
};
use crate::fault::Fault;
use crate::limits;
use crate::run::{Deadline, DeadlineKind, PendingTimer, Run};
use crate::state_budget;
use crate::time::{Duration, Timestamp};
use crate::transition::Transition;
use crate::validate;

pub(crate) fn validate_start(field: &impl Fn(&str) -> String, it: &StartTimer) -> Result<(), Fault> {
    validate::name(&field("timerId"), &it.timer_id)?;
    validate::span(field("after"), it.after)?;
    validate::control(field, it.control.as_deref())
}

pub(crate) fn not_set(it: &StartTimer, cause: TimerScheduleFailedCause, decision_event_id: EventId) -> EventKind {
    let timer_id = it.timer_id.clone();
    EventKind::TimerScheduleFailed(TimerScheduleFailed { timer_id, cause, decision_event_id })
}

pub(crate) fn not_canceled(it: &CancelTimer, cause: TimerCancelFailedCause, decision_event_id: EventId) -> EventKind {
    let timer_id = it.timer_id.clone();
    EventKind::TimerCancelFailed(TimerCancelFailed { timer_id, cause, decision_event_id })
}

impl Transition {
    pub(crate) fn start_timer(&mut self, it: &StartTimer, decision_event_id: EventId) -> EventKind {
        let timer_id = it.timer_id.clone();
        if self.run.timers.contains_key(&timer_id) {
            not_set(it, TimerScheduleFailedCause::TimerIdAlreadyInUse, decision_event_id)
        } else if self.run.timers.len() >= limits::OPEN_TIMERS_MAX {
            not_set(it, TimerScheduleFailedCause::OpenTimersLimit, decision_event_id)
        } else if !self.has_space(|_| state_budget::timer(&timer_id)) {
            not_set(it, TimerScheduleFailedCause::StateLimit, decision_event_id)
        } else {
            let (after, control) = (it.after, it.control.clone());
            EventKind::TimerScheduled(TimerScheduled { timer_id, after, decision_event_id, control })
        }
    }

    pub(crate) fn cancel_timer(&self, it: &CancelTimer, decision_event_id: EventId) -> EventKind {
        let Some(timer) = self.run.timers.get(&it.timer_id) else {
            return not_canceled(it, TimerCancelFailedCause::TimerIdUnknown, decision_event_id);
        };
        let (timer_id, scheduled_event_id) = (it.timer_id.clone(), timer.scheduled_event_id);
        EventKind::TimerCanceled(TimerCanceled { timer_id, scheduled_event_id, decision_event_id })
    }

    /// Records the expiry of a timer, if it is still due.
    pub(crate) fn expire_timer(&mut self, scheduled_event_id: EventId, due: &mut DueTimers, now: Timestamp) {
        if let Some(timer_id) = due.take(scheduled_event_id) {
            self.push(now, EventKind::TimerExpired(TimerExpired { timer_id, scheduled_event_id }));
        }
    }
}

/// Timers that are due: the id of the TimerScheduled event, and the timer id. They are collected in one pass over all
/// timers, because the state is indexed by timer id.
pub(crate) struct DueTimers(Vec<(EventId, String)>);

impl DueTimers {
    pub(crate) fn of(run: &Run, now: Timestamp) -> Self {
        let due = run.timers.iter().filter(|(_, timer)| timer.expires_at <= now);
        let mut due: Vec<_> = due.map(|(timer_id, timer)| (timer.scheduled_event_id, timer_id.clone())).collect();
        due.sort_unstable_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
        Self(due)
    }

    fn take(&mut self, scheduled_event_id: EventId) -> Option<String> {
        let place = self.0.binary_search_by_key(&scheduled_event_id, |(id, _)| *id).ok()?;
        self.0.get_mut(place).map(|(_, timer_id)| std::mem::take(timer_id))
    }
}

impl Run {
    pub(crate) fn apply_timer_scheduled(&mut self, event: &Event, it: &TimerScheduled) {
        // The timer counts on the run's clock. If the clock is stopped, it shows the time at which it was stopped.
        let set_at = self.clock.stopped_at().unwrap_or(event.at());
        let (scheduled_event_id, expires_at) = (event.id, set_at.plus(it.after));
        let set_at = self.is_traced().then_some(event.at());
        let timer = PendingTimer { scheduled_event_id, expires_at, set_at, after: Some(it.after) };
        self.timers.insert(it.timer_id.clone(), timer);
    }

    /// Removes a timer that has expired or was canceled.
    pub(crate) fn remove_timer(&mut self, timer_id: &str) {
        self.timers.remove(timer_id);
    }

    /// Postpones the timers by the duration of a stop of the run's clock.
    pub(crate) fn postpone_timers(&mut self, stopped_at: Timestamp, span: Duration) {
        for timer in self.timers.values_mut().filter(|timer| timer.expires_at > stopped_at) {
            timer.expires_at = timer.expires_at.plus(span);
        }
    }

    /// Adjusts the timers after the service's clock was put back from `from` to `to` while the run's clock was stopped,
    /// so that each timer keeps its remaining time.
    pub(crate) fn rewind_timers(&mut self, from: Timestamp, to: Timestamp) {
        for timer in self.timers.values_mut() {
            timer.expires_at = to.plus(timer.expires_at.since(from)).min(timer.expires_at);
        }
    }

    /// Passes the time at which each timer expires to `show`. If the run's clock is stopped, timers that would expire
    /// after the beginning of the stop are omitted.
    pub(crate) fn each_timer_deadline(&self, show: &mut impl FnMut(Deadline)) {
        let stopped_at = self.clock.stopped_at();
        let is_reached = |at: Timestamp| stopped_at.is_none_or(|stopped_at| at <= stopped_at);
        for timer in self.timers.values().filter(|timer| is_reached(timer.expires_at)) {
            let what = DeadlineKind::Timer { scheduled_event_id: timer.scheduled_event_id };
            show(Deadline { at: timer.expires_at, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::limits;
    use crate::scene::{Scene, cancel_timer, check, complete, pause, resume, scene, signal, stop, success, timer};

    /// Returns a run without a timer, whose turn a decider has.
    fn not_set() -> Scene {
        scene().take()
    }

    /// Returns a run with a held turn and the timer.
    fn set() -> Scene {
        scene().decide([timer("t", 9)]).then(&signal("go")).take()
    }

    #[test]
    fn table_of_a_timer_that_is_not_set() {
        let given = not_set();
        check(&given, &given.complete([timer("t", 9)]), "DeciderCompleted TimerScheduled(t)");
        let failed = "DeciderCompleted TimerCancelFailed(t, TimerIdUnknown) DeciderScheduled";
        check(&given, &given.complete([cancel_timer("t")]), failed);
        check(&given.clone().after(9), &given.fire(), "");
    }

    #[test]
    fn table_of_a_set_timer() {
        let given = set();
        let failed = "DeciderCompleted TimerScheduleFailed(t, TimerIdAlreadyInUse) DeciderScheduled";
        check(&given, &given.complete([timer("t", 1)]), failed);
        check(&given, &given.complete([cancel_timer("t")]), "DeciderCompleted TimerCanceled(t)");
        let taken_back = given.clone().decide([cancel_timer("t")]).after(9);
        check(&taken_back, &taken_back.fire(), "");
        assert!(taken_back.run.turn_task.is_none());
        check(&given.clone().after(8), &given.fire(), "");
        check(&given.clone().after(9), &given.fire(), "TimerExpired(t) DeciderScheduled");
        let closed = given.decide([success()]);
        assert!(closed.run.timers.is_empty());
        check(&closed.clone().after(9), &closed.fire(), "");
    }

    #[test]
    fn the_id_of_an_expired_timer_can_be_reused() {
        let expired = set().after(9).then(&Scene::fire(&set()));
        check(&expired, &expired.complete([timer("t", 1)]), "DeciderCompleted TimerScheduled(t)");
        let given = set();
        let then = "DeciderCompleted TimerCanceled(t) TimerScheduled(t)";
        check(&given, &given.complete([cancel_timer("t"), timer("t", 1)]), then);
    }

    #[test]
    fn table_of_a_timer_of_a_paused_run() {
        let going = scene().decide([timer("t", 9)]).then(&pause()).after(9);
        check(&going, &going.fire(), "TimerExpired(t) DeciderScheduled");
        let stopped = scene().decide([timer("t", 9)]).then(&stop()).after(9);
        check(&stopped, &stopped.fire(), "");
        let resumed = stopped.then(&resume());
        check(&resumed.clone().after(8), &resumed.fire(), "");
        check(&resumed.clone().after(9), &resumed.fire(), "TimerExpired(t) DeciderScheduled");
    }

    #[test]
    fn open_timers_are_limited() {
        let busy = scene().take();
        let ids = (0..limits::OPEN_TIMERS_MAX).map(|index| timer(&format!("t{index}"), 9)).collect();
        let full = busy.clone().then(&complete(busy.turn(), ids)).then(&signal("go")).take();
        assert_eq!(full.run.timers.len(), limits::OPEN_TIMERS_MAX);
        check(
            &full,
            &full.complete([timer("x", 1)]),
            "DeciderCompleted TimerScheduleFailed(x, OpenTimersLimit) DeciderScheduled",
        );
        check(
            &full,
            &full.complete([cancel_timer("t0"), timer("x", 1)]),
            "DeciderCompleted TimerCanceled(t0) TimerScheduled(x)",
        );
    }
}
