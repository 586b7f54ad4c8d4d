//! One engine with two protocols: a run started over one is watched, signaled, queried and decided over the other, and
//! its events have the same ids.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{Swf, execution, ready, start};

const DOMAIN: &str = "/v1/domains/default";

/// Calls the REST API, which must succeed.
pub(crate) async fn rest(swf: &Swf, method: &str, path: &str, body: Option<Value>) -> Value {
    let mut request = Request::builder().method(method).uri(path);
    if path.ends_with("/poll") {
        request = request.header("prefer", "wait=20");
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).unwrap();
    let answer = swf.router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(status.is_success(), "{method} {path}: {status} {}", String::from_utf8_lossy(&bytes));
    if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() }
}

/// Ids and types of events, by the names of both protocols.
async fn both(swf: &Swf, id: &str, run_id: &str) -> Vec<(u64, String, String)> {
    let native = rest(swf, "GET", &format!("{DOMAIN}/workflows/{id}/history?runId={run_id}"), None).await;
    let theirs = swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
    let (native, theirs) = (native["events"].as_array().unwrap(), theirs["events"].as_array().unwrap());
    assert_eq!(native.len(), theirs.len());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pairs = native.iter().zip(theirs).map(|(ours, theirs)| {
        assert_eq!(ours["id"], theirs["eventId"]);
        (ours["id"].as_u64().unwrap(), text(&ours["type"]), text(&theirs["eventType"]))
    });
    pairs.collect()
}

#[tokio::test]
async fn a_run_started_over_swf_is_signaled_and_decided_over_rest() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    rest(&swf, "POST", &format!("{DOMAIN}/workflows/w/signals/go"), Some(json!({ "input": "now" }))).await;
    let turn = rest(&swf, "POST", &format!("{DOMAIN}/task-lists/deciders/decider/poll"), Some(json!({}))).await;
    assert_eq!(turn["workflowType"], "order/1");
    let schedule = json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "charge/1", "input": "in" });
    let complete = format!("/v1/decider-tasks/{}/complete", turn["token"].as_str().unwrap());
    rest(&swf, "POST", &complete, Some(json!({ "decisions": [schedule] }))).await;
    let poll = rest(&swf, "POST", &format!("{DOMAIN}/task-lists/runners/activity/poll"), Some(json!({}))).await;
    let success = format!("/v1/activity-tasks/{}/success", poll["token"].as_str().unwrap());
    rest(&swf, "POST", &success, Some(json!({ "result": "ok" }))).await;
    let state = rest(&swf, "GET", &format!("{DOMAIN}/workflows/w"), None).await;
    assert_eq!((&state["status"], &state["runId"]), (&json!("open"), &json!(run_id)));
    let turn = rest(&swf, "POST", &format!("{DOMAIN}/task-lists/deciders/decider/poll"), Some(json!({}))).await;
    let complete = format!("/v1/decider-tasks/{}/complete", turn["token"].as_str().unwrap());
    rest(&swf, "POST", &complete, Some(json!({ "decisions": [{ "type": "SucceedWorkflow", "result": "done" }] })))
        .await;
    let described = swf.ask("DescribeWorkflowExecution", &execution("w", &run_id)).await.json();
    assert_eq!(described["executionInfo"]["closeStatus"], "COMPLETED");
    let result = rest(&swf, "GET", &format!("{DOMAIN}/workflows/w/result"), None).await;
    assert_eq!(result["result"], "done");
    let expected = [
        ("WorkflowStarted", "WorkflowExecutionStarted"),
        ("DeciderScheduled", "DecisionTaskScheduled"),
        ("Signal", "WorkflowExecutionSignaled"),
        ("DeciderStarted", "DecisionTaskStarted"),
        ("DeciderCompleted", "DecisionTaskCompleted"),
        ("ActivityScheduled", "ActivityTaskScheduled"),
        ("ActivityStarted", "ActivityTaskStarted"),
        ("ActivitySuccess", "ActivityTaskCompleted"),
        ("DeciderScheduled", "DecisionTaskScheduled"),
        ("DeciderStarted", "DecisionTaskStarted"),
        ("DeciderCompleted", "DecisionTaskCompleted"),
        ("WorkflowSuccess", "WorkflowExecutionCompleted"),
    ];
    let told = both(&swf, "w", &run_id).await;
    let told: Vec<_> = told.iter().map(|(_, ours, theirs)| (ours.as_str(), theirs.as_str())).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_run_started_over_rest_is_signaled_and_decided_over_swf() {
    let swf = ready().await;
    let body =
        json!({ "workflowId": "w", "workflowType": "native", "taskList": "deciders", "tags": ["t"], "input": 7 });
    let started = rest(&swf, "POST", &format!("{DOMAIN}/workflows"), Some(body)).await;
    let run_id = started["runId"].as_str().unwrap().to_owned();
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "go", "input": "now" });
    swf.ask("SignalWorkflowExecution", &signal).await.nothing();
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let turn = swf.ask("PollForDecisionTask", &poll).await.json();
    assert_eq!(turn["workflowType"], json!({ "name": "native", "version": "" }));
    let started = &turn["events"][0]["workflowExecutionStartedEventAttributes"];
    assert_eq!(
        (&started["input"], &started["tagList"]),
        (&json!("7"), &json!(["t"])),
        "a value that is not a string is sent as JSON"
    );
    // An unregistered type is accepted, because the run was not started over SWF.
    let schedule = json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {
        "activityId": "a", "activityType": { "name": "unknown", "version": "1" }, "taskList": { "name": "runners" } } });
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": [schedule], "executionContext": "seen" });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
    let described = swf.ask("DescribeWorkflowExecution", &execution("w", &run_id)).await.json();
    assert_eq!(described["latestExecutionContext"], "seen");
    assert_eq!(described["openCounts"]["openActivityTasks"], 1);
    assert!(described["latestActivityTaskTimestamp"].is_number());
    let runners = json!({ "domain": "default", "taskList": { "name": "runners" } });
    let task = swf.ask("PollForActivityTask", &runners).await.json();
    swf.ask("RespondActivityTaskCompleted", &json!({ "taskToken": task["taskToken"], "result": "ok" })).await.nothing();
    let turn = swf.ask("PollForDecisionTask", &poll).await.json();
    let close = json!({ "decisionType": "CompleteWorkflowExecution",
        "completeWorkflowExecutionDecisionAttributes": { "result": "done" } });
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": [close] });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
    let result = rest(&swf, "GET", &format!("{DOMAIN}/workflows/w/result"), None).await;
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!("done")));
    let list = json!({ "domain": "default", "startTimeFilter": { "oldestDate": 0 }, "tagFilter": { "tag": "t" } });
    let listed = swf.ask("ListClosedWorkflowExecutions", &list).await.json();
    assert_eq!(listed["executionInfos"][0]["execution"], json!({ "workflowId": "w", "runId": run_id }));
    assert_eq!(both(&swf, "w", &run_id).await.len(), 12);
}

#[tokio::test]
async fn a_run_started_over_swf_is_queried_over_rest() {
    let swf = ready().await;
    start(&swf, "w").await;
    let decide = async {
        loop {
            let path = format!("{DOMAIN}/task-lists/deciders/decider/poll");
            let task = rest(&swf, "POST", &path, Some(json!({ "queries": true }))).await;
            let queries = task["queries"].as_array().cloned().unwrap_or_default();
            let results: Vec<_> = queries.iter().map(|it| json!({ "id": it["id"], "result": "waiting" })).collect();
            let complete = format!("/v1/decider-tasks/{}/complete", task["token"].as_str().unwrap());
            rest(&swf, "POST", &complete, Some(json!({ "queryResults": results }))).await;
            if !results.is_empty() {
                return;
            }
        }
    };
    let path = format!("{DOMAIN}/workflows/w/queries/state");
    let (answer, ()) = tokio::join!(rest(&swf, "POST", &path, Some(json!({}))), decide);
    assert_eq!(answer["result"], "waiting");
}

#[tokio::test]
async fn an_empty_identity_is_none_in_native_runs() {
    let swf = ready().await;
    let start = json!({ "workflowId": "n", "workflowType": "order/1", "taskList": "deciders" });
    rest(&swf, "POST", &format!("{DOMAIN}/workflows"), Some(start)).await;
    let poll = |list: &str| json!({ "domain": "default", "taskList": { "name": list }, "identity": "" });
    let turn = swf.ask("PollForDecisionTask", &poll("deciders")).await.json();
    let activity = json!({ "activityType": { "name": "charge", "version": "1" }, "activityId": "a", "taskList": { "name": "runners" } });
    let decision =
        json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": activity });
    let answer = json!({ "taskToken": turn["taskToken"], "decisions": [decision] });
    swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
    let task = swf.ask("PollForActivityTask", &poll("runners")).await.json();
    let failed = json!({ "taskToken": task["taskToken"], "reason": "declined" });
    swf.ask("RespondActivityTaskFailed", &failed).await.nothing();
    let history = rest(&swf, "GET", &format!("{DOMAIN}/workflows/n/history"), None).await;
    let started = history["events"].as_array().unwrap().iter();
    let started: Vec<_> =
        started.filter(|event| event["type"].as_str().unwrap().ends_with("Started")).skip(1).collect();
    assert_eq!(started.len(), 2, "{history}");
    assert!(started.iter().all(|event| event.get("identity").is_none()), "{history}");
}

#[tokio::test]
async fn swf_polls_obey_the_pause_and_the_limits_of_a_list() {
    let swf = ready().await;
    let list = format!("{DOMAIN}/task-lists/deciders/decider");
    rest(&swf, "POST", &format!("{list}/pause"), Some(json!({ "reason": "maintenance" }))).await;
    start(&swf, "w").await;
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let (turn, ()) = tokio::join!(swf.ask("PollForDecisionTask", &poll), async {
        let shown = format!("{DOMAIN}/task-lists/deciders");
        while rest(&swf, "GET", &shown, None).await["taskLists"][0]["polls"] != 1 {
            tokio::task::yield_now().await;
        }
        let state = rest(&swf, "GET", &format!("{DOMAIN}/workflows/w"), None).await;
        assert_eq!((&state["turn"], &state["behind"][0]["limit"]), (&json!("waiting"), &json!("paused")));
        rest(&swf, "POST", &format!("{list}/resume"), None).await;
    });
    assert_eq!(turn.json()["workflowExecution"]["workflowId"], "w");
    // With a limit of one turn, a second run waits until the first turn is answered.
    rest(&swf, "PUT", &format!("{list}/limits"), Some(json!({ "maxRunning": 1 }))).await;
    start(&swf, "v").await;
    let token = turn.json()["taskToken"].clone();
    let (turn, ()) = tokio::join!(swf.ask("PollForDecisionTask", &poll), async {
        let shown = format!("{DOMAIN}/task-lists/deciders");
        let behind = || rest(&swf, "GET", &shown, None);
        while behind().await["taskLists"][0]["behind"][0]["limit"] != "max-running" {
            tokio::task::yield_now().await;
        }
        swf.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": token, "decisions": [] })).await.nothing();
    });
    assert_eq!(turn.json()["workflowExecution"]["workflowId"], "v");
}

#[tokio::test]
async fn histories_of_the_swf_protocol_do_not_show_concurrency_keys() {
    let swf = ready().await;
    let begin = json!({
        "workflowId": "w", "workflowType": "order/1", "taskList": "deciders", "concurrencyKey": "visa-customer",
    });
    let started = rest(&swf, "POST", &format!("{DOMAIN}/workflows"), Some(begin)).await;
    let turn = rest(&swf, "POST", &format!("{DOMAIN}/task-lists/deciders/decider/poll"), Some(json!({}))).await;
    let complete = format!("/v1/decider-tasks/{}/complete", turn["token"].as_str().unwrap());
    let activity = json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "charge/1", "concurrencyKey": "gold-key" });
    let child = json!({
        "type": "StartChild", "workflowId": "c", "workflowType": "order/1", "taskList": "c", "concurrencyKey": "child-key",
    });
    rest(&swf, "POST", &complete, Some(json!({ "decisions": [activity, child] }))).await;
    let native = rest(&swf, "GET", &format!("{DOMAIN}/workflows/w/history"), None).await.to_string();
    let run_id = started["runId"].as_str().unwrap();
    let theirs = swf.ask("GetWorkflowExecutionHistory", &execution("w", run_id)).await.json().to_string();
    for key in ["visa-customer", "gold-key", "child-key"] {
        assert!(native.contains(key) && !theirs.contains(key), "{key}: {native} {theirs}");
    }
    assert!(!theirs.contains("oncurrencyKey"), "{theirs}");
}
