//! Repair of deadlines that were set while the service's clock was ahead. For example, a clock that was two days
//! ahead for a minute leaves timers, timeouts and retries that are due two days too late.
//!
//! | run is | `RepairDeadlines` |
//! |---|---|
//! | open, with a late deadline | WorkflowPaused, WorkflowResumed (`repairsDeadlines`) |
//! | paused, with a late deadline | WorkflowResumed (`repairsDeadlines`), then WorkflowPaused as before |
//! | open or paused, without one | no event |
//! | closed | fails with run-closed |
//!
//! The repair limits each deadline to the time of the event plus its duration: that of the timer, the timeout or
//! the backoff. Deadlines set by a correct clock stay unchanged, so the repair can be repeated. A repaired deadline
//! counts its whole duration from the repair, because the true time at which it was set is unknown.
//!
//! A late deadline can only be detected until the clock reaches the time that it had when it was ahead. After that,
//! the remaining ones look like correct deadlines.

use std::collections::BTreeMap;

use crate::command::Heartbeat;
use crate::event::{ByHand, EventId, EventKind, RequestKey, WorkflowPaused, WorkflowResumed};
use crate::fault::Fault;
use crate::limits;
use crate::links::Outbox;
use crate::rules::turn::turn_backoff;
use crate::run::{FIRST_TURN, PendingActivity, Run, TurnTask, UpcomingChange, UpcomingKind};
use crate::time::{Duration, Timestamp};
use crate::transition::{CommandOutcome, Transition, must_be_open};
use crate::validate;

/// A deadline that is too late because it was set while the service's clock was ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateDeadline {
    /// Kind of deadline.
    pub what: UpcomingKind,
    /// Time at which it is due.
    pub at: Timestamp,
    /// Time at which it would be due after a repair now.
    pub repaired_at: Timestamp,
}

impl Transition {
    pub(crate) fn repair_deadlines(
        &mut self,
        heartbeats: &[Heartbeat],
        timers: &BTreeMap<EventId, Duration>,
        by_hand: &ByHand,
        key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        validate::by_hand(by_hand)?;
        must_be_open(&self.run)?;
        let mut known = self.run.clone();
        known.learn_timer_spans(timers);
        // Heartbeats are stored apart from the run, and repaired there.
        if known.late_deadlines(heartbeats, &self.links.outbox, now).is_empty() {
            return Ok(self.nothing_to_do());
        }
        let mut after = self.clone();
        after.run = known;
        after.push_repair(by_hand, key, now);
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

    fn push_repair(&mut self, by_hand: &ByHand, key: Option<RequestKey>, now: Timestamp) {
        let ByHand { identity, reason } = by_hand.clone();
        let resumed = WorkflowResumed { identity, reason, repairs_deadlines: true };
        match self.run.paused.as_deref().cloned() {
            None => {
                let ByHand { identity, reason } = by_hand.clone();
                let paused = WorkflowPaused { stop_clocks: false, identity, reason };
                self.push_keyed(now, EventKind::WorkflowPaused(paused), key);
                self.push(now, EventKind::WorkflowResumed(resumed));
            }
            Some(before) => {
                let (stop_clocks, ByHand { identity, reason }) = (before.stops_clock, before.by_hand);
                self.push_keyed(now, EventKind::WorkflowResumed(resumed), key);
                self.push(now, EventKind::WorkflowPaused(WorkflowPaused { stop_clocks, identity, reason }));
            }
        }
    }
}

impl Run {
    /// Returns the deadlines that are too late because they were set while the service's clock was ahead of `now`,
    /// ordered by time. Deadlines suspended by a pause are computed as if the run or activity were resumed now.
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
        let after = repaired.future(&clamped, &expedited, now);
        let late = run.future(heartbeats, outbox, now).into_iter().map(|UpcomingChange { at, what }| {
            // A deadline that no longer exists after the repair is due now.
            let repaired_at = after.iter().find(|coming| coming.what == what).map_or(now, |coming| coming.at);
            LateDeadline { what, at, repaired_at }
        });
        late.filter(|late| late.at.since(late.repaired_at) > limits::DEADLINE_LATE_MIN).collect()
    }

    /// Returns the ids of the TimerScheduled events of open timers whose duration the state lacks, because an
    /// earlier version set them. Only timers that may have been set while the service's clock was ahead of `now`
    /// are included.
    pub fn timers_without_span(&self, now: Timestamp) -> Vec<EventId> {
        let is_ahead = self.last_timestamp > now;
        let unknown = self.timers.values().filter(|timer| is_ahead && timer.after.is_none());
        unknown.map(|timer| timer.scheduled_event_id).collect()
    }

    /// Adds the durations of such timers, by the id of their TimerScheduled event.
    pub fn learn_timer_spans(&mut self, timers: &BTreeMap<EventId, Duration>) {
        for timer in self.timers.values_mut().filter(|timer| timer.after.is_none()) {
            timer.after = timers.get(&timer.scheduled_event_id).copied();
        }
    }

    /// Moves all times of the run after `at` back to `at`.
    pub(crate) fn limit_deadlines(&mut self, at: Timestamp) {
        // Timers use the run's clock, which may be stopped.
        let shown = self.clock.stopped_at().unwrap_or(at);
        for timer in self.timers.values_mut() {
            timer.set_at = timer.set_at.map(|set_at| set_at.min(at));
            timer.expires_at = timer.after.map_or(timer.expires_at, |after| timer.expires_at.min(shown.plus(after)));
        }
        if self.started.at > at {
            self.count_first_turn_from(at.plus(self.first_turn_wait()));
        }
        // The start of an earlier run's execution is moved, but not one derived from this run's first turn.
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

    /// Returns how long the first turn is still delayed after the start.
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

    /// Adjusts a stopped clock as the next event would if the service's clock was put back to `at`.
    fn rewind_stopped_clock(&mut self, at: Timestamp) {
        if at < self.last_timestamp
            && let Some(stopped_at) = self.clock.put_back(at)
        {
            self.rewind_timers(stopped_at, at);
        }
    }

    /// Returns the run as if it and its activities were resumed at `at`, with their current waits.
    fn without_pauses(mut self, at: Timestamp) -> Self {
        self.paused = None;
        self.start_clock(at);
        self.activities.without_pauses();
        self
    }
}

impl TurnTask {
    /// Limits the start of the wait to `at`, and the delay to `wait` after it.
    fn limit_times(&mut self, at: Timestamp, wait: Duration) {
        self.waits_since = self.waits_since.min(at);
        self.not_before = self.not_before.map(|not_before| not_before.min(at.plus(wait)));
    }
}

impl PendingActivity {
    /// Moves all times of the activity after `at` back to `at`.
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
            // Keep the backoff that was drawn when the last attempt failed.
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
