//! Starts: with workflow ids in use, with signals, and delayed.

use serde_json::{Value, json};

use crate::support::{Api, Ask, COUNT, DECIDERS, WORKFLOWS};

fn body(more: &Value) -> Value {
    let mut body = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn start(api: &Api, more: Value, status: u16) -> Value {
    api.post(WORKFLOWS, &body(&more)).await.json(status)
}

#[tokio::test]
async fn a_conflict_policy_uses_ends_or_refuses_for_an_open_run() {
    let api = Api::open().await;
    let first = start(&api, json!({}), 201).await;
    assert_eq!(first.get("existing"), None);
    let refused = Ask::post(WORKFLOWS, &body(&json!({ "conflictPolicy": "fail" })));
    api.refused(refused, 409, "workflow-already-open").await;
    let used = start(&api, json!({ "conflictPolicy": "use-existing" }), 200).await;
    assert_eq!((&used["runId"], &used["existing"]), (&first["runId"], &json!(true)));
    assert_eq!(api.names("w").await, ["WorkflowStarted", "DeciderScheduled"]);

    let second = start(&api, json!({ "conflictPolicy": "terminate-existing", "identity": "me" }), 201).await;
    assert_ne!(second["runId"], first["runId"]);
    let old = format!("{WORKFLOWS}/w/history?runId={}&reverse=true&limit=1", first["runId"].as_str().unwrap());
    let last = api.get(&old).await.json(200)["events"][0].clone();
    assert_eq!((&last["type"], &last["identity"]), (&json!("WorkflowTerminated"), &json!("me")));
    assert_eq!(last["reason"], json!("replaced by a new start"));
    let count = |status: &str| format!("{COUNT}?status={status}");
    assert_eq!(api.get(&count("open")).await.json(200)["count"], json!(1));
    assert_eq!(api.get(&count("terminated")).await.json(200)["count"], json!(1));
    let nonsense = json!({ "conflictPolicy": "terminate-existing", "reusePolicy": "reject-duplicate" });
    api.refused(Ask::post(WORKFLOWS, &body(&nonsense)), 400, "invalid-field").await;
}

#[tokio::test]
async fn a_start_with_a_signal_records_the_signal_once() {
    let api = Api::open().await;
    let go = |key: &str, n: u64| {
        let with = json!({ "signal": { "name": "go", "input": n } });
        Ask::post(WORKFLOWS, &body(&with)).header("idempotency-key", key)
    };
    let first = api.ask(go("a", 1)).await.json(201);
    let second = api.ask(go("b", 2)).await.json(200);
    assert_eq!((&second["runId"], &second["existing"]), (&first["runId"], &json!(true)));
    for (key, n) in [("a", 1), ("b", 2)] {
        assert_eq!(api.ask(go(key, n)).await.json(200)["runId"], first["runId"], "repeated");
    }
    assert_eq!(api.names("w").await, ["WorkflowStarted", "DeciderScheduled", "Signal", "Signal"]);
    let window = api.turn().await;
    let inputs: Vec<_> = window["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "Signal")
        .map(|event| event["input"].clone())
        .collect();
    assert_eq!(inputs, [json!(1), json!(2)]);
    let refused = Ask::post(WORKFLOWS, &body(&json!({ "signal": { "name": "go" }, "conflictPolicy": "fail" })));
    api.refused(refused, 409, "workflow-already-open").await;
    api.refused(Ask::post(WORKFLOWS, &body(&json!({ "signal": { "name": "" } }))), 400, "invalid-field").await;
}

#[tokio::test]
async fn of_racing_starts_with_a_signal_one_starts_and_all_signal() {
    let api = Api::open().await;
    let starts = (0..50).map(|number| {
        let ask = Ask::post(WORKFLOWS, &body(&json!({ "signal": { "name": format!("s{number}") } })));
        async { api.ask(ask).await.status.as_u16() }
    });
    let statuses = futures_util::future::join_all(starts).await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 49);
    let names = api.names("w").await;
    assert_eq!(names.iter().filter(|name| *name == "Signal").count(), 50);
}

#[tokio::test]
async fn a_delayed_start_creates_its_run_at_once_and_its_turn_later() {
    let api = Api::open().await;
    start(&api, json!({ "startAfter": "PT1H" }), 201).await;
    let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((&described["status"], &described["stuck"]), (&json!("open"), &json!(false)));
    let early = api.ask(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=0")).await;
    assert_eq!(early.status.as_u16(), 204);
    let time = async {
        api.until_pollers("\"deciders\"", 1).await;
        api.clock.advance(history::Duration::from_secs(3_600));
    };
    let (turn, ()) = tokio::join!(api.turn(), time);
    assert_eq!(turn["events"][0]["startAfter"], json!("PT1H"));
}
