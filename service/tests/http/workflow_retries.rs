//! Retries of workflows: each attempt is a separate run.

use serde_json::{Value, json};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS};

/// Three attempts, 10 seconds before the second and 20 before the third.
fn start() -> Value {
    json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "input": { "n": 7 }, "runTimeout": 60,
            "retry": { "initialInterval": 10, "maximumAttempts": 3, "nonRetryableReasons": ["hopeless"] } })
}

async fn fail(api: &Api, reason: &str) -> Value {
    api.decide(json!([{ "type": "FailWorkflow", "reason": reason }])).await
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

fn advance(api: &Api, seconds: u64) {
    api.clock.advance(history::Duration::from_secs(seconds));
}

#[tokio::test]
async fn a_failed_workflow_is_retried_and_its_result_is_the_last() {
    let api = Api::open().await;
    let begin = || Ask::post(WORKFLOWS, &start()).header("idempotency-key", "k");
    let first = api.ask(begin()).await.json(201)["runId"].clone();
    let wait = api.ask(Ask::get(&format!("{WORKFLOWS}/w/result")).header("prefer", "wait=20"));
    let tries = async {
        fail(&api, "busy").await;
        let second = describe(&api).await;
        assert_eq!((&second["attempt"], &second["continuedFrom"]), (&json!(2), &first));
        assert_eq!((&second["status"], &second["turn"]), (&json!("open"), &json!("waiting")));
        assert_eq!(second["retry"]["maximumAttempts"], json!(3));
        let old = api.get(&format!("{WORKFLOWS}/w?runId={}", first.as_str().unwrap())).await.json(200);
        assert_eq!((&old["status"], &old["retriedAs"]), (&json!("failed"), &second["runId"]));
        let closed = api.get(&format!("{WORKFLOWS}/w/result?runId={}", first.as_str().unwrap())).await.json(200);
        assert_eq!((&closed["reason"], &closed["continuedAs"]), (&json!("busy"), &second["runId"]));
        let history = format!("{WORKFLOWS}/w/history?runId={}&reverse=true&limit=1", first.as_str().unwrap());
        let closing = api.get(&history).await.json(200)["events"][0].clone();
        assert_eq!((&closing["newRunId"], &closing["nextAttemptAt"]), (&second["runId"], &second["nextAttemptAt"]));
        assert_eq!(api.ask(begin()).await.json(200)["runId"], second["runId"], "the start is known by its key");

        let poll = Ask::post(DECIDERS, &json!({})).header("prefer", "wait=0");
        assert_eq!(api.ask(poll).await.status, 204, "held back");
        advance(&api, 10);
        let turn = fail(&api, "busy").await;
        let event = &turn["events"][0];
        assert_eq!((&event["attempt"], &event["input"]), (&json!(2), &json!({ "n": 7 })));
        advance(&api, 20);
        fail(&api, "busy").await;
    };
    let (answer, ()) = tokio::join!(wait, tries);
    let result = answer.json(200);
    assert_eq!((&result["status"], &result["reason"]), (&json!("failed"), &json!("busy")));
    assert_eq!(result.get("continuedAs"), None);
    let last = describe(&api).await;
    assert_eq!((&last["attempt"], &last["runId"]), (&json!(3), &result["runId"]));
    assert_eq!((last.get("retriedAs"), last.get("nextAttemptAt")), (None, None));
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (3, vec![]));
}

#[tokio::test]
async fn a_waiting_retry_takes_signals_and_can_be_terminated() {
    let api = Api::open().await;
    api.post(WORKFLOWS, &start()).await.json(201);
    fail(&api, "busy").await;
    api.post(WORKFLOWS, &start()).await.problem(409, "workflow-already-open");
    api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
    advance(&api, 10);
    let turn = fail(&api, "hopeless").await;
    assert_eq!(turn["events"].as_array().unwrap().len(), 4, "started, scheduled, the signal, its turn: {turn}");
    assert_eq!(describe(&api).await["status"], json!("failed"));

    api.post(WORKFLOWS, &start()).await.json(201);
    fail(&api, "busy").await;
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    assert_eq!(api.get(&format!("{WORKFLOWS}/w/result")).await.json(200)["status"], json!("terminated"));
}

#[tokio::test]
async fn every_attempt_has_the_large_input() {
    let api = Api::open().await;
    let mut start = start();
    start["input"] = json!("x".repeat(200_000));
    api.post(WORKFLOWS, &start).await.json(201);
    fail(&api, "busy").await;
    advance(&api, 10);
    assert_eq!(fail(&api, "busy").await["events"][0]["input"], start["input"]);
}

#[tokio::test]
async fn an_invalid_retry_policy_is_refused() {
    let api = Api::open().await;
    let refused = async |part: Value, code: &str| {
        let mut start = start();
        start["retry"] = part;
        api.post(WORKFLOWS, &start).await.problem(400, code)
    };
    let zero = refused(json!({ "maximumAttempts": 0 }), "invalid-field").await;
    assert_eq!(zero["field"], json!("retry.maximumAttempts"));
    let unknown = refused(json!({ "attempts": 3 }), "bad-json").await;
    assert!(unknown["detail"].as_str().unwrap().contains("`attempts`"), "{unknown}");
}
