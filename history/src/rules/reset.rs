//! Resetting a run: another one goes on from an earlier event of it.
//!
//! | while the run is | it is reset | the run that goes on begins with |
//! |---|---|---|
//! | open | WorkflowTerminated, which names the other one | its events up to there, WorkflowReset, DeciderScheduled unless a turn waits, and the signals and cancel requests that came later |
//! | closed | nothing; it is kept beside its history which run goes on | the same |
//!
//! A run that closed as canceled has answered its cancel requests: those that came later than the event that it goes back to
//! are not repeated.
//!
//! In the run that goes on nobody has a task of the other one: activities that were held are handed out once more, their tries are counted
//! anew, and the time since then does not count.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{ByHand, Event, EventKind, RequestKey, ResetPlan, WorkflowReset, WorkflowTerminated};
use crate::fault::Fault;
use crate::links::PlannedReset;
use crate::reset::Branch;
use crate::run::{Branched, Released, Run};
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::validate;

impl Transition {
    /// Has the run of the plan go on in place of this one, which is terminated if it is open; by a request with this key, of this
    /// credential. That the plan can be carried out
    /// is for its maker to have found out.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] for who does it, and why.
    pub fn plan_reset(
        &mut self,
        plan: ResetPlan,
        by_hand: &ByHand,
        (key, by): (Option<RequestKey>, Option<CallerName>),
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::by_hand(by_hand)?;
        if self.run.is_open() {
            let ByHand { identity, reason } = by_hand.clone();
            let reset = Some(plan);
            let terminated = WorkflowTerminated { reason, identity, reset, ..WorkflowTerminated::default() };
            self.push_by(now, EventKind::WorkflowTerminated(terminated), key, by);
        } else {
            self.links.reset = Some(Box::new(PlannedReset { plan, by_hand: by_hand.clone(), at: now, key, by }));
            self.has_changed_beside = true;
        }
        Ok(())
    }

    /// The run that branches off there: the other run's events, WorkflowReset, DeciderScheduled unless a turn waits, and
    /// the signals and cancel requests that it takes along. Every caller that begins it, however often, gets the same run.
    pub fn branch(branch: Branch, reset: &PlannedReset) -> Self {
        let Branch { mut events, later: requests, mut run } = branch;
        run.started.run_id = reset.plan.new_run_id;
        for event in &mut events {
            if let EventKind::WorkflowStarted(started) = &mut event.kind {
                started.run_id = reset.plan.new_run_id;
            }
        }
        let now = reset.at;
        let author = Author::named(reset.by.clone());
        let mut transition = Self::beginning(run, events, author);
        let ByHand { identity, reason } = reset.by_hand.clone();
        let ResetPlan { run_id, event_id, signals: later, .. } = reset.plan;
        let reset_event = WorkflowReset { run_id, event_id, workflow_id: None, signals: later, identity, reason };
        transition.push_keyed(now, EventKind::WorkflowReset(reset_event), reset.key);
        let reset_event_id = transition.run.last_event_id;
        transition.schedule_turn(now);
        for Event { kind, key, by, .. } in requests {
            let kind = match kind {
                // Whether it releases the first turn depends on where that stands in this run.
                EventKind::WorkflowCancelRequested(request) => transition.cancel_request(request, now),
                signal => signal,
            };
            transition.push_by(now, kind, key, by);
        }
        transition.run.branch_requests(reset.key, reset_event_id);
        transition.author = Author::default();
        transition.copied = transition.events().len();
        transition
    }
}

impl Run {
    /// From here on it is a run of its own. Whoever has an activity has it of the other run, so it is handed out once more;
    /// the time since the other run was here does not count. `since` is when that was.
    pub(crate) fn branch(&mut self, it: &WorkflowReset, event: &Event, since: Timestamp) {
        let at = event.at();
        // A clock that stands still goes on standing still, since whenever it does.
        if self.clock.stopped_at().is_none() {
            if since < at {
                self.clock.stop(since);
                self.start_clock(at);
            } else {
                self.timers_come_back(since, at);
            }
        }
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
        self.activities.begin_anew(Released { event_id: event.id, at });
        let (workflow_id, run_id, base_event_id) = (it.workflow_id.clone(), it.run_id, it.event_id);
        self.branched = Some(Box::new(Branched { event_id: event.id, run_id, base_event_id, workflow_id }));
    }
}

#[cfg(test)]
mod tests;
