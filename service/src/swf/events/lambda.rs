//! Events of Lambda tasks, which are activities in a reserved task list.
//!
//! Source: SWF's API reference.

use history::event::ActivityScheduleFailedCause;
use history::{EventId, EventKind, LAMBDA_LIST, lambda_id};

use super::activities::activity_timeout;
use super::attributes::{Related, Words, decided, none, of_task, reason};
use crate::swf::words::seconds;

fn schedule_cause(cause: ActivityScheduleFailedCause) -> &'static str {
    match cause {
        ActivityScheduleFailedCause::ActivityIdAlreadyInUse => "ID_ALREADY_IN_USE",
        ActivityScheduleFailedCause::OpenActivitiesLimit | ActivityScheduleFailedCause::StateLimit => {
            "OPEN_LAMBDA_FUNCTIONS_LIMIT_EXCEEDED"
        }
        ActivityScheduleFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
        _ => "LAMBDA_SERVICE_NOT_AVAILABLE_IN_REGION",
    }
}

/// Returns the SWF name and attributes of a Lambda task's event. Returns `None` for an event that does not belong to a
/// Lambda task.
pub(super) fn words_of(kind: &EventKind, related: &Related) -> Option<Words> {
    let is_lambda = |scheduled: EventId| match related.events.get(&scheduled).map(|event| &event.kind) {
        Some(EventKind::ActivityScheduled(it)) => it.task_list == LAMBDA_LIST,
        _ => false,
    };
    match kind {
        EventKind::ActivityScheduled(it) if it.task_list == LAMBDA_LIST => {
            let attributes = decided(it.decision_event_id)
                .with("id", lambda_id(&it.activity_id).unwrap_or(&it.activity_id))
                .with("name", &it.activity_type)
                .maybe("control", it.control.as_ref())
                .text("input", it.input.as_ref())
                .maybe("startToCloseTimeout", it.timeouts.start_to_close.map(seconds));
            Some(("LambdaFunctionScheduled", attributes))
        }
        EventKind::ActivityScheduleFailed(it) => {
            let id = lambda_id(&it.activity_id)?;
            let attributes = decided(it.decision_event_id)
                .with("id", id)
                .with("name", &it.activity_type)
                .with("cause", schedule_cause(it.cause));
            Some(("ScheduleLambdaFunctionFailed", attributes))
        }
        EventKind::ActivityScheduledTimeout(it) => {
            it.cause?;
            let attributes = none()
                .with("scheduledEventId", it.scheduled_event_id)
                .with("cause", "ASSUME_ROLE_FAILED")
                .with("message", "The run has no Lambda role");
            Some(("StartLambdaFunctionFailed", attributes))
        }
        EventKind::ActivityStarted(it) if is_lambda(it.scheduled_event_id) => {
            Some(("LambdaFunctionStarted", none().with("scheduledEventId", it.scheduled_event_id)))
        }
        EventKind::ActivitySuccess(it) if is_lambda(it.scheduled_event_id) => {
            let attributes = of_task(it.scheduled_event_id, it.started_event_id);
            Some(("LambdaFunctionCompleted", attributes.text("result", it.result.as_ref())))
        }
        EventKind::ActivityFailed(it) if is_lambda(it.scheduled_event_id) => {
            let attributes = of_task(it.scheduled_event_id, it.started_event_id)
                .maybe("reason", reason(&it.reason, it.has_empty_reason));
            Some(("LambdaFunctionFailed", attributes.text("details", it.details.as_ref())))
        }
        EventKind::ActivityTimedOut(it) if is_lambda(it.scheduled_event_id) => {
            let attributes = of_task(it.scheduled_event_id, it.started_event_id.unwrap_or(0));
            Some(("LambdaFunctionTimedOut", attributes.with("timeoutType", activity_timeout(it.timeout))))
        }
        _ => None,
    }
}
