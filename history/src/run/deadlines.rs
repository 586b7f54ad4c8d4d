//! What time will do to a run, and when.

use super::Run;
use crate::command::Beat;
use crate::event::EventId;
use crate::time::{Duration, Timestamp};

/// Something that time will do to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: DeadlineKind,
}

/// What time will do to a run. The order is that in which deadlines of the same instant fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineKind {
    /// A timer expires.
    Timer {
        /// Its TimerScheduled.
        scheduled_event_id: EventId,
    },
    /// The activity may be tried again.
    ActivityRetry {
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
    },
    /// No runner took the activity in time.
    ActivityScheduleToStart {
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
    },
    /// The runner did not show life in time.
    ActivityHeartbeat {
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
    },
    /// The runner did not answer in time.
    ActivityStartToClose {
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
    },
    /// The activity did not close in time, started or not.
    ActivityScheduleToClose {
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
    },
    /// No decider took the turn in time.
    TurnScheduleToStart {
        /// Its DeciderScheduled.
        scheduled_event_id: EventId,
    },
    /// The decider did not answer in time.
    TurnStartToClose {
        /// Its DeciderScheduled.
        scheduled_event_id: EventId,
    },
    /// The run, and those that it went on for, took too long.
    Execution,
    /// The run took too long.
    Run,
}

impl Run {
    /// The next instant at which the run changes by itself; `None` when closed.
    pub fn next_deadline(&self, beats: &[Beat]) -> Option<Timestamp> {
        let mut next = None;
        self.each_deadline(beats, |deadline| {
            next = Some(next.map_or(deadline.at, |next: Timestamp| next.min(deadline.at)));
        });
        next
    }

    /// Everything that time will do to the run, in the order of time.
    pub fn deadlines(&self, beats: &[Beat]) -> Vec<Deadline> {
        self.deadlines_where(beats, |_| true)
    }

    /// What time has done to the run by `now` and nobody has recorded yet, in the order of time.
    pub(crate) fn deadlines_due(&self, beats: &[Beat], now: Timestamp) -> Vec<Deadline> {
        self.deadlines_where(beats, |deadline| deadline.at <= now)
    }

    fn deadlines_where(&self, beats: &[Beat], is_wanted: impl Fn(&Deadline) -> bool) -> Vec<Deadline> {
        let mut deadlines = Vec::new();
        self.each_deadline(beats, |deadline| {
            if is_wanted(&deadline) {
                deadlines.push(deadline);
            }
        });
        deadlines.sort_unstable_by_key(|deadline| (deadline.at, deadline.what));
        deadlines
    }

    /// Shows every deadline once, in no order. Looked at with every commit, so it keeps nothing it does not need.
    fn each_deadline(&self, beats: &[Beat], mut show: impl FnMut(Deadline)) {
        if !self.is_open() {
            return;
        }
        // By the clock of the run; what it will not reach while it stands still is not shown.
        let mut after = |from, limit: Option<Duration>, what| {
            if let Some(at) = limit.and_then(|limit| self.clock.reach(from, limit)) {
                show(Deadline { at, what });
            }
        };
        after(self.started.execution_from(), Some(self.started.execution_timeout), DeadlineKind::Execution);
        after(self.started.first_turn_at(), self.started.run_timeout, DeadlineKind::Run);
        // Nobody can take what is paused: until somebody can, no wait for that ends.
        let is_paused = self.paused.is_some();
        if let Some(turn) = &self.turn {
            let what = DeadlineKind::TurnStartToClose { scheduled_event_id: turn.scheduled_event_id };
            after(turn.started_at, Some(self.started.decider_start_to_close), what);
        } else if let Some(task) = self.turn_task.as_ref().filter(|_| !is_paused) {
            let from = task.not_before.map_or(task.waits_since, |at| at.max(task.waits_since));
            let what = DeadlineKind::TurnScheduleToStart { scheduled_event_id: task.scheduled_event_id };
            after(from, task.schedule_to_start.or(self.started.decider_schedule_to_start), what);
        }
        let beats = by_activity(beats);
        for (&scheduled_event_id, activity) in self.activities.iter() {
            let timeouts = &activity.timeouts;
            let what = DeadlineKind::ActivityScheduleToClose { scheduled_event_id };
            after(activity.scheduled_at, timeouts.schedule_to_close, what);
            let Some(started_at) = activity.held_since() else {
                if !is_paused && activity.paused.is_none() {
                    let what = DeadlineKind::ActivityScheduleToStart { scheduled_event_id };
                    after(activity.waits_since(), timeouts.schedule_to_start, what);
                }
                continue;
            };
            let what = DeadlineKind::ActivityStartToClose { scheduled_event_id };
            after(started_at, timeouts.start_to_close, what);
            if timeouts.heartbeat.is_some() {
                let beat = beats.binary_search_by_key(&scheduled_event_id, |(id, _)| *id).ok();
                let beat = beat.and_then(|place| beats.get(place));
                let alive_at = beat.map_or(started_at, |(_, at)| started_at.max(*at));
                after(alive_at, timeouts.heartbeat, DeadlineKind::ActivityHeartbeat { scheduled_event_id });
            }
        }
        self.each_timer_deadline(&mut show);
        // The waits between tries are for the world, and go by its clock.
        for (&scheduled_event_id, activity) in self.activities.iter() {
            if let Some(at) = activity.not_before().filter(|_| !is_paused && activity.paused.is_none()) {
                show(Deadline { at, what: DeadlineKind::ActivityRetry { scheduled_event_id } });
            }
        }
    }
}

/// When each activity last showed life, by its event. Of several beats of one activity the first counts.
fn by_activity(beats: &[Beat]) -> Vec<(EventId, Timestamp)> {
    let mut alive: Vec<_> = beats.iter().map(|beat| (beat.scheduled_event_id, beat.at)).collect();
    // Stable, and quick where they are in order already.
    alive.sort_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
    alive.dedup_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
    alive
}
