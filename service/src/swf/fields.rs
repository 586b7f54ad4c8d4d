//! Conversion of field names in refusals of the engine to the names of members in SWF requests. Faults thereby name the
//! members that the program sent.

use history::Fault;

use engine::Refusal;

/// Types of the decisions in a request, in their order.
pub(super) type DecisionKinds = Vec<String>;

/// Returns the SWF message for a refused answer to a decision task. `kinds` are the types of the answer's decisions.
/// Returns `None` if the refusal does not concern a field.
pub(super) fn of_answer(kinds: &[String], refusal: &Refusal) -> Option<String> {
    invalid(refusal, |field| {
        let (index, rest) = field.strip_prefix("decisions[")?.split_once(']')?;
        let index: usize = index.parse().ok()?;
        let (kind, number) = (kinds.get(index)?, index + 1);
        let mut member = kind.clone();
        if let Some(first) = member.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let place = format!("decisions.{number}.member");
        Some(match rest.strip_prefix('.') {
            Some(rest) => format!("{place}.{member}DecisionAttributes.{}", of_decision(kind, rest)),
            None => place,
        })
    })
}

/// Returns the SWF message for the refusal of a request that is neither an answer to a decision task nor a signal.
/// Returns `None` if the refusal does not concern a field.
pub(super) fn of_request(refusal: &Refusal) -> Option<String> {
    invalid(refusal, |_| None)
}

/// Returns the SWF message for a refused signal. Returns `None` if the refusal does not concern a field.
pub(super) fn of_signal(refusal: &Refusal) -> Option<String> {
    invalid(refusal, |field| (field == "name").then(|| "signalName".to_owned()))
}

fn invalid(refusal: &Refusal, known: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (field, problem) = match refusal {
        Refusal::Fault(Fault::Invalid { field, problem }) => (field, problem.clone()),
        Refusal::Fault(Fault::TooLarge { field, found, max, unit }) => {
            (field, format!("has {found} {unit}, at most {max} are allowed"))
        }
        _ => return None,
    };
    let field = known(field).unwrap_or_else(|| of_any(field));
    Some(format!("1 validation error detected: Value at '{field}' failed to satisfy constraint: Member {problem}"))
}

fn of_decision(kind: &str, field: &str) -> String {
    match (kind, field) {
        ("ScheduleLambdaFunction", "activityId") => "id".to_owned(),
        ("ScheduleLambdaFunction", "activityType") => "name".to_owned(),
        ("ContinueAsNewWorkflowExecution", "workflowType") => "workflowTypeVersion".to_owned(),
        ("RecordMarker", "name") => "markerName".to_owned(),
        ("SignalExternalWorkflowExecution", "name") => "signalName".to_owned(),
        ("StartTimer", "after") => "startToFireTimeout".to_owned(),
        (_, field) => of_any(field),
    }
}

/// Converts a field name that corresponds to the same member in all requests.
fn of_any(field: &str) -> String {
    if let Some(index) = field.strip_prefix("tags[").and_then(|rest| rest.strip_suffix(']')) {
        let number = index.parse::<usize>().map_or(0, |index| index + 1);
        return format!("tagList.{number}.member");
    }
    let known = match field {
        "workflowType" => "workflowType.name",
        "activityType" => "activityType.name",
        "taskList" => "taskList.name",
        "tags" => "tagList",
        "context" => "executionContext",
        "taskListScheduleToStart" => "taskListScheduleToStartTimeout",
        "executionTimeout" | "swf.executionTimeout" => "executionStartToCloseTimeout",
        "deciderStartToClose" | "swf.deciderStartToClose" => "taskStartToCloseTimeout",
        "lambdaRole" | "swf.lambdaRole" => "lambdaRole",
        "timeouts.scheduleToStart" => "scheduleToStartTimeout",
        "timeouts.startToClose" => "startToCloseTimeout",
        "timeouts.scheduleToClose" => "scheduleToCloseTimeout",
        "timeouts.heartbeat" => "heartbeatTimeout",
        "defaults.taskList" => "defaultTaskList.name",
        "defaults.lambdaRole" => "defaultLambdaRole",
        "defaults.executionTimeout" => "defaultExecutionStartToCloseTimeout",
        "defaults.deciderStartToClose" | "defaults.timeouts.startToClose" => "defaultTaskStartToCloseTimeout",
        "defaults.timeouts.scheduleToStart" => "defaultTaskScheduleToStartTimeout",
        "defaults.timeouts.scheduleToClose" => "defaultTaskScheduleToCloseTimeout",
        "defaults.timeouts.heartbeat" => "defaultTaskHeartbeatTimeout",
        other => other,
    };
    known.to_owned()
}
