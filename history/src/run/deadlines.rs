//! Deadlines of a run.

use super::Run;
use crate::command::Heartbeat;
use crate::event::EventId;
use crate::time::{Duration, Timestamp};

/// A deadline of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Time at which the deadline is due.
    pub at: Timestamp,
    /// Kind of deadline.
    pub what: DeadlineKind,
}

/// Kind of deadline. If deadlines have the same time, they are applied in the order of this enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineKind {
    /// A timer expires.
    Timer {
        /// Id of the TimerScheduled event.
        scheduled_event_id: EventId,
    },
    /// The next attempt of an activity becomes available.
    ActivityRetry {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// An activity exceeds its schedule-to-start timeout.
    ActivityScheduleToStart {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// An activity exceeds its heartbeat timeout.
    ActivityHeartbeat {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// An activity exceeds its start-to-close timeout.
    ActivityStartToClose {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// An activity exceeds its schedule-to-close timeout.
    ActivityScheduleToClose {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
    },
    /// A turn exceeds its schedule-to-start timeout.
    TurnScheduleToStart {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
    },
    /// A turn exceeds its start-to-close timeout.
    TurnStartToClose {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
    },
    /// The run, together with the runs that it continues, exceeds the execution timeout.
    Execution,
    /// The run exceeds its run timeout.
    Run,
}

impl Run {
    /// Returns the time of the next deadline, or `None` if the run has none.
    pub fn next_deadline(&self, heartbeats: &[Heartbeat]) -> Option<Timestamp> {
        let mut next = None;
        self.each_deadline(heartbeats, |deadline| {
            next = Some(next.map_or(deadline.at, |next: Timestamp| next.min(deadline.at)));
        });
        next
    }

    /// Returns all deadlines, ordered by time.
    pub fn deadlines(&self, heartbeats: &[Heartbeat]) -> Vec<Deadline> {
        self.deadlines_where(heartbeats, |_| true)
    }

    /// Returns the deadlines that are due at `now` and have not fired yet, ordered by time.
    pub(crate) fn deadlines_due(&self, heartbeats: &[Heartbeat], now: Timestamp) -> Vec<Deadline> {
        self.deadlines_where(heartbeats, |deadline| deadline.at <= now)
    }

    fn deadlines_where(&self, heartbeats: &[Heartbeat], is_wanted: impl Fn(&Deadline) -> bool) -> Vec<Deadline> {
        let mut deadlines = Vec::new();
        self.each_deadline(heartbeats, |deadline| {
            if is_wanted(&deadline) {
                deadlines.push(deadline);
            }
        });
        deadlines.sort_unstable_by_key(|deadline| (deadline.at, deadline.what));
        deadlines
    }

    /// Passes each deadline to `show` once, in no particular order. This runs in every commit, so it allocates nothing.
    fn each_deadline(&self, heartbeats: &[Heartbeat], mut show: impl FnMut(Deadline)) {
        if !self.is_open() {
            return;
        }
        self.each_workflow_deadline(&mut show);
        self.each_turn_deadline(&mut show);
        self.each_activity_deadline(heartbeats, &mut show);
        self.each_timer_deadline(&mut show);
    }

    /// Passes a deadline to `show` that is due when the run's clock has run for `limit` since `from`. If the clock is
    /// stopped before that, the deadline is omitted.
    pub(crate) fn show_deadline_after(
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
