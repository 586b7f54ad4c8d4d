//! Resets: runs that continue from an earlier event of another run.

use std::sync::Arc;

use serde_json::{Value, json};
use store::memory::Memory;
use uuid::Uuid;

use crate::support::{Api, Ask, PATIENCE, WORKFLOWS, activity_path, schedule, turn_path};

fn call(verb: &str) -> String {
    format!("{WORKFLOWS}/w/{verb}")
}

async fn describe(api: &Api, run_id: Option<&str>) -> Value {
    let query = run_id.map(|run_id| format!("?runId={run_id}")).unwrap_or_default();
    api.get(&format!("{WORKFLOWS}/w{query}")).await.json(200)
}

async fn events(api: &Api, run_id: &str) -> Vec<Value> {
    let history = api.get(&format!("{WORKFLOWS}/w/history?runId={run_id}&limit=10000")).await.json(200);
    history["events"].as_array().unwrap().clone()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

async fn assert_consistent(api: &Api, runs: u64) {
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (runs, vec![]));
}

async fn reset(api: &Api, body: &Value) -> String {
    let done = api.post(&call("reset"), body).await.json(201);
    assert_eq!(done["workflowId"], "w");
    done["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_reset_continues_from_an_event_and_links_both_runs() {
    let api = Api::open().await;
    let old = api.start("w").await;
    api.decide(json!([schedule("a", "acts")])).await;
    let held = api.take_activity("acts").await;
    api.post(&call("signals/s"), &json!({ "input": 7 })).await.json(202);
    api.decide(json!([{ "type": "RecordMarker", "name": "wrong" }])).await;
    let body = json!({ "eventId": 5, "identity": "ann", "reason": "it was wrong" });
    let ask = || Ask::post(&call("reset"), &body).header("idempotency-key", "k");
    let done = api.ask(ask()).await.json(201);
    let new = done["runId"].as_str().unwrap();
    assert_eq!((&done["baseRunId"], &done["baseEventId"]), (&json!(old), &json!(5)));
    assert_eq!(api.ask(ask()).await.json(200), done, "a repeated request returns the same run");

    let (before, after) = (events(&api, &old).await, events(&api, new).await);
    assert_eq!(before.last().unwrap()["reset"]["newRunId"], done["runId"]);
    assert_eq!(before.last().unwrap()["reason"], "it was wrong");
    assert_eq!((&before[1..5], &after[0]["runId"]), (&after[1..5], &done["runId"]));
    assert_eq!(names(&after[5..]), ["WorkflowReset", "DeciderScheduled", "Signal"]);
    assert_eq!((&after[5]["runId"], &after[5]["eventId"]), (&json!(old), &json!(5)));
    let (was, is) = (describe(&api, Some(&old)).await, describe(&api, None).await);
    assert_eq!((&was["status"], &was["resetAs"], was.get("retriedAs")), (&json!("terminated"), &done["runId"], None));
    assert_eq!((&is["runId"], &is["branchedFrom"]), (&done["runId"], &json!({ "runId": old, "eventId": 5 })));
    let result = api.get(&call(&format!("result?runId={old}"))).await.json(200);
    assert_eq!(result["continuedAs"], done["runId"]);

    // The runner's task belongs to the old run, which has closed. The activity is dispatched again.
    api.post(&format!("{}/success", activity_path(&held)), &json!({})).await.problem(409, "run-closed");
    let again = api.take_activity("acts").await;
    assert_eq!((&again["activityId"], &again["runId"]), (&json!("a"), &done["runId"]));
    api.post(&format!("{}/success", activity_path(&again)), &json!({})).await.json(200);
    let turn = api.decide(json!([{ "type": "SucceedWorkflow", "result": "right" }])).await;
    let seen = names(turn["events"].as_array().unwrap());
    assert_eq!(
        seen[..6],
        ["DeciderStarted", "DeciderCompleted", "ActivityScheduled", "WorkflowReset", "DeciderScheduled", "Signal"]
    );
    assert_consistent(&api, 2).await;
}

#[tokio::test]
async fn closed_and_earlier_runs_can_be_reset() {
    let api = Api::open().await;
    let first = api.succeeded("w").await;
    let second = reset(&api, &json!({ "eventId": 2 })).await;
    let (was, is) = (describe(&api, Some(&first)).await, describe(&api, None).await);
    assert_eq!((&was["status"], &was["resetAs"]), (&json!("success"), &json!(second)), "its history is complete");
    assert_eq!((&is["status"], &is["runId"], &is["startedAt"]), (&json!("open"), &json!(second), &was["startedAt"]));
    api.decide(json!([{ "type": "RecordMarker", "name": "m" }])).await;
    // Resets the first run again while the second is open.
    let path = call(&format!("reset?runId={first}"));
    let third = api.post(&path, &json!({ "eventId": 2, "signals": "drop" })).await.json(201);
    assert_eq!(third["baseRunId"], json!(first));
    let was = describe(&api, Some(&second)).await;
    assert_eq!((&was["status"], &was["resetAs"]), (&json!("terminated"), &third["runId"]));
    let third = third["runId"].as_str().unwrap();
    assert_eq!(names(&events(&api, third).await), ["WorkflowStarted", "DeciderScheduled", "WorkflowReset"]);
    let terminated = events(&api, &second).await.pop().unwrap();
    assert_eq!(terminated["reset"]["runId"], json!(first));
    assert_consistent(&api, 3).await;
}

#[tokio::test]
async fn an_invalid_reset_is_refused_and_records_nothing() {
    let api = Api::open().await;
    api.refused(Ask::post(&call("reset"), &json!({ "eventId": 2 })), 404, "unknown-workflow").await;
    api.start("w").await;
    api.decide(json!([{ "type": "StartChild", "workflowId": "c", "workflowType": "t" }])).await;
    let problem = api.refused(Ask::post(&call("reset"), &json!({ "eventId": 4 })), 409, "invalid-reset-point").await;
    assert_eq!((&problem["before"], &problem["eventId"]), (&json!(2), &json!(4)));
    let problem = api.refused(Ask::post(&call("reset"), &json!({ "eventId": 5 })), 409, "reset-not-possible").await;
    assert!(problem["detail"].as_str().unwrap().contains("child `c`"), "{problem}");
    let unknown = call(&format!("reset?runId={}", Uuid::nil()));
    api.refused(Ask::post(&unknown, &json!({ "eventId": 2 })), 404, "unknown-run").await;
    api.refused(Ask::post(&call("reset"), &json!({})), 400, "bad-json").await;
    api.refused(Ask::post(&call("reset"), &json!({ "eventId": 2, "signals": "keep" })), 400, "bad-json").await;
    let long = json!({ "eventId": 2, "reason": "x".repeat(257) });
    api.refused(Ask::post(&call("reset"), &long), 413, "too-large").await;
    // A run that expires soon is refused, because it could be deleted before the new run starts.
    let api = Api::open().await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "retention": "PT1H" });
    api.post(WORKFLOWS, &start).await.json(201);
    api.post(&call("terminate"), &json!({})).await.json(200);
    api.clock.advance(history::Duration::from_secs(1));
    api.refused(Ask::post(&call("reset"), &json!({ "eventId": 2 })), 409, "reset-not-possible").await;
}

#[tokio::test]
async fn a_reset_copies_a_long_history_with_large_payloads() {
    let store = Arc::new(Memory::new());
    let api = Api::over(Arc::clone(&store) as _).await;
    let old = api.start("w").await;
    for round in 0..40 {
        let large = json!({ "round": round, "text": "x".repeat(6_000) });
        api.post(&call("signals/s"), &json!({ "input": large })).await.json(202);
        api.decide(json!([{ "type": "RecordMarker", "name": "m", "details": large }])).await;
    }
    let before = events(&api, &old).await;
    let last = before.len() as u64;
    let new = reset(&api, &json!({ "eventId": last })).await;
    // The new run does not depend on parts of the old one.
    api.ask(Ask::new("DELETE", &format!("{WORKFLOWS}/w?runId={old}"))).await.json(200);
    let after = events(&api, &new).await;
    assert_eq!(before[1..], after[1..before.len()]);
    let back = api.get(&call("history?reverse=true&limit=50")).await.json(200);
    assert_eq!(
        back["events"].as_array().unwrap()[2..],
        after[after.len() - 50..after.len() - 2].iter().rev().cloned().collect::<Vec<_>>()
    );
    // The new run continues, and another service can read it.
    let api = Api::over(store).await;
    api.decide(json!([{ "type": "RecordMarker", "name": "m", "details": "y".repeat(6_000) }])).await;
    assert_eq!(events(&api, &new).await[..after.len()], after);
    assert_consistent(&api, 1).await;
}

#[tokio::test]
async fn a_reset_loses_the_old_turn_and_dispatches_the_new_one() {
    let api = Api::open().await;
    api.start("w").await;
    let held = api.turn().await;
    let (turn, new) = tokio::join!(api.turn(), async {
        api.until_pollers("deciders", 1).await;
        reset(&api, &json!({ "eventId": 2 })).await
    });
    assert_eq!(turn["runId"], json!(new));
    let done = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
    let late = api.post(&format!("{}/complete", turn_path(&held)), &done).await;
    late.problem(409, "run-closed");
    api.post(&format!("{}/complete", turn_path(&turn)), &done).await.json(200);
    let result = tokio::time::timeout(PATIENCE, api.get(&call("result"))).await.unwrap().json(200);
    assert_eq!((&result["runId"], &result["status"]), (&json!(new), &json!("success")));
}
