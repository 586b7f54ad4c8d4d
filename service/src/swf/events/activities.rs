//! Events of activities.
//!
//! Source: SWF's API reference.

use history::event::{
    ActivityCanceled, ActivityFailed, ActivityScheduleFailed, ActivityScheduleFailedCause, ActivityScheduled,
    ActivityScheduledTimeout, ActivityStarted, ActivitySuccess, ActivityTaskCancel, ActivityTaskCancelFailed,
    ActivityTaskCancelFailedCause, ActivityTimedOut, ActivityTimeout,
};

use super::attributes::{Words, decided, none, of_task, priority, reason};
use crate::swf::types::shown;
use crate::swf::words::{list, seconds};

pub(super) fn scheduled(it: &ActivityScheduled) -> Words {
    let timeout = |timeout: Option<history::Duration>| timeout.map_or("NONE".to_owned(), seconds);
    let attributes = decided(it.decision_event_id)
        .with("activityType", shown(&it.activity_type))
        .with("activityId", &it.activity_id)
        .text("input", it.input.as_ref())
        .maybe("control", it.control.as_ref())
        .with("scheduleToStartTimeout", timeout(it.timeouts.schedule_to_start))
        .with("scheduleToCloseTimeout", timeout(it.timeouts.schedule_to_close))
        .with("startToCloseTimeout", timeout(it.timeouts.start_to_close))
        .with("heartbeatTimeout", timeout(it.timeouts.heartbeat))
        .with("taskList", list(&it.task_list))
        .maybe("taskPriority", priority(it.task_priority));
    ("ActivityTaskScheduled", attributes)
}

pub(super) fn schedule_failed(it: &ActivityScheduleFailed) -> Words {
    let attributes = decided(it.decision_event_id)
        .with("activityType", shown(&it.activity_type))
        .with("activityId", &it.activity_id)
        .with("cause", activity_cause(it.cause));
    ("ScheduleActivityTaskFailed", attributes)
}

pub(super) fn started(it: &ActivityStarted) -> Words {
    let attributes = none().maybe("identity", it.identity.as_ref());
    ("ActivityTaskStarted", attributes.with("scheduledEventId", it.scheduled_event_id))
}

pub(super) fn success(it: &ActivitySuccess) -> Words {
    let attributes = of_task(it.scheduled_event_id, it.started_event_id);
    ("ActivityTaskCompleted", attributes.text("result", it.result.as_ref()))
}

pub(super) fn failed(it: &ActivityFailed) -> Words {
    let attributes = of_task(it.scheduled_event_id, it.started_event_id);
    let attributes = attributes.maybe("reason", reason(&it.reason, it.has_empty_reason));
    ("ActivityTaskFailed", attributes.text("details", it.details.as_ref()))
}

pub(super) fn canceled(it: &ActivityCanceled) -> Words {
    let attributes = of_task(it.scheduled_event_id, it.started_event_id.unwrap_or(0))
        .maybe("latestCancelRequestedEventId", Some(it.cancel_event_id).filter(|id| *id > 0));
    ("ActivityTaskCanceled", attributes.text("details", it.details.as_ref()))
}

pub(super) fn timed_out(it: &ActivityTimedOut) -> Words {
    let attributes = of_task(it.scheduled_event_id, it.started_event_id.unwrap_or(0));
    let attributes = attributes.with("timeoutType", activity_timeout(it.timeout));
    ("ActivityTaskTimedOut", attributes.text("details", it.details.as_ref()))
}

pub(super) fn scheduled_timeout(it: &ActivityScheduledTimeout) -> Words {
    ("ActivityTaskTimedOut", of_task(it.scheduled_event_id, 0).with("timeoutType", "SCHEDULE_TO_START"))
}

pub(super) fn task_cancel(it: &ActivityTaskCancel) -> Words {
    ("ActivityTaskCancelRequested", decided(it.decision_event_id).with("activityId", &it.activity_id))
}

pub(super) fn task_cancel_failed(it: &ActivityTaskCancelFailed) -> Words {
    let attributes = decided(it.decision_event_id).with("activityId", &it.activity_id);
    ("RequestCancelActivityTaskFailed", attributes.with("cause", cancel_cause(it.cause)))
}

pub(super) fn activity_timeout(timeout: ActivityTimeout) -> &'static str {
    match timeout {
        ActivityTimeout::StartToClose => "START_TO_CLOSE",
        ActivityTimeout::ScheduleToClose => "SCHEDULE_TO_CLOSE",
        ActivityTimeout::Heartbeat => "HEARTBEAT",
    }
}

fn cancel_cause(cause: ActivityTaskCancelFailedCause) -> &'static str {
    match cause {
        ActivityTaskCancelFailedCause::ActivityIdUnknown => "ACTIVITY_ID_UNKNOWN",
        ActivityTaskCancelFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    }
}

fn activity_cause(cause: ActivityScheduleFailedCause) -> &'static str {
    use ActivityScheduleFailedCause as Cause;
    match cause {
        Cause::ActivityIdAlreadyInUse => "ACTIVITY_ID_ALREADY_IN_USE",
        Cause::OpenActivitiesLimit | Cause::StateLimit => "OPEN_ACTIVITIES_LIMIT_EXCEEDED",
        Cause::ActivityTypeDeprecated => "ACTIVITY_TYPE_DEPRECATED",
        Cause::ActivityTypeUnknown => "ACTIVITY_TYPE_DOES_NOT_EXIST",
        Cause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        Cause::DefaultScheduleToStartUndefined => "DEFAULT_SCHEDULE_TO_START_TIMEOUT_UNDEFINED",
        Cause::DefaultScheduleToCloseUndefined => "DEFAULT_SCHEDULE_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultStartToCloseUndefined => "DEFAULT_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultHeartbeatUndefined => "DEFAULT_HEARTBEAT_TIMEOUT_UNDEFINED",
        // These causes occur only for Lambda tasks, whose events are rendered in `lambda.rs`.
        Cause::LambdaUnavailable | Cause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    }
}
