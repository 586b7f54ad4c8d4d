//! Events of signals and cancel requests to other runs.
//!
//! Source: SWF's API reference.

use history::event::{
    ExternalCancelDelivered, ExternalCancelFailed, ExternalCancelScheduled, ExternalFailedCause,
    ExternalSignalDelivered, ExternalSignalFailed, ExternalSignalScheduled,
};
use history::{EventId, EventKind, NamedRun};

use super::attributes::{Attributes, Related, Words, decided, execution, none};

pub(super) fn signal_scheduled(it: &ExternalSignalScheduled) -> Words {
    let attributes = decided(it.decision_event_id)
        .with("workflowId", &it.workflow_id)
        .maybe("runId", it.run_id.as_ref())
        .with("signalName", &it.name)
        .text("input", it.input.as_ref())
        .maybe("control", it.control.as_ref());
    ("SignalExternalWorkflowExecutionInitiated", attributes)
}

pub(super) fn signal_delivered(it: &ExternalSignalDelivered) -> Words {
    let attributes = none().with("workflowExecution", execution(&it.workflow_id, it.run_id));
    ("ExternalWorkflowExecutionSignaled", attributes.with("initiatedEventId", it.scheduled_event_id))
}

pub(super) fn signal_failed(it: &ExternalSignalFailed, related: &Related) -> Words {
    let rate = "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED";
    let named = match scheduled(related, it.scheduled_event_id) {
        Some(EventKind::ExternalSignalScheduled(it)) => (it.run_id.as_ref(), it.control.as_ref()),
        _ => (it.run_id.as_ref(), it.control.as_ref()),
    };
    let attributes = external_failed(named, it.scheduled_event_id, it.cause, rate);
    let attributes = attributes.with("decisionTaskCompletedEventId", it.decision_event_id);
    ("SignalExternalWorkflowExecutionFailed", attributes.with("workflowId", &it.workflow_id))
}

pub(super) fn cancel_scheduled(it: &ExternalCancelScheduled) -> Words {
    let attributes = decided(it.decision_event_id)
        .with("workflowId", &it.workflow_id)
        .maybe("runId", it.run_id.as_ref())
        .maybe("control", it.control.as_ref());
    ("RequestCancelExternalWorkflowExecutionInitiated", attributes)
}

pub(super) fn cancel_delivered(it: &ExternalCancelDelivered) -> Words {
    let attributes = none().with("workflowExecution", execution(&it.workflow_id, it.run_id));
    ("ExternalWorkflowExecutionCancelRequested", attributes.with("initiatedEventId", it.scheduled_event_id))
}

pub(super) fn cancel_failed(it: &ExternalCancelFailed, related: &Related) -> Words {
    let rate = "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED";
    let named = match scheduled(related, it.scheduled_event_id) {
        Some(EventKind::ExternalCancelScheduled(it)) => (it.run_id.as_ref(), it.control.as_ref()),
        _ => (it.run_id.as_ref(), it.control.as_ref()),
    };
    let attributes = external_failed(named, it.scheduled_event_id, it.cause, rate);
    let attributes = attributes.with("decisionTaskCompletedEventId", it.decision_event_id);
    ("RequestCancelExternalWorkflowExecutionFailed", attributes.with("workflowId", &it.workflow_id))
}

/// Returns the event that scheduled a signal or cancel request to another run. Returns `None` if `id` is absent, which
/// means that the delivery was not attempted.
fn scheduled(related: &Related, id: Option<EventId>) -> Option<&EventKind> {
    id.and_then(|id| related.events.get(&id)).map(|event| &event.kind)
}

/// Returns the attributes of a failed signal or cancel request: the target run, the cause, the event that scheduled the
/// request, and the decider's `control` value.
fn external_failed(
    (run_id, control): (Option<&NamedRun>, Option<&String>),
    scheduled_event_id: Option<EventId>,
    cause: ExternalFailedCause,
    rate_exceeded: &'static str,
) -> Attributes {
    let cause = match cause {
        ExternalFailedCause::WorkflowUnknown | ExternalFailedCause::WorkflowClosed => {
            "UNKNOWN_EXTERNAL_WORKFLOW_EXECUTION"
        }
        ExternalFailedCause::OpenExternalsLimit | ExternalFailedCause::StateLimit => rate_exceeded,
        ExternalFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    };
    none()
        .maybe("runId", run_id)
        .with("cause", cause)
        .with("initiatedEventId", scheduled_event_id.unwrap_or(0))
        .maybe("control", control)
}
