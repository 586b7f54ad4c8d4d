//! Valid requests over the SWF protocol.

use serde_json::{Value, json};

/// A valid request to every operation, except for tokens.
pub(crate) fn requests(run_id: &str) -> Vec<(&'static str, Value)> {
    let kind = || json!({ "name": "order", "version": "1" });
    let execution = || json!({ "workflowId": "w", "runId": run_id });
    let times = || json!({ "oldestDate": 0, "latestDate": 2e9 });
    let types = || json!({ "domain": "default", "workflowType": kind(), "activityType": kind() });
    let list = || {
        json!({ "domain": "default", "name": "order", "registrationStatus": "REGISTERED", "maximumPageSize": 1,
            "nextPageToken": "", "reverseOrder": true })
    };
    let runs = || {
        json!({ "domain": "default", "startTimeFilter": times(), "typeFilter": kind(), "maximumPageSize": 1,
            "nextPageToken": "", "reverseOrder": true })
    };
    let poll = || {
        json!({ "domain": "default", "taskList": { "name": "deciders" }, "identity": "", "maximumPageSize": 1,
            "reverseOrder": true, "startAtPreviousStartedEvent": true })
    };
    let pending = || json!({ "domain": "default", "taskList": { "name": "l" } });
    let domain = || {
        json!({ "name": "d", "workflowExecutionRetentionPeriodInDays": "1", "description": "",
        "tags": [{ "key": "k", "value": "v" }] })
    };
    let resource = || {
        json!({ "resourceArn": "arn:aws:swf:us-east-1:123456789012:/domain/default",
        "tags": [{ "key": "k" }], "tagKeys": ["k"] })
    };
    let register = || {
        json!({ "domain": "default", "name": "n", "version": "v", "defaultTaskStartToCloseTimeout": "NONE",
        "defaultExecutionStartToCloseTimeout": "1", "defaultTaskList": { "name": "l" }, "defaultTaskPriority": "-1",
        "defaultChildPolicy": "ABANDON", "defaultLambdaRole": "r", "defaultTaskHeartbeatTimeout": "1" })
    };
    let tell = || {
        json!({ "domain": "default", "workflowId": "w", "runId": run_id, "signalName": "s", "input": "",
        "reason": "", "details": "" })
    };
    let answer = || json!({ "taskToken": "t", "result": "", "reason": "", "details": "" });
    let mut closed = runs();
    closed.as_object_mut().unwrap().remove("typeFilter");
    closed["closeStatusFilter"] = json!({ "status": "FAILED" });
    let read = || json!({ "domain": "default", "execution": execution(), "maximumPageSize": 1, "reverseOrder": true });
    vec![
        ("CountClosedWorkflowExecutions", closed.clone()),
        ("CountOpenWorkflowExecutions", runs()),
        ("CountPendingActivityTasks", pending()),
        ("CountPendingDecisionTasks", pending()),
        ("DeleteActivityType", types()),
        ("DeleteWorkflowType", types()),
        ("DeprecateActivityType", types()),
        ("DeprecateDomain", domain()),
        ("DeprecateWorkflowType", types()),
        ("DescribeActivityType", types()),
        ("DescribeDomain", domain()),
        ("DescribeWorkflowExecution", read()),
        ("DescribeWorkflowType", types()),
        ("GetWorkflowExecutionHistory", read()),
        ("ListActivityTypes", list()),
        ("ListClosedWorkflowExecutions", closed),
        ("ListDomains", list()),
        ("ListOpenWorkflowExecutions", runs()),
        ("ListTagsForResource", resource()),
        ("ListWorkflowTypes", list()),
        ("PollForActivityTask", poll()),
        ("PollForDecisionTask", poll()),
        ("RecordActivityTaskHeartbeat", answer()),
        ("RegisterActivityType", register()),
        ("RegisterDomain", domain()),
        ("RegisterWorkflowType", register()),
        ("RequestCancelWorkflowExecution", tell()),
        ("RespondActivityTaskCanceled", answer()),
        ("RespondActivityTaskCompleted", answer()),
        ("RespondActivityTaskFailed", answer()),
        (
            "RespondDecisionTaskCompleted",
            json!({ "taskToken": "t", "decisions": decisions(), "executionContext": "",
            "taskList": { "name": "deciders" }, "taskListScheduleToStartTimeout": "NONE" }),
        ),
        ("SignalWorkflowExecution", tell()),
        (
            "StartWorkflowExecution",
            json!({ "domain": "default", "workflowId": "v", "workflowType": kind(), "tagList": ["t"],
            "taskList": { "name": "l" }, "taskPriority": "1", "input": "", "executionStartToCloseTimeout": "9",
            "taskStartToCloseTimeout": "9", "childPolicy": "TERMINATE", "lambdaRole": "r" }),
        ),
        ("TagResource", resource()),
        ("TerminateWorkflowExecution", tell()),
        ("UndeprecateActivityType", types()),
        ("UndeprecateDomain", domain()),
        ("UndeprecateWorkflowType", types()),
        ("UntagResource", resource()),
    ]
}

/// One decision of every type, without closing ones, of which only one is allowed.
fn decisions() -> Value {
    let activity = json!({ "name": "charge", "version": "1" });
    let order = json!({ "name": "order", "version": "1" });
    let decision = |kind: &str, attributes: Value| {
        let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
        json!({ "decisionType": kind, member: attributes })
    };
    json!([
        decision(
            "ScheduleActivityTask",
            json!({ "activityType": activity, "activityId": "a", "control": "", "input": "",
            "taskList": { "name": "l" }, "taskPriority": "1", "heartbeatTimeout": "1", "scheduleToCloseTimeout": "NONE" })
        ),
        decision("RequestCancelActivityTask", json!({ "activityId": "a" })),
        decision("RecordMarker", json!({ "markerName": "m", "details": "" })),
        decision("StartTimer", json!({ "timerId": "t", "startToFireTimeout": "9", "control": "" })),
        decision("CancelTimer", json!({ "timerId": "t" })),
        decision(
            "SignalExternalWorkflowExecution",
            json!({ "workflowId": "x", "runId": "", "signalName": "s", "input": "", "control": "" })
        ),
        decision("RequestCancelExternalWorkflowExecution", json!({ "workflowId": "x", "runId": "r" })),
        decision(
            "StartChildWorkflowExecution",
            json!({ "workflowId": "c", "workflowType": order, "tagList": [""],
            "executionStartToCloseTimeout": "1", "taskStartToCloseTimeout": "NONE", "childPolicy": "ABANDON" })
        ),
        decision("ScheduleLambdaFunction", json!({ "id": "l", "name": "f", "input": "", "startToCloseTimeout": "1" })),
        decision("ContinueAsNewWorkflowExecution", json!({ "workflowTypeVersion": "1", "tagList": ["t"] })),
    ])
}
