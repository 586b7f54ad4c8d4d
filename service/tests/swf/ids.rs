//! Ids that programs choose: a workflow id may be nearly any text, and run ids are recorded as written.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::both_protocols::rest;
use crate::support::{Swf, execution, kind, ready, start};

/// A decision of this type with these attributes.
fn decision(kind: &str, attributes: &Value) -> Value {
    let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
    json!({ "decisionType": kind, member: attributes })
}

fn signal_external(id: &str, run_id: Option<&str>) -> Value {
    let mut attributes = json!({ "workflowId": id, "signalName": "go", "control": "note" });
    if let Some(run_id) = run_id {
        attributes["runId"] = json!(run_id);
    }
    decision("SignalExternalWorkflowExecution", &attributes)
}

fn cancel_external(id: &str, run_id: Option<&str>) -> Value {
    let mut attributes = json!({ "workflowId": id, "control": "note" });
    if let Some(run_id) = run_id {
        attributes["runId"] = json!(run_id);
    }
    decision("RequestCancelExternalWorkflowExecution", &attributes)
}

fn start_child(id: &str) -> Value {
    let attributes = json!({ "workflowId": id, "workflowType": kind(), "taskList": { "name": "children" } });
    decision("StartChildWorkflowExecution", &attributes)
}

async fn turn(swf: &Swf, list: &str) -> Value {
    let poll = json!({ "domain": "default", "taskList": { "name": list } });
    swf.ask("PollForDecisionTask", &poll).await.json()
}

async fn respond(swf: &Swf, turn: &Value, decisions: Value) {
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
}

async fn events(swf: &Swf, id: &str, run_id: &str) -> Vec<Value> {
    let history = swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
    history["events"].as_array().unwrap().clone()
}

/// Number of events of this type.
fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["eventType"] == kind).count()
}

/// Every operation that names a workflow id, except its start.
fn calls(id: &str, run_id: &str) -> Vec<(&'static str, Value)> {
    let told = |run_id: &str| json!({ "domain": "default", "workflowId": id, "runId": run_id, "signalName": "go" });
    let listed = json!({ "domain": "default", "startTimeFilter": { "oldestDate": 0 },
        "executionFilter": { "workflowId": id } });
    vec![
        ("SignalWorkflowExecution", told("")),
        ("SignalWorkflowExecution", told(run_id)),
        ("RequestCancelWorkflowExecution", told(run_id)),
        ("DescribeWorkflowExecution", execution(id, run_id)),
        ("GetWorkflowExecutionHistory", execution(id, run_id)),
        ("ListOpenWorkflowExecutions", listed.clone()),
        ("CountOpenWorkflowExecutions", listed.clone()),
        ("TerminateWorkflowExecution", told(run_id)),
        ("ListClosedWorkflowExecutions", listed.clone()),
        ("CountClosedWorkflowExecutions", listed),
    ]
}

#[tokio::test]
async fn a_workflow_id_is_any_text_without_control_characters() {
    let swf = ready().await;
    let default_of_flow = "0192f1c2-0000-7000-8000-000000000001:3";
    let longest = ":".repeat(256);
    for id in [default_of_flow, "a/b", "a|b", "/", "arn", "arn:aws:swf:x", " x ", "%2F?#", "...", "\u{a0}", &longest] {
        let run_id = start(&swf, id).await;
        respond(&swf, &turn(&swf, "deciders").await, json!([])).await;
        for (operation, request) in calls(id, &run_id) {
            let answer = swf.ask(operation, &request).await;
            assert_eq!(answer.status, 200, "{operation} {id:?}: {}", answer.text);
            match operation {
                "ListOpenWorkflowExecutions" | "ListClosedWorkflowExecutions" => {
                    let found = answer.json()["executionInfos"][0]["execution"].clone();
                    assert_eq!(found, json!({ "workflowId": id, "runId": run_id }), "{operation} {id:?}");
                }
                "CountOpenWorkflowExecutions" | "CountClosedWorkflowExecutions" => {
                    assert_eq!(answer.json()["count"], 1, "{operation} {id:?}");
                }
                _ => {}
            }
        }
        let told = events(&swf, id, &run_id).await;
        assert_eq!(count(&told, "WorkflowExecutionSignaled"), 2, "{id:?}");
        assert_eq!(count(&told, "WorkflowExecutionCancelRequested"), 1, "{id:?}");
        assert_eq!(count(&told, "WorkflowExecutionTerminated"), 1, "{id:?}");
        // The same run over REST.
        let path = format!("/v1/domains/default/workflows/{}", utf8_percent_encode(id, NON_ALPHANUMERIC));
        let described = rest(&swf, "GET", &path, None).await;
        assert_eq!((&described["workflowId"], &described["runId"]), (&json!(id), &json!(run_id)), "{path}");
        assert_eq!(described["status"], "terminated", "{path}");
        let history = rest(&swf, "GET", &format!("{path}/history"), None).await;
        assert_eq!(history["events"].as_array().unwrap().len(), told.len(), "{path}");
    }
}

#[tokio::test]
async fn dot_names_are_refused_over_swf() {
    let swf = ready().await;
    start(&swf, "w").await;
    let turn = turn(&swf, "deciders").await;
    for dots in [".", ".."] {
        let of = |member: &str, value: Value| {
            let mut request = json!({ "domain": "default", "workflowId": "v", "workflowType": kind() });
            request[member] = value;
            request
        };
        let register = json!({ "name": dots, "workflowExecutionRetentionPeriodInDays": "1" });
        let kind = json!({ "domain": "default", "name": dots, "version": "1" });
        let told = json!({ "domain": "default", "workflowId": "w", "signalName": dots });
        let timer = decision("StartTimer", &json!({ "timerId": dots, "startToFireTimeout": "1" }));
        let marker = decision("RecordMarker", &json!({ "markerName": dots }));
        let activity = json!({ "activityId": dots, "activityType": { "name": "charge", "version": "1" } });
        let activity = decision("ScheduleActivityTask", &activity);
        let decides = |it: &Value| json!({ "taskToken": turn["taskToken"], "decisions": [it] });
        for (operation, request) in [
            ("StartWorkflowExecution", of("workflowId", json!(dots))),
            ("StartWorkflowExecution", of("taskList", json!({ "name": dots }))),
            ("SignalWorkflowExecution", told),
            ("RegisterDomain", register),
            ("RegisterWorkflowType", kind.clone()),
            ("RegisterActivityType", kind),
            ("PollForDecisionTask", json!({ "domain": "default", "taskList": { "name": dots } })),
            ("PollForActivityTask", json!({ "domain": "default", "taskList": { "name": dots } })),
            ("RespondDecisionTaskCompleted", decides(&timer)),
            ("RespondDecisionTaskCompleted", decides(&marker)),
            ("RespondDecisionTaskCompleted", decides(&activity)),
            ("RespondDecisionTaskCompleted", decides(&start_child(dots))),
            ("RespondDecisionTaskCompleted", decides(&signal_external(dots, None))),
            ("RespondDecisionTaskCompleted", decides(&cancel_external(dots, None))),
        ] {
            let answer = swf.ask(operation, &request).await;
            assert_eq!(answer.status, 400, "{operation} {request}: {}", answer.text);
            assert!(answer.text.contains(&format!("must not be `{dots}`")), "{operation}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_child_with_any_id_is_signaled_and_canceled() {
    let swf = ready().await;
    let run_id = start(&swf, "parent").await;
    // The default id of children in the Flow Framework for Java and in botoflow.
    let id = format!("{run_id}:1");
    respond(&swf, &turn(&swf, "deciders").await, json!([start_child(&id)])).await;
    let of_child = turn(&swf, "children").await;
    assert_eq!(of_child["workflowExecution"]["workflowId"], json!(id));
    respond(&swf, &of_child, json!([])).await;
    let child = of_child["workflowExecution"]["runId"].as_str().unwrap();
    let decisions = json!([signal_external(&id, Some(child)), cancel_external(&id, None)]);
    respond(&swf, &turn(&swf, "deciders").await, decisions).await;
    // Delivered effects are in the parent's next turn.
    let mut told = Vec::new();
    while count(&told, "ExternalWorkflowExecutionCancelRequested") == 0
        || count(&told, "ExternalWorkflowExecutionSignaled") == 0
    {
        respond(&swf, &turn(&swf, "deciders").await, json!([])).await;
        told = events(&swf, "parent", &run_id).await;
    }
    let of_child = turn(&swf, "children").await;
    let told = of_child["events"].as_array().unwrap();
    assert_eq!(count(told, "WorkflowExecutionSignaled"), 1);
    assert_eq!(count(told, "WorkflowExecutionCancelRequested"), 1);
    let canceled = decision("CancelWorkflowExecution", &json!({}));
    respond(&swf, &of_child, json!([canceled])).await;
    let mut told = Vec::new();
    while count(&told, "ChildWorkflowExecutionCanceled") == 0 {
        let of_parent = turn(&swf, "deciders").await;
        respond(&swf, &of_parent, json!([])).await;
        told = of_parent["events"].as_array().unwrap().clone();
    }
}

#[tokio::test]
async fn an_invalid_workflow_id_is_refused_in_every_operation() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let held = turn(&swf, "deciders").await;
    let long = "x".repeat(257);
    for (id, problem) in [
        ("", "Member must have length greater than or equal to 1"),
        (long.as_str(), "Member must have length less than or equal to 256"),
        ("a\u{0}", "Member must not contain control characters"),
        ("a\nb", "Member must not contain control characters"),
        ("\u{7f}", "Member must not contain control characters"),
        ("\u{9f}", "Member must not contain control characters"),
    ] {
        let decided = |decision: Value| json!({ "taskToken": held["taskToken"], "decisions": [decision] });
        let mut requests = calls(id, &run_id);
        requests
            .push(("StartWorkflowExecution", json!({ "domain": "default", "workflowId": id, "workflowType": kind() })));
        for decision in [start_child(id), signal_external(id, None), cancel_external(id, None)] {
            requests.push(("RespondDecisionTaskCompleted", decided(decision)));
        }
        for (operation, request) in requests {
            let answer = swf.ask(operation, &request).await;
            assert_eq!(answer.status, 400, "{operation} {id:?}: {}", answer.text);
            let is_said = answer.text.contains("ValidationException") && answer.text.contains(problem);
            assert!(is_said && answer.text.contains("orkflowId'"), "{operation} {id:?}: {}", answer.text);
        }
    }
    // The refused requests changed nothing: the turn is still started.
    respond(&swf, &held, json!([decision("CompleteWorkflowExecution", &json!({}))])).await;
}

#[tokio::test]
async fn events_have_run_ids_as_the_decider_wrote_them() {
    let swf = ready().await;
    let closed = start(&swf, "closed").await;
    let complete = decision("CompleteWorkflowExecution", &json!({}));
    respond(&swf, &turn(&swf, "deciders").await, json!([complete])).await;
    let run_id = start(&swf, "w").await;
    let upper = closed.to_uppercase();
    let longest = "x".repeat(64);
    let named = ["fake", "", upper.as_str(), closed.as_str(), "22hNs0PCU5+/=", "\u{0}", longest.as_str()];
    let decisions: Vec<_> = named
        .iter()
        .flat_map(|run_id| [signal_external("closed", Some(run_id)), cancel_external("closed", Some(run_id))])
        .collect();
    respond(&swf, &turn(&swf, "deciders").await, json!(decisions)).await;
    let is_failed = |events: &[Value]| {
        count(events, "SignalExternalWorkflowExecutionFailed") == named.len()
            && count(events, "RequestCancelExternalWorkflowExecutionFailed") == named.len()
    };
    let mut told = events(&swf, "w", &run_id).await;
    while !is_failed(&told) {
        respond(&swf, &turn(&swf, "deciders").await, json!([])).await;
        told = events(&swf, "w", &run_id).await;
    }
    for kind in ["SignalExternalWorkflowExecution", "RequestCancelExternalWorkflowExecution"] {
        let attributes = |name: &str| -> Vec<Value> {
            let kind = format!("{kind}{name}");
            let member = format!("{}{}EventAttributes", kind[..1].to_lowercase(), &kind[1..]);
            told.iter().filter(|event| event["eventType"] == kind).map(|event| event[&member].clone()).collect()
        };
        let runs = |attributes: &[Value]| attributes.iter().map(|it| it["runId"].clone()).collect::<Vec<_>>();
        let initiated = runs(&attributes("Initiated"));
        assert_eq!(initiated, named.map(|run_id| json!(run_id)), "{kind}");
        let failed = attributes("Failed");
        let mut found: Vec<String> = runs(&failed).iter().map(|it| it.as_str().unwrap().to_owned()).collect();
        let mut expected = named.map(str::to_owned).to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{kind}");
        assert!(
            failed.iter().all(|it| it["cause"] == "UNKNOWN_EXTERNAL_WORKFLOW_EXECUTION" && it["control"] == "note")
        );
    }
    // Over REST, too.
    let native = rest(&swf, "GET", "/v1/domains/default/workflows/w/history", None).await;
    let native = native["events"].as_array().unwrap();
    let first = native.iter().find(|event| event["type"] == "ExternalCancelScheduled").unwrap();
    assert_eq!(first["runId"], "fake");
}
