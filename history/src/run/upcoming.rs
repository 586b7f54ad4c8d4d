//! Upcoming changes of a run that happen without a request: deadlines, delayed turns, and deliveries of effects on
//! other runs.

use super::{Deadline, DeadlineKind, ListClocks, Run, StoppedLists};
use crate::command::Heartbeat;
use crate::event::EventId;
use crate::links::Outbox;
use crate::time::Timestamp;

/// An upcoming change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpcomingChange {
    /// Time at which the change is due.
    pub at: Timestamp,
    /// Kind of change.
    pub what: UpcomingKind,
}

/// Kind of an upcoming change. Changes with the same time are in the order of this enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpcomingKind {
    /// The first turn of a delayed start or of a retry becomes available.
    FirstTurn {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
    },
    /// A turn that failed or timed out becomes available again.
    TurnRetry {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
    },
    /// Undelivered effects on other runs are delivered once more.
    Effects,
    /// A deadline.
    Deadline(DeadlineKind),
}

impl Run {
    /// Returns all upcoming changes, ordered by time. Overdue changes come first. Schedule-to-start timeouts that are
    /// stopped by the pause of a list are omitted.
    pub fn future(
        &self,
        heartbeats: &[Heartbeat],
        outbox: &Outbox,
        stopped: &StoppedLists,
        now: Timestamp,
    ) -> Vec<UpcomingChange> {
        let lists = ListClocks { stopped, now, shows_looks: false };
        let deadlines = self.deadlines_in(heartbeats, lists).into_iter();
        let mut coming: Vec<UpcomingChange> =
            deadlines.map(|Deadline { at, what }| UpcomingChange { at, what: UpcomingKind::Deadline(what) }).collect();
        coming.extend(self.held_turn(now));
        coming.extend(outbox.next_at().map(|at| UpcomingChange { at, what: UpcomingKind::Effects }));
        coming.sort_unstable_by_key(|coming| (coming.at, coming.what));
        coming
    }

    /// Returns the time of the first change that [`future`](Self::future) returns, at lower cost. If a
    /// schedule-to-start timeout is stopped by the pause of a list, the time at which to compute it again also counts.
    pub fn next_change(
        &self,
        heartbeats: &[Heartbeat],
        outbox: &Outbox,
        stopped: &StoppedLists,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let lists = ListClocks { stopped, now, shows_looks: true };
        let held = self.held_turn(now).map(|coming| coming.at);
        self.next_deadline_in(heartbeats, lists).into_iter().chain(held).chain(outbox.next_at()).min()
    }

    /// Returns the end of the delay of the waiting turn. Returns `None` if no turn is waiting or the waiting turn is
    /// not delayed.
    pub fn held_turn(&self, now: Timestamp) -> Option<UpcomingChange> {
        let is_next = self.turn.is_none() && self.paused.is_none();
        let task = self.turn_task.as_ref().filter(|_| is_next)?;
        let at = task.not_before.filter(|at| *at > now)?;
        let scheduled_event_id = task.scheduled_event_id;
        // The turn of a first attempt is delayed only in a delayed start or a retry.
        let what = if task.attempt == 1 {
            UpcomingKind::FirstTurn { scheduled_event_id }
        } else {
            UpcomingKind::TurnRetry { scheduled_event_id }
        };
        Some(UpcomingChange { at, what })
    }
}
