//! Events, as SWF's wire has them: the same ids, the same facts, other words. Owns the mapping of the two vocabularies in
//! this direction; a fact that SWF has no word for is a marker named `baton.…`, so that ids stay dense.
//!
//! Source: SWF.md §6.

use std::collections::{BTreeMap, BTreeSet};

use history::event::{
    ActivityScheduleFailedCause, ActivityTimeout, ChildPolicy, ChildScheduleFailedCause, CloseDecision,
    CloseFailedCause, DeciderTimeout, ExternalFailedCause, TimerScheduleFailedCause,
};
use history::{Event, EventId, EventKind, LAMBDA_LIST, Origin, Payload, lambda_id};
use serde_json::{Value, json};
use uuid::Uuid;

use super::types::shown;
use super::words::{instant, list, policy, seconds, set};

/// Earlier events of the same run that an event is told with.
#[derive(Default)]
pub(super) struct Related {
    /// What becomes of the run's children.
    pub(super) child_policy: ChildPolicy,
    /// By their ids.
    pub(super) events: BTreeMap<EventId, Event>,
}

/// The ActivityScheduled of an event of an activity: it says whether that is a Lambda task.
pub(super) fn activity_of(kind: &EventKind) -> Option<EventId> {
    match kind {
        EventKind::ActivityStarted(it) => Some(it.scheduled_event_id),
        EventKind::ActivitySuccess(it) => Some(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Some(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Some(it.scheduled_event_id),
        _ => None,
    }
}

/// The events that these must be told with. Activities are looked at where the run can have Lambda tasks.
pub(super) fn wanted(events: &[Event], has_lambda: bool) -> BTreeSet<EventId> {
    let ids = events.iter().filter_map(|event| match &event.kind {
        kind if has_lambda && activity_of(kind).is_some() => activity_of(kind),
        EventKind::ChildScheduleFailed(it) => it.scheduled_event_id,
        EventKind::ChildStarted(it) => Some(it.scheduled_event_id),
        EventKind::ChildSuccess(it) => Some(it.scheduled_event_id),
        EventKind::ChildFailed(it) => Some(it.scheduled_event_id),
        EventKind::ChildTimedOut(it) => Some(it.scheduled_event_id),
        EventKind::ChildCanceled(it) => Some(it.scheduled_event_id),
        EventKind::ChildTerminated(it) => Some(it.scheduled_event_id),
        EventKind::ExternalSignalFailed(it) => it.scheduled_event_id,
        EventKind::ExternalCancelFailed(it) => it.scheduled_event_id,
        _ => None,
    });
    ids.collect()
}

/// The text of a payload: a string's own characters, anything else as JSON.
pub(super) fn text(payload: &Payload) -> String {
    payload.read().unwrap_or_else(|_| payload.text().unwrap_or_default().to_owned())
}

/// A run as the wire names it.
pub(super) fn execution(workflow_id: &str, run_id: Uuid) -> Value {
    json!({ "workflowId": workflow_id, "runId": run_id.to_string() })
}

/// Attributes while they are gathered.
struct Attributes(Value);

impl Attributes {
    fn with(mut self, name: &str, value: impl serde::Serialize) -> Self {
        set(&mut self.0, name, Some(value));
        self
    }

    fn maybe(mut self, name: &str, value: Option<impl serde::Serialize>) -> Self {
        set(&mut self.0, name, value);
        self
    }

    fn text(self, name: &str, payload: Option<&Payload>) -> Self {
        self.maybe(name, payload.map(text))
    }

    /// Where it came from; 0 when it came from no run.
    fn origin(self, origin: Option<&Origin>) -> Self {
        self.maybe("externalWorkflowExecution", origin.map(|it| execution(&it.workflow_id, it.run_id)))
            .with("externalInitiatedEventId", origin.map_or(0, |it| it.event_id))
    }

    /// The child's run, type and events.
    fn child(self, related: &Related, workflow_id: &str, run_id: Uuid, scheduled_event_id: EventId) -> Self {
        let scheduled = related.events.get(&scheduled_event_id).map(|event| &event.kind);
        let kind = match scheduled {
            Some(EventKind::ChildScheduled(it)) => it.workflow_type.as_str(),
            _ => "",
        };
        self.with("workflowExecution", execution(workflow_id, run_id))
            .with("workflowType", shown(kind))
            .with("initiatedEventId", scheduled_event_id)
    }
}

/// An empty reason is none: the two are not told apart.
fn reason(reason: &str) -> Option<&str> {
    Some(reason).filter(|reason| !reason.is_empty())
}

fn priority(priority: Option<i32>) -> Option<String> {
    priority.map(|priority| priority.to_string())
}

fn lambda_cause(cause: ActivityScheduleFailedCause) -> &'static str {
    match cause {
        ActivityScheduleFailedCause::ActivityIdAlreadyInUse => "ID_ALREADY_IN_USE",
        ActivityScheduleFailedCause::OpenActivitiesLimit => "OPEN_LAMBDA_FUNCTIONS_LIMIT_EXCEEDED",
        _ => "LAMBDA_SERVICE_NOT_AVAILABLE_IN_REGION",
    }
}

/// The words for an event of a Lambda task, which is an activity on a list of its own; `None` for any other event.
fn lambda_words(kind: &EventKind, related: &Related) -> Option<(&'static str, Attributes)> {
    let none = || Attributes(json!({}));
    let is_lambda = |scheduled: EventId| match related.events.get(&scheduled).map(|event| &event.kind) {
        Some(EventKind::ActivityScheduled(it)) => it.task_list == LAMBDA_LIST,
        _ => false,
    };
    match kind {
        EventKind::ActivityScheduled(it) if it.task_list == LAMBDA_LIST => {
            let attributes = none()
                .with("id", lambda_id(&it.activity_id).unwrap_or(&it.activity_id))
                .with("name", &it.activity_type)
                .maybe("control", it.control.as_ref())
                .text("input", it.input.as_ref())
                .maybe("startToCloseTimeout", it.timeouts.start_to_close.map(seconds))
                .with("decisionTaskCompletedEventId", it.decision_event_id);
            Some(("LambdaFunctionScheduled", attributes))
        }
        EventKind::ActivityScheduleFailed(it) => {
            let id = lambda_id(&it.activity_id)?;
            let attributes = none()
                .with("id", id)
                .with("name", &it.activity_type)
                .with("cause", lambda_cause(it.cause))
                .with("decisionTaskCompletedEventId", it.decision_event_id);
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
            let attributes = none()
                .with("scheduledEventId", it.scheduled_event_id)
                .with("startedEventId", it.started_event_id)
                .text("result", it.result.as_ref());
            Some(("LambdaFunctionCompleted", attributes))
        }
        EventKind::ActivityFailed(it) if is_lambda(it.scheduled_event_id) => {
            let attributes = none()
                .with("scheduledEventId", it.scheduled_event_id)
                .with("startedEventId", it.started_event_id)
                .maybe("reason", reason(&it.reason))
                .text("details", it.details.as_ref());
            Some(("LambdaFunctionFailed", attributes))
        }
        EventKind::ActivityTimedOut(it) if is_lambda(it.scheduled_event_id) => {
            let attributes = none()
                .with("scheduledEventId", it.scheduled_event_id)
                .with("startedEventId", it.started_event_id.unwrap_or(0))
                .with("timeoutType", activity_timeout(it.timeout));
            Some(("LambdaFunctionTimedOut", attributes))
        }
        _ => None,
    }
}

/// An event in the words of the wire.
pub(super) fn event(event: &Event, related: &Related) -> Value {
    let (name, attributes) = lambda_words(&event.kind, related).unwrap_or_else(|| words_of(&event.kind, related));
    let mut first = name.chars();
    let member = first.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(first).collect::<String>();
    let mut told = json!({
        "eventId": event.id,
        "eventType": name,
        "eventTimestamp": instant(event.timestamp),
    });
    set(&mut told, &format!("{member}EventAttributes"), Some(attributes.0));
    told
}

fn activity_timeout(timeout: ActivityTimeout) -> &'static str {
    match timeout {
        ActivityTimeout::StartToClose => "START_TO_CLOSE",
        ActivityTimeout::ScheduleToClose => "SCHEDULE_TO_CLOSE",
        ActivityTimeout::Heartbeat => "HEARTBEAT",
    }
}

fn close_cause(cause: CloseFailedCause) -> &'static str {
    match cause {
        CloseFailedCause::UnhandledEvents => "UNHANDLED_DECISION",
        CloseFailedCause::WorkflowTypeDeprecated => "WORKFLOW_TYPE_DEPRECATED",
        CloseFailedCause::WorkflowTypeUnknown => "WORKFLOW_TYPE_DOES_NOT_EXIST",
        CloseFailedCause::DefaultExecutionTimeoutUndefined => "DEFAULT_EXECUTION_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        CloseFailedCause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        CloseFailedCause::DefaultDeciderTimeoutUndefined => "DEFAULT_TASK_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        CloseFailedCause::DefaultChildPolicyUndefined => "DEFAULT_CHILD_POLICY_UNDEFINED",
    }
}

fn activity_cause(cause: ActivityScheduleFailedCause) -> &'static str {
    use ActivityScheduleFailedCause as Cause;
    match cause {
        Cause::ActivityIdAlreadyInUse => "ACTIVITY_ID_ALREADY_IN_USE",
        Cause::OpenActivitiesLimit => "OPEN_ACTIVITIES_LIMIT_EXCEEDED",
        Cause::ActivityTypeDeprecated => "ACTIVITY_TYPE_DEPRECATED",
        Cause::ActivityTypeUnknown => "ACTIVITY_TYPE_DOES_NOT_EXIST",
        Cause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        Cause::DefaultScheduleToStartUndefined => "DEFAULT_SCHEDULE_TO_START_TIMEOUT_UNDEFINED",
        Cause::DefaultScheduleToCloseUndefined => "DEFAULT_SCHEDULE_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultStartToCloseUndefined => "DEFAULT_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultHeartbeatUndefined => "DEFAULT_HEARTBEAT_TIMEOUT_UNDEFINED",
        // Of Lambda tasks alone, which have words of their own.
        Cause::LambdaUnavailable => "OPERATION_NOT_PERMITTED",
    }
}

fn child_cause(cause: ChildScheduleFailedCause) -> &'static str {
    use ChildScheduleFailedCause as Cause;
    match cause {
        // SWF has no policy that could refuse it otherwise.
        Cause::WorkflowAlreadyOpen | Cause::WorkflowIdReuseRefused => "WORKFLOW_ALREADY_RUNNING",
        Cause::OpenChildrenLimit => "OPEN_CHILDREN_LIMIT_EXCEEDED",
        Cause::WorkflowTypeDeprecated => "WORKFLOW_TYPE_DEPRECATED",
        Cause::WorkflowTypeUnknown => "WORKFLOW_TYPE_DOES_NOT_EXIST",
        Cause::DefaultExecutionTimeoutUndefined => "DEFAULT_EXECUTION_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultTaskListUndefined => "DEFAULT_TASK_LIST_UNDEFINED",
        Cause::DefaultDeciderTimeoutUndefined => "DEFAULT_TASK_START_TO_CLOSE_TIMEOUT_UNDEFINED",
        Cause::DefaultChildPolicyUndefined => "DEFAULT_CHILD_POLICY_UNDEFINED",
        // SWF knows no limit that this could be.
        Cause::StartRefused => "OPERATION_NOT_PERMITTED",
    }
}

fn words_of(kind: &EventKind, related: &Related) -> (&'static str, Attributes) {
    let none = || Attributes(json!({}));
    let decided = |id: EventId| none().with("decisionTaskCompletedEventId", id);
    let of_activity = |scheduled: EventId, started: EventId| {
        none().with("scheduledEventId", scheduled).with("startedEventId", started)
    };
    match kind {
        EventKind::WorkflowStarted(it) => {
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
        EventKind::WorkflowSuccess(it) => {
            ("WorkflowExecutionCompleted", decided(it.decision_event_id).text("result", it.result.as_ref()))
        }
        EventKind::WorkflowFailed(it) => {
            let attributes = decided(it.decision_event_id).maybe("reason", reason(&it.reason));
            ("WorkflowExecutionFailed", attributes.text("details", it.details.as_ref()))
        }
        EventKind::WorkflowCanceled(it) => {
            ("WorkflowExecutionCanceled", decided(it.decision_event_id).text("details", it.details.as_ref()))
        }
        EventKind::WorkflowContinuedAsNew(it) => {
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
        EventKind::WorkflowTimedOut(_) => {
            let attributes =
                none().with("timeoutType", "START_TO_CLOSE").with("childPolicy", policy(related.child_policy));
            ("WorkflowExecutionTimedOut", attributes)
        }
        EventKind::WorkflowTerminated(it) => {
            let cause = if it.origin.is_some() { "CHILD_POLICY_APPLIED" } else { "OPERATOR_INITIATED" };
            let attributes = none()
                .maybe("reason", it.reason.as_ref())
                .text("details", it.details.as_ref())
                .with("childPolicy", policy(it.child_policy.unwrap_or(related.child_policy)))
                .with("cause", cause);
            ("WorkflowExecutionTerminated", attributes)
        }
        EventKind::WorkflowCloseFailed(it) => {
            let name = match it.decision {
                CloseDecision::SucceedWorkflow => "CompleteWorkflowExecutionFailed",
                CloseDecision::FailWorkflow => "FailWorkflowExecutionFailed",
                CloseDecision::CancelWorkflow => "CancelWorkflowExecutionFailed",
                CloseDecision::ContinueAsNew => "ContinueAsNewWorkflowExecutionFailed",
            };
            (name, decided(it.decision_event_id).with("cause", close_cause(it.cause)))
        }
        EventKind::WorkflowCancelRequested(it) => {
            let by_policy = it.origin.is_some() && it.reason.as_deref() == Some(history::admit::PARENT_CLOSED);
            let attributes = none().origin(it.origin.as_ref());
            ("WorkflowExecutionCancelRequested", attributes.maybe("cause", by_policy.then_some("CHILD_POLICY_APPLIED")))
        }
        EventKind::DeciderScheduled(it) => {
            let attributes = none()
                .with("taskList", list(&it.task_list))
                .maybe("taskPriority", priority(it.task_priority))
                .with("startToCloseTimeout", seconds(it.start_to_close))
                .with("scheduleToStartTimeout", it.schedule_to_start.map_or("NONE".to_owned(), seconds));
            ("DecisionTaskScheduled", attributes)
        }
        EventKind::DeciderStarted(it) => {
            let attributes = none().maybe("identity", it.identity.as_ref());
            ("DecisionTaskStarted", attributes.with("scheduledEventId", it.scheduled_event_id))
        }
        EventKind::DeciderCompleted(it) => {
            let moved = it.moves_to.as_ref();
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id)
                .maybe("taskList", moved.map(|to| list(&to.task_list)))
                .maybe("taskListScheduleToStartTimeout", moved.and_then(|to| to.schedule_to_start).map(seconds));
            ("DecisionTaskCompleted", attributes.text("executionContext", it.context.as_ref()))
        }
        EventKind::DeciderTimedOut(it) => {
            let timeout = match it.timeout {
                DeciderTimeout::StartToClose => "START_TO_CLOSE",
                DeciderTimeout::ScheduleToStart => "SCHEDULE_TO_START",
            };
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id.unwrap_or(0));
            ("DecisionTaskTimedOut", attributes.with("timeoutType", timeout))
        }
        // Given back, or never delivered: to SWF's deciders a turn that came to nothing.
        EventKind::DeciderFailed(it) => {
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id);
            ("DecisionTaskTimedOut", attributes.with("timeoutType", "START_TO_CLOSE"))
        }
        EventKind::ActivityScheduled(it) => {
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
        EventKind::ActivityScheduleFailed(it) => {
            let attributes = decided(it.decision_event_id)
                .with("activityType", shown(&it.activity_type))
                .with("activityId", &it.activity_id)
                .with("cause", activity_cause(it.cause));
            ("ScheduleActivityTaskFailed", attributes)
        }
        EventKind::ActivityStarted(it) => {
            let attributes = none().maybe("identity", it.identity.as_ref());
            ("ActivityTaskStarted", attributes.with("scheduledEventId", it.scheduled_event_id))
        }
        EventKind::ActivitySuccess(it) => {
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id);
            ("ActivityTaskCompleted", attributes.text("result", it.result.as_ref()))
        }
        EventKind::ActivityFailed(it) => {
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id);
            let attributes = attributes.maybe("reason", reason(&it.reason));
            ("ActivityTaskFailed", attributes.text("details", it.details.as_ref()))
        }
        EventKind::ActivityCanceled(it) => {
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id.unwrap_or(0))
                .maybe("latestCancelRequestedEventId", Some(it.cancel_event_id).filter(|id| *id > 0));
            ("ActivityTaskCanceled", attributes.text("details", it.details.as_ref()))
        }
        EventKind::ActivityTimedOut(it) => {
            let attributes = of_activity(it.scheduled_event_id, it.started_event_id.unwrap_or(0));
            let attributes = attributes.with("timeoutType", activity_timeout(it.timeout));
            ("ActivityTaskTimedOut", attributes.text("details", it.details.as_ref()))
        }
        EventKind::ActivityScheduledTimeout(it) => {
            ("ActivityTaskTimedOut", of_activity(it.scheduled_event_id, 0).with("timeoutType", "SCHEDULE_TO_START"))
        }
        EventKind::ActivityTaskCancel(it) => {
            ("ActivityTaskCancelRequested", decided(it.decision_event_id).with("activityId", &it.activity_id))
        }
        EventKind::ActivityTaskCancelFailed(it) => {
            let attributes = decided(it.decision_event_id).with("activityId", &it.activity_id);
            ("RequestCancelActivityTaskFailed", attributes.with("cause", "ACTIVITY_ID_UNKNOWN"))
        }
        EventKind::TimerScheduled(it) => {
            let attributes = decided(it.decision_event_id)
                .with("timerId", &it.timer_id)
                .maybe("control", it.control.as_ref())
                .with("startToFireTimeout", seconds(it.after));
            ("TimerStarted", attributes)
        }
        EventKind::TimerScheduleFailed(it) => {
            let cause = match it.cause {
                TimerScheduleFailedCause::TimerIdAlreadyInUse => "TIMER_ID_ALREADY_IN_USE",
                TimerScheduleFailedCause::OpenTimersLimit => "OPEN_TIMERS_LIMIT_EXCEEDED",
            };
            ("StartTimerFailed", decided(it.decision_event_id).with("timerId", &it.timer_id).with("cause", cause))
        }
        EventKind::TimerExpired(it) => {
            ("TimerFired", none().with("timerId", &it.timer_id).with("startedEventId", it.scheduled_event_id))
        }
        EventKind::TimerCanceled(it) => {
            let attributes = decided(it.decision_event_id).with("timerId", &it.timer_id);
            ("TimerCanceled", attributes.with("startedEventId", it.scheduled_event_id))
        }
        EventKind::TimerCancelFailed(it) => {
            let attributes = decided(it.decision_event_id).with("timerId", &it.timer_id);
            ("CancelTimerFailed", attributes.with("cause", "TIMER_ID_UNKNOWN"))
        }
        EventKind::Signal(it) => {
            let attributes = none().with("signalName", &it.name).text("input", it.input.as_ref());
            ("WorkflowExecutionSignaled", attributes.origin(it.origin.as_ref()))
        }
        EventKind::Marker(it) => {
            let attributes = decided(it.decision_event_id).with("markerName", &it.name);
            ("MarkerRecorded", attributes.text("details", it.details.as_ref()))
        }
        // Only in runs that were not started over this wire.
        EventKind::MarkerFailed(it) => {
            let attributes = decided(it.decision_event_id).with("markerName", &it.name);
            ("RecordMarkerFailed", attributes.with("cause", "OPERATION_NOT_PERMITTED"))
        }
        EventKind::ChildScheduled(it) => {
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
        EventKind::ChildScheduleFailed(it) => {
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
        EventKind::ChildStarted(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            ("ChildWorkflowExecutionStarted", attributes)
        }
        EventKind::ChildSuccess(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            let attributes = attributes.with("startedEventId", it.started_event_id);
            ("ChildWorkflowExecutionCompleted", attributes.text("result", it.result.as_ref()))
        }
        EventKind::ChildFailed(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            let attributes = attributes.with("startedEventId", it.started_event_id).maybe("reason", reason(&it.reason));
            ("ChildWorkflowExecutionFailed", attributes.text("details", it.details.as_ref()))
        }
        EventKind::ChildTimedOut(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            let attributes = attributes.with("startedEventId", it.started_event_id);
            ("ChildWorkflowExecutionTimedOut", attributes.with("timeoutType", "START_TO_CLOSE"))
        }
        EventKind::ChildCanceled(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            let attributes = attributes.with("startedEventId", it.started_event_id);
            ("ChildWorkflowExecutionCanceled", attributes.text("details", it.details.as_ref()))
        }
        EventKind::ChildTerminated(it) => {
            let attributes = none().child(related, &it.workflow_id, it.run_id, it.scheduled_event_id);
            ("ChildWorkflowExecutionTerminated", attributes.with("startedEventId", it.started_event_id))
        }
        EventKind::ExternalSignalScheduled(it) => {
            let attributes = decided(it.decision_event_id)
                .with("workflowId", &it.workflow_id)
                .maybe("runId", it.run_id.map(|run_id| run_id.to_string()))
                .with("signalName", &it.name)
                .text("input", it.input.as_ref())
                .maybe("control", it.control.as_ref());
            ("SignalExternalWorkflowExecutionInitiated", attributes)
        }
        EventKind::ExternalSignalDelivered(it) => {
            let attributes = none().with("workflowExecution", execution(&it.workflow_id, it.run_id));
            ("ExternalWorkflowExecutionSignaled", attributes.with("initiatedEventId", it.scheduled_event_id))
        }
        EventKind::ExternalSignalFailed(it) => {
            let rate = "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED";
            let attributes =
                external_failed(decided(it.decision_event_id), related, it.scheduled_event_id, it.cause, rate);
            ("SignalExternalWorkflowExecutionFailed", attributes.with("workflowId", &it.workflow_id))
        }
        EventKind::ExternalCancelScheduled(it) => {
            let attributes = decided(it.decision_event_id)
                .with("workflowId", &it.workflow_id)
                .maybe("runId", it.run_id.map(|run_id| run_id.to_string()))
                .maybe("control", it.control.as_ref());
            ("RequestCancelExternalWorkflowExecutionInitiated", attributes)
        }
        EventKind::ExternalCancelDelivered(it) => {
            let attributes = none().with("workflowExecution", execution(&it.workflow_id, it.run_id));
            ("ExternalWorkflowExecutionCancelRequested", attributes.with("initiatedEventId", it.scheduled_event_id))
        }
        EventKind::ExternalCancelFailed(it) => {
            let rate = "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED";
            let attributes =
                external_failed(decided(it.decision_event_id), related, it.scheduled_event_id, it.cause, rate);
            ("RequestCancelExternalWorkflowExecutionFailed", attributes.with("workflowId", &it.workflow_id))
        }
        // SWF has no words for these.
        EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => {
            let attributes = decided(0).with("markerName", format!("baton.{}", kind.name()));
            ("MarkerRecorded", attributes.text("details", kind.payload()))
        }
    }
}

fn external_failed(
    attributes: Attributes,
    related: &Related,
    scheduled_event_id: Option<EventId>,
    cause: ExternalFailedCause,
    rate_exceeded: &'static str,
) -> Attributes {
    let scheduled = scheduled_event_id.and_then(|id| related.events.get(&id)).map(|event| &event.kind);
    let (run_id, control) = match scheduled {
        Some(EventKind::ExternalSignalScheduled(it)) => (it.run_id, it.control.as_ref()),
        Some(EventKind::ExternalCancelScheduled(it)) => (it.run_id, it.control.as_ref()),
        _ => (None, None),
    };
    let cause = match cause {
        ExternalFailedCause::WorkflowUnknown | ExternalFailedCause::WorkflowClosed => {
            "UNKNOWN_EXTERNAL_WORKFLOW_EXECUTION"
        }
        ExternalFailedCause::OpenExternalsLimit => rate_exceeded,
    };
    attributes
        .maybe("runId", run_id.map(|run_id| run_id.to_string()))
        .with("cause", cause)
        .with("initiatedEventId", scheduled_event_id.unwrap_or(0))
        .maybe("control", control)
}

#[cfg(test)]
mod tests;
