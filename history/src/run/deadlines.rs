//! What time will do to a run, and when.

use super::Run;
use crate::command::Heartbeat;
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
    pub fn next_deadline(&self, beats: &[Heartbeat]) -> Option<Timestamp> {
        let mut next = None;
        self.each_deadline(beats, |deadline| {
            next = Some(next.map_or(deadline.at, |next: Timestamp| next.min(deadline.at)));
        });
        next
    }

    /// Everything that time will do to the run, in the order of time.
    pub fn deadlines(&self, beats: &[Heartbeat]) -> Vec<Deadline> {
        self.deadlines_where(beats, |_| true)
    }

    /// What time has done to the run by `now` and nobody has recorded yet, in the order of time.
    pub(crate) fn deadlines_due(&self, beats: &[Heartbeat], now: Timestamp) -> Vec<Deadline> {
        self.deadlines_where(beats, |deadline| deadline.at <= now)
    }

    fn deadlines_where(&self, beats: &[Heartbeat], is_wanted: impl Fn(&Deadline) -> bool) -> Vec<Deadline> {
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
    fn each_deadline(&self, beats: &[Heartbeat], mut show: impl FnMut(Deadline)) {
        if !self.is_open() {
            return;
        }
        self.each_workflow_deadline(&mut show);
        self.each_turn_deadline(&mut show);
        self.each_activity_deadline(beats, &mut show);
        self.each_timer_deadline(&mut show);
    }

    /// Shows when a time is up by the clock of the run; what that will not reach while it stands still is not shown.
    pub(crate) fn show_after(
        &self,
        from: Timestamp,
        limit: Option<Duration>,
        what: DeadlineKind,
        show: &mut impl FnMut(Deadline),
    ) {
        if let Some(at) = limit.and_then(|limit| self.clock.reach(from, limit)) {
            show(Deadline { at, what });
        }
    }
}
