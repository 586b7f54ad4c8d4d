//! What is to come of a run by itself, in the order of time: what its clock will do, and what it waits for besides.

use super::{Deadline, DeadlineKind, Run};
use crate::command::Heartbeat;
use crate::event::EventId;
use crate::links::Outbox;
use crate::time::Timestamp;

/// Something that is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: ComingKind,
}

/// What is to come. The order is that of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComingKind {
    /// The first turn of a delayed start, or of another try, can be taken.
    FirstTurn {
        /// Its DeciderScheduled.
        scheduled_event_id: EventId,
    },
    /// A turn that was given back can be taken again.
    TurnAgain {
        /// Its DeciderScheduled.
        scheduled_event_id: EventId,
    },
    /// What the run owes to others is seen to again.
    Effects,
    /// What time will do to it.
    Deadline(DeadlineKind),
}

impl Run {
    /// Everything that is to come after `now`, in the order of time; and what should have come, first.
    pub fn future(&self, beats: &[Heartbeat], outbox: &Outbox, now: Timestamp) -> Vec<Coming> {
        let deadlines = self.deadlines(beats).into_iter();
        let mut coming: Vec<Coming> =
            deadlines.map(|Deadline { at, what }| Coming { at, what: ComingKind::Deadline(what) }).collect();
        coming.extend(self.held_turn(now));
        coming.extend(outbox.next_at().map(|at| Coming { at, what: ComingKind::Effects }));
        coming.sort_unstable_by_key(|coming| (coming.at, coming.what));
        coming
    }

    /// When the first of [`future`](Self::future) is; quicker.
    pub fn next_change(&self, beats: &[Heartbeat], outbox: &Outbox, now: Timestamp) -> Option<Timestamp> {
        let held = self.held_turn(now).map(|coming| coming.at);
        self.next_deadline(beats).into_iter().chain(held).chain(outbox.next_at()).min()
    }

    /// The turn that waits for a decider, while it is held back.
    pub fn held_turn(&self, now: Timestamp) -> Option<Coming> {
        let is_next = self.turn.is_none() && self.paused.is_none();
        let task = self.turn_task.as_ref().filter(|_| is_next)?;
        let at = task.not_before.filter(|at| *at > now)?;
        let scheduled_event_id = task.scheduled_event_id;
        // Only the turn of a delayed start is held back in its first attempt.
        let what = if task.attempt == 1 {
            ComingKind::FirstTurn { scheduled_event_id }
        } else {
            ComingKind::TurnAgain { scheduled_event_id }
        };
        Some(Coming { at, what })
    }
}
