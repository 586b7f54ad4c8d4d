//! Inputs at the limits of the SWF protocol, and the faults beyond them.

use serde_json::{Value, json};

use crate::support::{Swf, execution, ready, start};

const TARGET: &str = "deciders";

/// A turn of the default task list.
async fn turn(swf: &Swf) -> Value {
    let poll = json!({ "domain": "default", "taskList": { "name": TARGET } });
    swf.ask("PollForDecisionTask", &poll).await.json()
}

fn decision(kind: &str, attributes: &Value) -> Value {
    let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
    json!({ "decisionType": kind, member: attributes })
}

async fn respond(swf: &Swf, turn: &Value, decisions: &Value) {
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
}

/// The events of a run.
async fn events(swf: &Swf, id: &str, run_id: &str) -> Vec<Value> {
    let history = swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
    history["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_cancel_request_passes_to_the_run_that_continues_as_new() {
    let swf = ready().await;
    start(&swf, "w").await;
    swf.ask("RequestCancelWorkflowExecution", &json!({ "domain": "default", "workflowId": "w" })).await.nothing();
    let first = turn(&swf).await;
    respond(&swf, &first, &json!([decision("ContinueAsNewWorkflowExecution", &json!({}))])).await;
    let second = turn(&swf).await;
    assert_ne!(second["workflowExecution"]["runId"], first["workflowExecution"]["runId"]);
    let told = second["events"].as_array().unwrap();
    let request = &told[2];
    assert_eq!(request["eventType"], "WorkflowExecutionCancelRequested");
    let attributes = json!({ "externalInitiatedEventId": 0 });
    assert_eq!(request["workflowExecutionCancelRequestedEventAttributes"], attributes);
    let run_id = second["workflowExecution"]["runId"].as_str().unwrap();
    let described = swf.ask("DescribeWorkflowExecution", &execution("w", run_id)).await.json();
    assert_eq!(described["executionInfo"]["cancelRequested"], json!(true));
    assert_eq!(events(&swf, "w", run_id).await.len(), 4);
}

/// Fault message for this timeout in this member.
fn no_time(given: &str, at: &str, has_none: bool) -> String {
    let or_none = if has_none { " or 'NONE'" } else { "" };
    format!(
        "1 validation error detected: Value '{given}' at '{at}' failed to satisfy constraint: \
         Member must be a number of seconds greater than 0{or_none}"
    )
}

const VALIDATION: &str = "com.amazon.coral.validate#ValidationException";

#[tokio::test]
async fn a_timeout_of_zero_is_refused_in_every_operation() {
    let swf = ready().await;
    start(&swf, "w").await;
    let held = turn(&swf).await;
    let (run, task) = ("xecutionStartToCloseTimeout", "askStartToCloseTimeout");
    for given in ["0", "00000000"] {
        for (name, is_task) in [(run, false), (task, true)] {
            let (lower, default) = if is_task { ("t", "defaultT") } else { ("e", "defaultE") };
            let (member, default) = (format!("{lower}{name}"), format!("{default}{name}"));
            let register = json!({ "domain": "default", "name": "n", "version": "1", &default: given });
            let refused = swf.ask("RegisterWorkflowType", &register).await;
            refused.fault(VALIDATION, &no_time(given, &default, is_task));
            let begin = json!({
                "domain": "default", "workflowId": "v", "workflowType": { "name": "order", "version": "1" }, &member: given,
            });
            swf.ask("StartWorkflowExecution", &begin).await.fault(VALIDATION, &no_time(given, &member, is_task));
            let child = json!({
                "workflowId": "c", "workflowType": { "name": "order", "version": "1" }, &member: given,
            });
            for (kind, attributes) in
                [("StartChildWorkflowExecution", child), ("ContinueAsNewWorkflowExecution", json!({ &member: given }))]
            {
                let attributes_of = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
                let answer = json!({ "taskToken": held["taskToken"], "decisions": [decision(kind, &attributes)] });
                let at = format!("decisions.1.member.{attributes_of}.{member}");
                let refused = swf.ask("RespondDecisionTaskCompleted", &answer).await;
                refused.fault(VALIDATION, &no_time(given, &at, is_task));
            }
        }
    }
    // The refused answers changed nothing: the token is valid, and one second is accepted.
    let least = json!({ "taskStartToCloseTimeout": "1", "executionStartToCloseTimeout": "1" });
    respond(&swf, &held, &json!([decision("ContinueAsNewWorkflowExecution", &least)])).await;
}

#[tokio::test]
async fn an_integer_member_takes_only_integers() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let mut seen = 0;
    for (operation, mut request) in crate::valid_requests::requests(&run_id) {
        let has_pages = operation.starts_with("List") && operation != "ListTagsForResource"
            || ["GetWorkflowExecutionHistory", "PollForDecisionTask"].contains(&operation);
        if !has_pages {
            continue;
        }
        for (given, found) in [
            (json!(1.5), "NUMBER_VALUE"),
            (json!(-0.5), "NUMBER_VALUE"),
            (json!(1e0), "NUMBER_VALUE"),
            (json!(1e300), "NUMBER_VALUE"),
            (json!("5"), "STRING_VALUE"),
            (json!(true), "TRUE_VALUE"),
            (json!([]), "START_ARRAY"),
            (json!({}), "START_OBJECT"),
        ] {
            request["maximumPageSize"] = given.clone();
            let refused = swf.ask(operation, &request).await;
            let message = format!("{found} can not be converted to a Integer");
            refused.fault("com.amazon.coral.service#SerializationException", &message);
            seen += 1;
        }
    }
    assert_eq!(seen, 7 * 8, "every operation with pages");
    let list = |size: &str| {
        let body = format!("{{\"registrationStatus\":\"REGISTERED\",\"maximumPageSize\":{size}}}");
        let headers = [("x-amz-target", "SimpleWorkflowService.ListDomains")];
        let swf = &swf;
        async move { swf.send(&headers, body).await }
    };
    let at = "at 'maximumPageSize' failed to satisfy constraint: Member must have value";
    let invalid = |found: &str, problem: &str| format!("1 validation error detected: Value '{found}' {at} {problem}");
    list("-1").await.fault(VALIDATION, &invalid("-1", "greater than or equal to 0"));
    list("1001").await.fault(VALIDATION, &invalid("1001", "less than or equal to 1000"));
    let most = i64::MAX.to_string();
    list(&u64::MAX.to_string()).await.fault(VALIDATION, &invalid(&most, "less than or equal to 1000"));
    for good in ["0", "1", "1000", "null"] {
        list(good).await.json();
    }
    // The protocol distinguishes the spelling of numbers, which JSON does not.
    for bad in ["1.0", "1e0", "1E2", "10.50"] {
        let message = "NUMBER_VALUE can not be converted to a Integer";
        list(bad).await.fault("com.amazon.coral.service#SerializationException", message);
    }
}

/// A decision of every type, with a control character in each text that a program chooses.
fn decisions_with_control_characters() -> Vec<(&'static str, &'static str, Value)> {
    let bad = "a\u{1}";
    let kind = json!({ "name": "order", "version": "1" });
    let of_child = |name: &str, value: Value| {
        let mut it = json!({ "workflowId": "c", "workflowType": kind });
        it[name] = value;
        it
    };
    let list = json!({ "name": bad });
    vec![
        ("ScheduleLambdaFunction", "id", json!({ "id": bad, "name": "f" })),
        ("ScheduleLambdaFunction", "name", json!({ "id": "i", "name": bad })),
        ("ScheduleActivityTask", "activityId", json!({ "activityId": bad, "activityType": kind })),
        (
            "ScheduleActivityTask",
            "activityType.name",
            json!({ "activityId": "a", "activityType": { "name": bad, "version": "1" } }),
        ),
        ("ScheduleActivityTask", "taskList.name", json!({ "activityId": "a", "activityType": kind, "taskList": list })),
        ("RequestCancelActivityTask", "activityId", json!({ "activityId": bad })),
        ("StartTimer", "timerId", json!({ "timerId": bad, "startToFireTimeout": "1" })),
        ("CancelTimer", "timerId", json!({ "timerId": bad })),
        ("RecordMarker", "markerName", json!({ "markerName": bad })),
        ("SignalExternalWorkflowExecution", "workflowId", json!({ "workflowId": bad, "signalName": "s" })),
        ("SignalExternalWorkflowExecution", "signalName", json!({ "workflowId": "x", "signalName": bad })),
        ("RequestCancelExternalWorkflowExecution", "workflowId", json!({ "workflowId": bad })),
        ("StartChildWorkflowExecution", "workflowId", json!({ "workflowId": bad, "workflowType": kind })),
        (
            "StartChildWorkflowExecution",
            "workflowType.name",
            json!({ "workflowId": "c", "workflowType": { "name": bad, "version": "1" } }),
        ),
        ("StartChildWorkflowExecution", "taskList.name", of_child("taskList", list.clone())),
        ("StartChildWorkflowExecution", "tagList.1.member", of_child("tagList", json!([bad]))),
        ("StartChildWorkflowExecution", "lambdaRole", of_child("lambdaRole", json!(bad))),
        ("ContinueAsNewWorkflowExecution", "workflowTypeVersion", json!({ "workflowTypeVersion": bad })),
        ("ContinueAsNewWorkflowExecution", "taskList.name", json!({ "taskList": list })),
        ("ContinueAsNewWorkflowExecution", "tagList.2.member", json!({ "tagList": ["a", bad] })),
        ("ContinueAsNewWorkflowExecution", "lambdaRole", json!({ "lambdaRole": bad })),
        ("FailWorkflowExecution", "reason", json!({ "reason": bad })),
    ]
}

#[tokio::test]
async fn a_fault_names_the_members_of_the_protocol() {
    let swf = ready().await;
    start(&swf, "w").await;
    let held = turn(&swf).await;
    for (kind, field, attributes) in decisions_with_control_characters() {
        let timer = decision("StartTimer", &json!({ "timerId": "t", "startToFireTimeout": "1" }));
        let answer = json!({ "taskToken": held["taskToken"], "decisions": [timer, decision(kind, &attributes)] });
        let refused = swf.ask("RespondDecisionTaskCompleted", &answer).await;
        let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
        let at = format!("'decisions.2.member.{member}.{field}'");
        assert!(refused.status == 400 && refused.text.contains(&at), "{kind} {field}: {}", refused.text);
        assert!(refused.text.contains("ValidationException"), "{}", refused.text);
    }
    let bad = "a\u{1}";
    let (kind, list) = (json!({ "name": bad, "version": "1" }), json!({ "name": bad }));
    let begin = json!({ "domain": "default", "workflowId": "v", "workflowType": { "name": "order", "version": "1" } });
    let with = |base: &Value, name: &str, value: &Value| {
        let mut it = base.clone();
        it[name] = value.clone();
        it
    };
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "s" });
    let register = json!({ "domain": "default", "name": "n", "version": "1" });
    for (operation, at, request) in [
        ("StartWorkflowExecution", "workflowId", with(&begin, "workflowId", &json!(bad))),
        ("StartWorkflowExecution", "taskList.name", with(&begin, "taskList", &list)),
        ("StartWorkflowExecution", "tagList.1.member", with(&begin, "tagList", &json!([bad]))),
        ("StartWorkflowExecution", "lambdaRole", with(&begin, "lambdaRole", &json!(bad))),
        ("SignalWorkflowExecution", "signalName", with(&signal, "signalName", &json!(bad))),
        ("RegisterWorkflowType", "defaultTaskList.name", with(&register, "defaultTaskList", &list)),
        ("RegisterWorkflowType", "defaultLambdaRole", with(&register, "defaultLambdaRole", &json!(bad))),
        ("RegisterWorkflowType", "name", with(&register, "name", &json!(bad))),
        ("RegisterActivityType", "defaultTaskList.name", with(&register, "defaultTaskList", &list)),
        ("TerminateWorkflowExecution", "reason", with(&signal, "reason", &json!(bad))),
        ("PollForDecisionTask", "taskList.name", json!({ "domain": "default", "taskList": list })),
        (
            "PollForActivityTask",
            "identity",
            json!({ "domain": "default", "taskList": { "name": "l" }, "identity": bad }),
        ),
    ] {
        let refused = swf.ask(operation, &request).await;
        let at = format!("'{at}'");
        assert!(refused.status == 400 && refused.text.contains(&at), "{operation} {at}: {}", refused.text);
        assert!(refused.text.contains("ValidationException"), "{}", refused.text);
    }
    // An impossible type is unknown, and named as given.
    let unknown = swf.ask("StartWorkflowExecution", &with(&begin, "workflowType", &kind)).await;
    assert!(unknown.text.contains("UnknownResourceFault"), "{}", unknown.text);
}
