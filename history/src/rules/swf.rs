//! Rules of SWF runs. The decision or the registered type must set all required values, because nothing is inherited
//! from the run.
//!
//! Causes of the failure events ActivityScheduleFailed, ChildScheduleFailed and WorkflowCloseFailed:
//!
//! | decision | type unknown | type deprecated | required value missing |
//! |---|---|---|---|
//! | ScheduleActivity | `ActivityTypeUnknown` | `ActivityTypeDeprecated` | `Default…Undefined` |
//! | StartChild | `WorkflowTypeUnknown` | `WorkflowTypeDeprecated` | `Default…Undefined` |
//! | `ContinueAsNew` | `WorkflowTypeUnknown` | `WorkflowTypeDeprecated` | `Default…Undefined` |
//!
//! A Lambda task has no type. It fails with `LambdaUnavailable` if the service cannot call Lambda functions, and with
//! ActivityScheduledTimeout (`LambdaRoleUndefined`) if the run has no Lambda role.
//!
//! A run that exceeds its maximum number of events is terminated (`EventLimit`) after the command that exceeded it.
//!
//! Source: SWF's API reference.

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild, SwfSettings};
use crate::decision_context::{DecisionContext, DomainCapacity, Registration};
use crate::dialect::{LAMBDA_LIST, SwfLimits, SwfRun, SwfSuccessor};
use crate::event::{
    ActivityScheduleFailedCause, ActivityTimeouts, ChildScheduleFailedCause, CloseFailedCause, EventKind,
    TerminatedCause, WorkflowTerminated,
};
use crate::limits;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::run::RunStart;
use crate::time::{Duration, Timestamp};
use crate::transition::Transition;

/// Returns `true` if the decision schedules a Lambda task. The run must be an SWF run.
fn is_lambda(it: &ScheduleActivity) -> bool {
    it.task_list.as_deref() == Some(LAMBDA_LIST)
}

/// Returns `true` if the decision schedules a Lambda task in a run that was started without a Lambda role.
pub(crate) fn lacks_role(started: &RunStart, it: &ScheduleActivity) -> bool {
    started.swf.as_ref().is_some_and(|swf| swf.lambda_role.is_none() && is_lambda(it))
}

/// Returns the cause of the failure if neither the decision nor the activity type sets a required value.
pub(crate) fn undefined_activity(
    it: &ScheduleActivity,
    context: &DecisionContext,
) -> Option<ActivityScheduleFailedCause> {
    use ActivityScheduleFailedCause as Cause;
    if is_lambda(it) {
        return (!context.has_functions).then_some(Cause::LambdaUnavailable);
    }
    let Registration::Known(defaults) = context.of_activity(it) else { return Some(Cause::ActivityTypeUnknown) };
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

/// Timeouts of a new run, if the decision sets them.
#[derive(Clone, Copy)]
struct DecidedTimeouts {
    execution: Option<Duration>,
    turn: Option<Duration>,
}

impl Transition {
    /// Returns the task list and the settings of a new run. They come from the decision or, if it does not set them,
    /// from the registered type. The last parameter has the causes for a missing execution timeout, task list, turn
    /// timeout and child policy, in this order.
    fn settle_in_swf<C>(
        &self,
        decided: DecidedTimeouts,
        task_list: Option<&String>,
        it: &SwfSettings,
        defaults: &WorkflowDefaults,
        [no_timeout, no_list, no_turn_timeout, no_policy]: [C; 4],
    ) -> Result<(String, SwfSuccessor), C> {
        let execution_timeout = decided.execution.or(defaults.execution_timeout).ok_or(no_timeout)?;
        let task_list = task_list.or(defaults.task_list.as_ref()).ok_or(no_list)?.clone();
        let turn_timeout = decided.turn.or(defaults.decider_start_to_close);
        let decider_start_to_close = turn_timeout.ok_or(no_turn_timeout)?;
        let run = SwfRun {
            child_policy: it.child_policy.or(defaults.child_policy).ok_or(no_policy)?,
            task_priority: it.task_priority.or(defaults.task_priority),
            lambda_role: it.lambda_role.clone().or_else(|| defaults.lambda_role.clone()),
            limits: self.swf_limits(),
        };
        Ok((task_list, SwfSuccessor { execution_timeout, decider_start_to_close, run }))
    }

    /// Returns the settings of a child of an SWF run. They come only from the decision and from the registered type.
    pub(crate) fn child_in_swf(
        &self,
        it: &StartChild,
        context: &DecisionContext,
        capacity: DomainCapacity,
    ) -> Result<(String, SwfSuccessor), ChildScheduleFailedCause> {
        use ChildScheduleFailedCause as Cause;
        let defaults = match context.of_child(it) {
            Registration::Unknown => return Err(Cause::WorkflowTypeUnknown),
            Registration::Deprecated => return Err(Cause::WorkflowTypeDeprecated),
            Registration::Known(defaults) => defaults,
        };
        if self.run.children.len() >= limits::OPEN_CHILDREN_MAX {
            return Err(Cause::OpenChildrenLimit);
        }
        if capacity != DomainCapacity::Free {
            return Err(Cause::OpenRunsLimit);
        }
        let causes = [
            Cause::DefaultExecutionTimeoutUndefined,
            Cause::DefaultTaskListUndefined,
            Cause::DefaultDeciderTimeoutUndefined,
            Cause::DefaultChildPolicyUndefined,
        ];
        let timeouts = DecidedTimeouts { execution: it.execution_timeout, turn: it.decider_start_to_close };
        self.settle_in_swf(timeouts, it.task_list.as_ref(), &it.swf, defaults, causes)
    }

    /// Returns the settings of the successor of an SWF run. They come from the decision and from the registered type,
    /// not from this run.
    pub(crate) fn continue_in_swf(
        &self,
        it: &ContinueAsNew,
        context: &DecisionContext,
    ) -> Result<(String, SwfSuccessor), CloseFailedCause> {
        use CloseFailedCause as Cause;
        let defaults = match context.of_successor(it, &self.run.started) {
            Registration::Unknown => return Err(Cause::WorkflowTypeUnknown),
            Registration::Deprecated => return Err(Cause::WorkflowTypeDeprecated),
            Registration::Known(defaults) => defaults,
        };
        let causes = [
            Cause::DefaultExecutionTimeoutUndefined,
            Cause::DefaultTaskListUndefined,
            Cause::DefaultDeciderTimeoutUndefined,
            Cause::DefaultChildPolicyUndefined,
        ];
        let timeouts = DecidedTimeouts { execution: it.swf.execution_timeout, turn: it.swf.decider_start_to_close };
        self.settle_in_swf(timeouts, it.task_list.as_ref(), &it.swf, defaults, causes)
    }

    fn swf_limits(&self) -> Option<SwfLimits> {
        self.run.started.swf.as_ref().and_then(|swf| swf.limits)
    }

    /// Terminates the run if it exceeds its maximum number of events. This is checked after each command, and the
    /// events of the command stay in the history. SWF also checks late: histories with 25,044 events have been observed
    /// in SWF.
    pub(crate) fn end_beyond_limit(&mut self, now: Timestamp) {
        let is_beyond = self.swf_limits().is_some_and(|limits| self.run.last_event_id > limits.events);
        if is_beyond && self.run.is_open() {
            let cause = Some(TerminatedCause::EventLimit);
            let terminated = WorkflowTerminated { cause, ..WorkflowTerminated::default() };
            // The event has no author, because no caller requested the termination.
            self.push_by(now, EventKind::WorkflowTerminated(terminated), None, None);
        }
    }
}

#[cfg(test)]
mod tests;
