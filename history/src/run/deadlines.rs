//! Deadlines of a run.

use super::{ListClocks, ListStops, Run, StoppedLists};
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
    /// Returns the time of the next deadline, or `None` if the run has none. Pauses of task lists are ignored.
    pub fn next_deadline(&self, heartbeats: &[Heartbeat]) -> Option<Timestamp> {
        self.next_deadline_in(heartbeats, ListClocks::RUNNING)
    }

    /// Returns the time of the next deadline, or `None` if the run has none.
    pub(crate) fn next_deadline_in(&self, heartbeats: &[Heartbeat], lists: ListClocks<'_>) -> Option<Timestamp> {
        let mut next = None;
        self.each_deadline(heartbeats, lists, |deadline| {
            next = Some(next.map_or(deadline.at, |next: Timestamp| next.min(deadline.at)));
        });
        next
    }

    /// Returns all deadlines, ordered by time. Pauses of task lists are ignored.
    pub fn deadlines(&self, heartbeats: &[Heartbeat]) -> Vec<Deadline> {
        self.deadlines_in(heartbeats, ListClocks::RUNNING)
    }

    /// Returns all deadlines, ordered by time.
    pub(crate) fn deadlines_in(&self, heartbeats: &[Heartbeat], lists: ListClocks<'_>) -> Vec<Deadline> {
        self.deadlines_where(heartbeats, lists, |_| true)
    }

    /// Returns the deadlines that are due at `now` and have not fired yet, ordered by time.
    pub(crate) fn deadlines_due(
        &self,
        heartbeats: &[Heartbeat],
        stopped: &StoppedLists,
        now: Timestamp,
    ) -> Vec<Deadline> {
        let lists = ListClocks { stopped, now, shows_looks: false };
        self.deadlines_where(heartbeats, lists, |deadline| deadline.at <= now)
    }

    /// Returns true if a task has waited for a poller for longer than its schedule-to-start timeout. Pauses of task
    /// lists are ignored, so the timeout may not have expired yet.
    pub fn has_waited_too_long(&self, now: Timestamp) -> bool {
        let mut is_due = false;
        self.each_deadline(&[], ListClocks::RUNNING, |Deadline { at, what }| {
            let is_wait = match what {
                DeadlineKind::ActivityScheduleToStart { .. } | DeadlineKind::TurnScheduleToStart { .. } => true,
                DeadlineKind::Timer { .. }
                | DeadlineKind::ActivityRetry { .. }
                | DeadlineKind::ActivityHeartbeat { .. }
                | DeadlineKind::ActivityStartToClose { .. }
                | DeadlineKind::ActivityScheduleToClose { .. }
                | DeadlineKind::TurnStartToClose { .. }
                | DeadlineKind::Execution
                | DeadlineKind::Run => false,
            };
            is_due |= is_wait && at <= now;
        });
        is_due
    }

    fn deadlines_where(
        &self,
        heartbeats: &[Heartbeat],
        lists: ListClocks<'_>,
        is_wanted: impl Fn(&Deadline) -> bool,
    ) -> Vec<Deadline> {
        let mut deadlines = Vec::new();
        self.each_deadline(heartbeats, lists, |deadline| {
            if is_wanted(&deadline) {
                deadlines.push(deadline);
            }
        });
        deadlines.sort_unstable_by_key(|deadline| (deadline.at, deadline.what));
        deadlines
    }

    /// Passes each deadline to `show` once, in no particular order. This runs in every commit, so it allocates nothing.
    fn each_deadline(&self, heartbeats: &[Heartbeat], lists: ListClocks<'_>, mut show: impl FnMut(Deadline)) {
        if !self.is_open() {
            return;
        }
        self.each_workflow_deadline(&mut show);
        self.each_turn_deadline(lists, &mut show);
        self.each_activity_deadline(heartbeats, lists, &mut show);
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

    /// Passes the deadline of a wait for a poller to `show`. The wait began at `from`, and `stops` are the pauses of
    /// the task's list. If the list is paused before the wait times out, the deadline is omitted.
    pub(crate) fn show_wait(
        &self,
        from: Timestamp,
        limit: Option<Duration>,
        (lists, stops): (ListClocks<'_>, Option<&ListStops>),
        what: DeadlineKind,
        show: &mut impl FnMut(Deadline),
    ) {
        self.show_deadline_after(from, limit, what, &mut |Deadline { at, what }| {
            if let Some(at) = lists.due_at(stops, from, at) {
                show(Deadline { at, what });
            }
        });
    }
}
