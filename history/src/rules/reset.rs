//! Reset of a run: a new run continues from an earlier event of the run's history.
//!
//! | run is | events in this run | events in the new run |
//! |---|---|---|
//! | open | WorkflowTerminated, which names the new run | see below |
//! | closed | none; the plan is stored apart from the history | see below |
//!
//! The new run begins with these events:
//!
//! 1. The events up to the chosen event, copied from the history.
//! 2. WorkflowReset.
//! 3. DeciderScheduled, unless a turn is already waiting.
//! 4. The signals and cancel requests that the old run received after the chosen event, if they are reapplied.
//! 5. If the run consists of a single activity, the turn of the service (see `one_activity`).
//!
//! If the run closed as canceled, its decider has answered the cancel requests. Later cancel requests are then not
//! reapplied.
//!
//! Workers that hold tasks of the old run do not keep them in the new run. Activities that were held wait for runners
//! again, and their attempts are counted from the beginning. The time between the last copied event and the reset does
//! not count for timers and timeouts.

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
    /// Plans that a new run continues in place of this run. If this run is open, it is terminated. `key` and `by` are
    /// the idempotency key and the credential of the request. The caller must have checked that the reset is possible.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] if the operator's identity or reason is invalid.
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

    /// Creates the new run of a reset, with the events listed at the top of this file. The same arguments always yield
    /// the same result.
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
                // A cancel request makes a delayed first turn available. Whether the first turn is delayed depends on
                // the state of the new run.
                EventKind::WorkflowCancelRequested(request) => transition.cancel_request(request, now),
                signal => signal,
            };
            transition.push_by(now, kind, key, by);
        }
        transition.decide_only_activity(now);
        transition.run.branch_requests(reset.key, reset_event_id);
        transition.author = Author::default();
        transition.copied = transition.events().len();
        transition
    }
}

impl Run {
    /// Applies a reset to the copied state. Held activities wait for runners again, because their runners hold tasks of
    /// the other run. The time since the last copied event, which was at `since`, does not count for timers and
    /// timeouts.
    pub(crate) fn apply_reset(&mut self, it: &WorkflowReset, event: &Event, since: Timestamp) {
        let at = event.at();
        // If the clock is stopped, it stays stopped, and the stop keeps its beginning.
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
