//! Events of a run itself: its start and close, signals, cancel requests and markers.
//!
//! Source: SWF's API reference.

use history::event::{
    CloseDecision, CloseFailedCause, Marker, MarkerFailed, Signal, TerminatedCause, WorkflowCancelRequested,
    WorkflowCanceled, WorkflowCloseFailed, WorkflowContinuedAsNew, WorkflowFailed, WorkflowStarted, WorkflowSuccess,
    WorkflowTerminated,
};

use super::attributes::{Related, Words, decided, execution, none, priority, reason};
use crate::swf::types::shown;
use crate::swf::words::{list, policy, seconds};

pub(super) fn started(it: &WorkflowStarted) -> Words {
    let swf = it.swf.clone().unwrap_or_default();
    let attributes = none()
        .text("input", it.input.as_ref())
        .with("executionStartToCloseTimeout", seconds(it.execution_timeout))
        .with("taskStartToCloseTimeout", seconds(it.decider_start_to_close))
        .with("childPolicy", policy(swf.child_policy))
        .with("taskList", list(&it.task_list))
        .maybe("taskPriority", priority(swf.task_priority))
        .with("workflowType", shown(&it.workflow_type))
        .maybe("tagList", Some(&it.tags).filter(|tags| !tags.is_empty()))
        .maybe("continuedExecutionRunId", it.continued_from.map(|run_id| run_id.to_string()))
        .maybe("parentWorkflowExecution", it.parent.as_ref().map(|it| execution(&it.workflow_id, it.run_id)))
        .with("parentInitiatedEventId", it.parent.as_ref().map_or(0, |parent| parent.event_id))
        .maybe("lambdaRole", swf.lambda_role);
    ("WorkflowExecutionStarted", attributes)
}

pub(super) fn success(it: &WorkflowSuccess) -> Words {
    ("WorkflowExecutionCompleted", decided(it.decision_event_id).text("result", it.result.as_ref()))
}

pub(super) fn failed(it: &WorkflowFailed) -> Words {
    let attributes = decided(it.decision_event_id).maybe("reason", reason(&it.reason, it.has_empty_reason));
    ("WorkflowExecutionFailed", attributes.text("details", it.details.as_ref()))
}

pub(super) fn canceled(it: &WorkflowCanceled) -> Words {
    ("WorkflowExecutionCanceled", decided(it.decision_event_id).text("details", it.details.as_ref()))
}

pub(super) fn continued_as_new(it: &WorkflowContinuedAsNew) -> Words {
    let swf = it.swf.as_ref();
    let attributes = decided(it.decision_event_id)
        .text("input", it.input.as_ref())
        .with("newExecutionRunId", it.new_run_id.to_string())
        .maybe("executionStartToCloseTimeout", swf.map(|swf| seconds(swf.execution_timeout)))
        .with("taskList", list(&it.task_list))
        .maybe("taskPriority", priority(swf.and_then(|swf| swf.run.task_priority)))
        .maybe("taskStartToCloseTimeout", swf.map(|swf| seconds(swf.decider_start_to_close)))
        .with("childPolicy", policy(swf.map(|swf| swf.run.child_policy).unwrap_or_default()))
        .maybe("tagList", Some(&it.tags).filter(|tags| !tags.is_empty()))
        .with("workflowType", shown(&it.workflow_type))
        .maybe("lambdaRole", swf.and_then(|swf| swf.run.lambda_role.as_ref()));
    ("WorkflowExecutionContinuedAsNew", attributes)
}

pub(super) fn timed_out(related: &Related) -> Words {
    let attributes = none().with("timeoutType", "START_TO_CLOSE").with("childPolicy", policy(related.child_policy));
    ("WorkflowExecutionTimedOut", attributes)
}

pub(super) fn terminated(it: &WorkflowTerminated, related: &Related) -> Words {
    let cause = match it.cause {
        Some(TerminatedCause::EventLimit) => "EVENT_LIMIT_EXCEEDED",
        None if it.origin.is_some() => "CHILD_POLICY_APPLIED",
        None => "OPERATOR_INITIATED",
    };
    let attributes = none()
        .maybe("reason", it.reason.as_ref())
        .text("details", it.details.as_ref())
        .with("childPolicy", policy(it.child_policy.unwrap_or(related.child_policy)))
        .with("cause", cause);
    ("WorkflowExecutionTerminated", attributes)
}

pub(super) fn close_failed(it: &WorkflowCloseFailed) -> Words {
    let name = match it.decision {
        CloseDecision::SucceedWorkflow => "CompleteWorkflowExecutionFailed",
        CloseDecision::FailWorkflow => "FailWorkflowExecutionFailed",
        CloseDecision::CancelWorkflow => "CancelWorkflowExecutionFailed",
        CloseDecision::ContinueAsNew => "ContinueAsNewWorkflowExecutionFailed",
    };
    (name, decided(it.decision_event_id).with("cause", close_cause(it.cause)))
}

pub(super) fn cancel_requested(it: &WorkflowCancelRequested) -> Words {
    let by_policy = it.origin.is_some() && it.reason.as_deref() == Some(history::admit::PARENT_CLOSED);
    let attributes = none().origin(it.origin.as_ref());
    ("WorkflowExecutionCancelRequested", attributes.maybe("cause", by_policy.then_some("CHILD_POLICY_APPLIED")))
}

pub(super) fn signal(it: &Signal) -> Words {
    let attributes = none().with("signalName", &it.name).text("input", it.input.as_ref());
    ("WorkflowExecutionSignaled", attributes.origin(it.origin.as_ref()))
}

pub(super) fn marker(it: &Marker) -> Words {
    let attributes = decided(it.decision_event_id).with("markerName", &it.name);
    ("MarkerRecorded", attributes.text("details", it.details.as_ref()))
}

/// Renders a marker that could not be recorded. This event does not occur in runs that were started through the SWF
/// protocol.
pub(super) fn marker_failed(it: &MarkerFailed) -> Words {
    let attributes = decided(it.decision_event_id).with("markerName", &it.name);
    ("RecordMarkerFailed", attributes.with("cause", "OPERATION_NOT_PERMITTED"))
}

fn close_cause(cause: CloseFailedCause) -> &'static str {
    match cause {
        CloseFailedCause::UnhandledEvents => "UNHANDLED_DECISION",
        CloseFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
        CloseFailedCause::WorkflowTypeDeprecated => "WORKFLOW_TYPE_DEPRECATED",
        CloseFailedCause::WorkflowTypeUnknown => "WORKFLOW_TYPE_DOES_NOT_EXIST",
        CloseFailedCause::DefaultExecutionTimeoutUndefined => "DEFAULT_EXECUTION_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        CloseFailedCause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        CloseFailedCause::DefaultDeciderTimeoutUndefined => "DEFAULT_TASK_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        CloseFailedCause::DefaultChildPolicyUndefined => "DEFAULT_CHILD_POLICY_UNDEFINED",
    }
}
