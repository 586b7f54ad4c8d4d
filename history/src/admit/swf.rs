//! Decisions in runs of SWF's dialect: what must be said by the decision or by its type, because nothing is inherited.
//!
//! Source: SWF's API reference.

use super::Transition;
use crate::decision::{ContinueAsNew, DomainRoom, ScheduleActivity, StartChild};
use crate::dialect::{LAMBDA_LIST, SwfLimits, SwfRun, SwfSuccessor};
use crate::event::{
    ActivityScheduleFailedCause, ActivityTimeouts, ChildPolicy, ChildScheduleFailedCause, ChildScheduled,
    CloseDecision, CloseFailedCause, EventId, EventKind, TerminatedCause, WorkflowCloseFailed, WorkflowContinuedAsNew,
    WorkflowTerminated,
};
use crate::limits;
use crate::links::child_run_id;
use crate::registered::{ActivityDefaults, Registration, WorkflowDefaults};
use crate::room;
use crate::time::{Duration, Timestamp};

/// Whether it is a Lambda task, in a run of SWF's dialect.
pub(super) fn is_lambda(it: &ScheduleActivity) -> bool {
    it.task_list.as_deref() == Some(LAMBDA_LIST)
}

/// What neither an activity's decision nor its type says, and must.
pub(super) fn undefined_activity(it: &ScheduleActivity) -> Option<ActivityScheduleFailedCause> {
    use ActivityScheduleFailedCause as Cause;
    if is_lambda(it) {
        // Functions have no types; whether there are any is what is known of them.
        return it.registration.defaults().is_none().then_some(Cause::LambdaUnavailable);
    }
    let Registration::Known(defaults) = &it.registration else { return Some(Cause::ActivityTypeUnknown) };
    let ActivityDefaults { task_list, timeouts, .. } = &**defaults;
    let ActivityTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } =
        it.timeouts.or(*timeouts);
    let said = [
        (schedule_to_close.is_some(), Cause::DefaultScheduleToCloseUndefined),
        (it.task_list.is_some() || task_list.is_some(), Cause::DefaultTaskListUndefined),
        (schedule_to_start.is_some(), Cause::DefaultScheduleToStartUndefined),
        (start_to_close.is_some(), Cause::DefaultStartToCloseUndefined),
        (heartbeat.is_some(), Cause::DefaultHeartbeatUndefined),
    ];
    said.into_iter().find(|(is_said, _)| !is_said).map(|(_, cause)| cause)
}

/// What a run that is to be started must have, by whatever decision.
struct Wanted<'a> {
    execution_timeout: Option<Duration>,
    task_list: Option<&'a String>,
    decider_start_to_close: Option<Duration>,
    child_policy: Option<ChildPolicy>,
}

/// The same, complete.
struct Settled {
    execution_timeout: Duration,
    task_list: String,
    decider_start_to_close: Duration,
    child_policy: ChildPolicy,
}

/// What is missing.
enum Missing {
    ExecutionTimeout,
    TaskList,
    DeciderTimeout,
    ChildPolicy,
}

impl Wanted<'_> {
    fn settle(self, defaults: &WorkflowDefaults) -> Result<Settled, Missing> {
        Ok(Settled {
            execution_timeout: self
                .execution_timeout
                .or(defaults.execution_timeout)
                .ok_or(Missing::ExecutionTimeout)?,
            task_list: self.task_list.or(defaults.task_list.as_ref()).ok_or(Missing::TaskList)?.clone(),
            decider_start_to_close: self
                .decider_start_to_close
                .or(defaults.decider_start_to_close)
                .ok_or(Missing::DeciderTimeout)?,
            child_policy: self.child_policy.or(defaults.child_policy).ok_or(Missing::ChildPolicy)?,
        })
    }
}

impl Transition {
    /// A child in SWF's dialect: all that it is comes from the decision or from its type.
    pub(super) fn child_in_swf(
        &mut self,
        it: &StartChild,
        decision_event_id: EventId,
    ) -> Result<EventKind, ChildScheduleFailedCause> {
        use ChildScheduleFailedCause as Cause;
        let defaults = match &it.registration {
            Registration::Unknown => return Err(Cause::WorkflowTypeUnknown),
            Registration::Deprecated => return Err(Cause::WorkflowTypeDeprecated),
            Registration::Known(defaults) => defaults,
        };
        if self.run.children.len() >= limits::OPEN_CHILDREN_MAX {
            return Err(Cause::OpenChildrenLimit);
        }
        if it.domain_room != DomainRoom::Free {
            return Err(Cause::OpenRunsLimit);
        }
        let wanted = Wanted {
            execution_timeout: it.execution_timeout,
            task_list: it.task_list.as_ref(),
            decider_start_to_close: it.decider_start_to_close,
            child_policy: it.swf.child_policy,
        };
        let settled = wanted.settle(defaults).map_err(|missing| match missing {
            Missing::ExecutionTimeout => Cause::DefaultExecutionTimeoutUndefined,
            Missing::TaskList => Cause::DefaultTaskListUndefined,
            Missing::DeciderTimeout => Cause::DefaultDeciderTimeoutUndefined,
            Missing::ChildPolicy => Cause::DefaultChildPolicyUndefined,
        })?;
        if !self.has_room(|_| room::child(&it.workflow_id)) {
            return Err(Cause::StateLimit);
        }
        Ok(EventKind::ChildScheduled(Box::new(ChildScheduled {
            workflow_id: it.workflow_id.clone(),
            workflow_type: it.workflow_type.clone(),
            task_list: settled.task_list,
            input: it.input.clone(),
            execution_timeout: settled.execution_timeout,
            decider_start_to_close: settled.decider_start_to_close,
            decider_schedule_to_start: None,
            activity_timeouts: ActivityTimeouts::default(),
            tags: it.tags.clone(),
            retention: it.retention.unwrap_or(self.run.started.retention),
            reuse_policy: it.reuse_policy,
            // What becomes of it is for this run's own policy to say.
            child_policy: ChildPolicy::Abandon,
            decision_event_id,
            run_timeout: it.run_timeout,
            retry: it.retry.clone(),
            control: it.control.clone(),
            swf: Some(SwfRun {
                child_policy: settled.child_policy,
                task_priority: it.swf.task_priority.or(defaults.task_priority),
                lambda_role: it.swf.lambda_role.clone().or_else(|| defaults.lambda_role.clone()),
                limits: self.swf_limits(),
            }),
        })))
    }

    /// Going on as new in SWF's dialect: what is not said comes from the type, not from this run.
    pub(super) fn continue_in_swf(&self, it: &ContinueAsNew, decision_event_id: EventId, now: Timestamp) -> EventKind {
        use CloseFailedCause as Cause;
        let wanted = Wanted {
            execution_timeout: it.swf.execution_timeout,
            task_list: it.task_list.as_ref(),
            decider_start_to_close: it.swf.decider_start_to_close,
            child_policy: it.swf.child_policy,
        };
        let settled = match &it.registration {
            Registration::Unknown => Err(Cause::WorkflowTypeUnknown),
            Registration::Deprecated => Err(Cause::WorkflowTypeDeprecated),
            Registration::Known(defaults) => match wanted.settle(defaults) {
                Ok(settled) => Ok((settled, defaults)),
                Err(Missing::ExecutionTimeout) => Err(Cause::DefaultExecutionTimeoutUndefined),
                Err(Missing::TaskList) => Err(Cause::DefaultTaskListUndefined),
                Err(Missing::DeciderTimeout) => Err(Cause::DefaultDeciderTimeoutUndefined),
                Err(Missing::ChildPolicy) => Err(Cause::DefaultChildPolicyUndefined),
            },
        };
        let (settled, defaults) = match settled {
            Ok(settled) => settled,
            Err(cause) => {
                let decision = CloseDecision::ContinueAsNew;
                return EventKind::WorkflowCloseFailed(WorkflowCloseFailed { decision, cause, decision_event_id });
            }
        };
        let started = &self.run.started;
        EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
            new_run_id: child_run_id(started.run_id, decision_event_id, now),
            input: it.input.clone(),
            workflow_type: it.workflow_type.as_ref().unwrap_or(&started.workflow_type).clone(),
            task_list: settled.task_list,
            tags: it.tags.clone().unwrap_or_default(),
            decision_event_id,
            swf: Some(SwfSuccessor {
                execution_timeout: settled.execution_timeout,
                decider_start_to_close: settled.decider_start_to_close,
                run: SwfRun {
                    child_policy: settled.child_policy,
                    task_priority: it.swf.task_priority.or(defaults.task_priority),
                    lambda_role: it.swf.lambda_role.clone().or_else(|| defaults.lambda_role.clone()),
                    limits: self.swf_limits(),
                },
            }),
        })
    }

    fn swf_limits(&self) -> Option<SwfLimits> {
        self.run.started.swf.as_ref().and_then(|swf| swf.limits)
    }

    /// Terminates a run that has more events than may be. What led to it stands, however much that was: the check comes behind
    /// each command, as the real service's history of 25,044 events shows that its does.
    pub(super) fn end_beyond_limit(&mut self, now: Timestamp) {
        let is_beyond = self.swf_limits().is_some_and(|limits| self.run.last_event_id > limits.events);
        if is_beyond && self.run.is_open() {
            // Nobody asked for it.
            self.push_by(
                now,
                EventKind::WorkflowTerminated(WorkflowTerminated {
                    reason: None,
                    details: None,
                    identity: None,
                    origin: None,
                    child_policy: None,
                    reset: None,
                    cause: Some(TerminatedCause::EventLimit),
                }),
                None,
                None,
            );
        }
    }
}
