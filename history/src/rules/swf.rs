//! Runs of SWF's dialect: what must be said by the decision or by its type, because nothing is inherited.
//!
//! | in a run of SWF's dialect | of a type that is known | of one that is not | of a deprecated one | where neither says what must be said |
//! |---|---|---|---|---|
//! | ScheduleActivity | ActivityScheduled | `ActivityTypeUnknown` | `ActivityTypeDeprecated` | `Default…Undefined` |
//! | the same, of a Lambda task | ActivityScheduled, and ActivityScheduledTimeout (`LambdaRoleUndefined`) where the run has no role | `LambdaUnavailable`: functions have no types, and it is there or not | – | – |
//! | StartChild | ChildScheduled | `WorkflowTypeUnknown` | `WorkflowTypeDeprecated` | `Default…Undefined` |
//! | `ContinueAsNew` | WorkflowContinuedAsNew | `WorkflowTypeUnknown` | `WorkflowTypeDeprecated` | `Default…Undefined` |
//!
//! Words in code are causes of ActivityScheduleFailed, ChildScheduleFailed and WorkflowCloseFailed. A run with more events than
//! its limits allow is terminated (`EventLimit`), behind the command that led there.
//!
//! Source: SWF's API reference.

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild, SwfSettings};
use crate::dialect::{LAMBDA_LIST, SwfLimits, SwfRun, SwfSuccessor};
use crate::event::{
    ActivityScheduleFailedCause, ActivityTimeouts, ChildScheduleFailedCause, CloseFailedCause, EventKind,
    TerminatedCause, WorkflowTerminated,
};
use crate::limits;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::run::RunStart;
use crate::surroundings::{DomainRoom, Registration, Surroundings};
use crate::time::{Duration, Timestamp};
use crate::transition::Transition;

/// Whether it is a Lambda task, in a run of SWF's dialect.
fn is_lambda(it: &ScheduleActivity) -> bool {
    it.task_list.as_deref() == Some(LAMBDA_LIST)
}

/// Whether it is a Lambda task that nobody may do: the run was started without a role.
pub(crate) fn lacks_role(started: &RunStart, it: &ScheduleActivity) -> bool {
    started.swf.as_ref().is_some_and(|swf| swf.lambda_role.is_none() && is_lambda(it))
}

/// What neither an activity's decision nor its type says, and must.
pub(crate) fn undefined_activity(it: &ScheduleActivity, around: &Surroundings) -> Option<ActivityScheduleFailedCause> {
    use ActivityScheduleFailedCause as Cause;
    if is_lambda(it) {
        return (!around.has_functions).then_some(Cause::LambdaUnavailable);
    }
    let Registration::Known(defaults) = around.of_activity(it) else { return Some(Cause::ActivityTypeUnknown) };
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

impl Transition {
    /// The list and the settings of a run that is to be started: a decision says them, or its type. What is missing of the execution
    /// timeout, the list, the timeout of turns and the policy for children, in this order, is said by one of four causes.
    fn settle_in_swf<C>(
        &self,
        (execution_timeout, decider_start_to_close): (Option<Duration>, Option<Duration>),
        task_list: Option<&String>,
        it: &SwfSettings,
        defaults: &WorkflowDefaults,
        [no_timeout, no_list, no_turn_timeout, no_policy]: [C; 4],
    ) -> Result<(String, SwfSuccessor), C> {
        let execution_timeout = execution_timeout.or(defaults.execution_timeout).ok_or(no_timeout)?;
        let task_list = task_list.or(defaults.task_list.as_ref()).ok_or(no_list)?.clone();
        let turn_timeout = decider_start_to_close.or(defaults.decider_start_to_close);
        let decider_start_to_close = turn_timeout.ok_or(no_turn_timeout)?;
        let run = SwfRun {
            child_policy: it.child_policy.or(defaults.child_policy).ok_or(no_policy)?,
            task_priority: it.task_priority.or(defaults.task_priority),
            lambda_role: it.lambda_role.clone().or_else(|| defaults.lambda_role.clone()),
            limits: self.swf_limits(),
        };
        Ok((task_list, SwfSuccessor { execution_timeout, decider_start_to_close, run }))
    }

    /// A child in SWF's dialect: all that it is comes from the decision or from its type.
    pub(crate) fn child_in_swf(
        &self,
        it: &StartChild,
        (around, room): (&Surroundings, DomainRoom),
    ) -> Result<(String, SwfSuccessor), ChildScheduleFailedCause> {
        use ChildScheduleFailedCause as Cause;
        let defaults = match around.of_child(it) {
            Registration::Unknown => return Err(Cause::WorkflowTypeUnknown),
            Registration::Deprecated => return Err(Cause::WorkflowTypeDeprecated),
            Registration::Known(defaults) => defaults,
        };
        if self.run.children.len() >= limits::OPEN_CHILDREN_MAX {
            return Err(Cause::OpenChildrenLimit);
        }
        if room != DomainRoom::Free {
            return Err(Cause::OpenRunsLimit);
        }
        let causes = [
            Cause::DefaultExecutionTimeoutUndefined,
            Cause::DefaultTaskListUndefined,
            Cause::DefaultDeciderTimeoutUndefined,
            Cause::DefaultChildPolicyUndefined,
        ];
        let timeouts = (it.execution_timeout, it.decider_start_to_close);
        self.settle_in_swf(timeouts, it.task_list.as_ref(), &it.swf, defaults, causes)
    }

    /// Going on as new in SWF's dialect: what is not said comes from the type, not from this run.
    pub(crate) fn continue_in_swf(
        &self,
        it: &ContinueAsNew,
        around: &Surroundings,
    ) -> Result<(String, SwfSuccessor), CloseFailedCause> {
        use CloseFailedCause as Cause;
        let defaults = match around.of_successor(it, &self.run.started) {
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
        let timeouts = (it.swf.execution_timeout, it.swf.decider_start_to_close);
        self.settle_in_swf(timeouts, it.task_list.as_ref(), &it.swf, defaults, causes)
    }

    fn swf_limits(&self) -> Option<SwfLimits> {
        self.run.started.swf.as_ref().and_then(|swf| swf.limits)
    }

    /// Terminates a run that has more events than may be. What led to it stands, however much that was: the check comes behind
    /// each command, as the real service's history of 25,044 events shows that its does.
    pub(crate) fn end_beyond_limit(&mut self, now: Timestamp) {
        let is_beyond = self.swf_limits().is_some_and(|limits| self.run.last_event_id > limits.events);
        if is_beyond && self.run.is_open() {
            let cause = Some(TerminatedCause::EventLimit);
            let terminated = WorkflowTerminated { cause, ..WorkflowTerminated::default() };
            // Nobody asked for it.
            self.push_by(now, EventKind::WorkflowTerminated(terminated), None, None);
        }
    }
}

#[cfg(test)]
mod tests;
