//! Events of child workflows.
//!
//! Source: SWF's API reference.

use history::EventKind;
use history::event::{
    ChildCanceled, ChildFailed, ChildScheduleFailed, ChildScheduleFailedCause, ChildScheduled, ChildStarted,
    ChildSuccess, ChildTerminated, ChildTimedOut,
};

use super::attributes::{Related, Words, decided, none, priority, reason};
use crate::swf::types::shown;
use crate::swf::words::{list, policy, seconds};

pub(super) fn scheduled(it: &ChildScheduled) -> Words {
    let swf = it.swf.as_ref();
    let attributes = decided(it.decision_event_id)
        .with("workflowId", &it.workflow_id)
        .with("workflowType", shown(&it.workflow_type))
        .maybe("control", it.control.as_ref())
        .text("input", it.input.as_ref())
        .with("executionStartToCloseTimeout", seconds(it.execution_timeout))
        .with("taskList", list(&it.task_list))
        .maybe("taskPriority", priority(swf.and_then(|swf| swf.task_priority)))
        .with("childPolicy", policy(swf.map_or(it.child_policy, |swf| swf.child_policy)))
        .with("taskStartToCloseTimeout", seconds(it.decider_start_to_close))
        .maybe("tagList", Some(&it.tags).filter(|tags| !tags.is_empty()))
        .maybe("lambdaRole", swf.and_then(|swf| swf.lambda_role.as_ref()));
    ("StartChildWorkflowExecutionInitiated", attributes)
}

pub(super) fn schedule_failed(it: &ChildScheduleFailed, related: &Related) -> Words {
    let scheduled = it.scheduled_event_id.and_then(|id| related.events.get(&id)).map(|event| &event.kind);
    let (kind, control) = match scheduled {
        Some(EventKind::ChildScheduled(it)) => (it.workflow_type.as_str(), it.control.as_ref()),
        _ => (it.workflow_type.as_deref().unwrap_or_default(), it.control.as_ref()),
    };
    let attributes = decided(it.decision_event_id)
        .with("workflowType", shown(kind))
        .with("cause", child_cause(it.cause))
        .with("workflowId", &it.workflow_id)
        .with("initiatedEventId", it.scheduled_event_id.unwrap_or(0))
        .maybe("control", control);
    ("StartChildWorkflowExecutionFailed", attributes)
}

pub(super) fn started(it: &ChildStarted, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    ("ChildWorkflowExecutionStarted", attributes)
}

pub(super) fn success(it: &ChildSuccess, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    let attributes = attributes.with("startedEventId", it.started_event_id);
    ("ChildWorkflowExecutionCompleted", attributes.text("result", it.result.as_ref()))
}

pub(super) fn failed(it: &ChildFailed, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    let attributes =
        attributes.with("startedEventId", it.started_event_id).maybe("reason", reason(&it.reason, it.has_empty_reason));
    ("ChildWorkflowExecutionFailed", attributes.text("details", it.details.as_ref()))
}

pub(super) fn timed_out(it: &ChildTimedOut, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    let attributes = attributes.with("startedEventId", it.started_event_id);
    ("ChildWorkflowExecutionTimedOut", attributes.with("timeoutType", "START_TO_CLOSE"))
}

pub(super) fn canceled(it: &ChildCanceled, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    let attributes = attributes.with("startedEventId", it.started_event_id);
    ("ChildWorkflowExecutionCanceled", attributes.text("details", it.details.as_ref()))
}

pub(super) fn terminated(it: &ChildTerminated, related: &Related) -> Words {
    let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
    ("ChildWorkflowExecutionTerminated", attributes.with("startedEventId", it.started_event_id))
}

fn child_cause(cause: ChildScheduleFailedCause) -> &'static str {
    use ChildScheduleFailedCause as Cause;
    match cause {
        // SWF has only this cause for a workflow id that cannot be used, because it has no reuse policy.
        Cause::WorkflowAlreadyOpen | Cause::WorkflowIdReuseRefused => "WORKFLOW_ALREADY_RUNNING",
        Cause::OpenChildrenLimit | Cause::StateLimit => "OPEN_CHILDREN_LIMIT_EXCEEDED",
        Cause::WorkflowTypeDeprecated => "WORKFLOW_TYPE_DEPRECATED",
        Cause::WorkflowTypeUnknown => "WORKFLOW_TYPE_DOES_NOT_EXIST",
        Cause::DefaultExecutionTimeoutUndefined => "DEFAULT_EXECUTION_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        Cause::DefaultDeciderTimeoutUndefined => "DEFAULT_TASK_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultChildPolicyUndefined => "DEFAULT_CHILD_POLICY_UNDEFINED",
        Cause::OpenRunsLimit => "OPEN_WORKFLOWS_LIMIT_EXCEEDED",
        // SWF has no equivalent of `StartRefused`, so it gets the same cause as a missing permission.
        Cause::StartRefused | Cause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    }
}
