//! Tasks on their way: to which poll each went, and to which it goes when that poll's answer was lost. Bookkeeping beside
//! the history: a task that is sent again has been started once.

use super::{Transition, must_be_open};
use crate::command::{TaskId, TurnId};
use crate::event::EventId;
use crate::fault::Fault;
use crate::links::PollId;

impl Transition {
    /// A started task whose poll had no answer goes to another, with nothing recorded.
    pub(super) fn send_again(
        &mut self,
        scheduled_event_id: EventId,
        lost: PollId,
        poll: Option<PollId>,
    ) -> Result<(), Fault> {
        must_be_open(&self.run)?;
        // Whoever else heard that the answer was lost may have been faster.
        if self.links.sent.poll_of(scheduled_event_id) != Some(lost) {
            return Err(Fault::ActivityNotWaiting { scheduled_event_id });
        }
        self.links.sent.send(scheduled_event_id, poll);
        self.has_changed_beside = true;
        Ok(())
    }

    /// Whether a turn that could not be delivered is still where it went; it may have been sent again since.
    pub(super) fn turn_must_be_with(&self, turn: TurnId, poll: Option<PollId>) -> Result<(), Fault> {
        let is_there = self.links.sent.poll_of(turn.scheduled_event_id) == poll;
        if is_there { Ok(()) } else { Err(Fault::TurnLost) }
    }

    /// The same of an activity.
    pub(super) fn activity_must_be_with(&self, task: TaskId, poll: Option<PollId>) -> Result<(), Fault> {
        let is_there = self.links.sent.poll_of(task.scheduled_event_id) == poll;
        if is_there { Ok(()) } else { Err(Fault::ActivityClosed) }
    }

    /// Forgets where tasks went that are started no longer.
    pub(super) fn forget_sent(&mut self) {
        if self.links.sent.is_empty() {
            return;
        }
        let run = &self.run;
        self.links.sent.retain(|id| {
            run.turn.as_ref().is_some_and(|turn| turn.scheduled_event_id == id)
                || run.activities.get(&id).is_some_and(|activity| activity.held_since().is_some())
        });
    }
}
