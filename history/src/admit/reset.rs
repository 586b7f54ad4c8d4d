//! Resetting a run: another one goes on from an earlier event of it.

use super::{Transition, validate};
use crate::author::{Author, CallerName};
use crate::event::{ByHand, EventKind, RequestKey, ResetPlan, WorkflowReset, WorkflowTerminated};
use crate::fault::Fault;
use crate::links::PlannedReset;
use crate::reset::Branch;
use crate::time::Timestamp;

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
        let at = now.max(self.run.last_timestamp);
        if self.run.is_open() {
            let ByHand { identity, reason } = by_hand.clone();
            let (details, origin, child_policy, reset) = (None, None, None, Some(plan));
            let terminated = WorkflowTerminated { reason, details, identity, origin, child_policy, reset, cause: None };
            self.push_by(at, EventKind::WorkflowTerminated(terminated), key, by);
        } else {
            self.links.reset = Some(Box::new(PlannedReset { plan, by_hand: by_hand.clone(), at, key, by }));
            self.has_changed_beside = true;
        }
        Ok(())
    }

    /// The run that branches off there: the other run's events, WorkflowReset, DeciderScheduled unless a turn waits, and the
    /// signals that it takes along. Whoever begins it, and however often, begins the same.
    pub fn branch(branch: Branch, reset: &PlannedReset) -> Self {
        let Branch { mut events, signals, mut run } = branch;
        run.started.run_id = reset.plan.new_run_id;
        for event in &mut events {
            if let EventKind::WorkflowStarted(started) = &mut event.kind {
                started.run_id = reset.plan.new_run_id;
            }
        }
        let now = reset.at.max(run.last_timestamp);
        let author = Author::named(reset.by.clone());
        let mut transition = Self { events, author, ..Self::of(run) };
        let ByHand { identity, reason } = reset.by_hand.clone();
        let ResetPlan { run_id, event_id, signals: later, .. } = reset.plan;
        let reset_event = WorkflowReset { run_id, event_id, workflow_id: None, signals: later, identity, reason };
        transition.push_keyed(now, EventKind::WorkflowReset(reset_event), reset.key);
        let reset_event_id = transition.run.last_event_id;
        transition.schedule_turn(now);
        for signal in signals {
            transition.push_by(now, signal.kind, signal.key, signal.by);
        }
        transition.run.branch_requests(reset.key, reset_event_id);
        transition.author = Author::default();
        transition.copied = transition.events.len();
        transition
    }

    /// How many of its first events are the same whoever admits them: those of a run that branches off another.
    pub fn copied(&self) -> usize {
        self.copied
    }
}
