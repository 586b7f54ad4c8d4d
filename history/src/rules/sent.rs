//! Tasks on their way: to which poll each went, and to which it goes when that poll's answer was lost. Bookkeeping beside the
//! history: a task that is sent again has been started once.
//!
//! | while the task | it is started | its poll's answer was lost (`SendAgain`) | it could not be delivered |
//! |---|---|---|---|
//! | waits | it is with that poll | refused (activity-not-waiting) | refused |
//! | is held, and with that poll | – | it is with another poll | it is given back (`turn`, `activity`) |
//! | is held, and with another poll | – | refused (activity-not-waiting) | refused (turn-lost, activity-closed) |
//! | is held no more | – | refused (activity-not-waiting) | refused |

use crate::event::EventId;
use crate::fault::Fault;
use crate::links::PollId;
use crate::transition::{Transition, must_be_open};

impl Transition {
    /// A started task whose poll had no answer goes to another, with nothing recorded.
    pub(crate) fn send_again(
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

    /// Forgets where tasks went that are started no longer.
    pub(crate) fn forget_sent(&mut self) {
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

#[cfg(test)]
mod tests;
