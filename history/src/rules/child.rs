//! Children. A child is a run that another run, its parent, starts. The child's outcome is reported to the parent. If
//! the parent closes first, a policy is applied to the child.
//!
//! | child is | input | result |
//! |---|---|---|
//! | not open | StartChild | ChildScheduled |
//! | scheduled or started | StartChild | ChildScheduleFailed (`WorkflowAlreadyOpen`) |
//! | scheduled | its start succeeds | ChildStarted |
//! | scheduled | its start is refused | ChildScheduleFailed |
//! | scheduled | it closes | ChildStarted, followed by the event of its close |
//! | started | it closes | ChildSuccess, ChildFailed, ChildTimedOut, ChildCanceled or ChildTerminated |
//! | scheduled or started | the parent closes | its policy applies |
//!
//! Scheduling also fails in these cases:
//!
//! * [`OPEN_CHILDREN_MAX`](limits::OPEN_CHILDREN_MAX) children are open (`OpenChildrenLimit`).
//! * The domain has no capacity for another run (`OpenRunsLimit`).
//! * The state of the run has no space for another child (`StateLimit`).
//! * The workflow type of the child is deprecated (`WorkflowTypeDeprecated`).
//!
//! All events except ChildScheduled and ChildStarted schedule a turn; in SWF runs, ChildStarted does too. A child
//! that continues as new, is retried or is reset counts as one child: its parent receives only the outcome of the
//! last run.
//!
//! | policy of the child | event in the child if the parent closes first |
//! |---|---|
//! | `Abandon` | none |
//! | `Terminate` | WorkflowTerminated |
//! | `RequestCancel` | WorkflowCancelRequested |

use crate::command::EffectResult;
use crate::decision::StartChild;
use crate::decision_context::{DecisionContext, DomainCapacity, Registration};
use crate::event::{
    ActivityTimeouts, ChildCanceled, ChildFailed, ChildPolicy, ChildScheduleFailed, ChildScheduleFailedCause,
    ChildScheduled, ChildStarted, ChildSuccess, ChildTerminated, ChildTimedOut, EventId, EventKind, Origin,
    WorkflowCancelRequested, WorkflowTerminated,
};
use crate::fault::Fault;
use crate::ids::RunId;
use crate::limits;
use crate::links::{EffectKind, taken_over};
use crate::run::{PendingChild, Run};
use crate::state_budget;
use crate::time::Timestamp;
use crate::transition::{CommandOutcome, Transition, must_be_open};
use crate::validate;

/// Reason recorded in a child that is terminated or asked to cancel because its parent closed.
pub const PARENT_CLOSED: &str = "the parent has closed";

pub(crate) fn validate_start(field: &impl Fn(&str) -> String, it: &StartChild, is_swf: bool) -> Result<(), Fault> {
    validate::control(field, it.control.as_deref())?;
    validate::name(&field("workflowId"), &it.workflow_id)?;
    validate::type_name(&field("workflowType"), &it.workflow_type)?;
    it.task_list.as_ref().map_or(Ok(()), |list| validate::name(&field("taskList"), list))?;
    validate::payload(&field("input"), it.input.as_ref())?;
    validate::timeout(field("executionTimeout"), it.execution_timeout)?;
    validate::timeout(field("deciderStartToClose"), it.decider_start_to_close)?;
    validate::timeout(field("deciderScheduleToStart"), it.decider_schedule_to_start)?;
    validate::timeouts(&field("activityTimeouts"), it.activity_timeouts)?;
    it.retention.map_or(Ok(()), |retention| validate::span(field("retention"), retention))?;
    validate::timeout(field("runTimeout"), it.run_timeout)?;
    validate::retry_of_workflow(&field("retry"), it.retry.as_ref())?;
    validate::concurrency_key(field("concurrencyKey"), it.concurrency_key.as_deref())?;
    validate::lambda_role(field("swf.lambdaRole"), it.swf.lambda_role.as_deref())?;
    validate::tags(&field("tags"), &it.tags, is_swf)
}

pub(crate) fn not_scheduled(it: &StartChild, cause: ChildScheduleFailedCause, decision_event_id: EventId) -> EventKind {
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
    pub(crate) fn start_child(
        &mut self,
        it: &StartChild,
        context: &DecisionContext,
        capacity: DomainCapacity,
        decision_event_id: EventId,
    ) -> EventKind {
        self.child(it, context, capacity, decision_event_id)
            .unwrap_or_else(|cause| not_scheduled(it, cause, decision_event_id))
    }

    fn child(
        &mut self,
        it: &StartChild,
        context: &DecisionContext,
        capacity: DomainCapacity,
        decision_event_id: EventId,
    ) -> Result<EventKind, ChildScheduleFailedCause> {
        let is_swf = self.run.started.is_swf();
        let in_swf = if is_swf {
            Some(self.child_in_swf(it, context, capacity)?)
        } else {
            self.may_have_child(it, context, capacity).map(|()| None)?
        };
        if !self.has_space(|_| state_budget::child(&it.workflow_id)) {
            return Err(ChildScheduleFailedCause::StateLimit);
        }
        let own = &self.run.started;
        let defaults = context.of_child(it).defaults();
        let list = it.task_list.as_ref().or(defaults.and_then(|defaults| defaults.task_list.as_ref()));
        let timeout = it.execution_timeout.or(defaults.and_then(|defaults| defaults.execution_timeout));
        let turn_timeout = it.decider_start_to_close.or(defaults.and_then(|it| it.decider_start_to_close));
        let child = ChildScheduled {
            workflow_id: it.workflow_id.clone(),
            workflow_type: it.workflow_type.clone(),
            task_list: list.unwrap_or(&own.task_list).clone(),
            input: it.input.clone(),
            execution_timeout: timeout.unwrap_or(limits::EXECUTION_TIMEOUT_DEFAULT),
            decider_start_to_close: turn_timeout.unwrap_or(own.decider_start_to_close),
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
            concurrency_key: it.concurrency_key.clone().or_else(|| own.concurrency_key.clone()),
        };
        let Some((task_list, settled)) = in_swf else { return Ok(EventKind::ChildScheduled(Box::new(child))) };
        Ok(EventKind::ChildScheduled(Box::new(ChildScheduled {
            task_list,
            execution_timeout: settled.execution_timeout,
            decider_start_to_close: settled.decider_start_to_close,
            decider_schedule_to_start: None,
            activity_timeouts: ActivityTimeouts::default(),
            // In SWF runs, the parent's own child policy applies.
            child_policy: ChildPolicy::Abandon,
            swf: Some(settled.run),
            ..child
        })))
    }

    fn may_have_child(
        &self,
        it: &StartChild,
        context: &DecisionContext,
        capacity: DomainCapacity,
    ) -> Result<(), ChildScheduleFailedCause> {
        use ChildScheduleFailedCause as Cause;
        let open = self.run.children.len() + self.links.outbox.taken_over();
        if *context.of_child(it) == Registration::Deprecated {
            Err(Cause::WorkflowTypeDeprecated)
        } else if self.run.children.values().any(|child| child.workflow_id == it.workflow_id) {
            Err(Cause::WorkflowAlreadyOpen)
        } else if open >= limits::OPEN_CHILDREN_MAX {
            Err(Cause::OpenChildrenLimit)
        } else if capacity == DomainCapacity::Full {
            Err(Cause::OpenRunsLimit)
        } else {
            Ok(())
        }
    }

    /// Records the outcome of starting a child.
    pub(crate) fn settle_start(&mut self, scheduled_event_id: EventId, result: EffectResult, now: Timestamp) {
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
        // The ChildScheduled event of the child already contains the workflow type and the control data.
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

    /// Records that a child closed, as reported by the child.
    pub(crate) fn take_child_close(
        &mut self,
        scheduled_event_id: EventId,
        run_id: RunId,
        close: &EventKind,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        must_be_open(&self.run)?;
        let nothing = self.nothing_to_do();
        if !self.run.children.contains_key(&scheduled_event_id) {
            return Ok(nothing);
        }
        let first = CommandOutcome::Recorded(self.run.last_event_id + 1);
        // The report of the child's close can arrive before the report of its start.
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

    /// Removes the pending effects on a child that has closed after its parent. The child is then neither started again
    /// nor ended.
    pub(crate) fn drop_child_effects(&mut self, parent: RunId, scheduled_event_id: EventId) {
        let of = taken_over(self.run.started.run_id, parent);
        for kind in [EffectKind::StartChild, EffectKind::EndChild] {
            self.has_unrecorded_changes |= self.links.outbox.remove(of, scheduled_event_id, kind);
        }
    }

    /// Applies the child policy to this run after its parent has closed.
    pub(crate) fn take_parent_close(
        &mut self,
        origin: &Origin,
        policy: ChildPolicy,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        let (reason, from) = (Some(PARENT_CLOSED.to_owned()), Some(origin.clone()));
        let kind = match policy {
            ChildPolicy::Abandon => return Ok(self.nothing_to_do()),
            ChildPolicy::Terminate => EventKind::WorkflowTerminated(WorkflowTerminated {
                reason,
                origin: from,
                ..WorkflowTerminated::default()
            }),
            ChildPolicy::RequestCancel => {
                let request = WorkflowCancelRequested { reason, origin: from, ..WorkflowCancelRequested::default() };
                self.cancel_request(request, now)
            }
        };
        self.take(origin, kind, now)
    }
}

/// Returns the event with which the parent records that a child closed. Returns `None` if `close` does not close a run.
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
        EventKind::WorkflowFailed(it) => EventKind::ChildFailed(ChildFailed {
            workflow_id,
            run_id,
            scheduled_event_id,
            started_event_id,
            reason: it.reason.clone(),
            details: it.details.clone(),
            has_empty_reason: it.has_empty_reason,
        }),
        EventKind::WorkflowTimedOut(it) => {
            let timeout = it.timeout;
            let it = ChildTimedOut { workflow_id, run_id, scheduled_event_id, started_event_id, timeout };
            EventKind::ChildTimedOut(it)
        }
        EventKind::WorkflowCanceled(it) => {
            let details = it.details.clone();
            let it = ChildCanceled { workflow_id, run_id, scheduled_event_id, started_event_id, details };
            EventKind::ChildCanceled(it)
        }
        EventKind::WorkflowTerminated(it) => {
            let reason = it.reason.clone();
            let it = ChildTerminated { workflow_id, run_id, scheduled_event_id, started_event_id, reason };
            EventKind::ChildTerminated(it)
        }
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => return None,
    })
}

impl Run {
    pub(crate) fn apply_child_scheduled(&mut self, event_id: EventId, it: &ChildScheduled) {
        let child = PendingChild {
            workflow_id: it.workflow_id.clone(),
            decision_event_id: it.decision_event_id,
            policy: it.child_policy,
            started_event_id: None,
        };
        self.children.insert(event_id, child);
    }

    pub(crate) fn apply_child_started(&mut self, event_id: EventId, scheduled_event_id: EventId) {
        if let Some(child) = self.children.get_mut(&scheduled_event_id) {
            child.started_event_id = Some(event_id);
        }
    }

    /// Removes a child that has closed or could not be started. `None` stands for a child that was never scheduled.
    pub(crate) fn remove_child(&mut self, scheduled_event_id: Option<EventId>) {
        if let Some(scheduled_event_id) = scheduled_event_id {
            self.children.remove(&scheduled_event_id);
        }
    }
}

#[cfg(test)]
mod tests;
