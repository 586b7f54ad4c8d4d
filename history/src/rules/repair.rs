//! Repair of deadlines that were set while the service's clock was ahead. For example, if the clock is two days ahead
//! for a minute, the timers, timeouts and retries that are set in this minute are due two days too late.
//!
//! | run is | `RepairDeadlines` |
//! |---|---|
//! | open, with a late deadline | WorkflowPaused, WorkflowResumed (`repairsDeadlines`) |
//! | paused, with a late deadline | WorkflowResumed (`repairsDeadlines`), then WorkflowPaused again |
//! | open or paused, without a late deadline | no event |
//! | closed | fails with run-closed |
//!
//! The repair limits each deadline to the time of the repair plus the duration of the timer, timeout or delay.
//! Deadlines that were set by a correct clock stay unchanged, so the repair can be repeated. A repaired deadline counts
//! its whole duration from the repair, because the true time at which it was set is unknown.
//!
//! Late deadlines can be detected only until the clock reaches the time that it wrongly showed. After that, they cannot
//! be distinguished from correct deadlines.

use std::collections::BTreeMap;

use crate::command::Heartbeat;
use crate::event::{EventId, EventKind, OperatorAction, RequestKey, WorkflowPaused, WorkflowResumed};
use crate::fault::Fault;
use crate::limits;
use crate::links::Outbox;
use crate::rules::turn::turn_backoff;
use crate::run::{FIRST_TURN, PendingActivity, Run, StoppedLists, TurnTask, UpcomingChange, UpcomingKind};
use crate::time::{Duration, Timestamp};
use crate::transition::{CommandOutcome, Transition, must_be_open};
use crate::validate;

/// A deadline that is too late because it was set while the service's clock was ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateDeadline {
    /// Kind of deadline.
    pub what: UpcomingKind,
    /// Time at which the deadline is due.
    pub at: Timestamp,
    /// Time at which the deadline would be due if deadlines were repaired now.
    pub repaired_at: Timestamp,
}

impl Transition {
    pub(crate) fn repair_deadlines(
        &mut self,
        heartbeats: &[Heartbeat],
        timers: &BTreeMap<EventId, Duration>,
        operator: &OperatorAction,
        key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        validate::operator(operator)?;
        must_be_open(&self.run)?;
        let mut known = self.run.clone();
        known.learn_timer_spans(timers);
        // Heartbeats are stored outside the run. The service repairs their times.
        if known.late_deadlines(heartbeats, &self.links.outbox, now).is_empty() {
            return Ok(self.nothing_to_do());
        }
        let mut after = self.clone();
        after.run = known;
        after.push_repair(operator, key, now);
        let before = self.run.reserved_bytes(&self.links);
        let (found, max) = (after.run.reserved_bytes(&after.links), limits::STATE_BYTES_MAX);
        if found > max && found > before {
            return Err(Fault::StateLimit { found, max });
        }
        let first = self.run.last_event_id + 1;
        *self = after;
        self.has_unrecorded_changes |= self.links.outbox.expedite(now);
        Ok(CommandOutcome::Recorded(first))
    }

    fn push_repair(&mut self, operator: &OperatorAction, key: Option<RequestKey>, now: Timestamp) {
        let OperatorAction { identity, reason } = operator.clone();
        let resumed = WorkflowResumed { identity, reason, repairs_deadlines: true };
        match self.run.paused.as_deref().cloned() {
            None => {
                let OperatorAction { identity, reason } = operator.clone();
                let paused = WorkflowPaused { stop_clocks: false, identity, reason };
                self.push_keyed(now, EventKind::WorkflowPaused(paused), key);
                self.push(now, EventKind::WorkflowResumed(resumed));
            }
            Some(before) => {
                let (stop_clocks, OperatorAction { identity, reason }) = (before.stops_clock, before.operator);
                self.push_keyed(now, EventKind::WorkflowResumed(resumed), key);
                self.push(now, EventKind::WorkflowPaused(WorkflowPaused { stop_clocks, identity, reason }));
            }
        }
    }
}

impl Run {
    /// Returns the deadlines that are too late because they were set while the service's clock was ahead of `now`,
    /// ordered by time. A deadline that is suspended by a pause is computed as if the run or activity were resumed now.
    pub fn late_deadlines(&self, heartbeats: &[Heartbeat], outbox: &Outbox, now: Timestamp) -> Vec<LateDeadline> {
        let mut repaired = self.clone();
        repaired.rewind_stopped_clock(now);
        let run = repaired.clone().without_pauses(now);
        repaired.limit_deadlines(now);
        let repaired = repaired.without_pauses(now);
        let clamped = heartbeats.iter().map(|heartbeat| Heartbeat { at: heartbeat.at.min(now), ..heartbeat.clone() });
        let clamped: Vec<Heartbeat> = clamped.collect();
        let mut expedited = outbox.clone();
        expedited.expedite(now);
        let after = repaired.future(&clamped, &expedited, StoppedLists::NONE, now);
        let late =
            run.future(heartbeats, outbox, StoppedLists::NONE, now).into_iter().map(|UpcomingChange { at, what }| {
                // If the deadline does not exist after the repair, it is due at once.
                let repaired_at = after.iter().find(|coming| coming.what == what).map_or(now, |coming| coming.at);
                LateDeadline { what, at, repaired_at }
            });
        late.filter(|late| late.at.since(late.repaired_at) > limits::DEADLINE_LATE_MIN).collect()
    }

    /// Returns the open timers that were set by an earlier version of Baton, which did not store their durations, as
    /// the ids of their TimerScheduled events. Only timers that may have been set while the service's clock was ahead
    /// of `now` are included.
    pub fn timers_without_span(&self, now: Timestamp) -> Vec<EventId> {
        let is_ahead = self.last_timestamp > now;
        let unknown = self.timers.values().filter(|timer| is_ahead && timer.after.is_none());
        unknown.map(|timer| timer.scheduled_event_id).collect()
    }

    /// Sets the durations of the timers that have none. The key of `timers` is the id of the TimerScheduled event.
    pub fn learn_timer_spans(&mut self, timers: &BTreeMap<EventId, Duration>) {
        for timer in self.timers.values_mut().filter(|timer| timer.after.is_none()) {
            timer.after = timers.get(&timer.scheduled_event_id).copied();
        }
    }

    /// Applies a repair of deadlines: moves all times of the run that are after `at` back to `at`.
    pub(crate) fn limit_deadlines(&mut self, at: Timestamp) {
        // Timers count on the run's clock. If the clock is stopped, it shows the time at which it was stopped.
        let shown = self.clock.stopped_at().unwrap_or(at);
        for timer in self.timers.values_mut() {
            timer.set_at = timer.set_at.map(|set_at| set_at.min(at));
            timer.expires_at = timer.after.map_or(timer.expires_at, |after| timer.expires_at.min(shown.plus(after)));
        }
        if self.started.at > at {
            self.count_first_turn_from(at.plus(self.first_turn_wait()));
        }
        // The start of the execution timeout is moved back if it comes from an earlier run. If the timeout counts from
        // this run's first turn, its start was adjusted above.
        if let Some(from) = self.started.execution_from
            && from > at
            && Some(from) != self.run_from
        {
            self.started.execution_from = Some(at);
        }
        let first_turn_wait = self.started.start_after.unwrap_or_default();
        let backoff = turn_backoff(self.turns_lost);
        if let Some(task) = &mut self.turn_task {
            task.limit_times(at, if task.scheduled_event_id == FIRST_TURN { first_turn_wait } else { backoff });
        }
        if let Some(turn) = &mut self.turn {
            turn.started_at = turn.started_at.min(at);
        }
        if let Some(lost) = &mut self.lost_turns {
            lost.since = lost.since.min(at);
        }
        self.last_activity_at = self.last_activity_at.map(|last| last.min(at));
        self.activities.limit_times(at);
    }

    /// Returns the remaining delay of the first turn, counted from the start of the run. Returns zero if the first turn
    /// is not delayed.
    fn first_turn_wait(&self) -> Duration {
        let first = self.turn_task.as_ref().filter(|task| task.scheduled_event_id == FIRST_TURN);
        first.and_then(|task| task.not_before).and(self.started.start_after).unwrap_or_default()
    }

    /// Makes the run's timeouts count from `at`, unless they already count from an earlier time.
    pub(crate) fn count_first_turn_from(&mut self, at: Timestamp) {
        let run_from = self.run_from.unwrap_or_else(|| self.started.first_turn_at());
        self.run_from = Some(run_from.min(at));
        self.started.execution_from = Some(self.started.execution_from().min(at));
    }

    /// If the service's clock was put back to `at` while the run's clock is stopped, makes the adjustment that the next
    /// event would make.
    fn rewind_stopped_clock(&mut self, at: Timestamp) {
        if at < self.last_timestamp
            && let Some(stopped_at) = self.clock.put_back(at)
        {
            self.rewind_timers(stopped_at, at);
        }
    }

    /// Returns the run as if the run and its activities were resumed at `at`.
    fn without_pauses(mut self, at: Timestamp) -> Self {
        self.paused = None;
        self.start_clock(at);
        self.activities.without_pauses();
        self
    }
}

impl TurnTask {
    /// Moves the beginning of the turn's wait back to `at`, and the earliest start of the turn back to `at` plus
    /// `wait`. Times that are already earlier stay unchanged.
    fn limit_times(&mut self, at: Timestamp, wait: Duration) {
        self.waits_since = self.waits_since.min(at);
        self.not_before = self.not_before.map(|not_before| not_before.min(at.plus(wait)));
    }
}

impl PendingActivity {
    /// Applies a repair of deadlines: moves all times of the activity that are after `at` back to `at`.
    pub(crate) fn limit_times(&mut self, at: Timestamp) {
        self.scheduled_at = self.scheduled_at.min(at);
        self.started_at = self.started_at.map(|started_at| started_at.min(at));
        if let Some(released) = &mut self.released {
            released.at = released.at.min(at);
        }
        if let Some(paused) = &mut self.paused {
            paused.at = paused.at.min(at);
        }
        let Some(attempts) = self.attempts.as_deref_mut() else { return };
        if let Some(held) = &mut attempts.held {
            held.at = held.at.min(at);
        }
        let mut waits_from = at;
        if let Some(failure) = &mut attempts.last_failure {
            // The repaired delay has the length that was chosen when the last attempt failed.
            let until = attempts.not_before.map(|next_at| next_at.min(at.plus(next_at.since(failure.at))));
            waits_from = until.map_or(at, |until| until.max(at));
            attempts.not_before = until;
            failure.at = failure.at.min(at);
        }
        attempts.waits_since = attempts.waits_since.map(|since| since.min(waits_from));
    }
}

#[cfg(test)]
mod tests;
