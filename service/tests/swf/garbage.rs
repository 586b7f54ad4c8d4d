//! Requests that are almost right: whatever stands in the place of whatever member, the answer is a success or a fault, never a
//! failure of the service.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Swf, ready, start};

/// A poll that has not answered by then waits for a task.
const PATIENCE: Duration = Duration::from_millis(3);

/// A right request of every operation, but for tokens.
fn requests(run_id: &str) -> Vec<(&'static str, Value)> {
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

/// One decision of every type, those that close left out: only one of them may stand there.
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

/// What stands in the place of a member.
fn nasty() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let mut nasty = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(-1e300),
        json!(""),
        json!(" "),
        json!("arn"),
        json!("a:b/c|d"),
        json!("\u{0}\u{7f}\u{9f}"),
        json!("NONE"),
        json!("0"),
        json!("99999999"),
        json!("999999999999999999999"),
        json!("-2147483649"),
        json!("\u{10ffff}\u{feff}\u{202e}"),
        json!("c.fffffffffff."),
        json!("t.fffffffffff.x.1.0.0.1"),
        json!("h.fffffffffff.18446744073709551615"),
        json!("o.fffffffffff.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        json!([]),
        json!([null]),
        json!({}),
        json!({ "name": null }),
        json!([{}, [], 1, "x"]),
        deep,
    ];
    nasty.push(json!("x".repeat(257)));
    nasty.push(json!("漢".repeat(2_049)));
    nasty
}

/// The places of a value's members, and of the members of these.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (format!("{here}/{name}"), value)).collect(),
        Value::Array(entries) => {
            entries.iter().enumerate().map(|(at, value)| (format!("{here}/{at}"), value)).collect()
        }
        _ => Vec::new(),
    };
    for (place, value) in inner {
        places(value, &place, found);
        found.push(place);
    }
}

/// A success, or a fault of the caller's with its type and its message.
fn is_answer(status: u16, text: &str) -> bool {
    let fault =
        || serde_json::from_str::<Value>(text).is_ok_and(|it| it["__type"].is_string() && it["message"].is_string());
    status == 200 || (status == 400 && fault())
}

/// The token of a turn of a new run.
async fn turn(swf: &Swf, id: &str) -> Value {
    start(swf, id).await;
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    swf.ask("PollForDecisionTask", &poll).await.json()["taskToken"].clone()
}

#[tokio::test]
async fn whatever_stands_in_the_place_of_whatever_member_is_answered() {
    let nasty = nasty();
    for at in 0..requests("").len() {
        let swf = ready().await;
        let run_id = start(&swf, "w").await;
        let (operation, request) = requests(&run_id).swap_remove(at);
        let (mut found, mut turns, mut token) = (Vec::new(), 0, None);
        places(&request, "", &mut found);
        for (place, value) in found.iter().flat_map(|place| nasty.iter().map(move |value| (place, value))) {
            let mut changed = request.clone();
            *changed.pointer_mut(place).unwrap() = value.clone();
            if operation == "RespondDecisionTaskCompleted" && place != "/taskToken" {
                if token.is_none() {
                    turns += 1;
                    token = Some(turn(&swf, &format!("turn {turns}")).await);
                }
                changed["taskToken"] = token.clone().unwrap();
            }
            let asked = swf.ask(operation, &changed);
            let answer = if operation.starts_with("Poll") {
                let Ok(answer) = tokio::time::timeout(PATIENCE, asked).await else { continue };
                answer
            } else {
                asked.await
            };
            assert!(is_answer(answer.status, &answer.text), "{operation} {changed}: {} {}", answer.status, answer.text);
            if answer.status == 200 {
                token = None;
            }
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_and_texts_that_are_no_json_are_faults() {
    let swf = ready().await;
    let bodies: [&[u8]; 9] = [
        b"\xff\xfe",
        b"{\"name\":\"\xc3\x28\"}",
        br#"{"name":"\ud800"}"#,
        br#"{"name":1e999}"#,
        b"{\"name\":\"d\"}{}",
        b"[[[[",
        b"{\"name\":",
        b"\0",
        b"\xef\xbb\xbf{}",
    ];
    for body in bodies {
        let headers = [("x-amz-target", "SimpleWorkflowService.DescribeDomain")];
        let answer = swf.send(&headers, body.to_vec()).await;
        let fault: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(fault["__type"], "com.amazon.coral.service#SerializationException", "{body:?}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let headers = [("x-amz-target", "SimpleWorkflowService.DescribeDomain")];
    assert_eq!(swf.send(&headers, format!(r#"{{"name":{deep}}}"#)).await.status, 400);
}
