//! Reset of a run: a new run continues from an earlier event of its history.
//!
//! | run is | events in this run | events in the new run |
//! |---|---|---|
//! | open | WorkflowTerminated, which names the new run | see below |
//! | closed | none; the plan is stored apart from the history | see below |
//!
//! The new run begins with these events:
//!
//! 1. the copied events up to the chosen one,
//! 2. WorkflowReset,
//! 3. DeciderScheduled, unless a turn is already waiting,
//! 4. the later signals and cancel requests, if they are reapplied.
//!
//! A run that closed as canceled has answered its cancel requests, so the later ones are not reapplied.
//!
//! The new run does not inherit held tasks: held activities are handed out again, their attempts are counted from
//! the beginning, and the time since the copied events does not count.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{Event, EventKind, OperatorAction, RequestKey, ResetPlan, WorkflowReset, WorkflowTerminated};
use crate::fault::Fault;
use crate::links::PlannedReset;
use crate::reset::Branch;
use crate::run::{Branched, Released, Run};
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::validate;

impl Transition {
    /// Makes the planned run continue instead of this one, which is terminated if it is open. The request has this
    /// key and credential. The caller must have checked that the plan can be carried out.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] for the operator's identity or reason.
    pub fn plan_reset(
        &mut self,
        plan: ResetPlan,
        operator: &OperatorAction,
        key: Option<RequestKey>,
        by: Option<CallerName>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::operator(operator)?;
        if self.run.is_open() {
            let OperatorAction { identity, reason } = operator.clone();
            let reset = Some(plan);
            let terminated = WorkflowTerminated { reason, identity, reset, ..WorkflowTerminated::default() };
            self.push_by(now, EventKind::WorkflowTerminated(terminated), key, by);
        } else {
            self.links.reset = Some(Box::new(PlannedReset { plan, operator: operator.clone(), at: now, key, by }));
            self.has_unrecorded_changes = true;
        }
        Ok(())
    }

    /// Creates the new run of a reset: the copied events, WorkflowReset, DeciderScheduled unless a turn waits, and
    /// the reapplied requests. The result is the same however often it is computed.
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
        let OperatorAction { identity, reason } = reset.operator.clone();
        let ResetPlan { run_id, event_id, signals: later, .. } = reset.plan;
        let reset_event = WorkflowReset { run_id, event_id, workflow_id: None, signals: later, identity, reason };
        transition.push_keyed(now, EventKind::WorkflowReset(reset_event), reset.key);
        let reset_event_id = transition.run.last_event_id;
        transition.schedule_turn(now);
        for Event { kind, key, by, .. } in requests {
            let kind = match kind {
                // Whether the request releases the first turn depends on the state of the new run.
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
    /// Separates the state from the run it branched off. Held activities are handed out again, because their
    /// runners hold tasks of the other run. The time since the other run's last copied event, `since`, does not
    /// count.
    pub(crate) fn apply_reset(&mut self, it: &WorkflowReset, event: &Event, since: Timestamp) {
        let at = event.at();
        // A stopped clock stays stopped, with its original start.
        if self.clock.stopped_at().is_none() {
            if since < at {
                self.clock.stop(since);
                self.start_clock(at);
            } else {
                self.rewind_timers(since, at);
            }
        }
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
        self.activities.reset_to_waiting(Released { event_id: event.id, at });
        let (workflow_id, run_id, base_event_id) = (it.workflow_id.clone(), it.run_id, it.event_id);
        self.branched = Some(Box::new(Branched { event_id: event.id, run_id, base_event_id, workflow_id }));
    }
}

#[cfg(test)]
mod tests;
