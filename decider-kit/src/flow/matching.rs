//! Comparison of recorded events with decisions.

use baton_history::{Decision, EventKind};

/// Returns whether `kind` can be the record of `decision`. Ids, types and names must be equal; inputs, timeouts and
/// task lists may have changed with the code.
pub(super) fn matches(decision: &Decision, kind: &EventKind) -> bool {
    if let EventKind::WorkflowCloseFailed(it) = kind {
        return decision.closes().is_some_and(|closing| closing.decision == it.decision);
    }
    match (decision, kind) {
        (Decision::ScheduleActivity(decision), EventKind::ActivityScheduled(it)) => {
            decision.activity_id == it.activity_id && decision.activity_type == it.activity_type
        }
        (Decision::ScheduleActivity(decision), EventKind::ActivityScheduleFailed(it)) => {
            decision.activity_id == it.activity_id && decision.activity_type == it.activity_type
        }
        (Decision::CancelActivity(decision), EventKind::ActivityTaskCancel(it)) => {
            decision.activity_id == it.activity_id
        }
        (Decision::CancelActivity(decision), EventKind::ActivityTaskCancelFailed(it)) => {
            decision.activity_id == it.activity_id
        }
        (Decision::StartTimer(decision), EventKind::TimerScheduled(it)) => decision.timer_id == it.timer_id,
        (Decision::StartTimer(decision), EventKind::TimerScheduleFailed(it)) => decision.timer_id == it.timer_id,
        (Decision::CancelTimer(decision), EventKind::TimerCanceled(it)) => decision.timer_id == it.timer_id,
        (Decision::CancelTimer(decision), EventKind::TimerCancelFailed(it)) => decision.timer_id == it.timer_id,
        (Decision::RecordMarker(decision), EventKind::Marker(it)) => decision.name == it.name,
        (Decision::RecordMarker(decision), EventKind::MarkerFailed(it)) => decision.name == it.name,
        (Decision::StartChild(decision), EventKind::ChildScheduled(it)) => {
            decision.workflow_id == it.workflow_id && decision.workflow_type == it.workflow_type
        }
        (Decision::StartChild(decision), EventKind::ChildScheduleFailed(it)) => decision.workflow_id == it.workflow_id,
        (Decision::SignalExternal(decision), EventKind::ExternalSignalScheduled(it)) => {
            decision.workflow_id == it.workflow_id && decision.name == it.name
        }
        (Decision::SignalExternal(decision), EventKind::ExternalSignalFailed(it)) => {
            decision.workflow_id == it.workflow_id
        }
        (Decision::CancelExternal(decision), EventKind::ExternalCancelScheduled(it)) => {
            decision.workflow_id == it.workflow_id
        }
        (Decision::CancelExternal(decision), EventKind::ExternalCancelFailed(it)) => {
            decision.workflow_id == it.workflow_id
        }
        (Decision::SucceedWorkflow(_), EventKind::WorkflowSuccess(_))
        | (Decision::FailWorkflow(_), EventKind::WorkflowFailed(_))
        | (Decision::CancelWorkflow(_), EventKind::WorkflowCanceled(_))
        | (Decision::ContinueAsNew(_), EventKind::WorkflowContinuedAsNew(_)) => true,
        _ => false,
    }
}

/// Describes a decision in an error message.
pub(super) fn describe(decision: &Decision) -> String {
    let name = decision.name();
    match decision {
        Decision::ScheduleActivity(it) => activity(name, &it.activity_id, &it.activity_type),
        Decision::CancelActivity(it) => format!("{name} `{}`", it.activity_id),
        Decision::StartTimer(it) => format!("{name} `{}`", it.timer_id),
        Decision::CancelTimer(it) => format!("{name} `{}`", it.timer_id),
        Decision::RecordMarker(it) => format!("{name} `{}`", it.name),
        Decision::StartChild(it) => activity(name, &it.workflow_id, &it.workflow_type),
        Decision::SignalExternal(it) => format!("{name} `{}` to `{}`", it.name, it.workflow_id),
        Decision::CancelExternal(it) => format!("{name} `{}`", it.workflow_id),
        Decision::SucceedWorkflow(_)
        | Decision::FailWorkflow(_)
        | Decision::CancelWorkflow(_)
        | Decision::ContinueAsNew(_) => name.to_owned(),
    }
}

/// Describes an event in an error message.
pub(super) fn describe_event(kind: &EventKind) -> String {
    let name = kind.name();
    match kind {
        EventKind::ActivityScheduled(it) => activity(name, &it.activity_id, &it.activity_type),
        EventKind::ActivityScheduleFailed(it) => activity(name, &it.activity_id, &it.activity_type),
        EventKind::ActivityTaskCancel(it) => format!("{name} `{}`", it.activity_id),
        EventKind::ActivityTaskCancelFailed(it) => format!("{name} `{}`", it.activity_id),
        EventKind::TimerScheduled(it) => format!("{name} `{}`", it.timer_id),
        EventKind::TimerScheduleFailed(it) => format!("{name} `{}`", it.timer_id),
        EventKind::TimerCanceled(it) => format!("{name} `{}`", it.timer_id),
        EventKind::TimerCancelFailed(it) => format!("{name} `{}`", it.timer_id),
        EventKind::Marker(it) => format!("{name} `{}`", it.name),
        EventKind::MarkerFailed(it) => format!("{name} `{}`", it.name),
        EventKind::ChildScheduled(it) => activity(name, &it.workflow_id, &it.workflow_type),
        EventKind::ChildScheduleFailed(it) => format!("{name} `{}`", it.workflow_id),
        EventKind::ExternalSignalScheduled(it) => format!("{name} `{}` to `{}`", it.name, it.workflow_id),
        EventKind::ExternalSignalFailed(it) => format!("{name} `{}`", it.workflow_id),
        EventKind::ExternalCancelScheduled(it) => format!("{name} `{}`", it.workflow_id),
        EventKind::ExternalCancelFailed(it) => format!("{name} `{}`", it.workflow_id),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::TimerExpired(_)
        | EventKind::Signal(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => name.to_owned(),
    }
}

fn activity(name: &str, activity_id: &str, activity_type: &str) -> String {
    if activity_id == activity_type {
        format!("{name} `{activity_id}`")
    } else {
        format!("{name} `{activity_id}` (of type `{activity_type}`)")
    }
}
