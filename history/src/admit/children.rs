//! Children: wanted, started, closed; and what becomes of them when their parent closes.

use super::{Outcome, Transition, must_be_open};
use crate::command::EffectResult;
use crate::decision::{DomainRoom, StartChild};
use crate::event::{
    ChildCanceled, ChildFailed, ChildPolicy, ChildScheduleFailed, ChildScheduleFailedCause, ChildScheduled,
    ChildStarted, ChildSuccess, ChildTerminated, ChildTimedOut, Event, EventId, EventKind, Origin,
    WorkflowCancelRequested, WorkflowTerminated,
};
use crate::fault::Fault;
use crate::ids::RunId;
use crate::limits;
use crate::links::{Effect, EffectKind, taken_over};
use crate::registered::Registration;
use crate::room;
use crate::run::{PendingChild, Request};
use crate::time::Timestamp;

/// The reason that a child is given when it is ended because its parent closed.
pub const PARENT_CLOSED: &str = "the parent has closed";

pub(super) fn not_tried(it: &StartChild, cause: ChildScheduleFailedCause, decision_event_id: EventId) -> EventKind {
    EventKind::ChildScheduleFailed(ChildScheduleFailed {
        workflow_id: it.workflow_id.clone(),
        cause,
        scheduled_event_id: None,
        decision_event_id,
        workflow_type: Some(it.workflow_type.clone()),
        control: it.control.clone(),
    })
}

impl Transition {
    pub(super) fn start_child(&mut self, it: &StartChild, decision_event_id: EventId) -> EventKind {
        let workflow_id = it.workflow_id.clone();
        if self.run.started.is_swf() {
            return self
                .child_in_swf(it, decision_event_id)
                .unwrap_or_else(|cause| not_tried(it, cause, decision_event_id));
        }
        let cause = if it.registration == Registration::Deprecated {
            Some(ChildScheduleFailedCause::WorkflowTypeDeprecated)
        } else if self.run.children.values().any(|child| child.workflow_id == workflow_id) {
            Some(ChildScheduleFailedCause::WorkflowAlreadyOpen)
        } else if self.run.children.len() + self.links.outbox.taken_over() >= limits::OPEN_CHILDREN_MAX {
            Some(ChildScheduleFailedCause::OpenChildrenLimit)
        } else if it.domain_room == DomainRoom::Full {
            Some(ChildScheduleFailedCause::OpenRunsLimit)
        } else if !self.has_room(|_| room::child(&workflow_id)) {
            Some(ChildScheduleFailedCause::StateLimit)
        } else {
            None
        };
        if let Some(cause) = cause {
            return not_tried(it, cause, decision_event_id);
        }
        let own = &self.run.started;
        let defaults = it.registration.defaults();
        let list = it.task_list.as_ref().or(defaults.and_then(|defaults| defaults.task_list.as_ref()));
        let default_timeout = defaults.and_then(|defaults| defaults.execution_timeout);
        let default_decider_timeout = defaults.and_then(|defaults| defaults.decider_start_to_close);
        EventKind::ChildScheduled(Box::new(ChildScheduled {
            workflow_id,
            workflow_type: it.workflow_type.clone(),
            task_list: list.unwrap_or(&own.task_list).clone(),
            input: it.input.clone(),
            execution_timeout: it.execution_timeout.or(default_timeout).unwrap_or(limits::EXECUTION_TIMEOUT_DEFAULT),
            decider_start_to_close: it
                .decider_start_to_close
                .or(default_decider_timeout)
                .unwrap_or(own.decider_start_to_close),
            decider_schedule_to_start: it.decider_schedule_to_start.or(own.decider_schedule_to_start),
            activity_timeouts: it.activity_timeouts.or(own.activity_timeouts),
            tags: it.tags.clone(),
            retention: it.retention.unwrap_or(own.retention),
            reuse_policy: it.reuse_policy,
            child_policy: it.child_policy,
            decision_event_id,
            run_timeout: it.run_timeout,
            retry: it.retry.clone(),
            control: it.control.clone(),
            swf: None,
        }))
    }

    /// What a run that closes owes: their end to its children, in the order they were wanted, and its own to its parent.
    pub(super) fn owe_at_close(&mut self, event: &Event) {
        let now = event.timestamp;
        let ends: Vec<Effect> = self
            .run
            .children
            .iter()
            .filter(|(_, child)| self.run.started.policy_at_close(child.policy, &event.kind) != ChildPolicy::Abandon)
            .map(|(scheduled_event_id, child)| {
                Effect::new(*scheduled_event_id, EffectKind::EndChild, &child.workflow_id)
            })
            .collect();
        // The parent of a run that goes on sees one child: the run that closes in another way tells it.
        let goes_on = event.kind.followed_by().is_some();
        let tells = self.run.started.parent.as_ref().filter(|_| !goes_on);
        let tells = tells.map(|parent| Effect::new(event.id, EffectKind::TellParent, &parent.workflow_id));
        for effect in ends.into_iter().chain(tells) {
            self.links.outbox.add(effect, now);
        }
    }

    /// What became of the start of a child.
    pub(super) fn settle_start(&mut self, scheduled_event_id: EventId, result: EffectResult, now: Timestamp) {
        let Some(child) = self.run.children.get(&scheduled_event_id) else { return };
        let cause = match result {
            EffectResult::Done { run_id } => return self.child_started(scheduled_event_id, run_id, now),
            EffectResult::ReuseRefused => ChildScheduleFailedCause::WorkflowIdReuseRefused,
            EffectResult::NeverStarts => ChildScheduleFailedCause::StartRefused,
            EffectResult::AlreadyOpen | EffectResult::Closed | EffectResult::Unknown => {
                ChildScheduleFailedCause::WorkflowAlreadyOpen
            }
        };
        let (workflow_id, decision_event_id) = (child.workflow_id.clone(), child.decision_event_id);
        let scheduled_event_id = Some(scheduled_event_id);
        // What else there is to say of it, its ChildScheduled says.
        let (workflow_type, control) = (None, None);
        let failed =
            ChildScheduleFailed { workflow_id, cause, scheduled_event_id, decision_event_id, workflow_type, control };
        self.push(now, EventKind::ChildScheduleFailed(failed));
    }

    fn child_started(&mut self, scheduled_event_id: EventId, run_id: RunId, now: Timestamp) {
        let child = self.run.children.get(&scheduled_event_id);
        let Some(child) = child.filter(|child| child.started_event_id.is_none()) else { return };
        let workflow_id = child.workflow_id.clone();
        self.push(now, EventKind::ChildStarted(ChildStarted { workflow_id, run_id, scheduled_event_id }));
    }

    /// A child says how it closed.
    pub(super) fn take_child_close(
        &mut self,
        scheduled_event_id: EventId,
        run_id: RunId,
        close: &EventKind,
        now: Timestamp,
    ) -> Result<Outcome, Fault> {
        must_be_open(&self.run)?;
        let nothing = self.nothing_to_do();
        if !self.run.children.contains_key(&scheduled_event_id) {
            return Ok(nothing);
        }
        let first = Outcome::Recorded(self.run.last_event_id + 1);
        // That it has closed may be heard before that it has started.
        self.links.outbox.remove(None, scheduled_event_id, EffectKind::StartChild);
        self.child_started(scheduled_event_id, run_id, now);
        let child = self.run.children.get(&scheduled_event_id);
        let Some(PendingChild { workflow_id, started_event_id: Some(started_event_id), .. }) = child else {
            return Ok(nothing);
        };
        let (workflow_id, started_event_id) = (workflow_id.clone(), *started_event_id);
        let Some(kind) = closed_child(workflow_id, run_id, scheduled_event_id, started_event_id, close) else {
            return Ok(nothing);
        };
        self.push(now, kind);
        Ok(first)
    }

    fn nothing_to_do(&self) -> Outcome {
        let (run_id, event_id) = (self.run.started.run_id, self.run.last_event_id);
        Outcome::Repeated(Request { run_id, event_id })
    }

    /// A child has closed whose parent has, too: it need not be started any more, which would be once again, nor ended.
    pub(super) fn child_is_over(&mut self, parent: RunId, scheduled_event_id: EventId) {
        let of = taken_over(self.run.started.run_id, parent);
        for kind in [EffectKind::StartChild, EffectKind::EndChild] {
            self.has_changed_beside |= self.links.outbox.remove(of, scheduled_event_id, kind);
        }
    }

    /// The parent has closed.
    pub(super) fn take_parent_close(
        &mut self,
        origin: &Origin,
        policy: ChildPolicy,
        now: Timestamp,
    ) -> Result<Outcome, Fault> {
        let (reason, from) = (Some(PARENT_CLOSED.to_owned()), Some(origin.clone()));
        let kind = match policy {
            ChildPolicy::Abandon => return Ok(self.nothing_to_do()),
            ChildPolicy::Terminate => EventKind::WorkflowTerminated(WorkflowTerminated {
                cause: None,
                reset: None,
                reason,
                details: None,
                identity: None,
                origin: from,
                child_policy: None,
            }),
            ChildPolicy::RequestCancel => {
                EventKind::WorkflowCancelRequested(WorkflowCancelRequested { reason, identity: None, origin: from })
            }
        };
        self.take(origin, kind, now)
    }
}

/// How a child closed, as its parent records it; `None` for what closes no run.
fn closed_child(
    workflow_id: String,
    run_id: RunId,
    scheduled_event_id: EventId,
    started_event_id: EventId,
    close: &EventKind,
) -> Option<EventKind> {
    Some(match close {
        EventKind::WorkflowSuccess(it) => {
            let result = it.result.clone();
            EventKind::ChildSuccess(ChildSuccess { workflow_id, run_id, scheduled_event_id, started_event_id, result })
        }
        EventKind::WorkflowFailed(it) => {
            let (reason, details) = (it.reason.clone(), it.details.clone());
            EventKind::ChildFailed(ChildFailed {
                workflow_id,
                run_id,
                scheduled_event_id,
                started_event_id,
                reason,
                details,
            })
        }
        EventKind::WorkflowTimedOut(it) => {
            let timeout = it.timeout;
            EventKind::ChildTimedOut(ChildTimedOut {
                workflow_id,
                run_id,
                scheduled_event_id,
                started_event_id,
                timeout,
            })
        }
        EventKind::WorkflowCanceled(it) => {
            let details = it.details.clone();
            EventKind::ChildCanceled(ChildCanceled {
                workflow_id,
                run_id,
                scheduled_event_id,
                started_event_id,
                details,
            })
        }
        EventKind::WorkflowTerminated(it) => {
            let reason = it.reason.clone();
            EventKind::ChildTerminated(ChildTerminated {
                workflow_id,
                run_id,
                scheduled_event_id,
                started_event_id,
                reason,
            })
        }
        _ => return None,
    })
}
