//! Upcoming changes of a run that need no request: its deadlines, delayed turns and deliveries of effects.

use super::{Deadline, DeadlineKind, Run};
use crate::command::Heartbeat;
use crate::event::EventId;
use crate::links::Outbox;
use crate::time::Timestamp;

/// An upcoming change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpcomingChange {
    /// Time at which it is due.
    pub at: Timestamp,
    /// Kind of change.
    pub what: UpcomingKind,
}

/// Kind of an upcoming change. The order applies to changes at the same time.
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
    /// Undelivered effects on other runs are delivered again.
    Effects,
    /// A deadline.
    Deadline(DeadlineKind),
}

impl Run {
    /// Returns all changes that are due at or after `now`, ordered by time; overdue ones come first.
    pub fn future(&self, heartbeats: &[Heartbeat], outbox: &Outbox, now: Timestamp) -> Vec<UpcomingChange> {
        let deadlines = self.deadlines(heartbeats).into_iter();
        let mut coming: Vec<UpcomingChange> =
            deadlines.map(|Deadline { at, what }| UpcomingChange { at, what: UpcomingKind::Deadline(what) }).collect();
        coming.extend(self.held_turn(now));
        coming.extend(outbox.next_at().map(|at| UpcomingChange { at, what: UpcomingKind::Effects }));
        coming.sort_unstable_by_key(|coming| (coming.at, coming.what));
        coming
    }

    /// Returns the time of the first change that [`future`](Self::future) would return, at a lower cost.
    pub fn next_change(&self, heartbeats: &[Heartbeat], outbox: &Outbox, now: Timestamp) -> Option<Timestamp> {
        let held = self.held_turn(now).map(|coming| coming.at);
        self.next_deadline(heartbeats).into_iter().chain(held).chain(outbox.next_at()).min()
    }

    /// Returns the waiting turn while it is delayed.
    pub fn held_turn(&self, now: Timestamp) -> Option<UpcomingChange> {
        let is_next = self.turn.is_none() && self.paused.is_none();
        let task = self.turn_task.as_ref().filter(|_| is_next)?;
        let at = task.not_before.filter(|at| *at > now)?;
        let scheduled_event_id = task.scheduled_event_id;
        // In a first attempt, only the turn of a delayed start or a retry is delayed.
        let what = if task.attempt == 1 {
            UpcomingKind::FirstTurn { scheduled_event_id }
        } else {
            UpcomingKind::TurnRetry { scheduled_event_id }
        };
        Some(UpcomingChange { at, what })
    }
}
