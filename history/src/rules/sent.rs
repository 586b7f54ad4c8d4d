//! Polls to which started tasks were sent, and redelivery after the response to a poll was lost. This data is not part
//! of the history, because a redelivered task counts as started only once.
//!
//! | task is | start | `Redeliver` | delivery failed |
//! |---|---|---|---|
//! | waiting | sent to the poll | fails with activity-not-waiting | fails |
//! | held, sent to the poll in the request | – | sent to the new poll | recorded as failed (`turn`, `activity`) |
//! | held, sent to another poll | – | fails with activity-not-waiting | fails with turn-lost or activity-closed |
//! | no longer held | – | fails with activity-not-waiting | fails |

use crate::event::EventId;
use crate::fault::Fault;
use crate::links::PollId;
use crate::transition::{Transition, must_be_open};

impl Transition {
    /// Sends a started task to another poll, because the response to the previous poll was lost. Records no event.
    pub(crate) fn redeliver(
        &mut self,
        scheduled_event_id: EventId,
        lost: PollId,
        poll: Option<PollId>,
    ) -> Result<(), Fault> {
        must_be_open(&self.run)?;
        // The task may already have been sent to a third poll.
        if self.links.sent.poll_of(scheduled_event_id) != Some(lost) {
            return Err(Fault::ActivityNotWaiting { scheduled_event_id });
        }
        self.links.sent.send(scheduled_event_id, poll);
        self.has_unrecorded_changes = true;
        Ok(())
    }

    /// Removes the polls of tasks that are no longer held.
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
