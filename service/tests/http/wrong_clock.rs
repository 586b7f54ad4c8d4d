//! Effects of a wrong clock on retention and on expiring secrets and tokens: all are undone once the clock is right.

use std::sync::Arc;

use history::Timestamp;
use serde_json::{Value, json};
use service::access::{Credential, Credentials, Moment, Secret};
use service::api::router_for;
use simulation::manual_clock::BEGIN;
use simulation::stores::fresh;

use crate::clocks::{Settable, confirm, open, pass};
use crate::hash::sha256_hex;
use crate::support::{Api, Ask, WORKFLOWS, activity_path, schedule};

const DAY: i64 = 86_400;

const YEAR: i64 = 365 * DAY;

#[tokio::test(start_paused = true)]
async fn a_clock_far_ahead_keeps_request_keys() {
    let (store, clock) = (fresh().await, Settable::new());
    let api = open(&store, &clock, None).await;
    pass(61).await;
    let keyed = |path: &str, key: &str, body: Value| Ask::post(path, &body).header("idempotency-key", key);
    let body = json!({ "workflowId": "w", "workflowType": "test", "taskList": "w", "reusePolicy": "allow-duplicate" });
    let first = api.ask(keyed(WORKFLOWS, "first", body.clone())).await.json(201);
    let signal = format!("{WORKFLOWS}/w/signals/s");
    let signaled = api.ask(keyed(&signal, "signal", json!({}))).await.json(202);
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    // After a week, known requests would normally expire.
    clock.set(7 * DAY);
    pass(61).await;
    assert_eq!(api.get("/readyz").await.json(200)["warnings"][0]["code"], "clock-suspect");
    api.ask(keyed(WORKFLOWS, "second", body.clone())).await.json(201);
    clock.set(0);
    pass(2).await;
    let again = api.ask(keyed(&signal, "signal", json!({}))).await.json(202);
    assert_eq!(again, signaled, "the run before recorded it");
    let again = api.ask(keyed(WORKFLOWS, "first", body)).await.json(200);
    assert_eq!(again["runId"], first["runId"]);
}

/// Starts and terminates a run.
async fn closed(api: &Api, id: &str) -> String {
    let start = json!({ "workflowId": id, "workflowType": "t", "retention": "P30D" });
    api.post(WORKFLOWS, &start).await.json(201);
    api.post(&format!("{WORKFLOWS}/{id}/terminate"), &json!({})).await.json(200);
    format!("{WORKFLOWS}/{id}")
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_expires_no_closed_run_early() {
    let (store, clock) = (fresh().await, Settable::new());
    let api = open(&store, &clock, None).await;
    let right = closed(&api, "right").await;
    pass(61).await;
    clock.set(2 * YEAR);
    let ahead = closed(&api, "ahead").await;
    pass(120).await;
    clock.set(-2 * YEAR);
    let behind = closed(&api, "behind").await;
    pass(120).await;
    clock.set(0);
    confirm(&api).await;
    pass(120).await;
    for run in [&right, &ahead, &behind] {
        api.get(run).await.json(200);
    }
    // By the right clock, the retention of both is over: of the run closed at the right time and of the one closed by a
    // clock behind it.
    for step in 1..=33 {
        clock.set(step * (DAY - 3_600));
        pass(61).await;
    }
    for run in [&right, &behind] {
        api.get(run).await.problem(404, "unknown-workflow");
    }
    api.get(&ahead).await.json(200);
}

#[tokio::test(start_paused = true)]
async fn a_secret_follows_the_clock_and_is_valid_again_after_a_fix() {
    let clock = Settable::new();
    let api = open(&fresh().await, &clock, None).await;
    let at = |hours: u64| Some(Moment(Timestamp::from_millis(BEGIN + hours * 3_600_000)));
    let secret = |text: &str, not_before, expires| Secret { sha256: sha256_hex(text), not_before, expires };
    let secrets = vec![secret("old", None, at(2)), secret("new", at(1), None)];
    let credential = Credential { name: "rack".to_owned(), operator: true, secrets, ..Credential::default() };
    let router = router_for(Arc::clone(&api.engine), Credentials::new(vec![credential]).unwrap());
    let guarded = api.with(router);
    let ask = async |secret: &str| {
        guarded.ask(Ask::get("/v1/domains").header("authorization", &format!("Bearer {secret}"))).await
    };
    for _ in 0..2 {
        ask("old").await.json(200);
        ask("new").await.problem(401, "credential-not-yet-valid");
        clock.set(3 * YEAR);
        ask("old").await.problem(401, "credential-expired");
        ask("new").await.json(200);
        clock.set(-3 * YEAR);
        ask("old").await.json(200);
        ask("new").await.problem(401, "credential-not-yet-valid");
        clock.set(0);
    }
}

#[tokio::test(start_paused = true)]
async fn task_tokens_survive_a_wrong_clock() {
    let clock = Settable::new();
    let api = open(&fresh().await, &clock, None).await;
    api.start("w").await;
    let mut long = schedule("a", "acts");
    long["timeouts"] = json!({ "startToClose": "P3000D" });
    api.decide(json!([long])).await;
    let task = api.take_activity("acts").await;
    for ahead in [YEAR / 2, -YEAR / 2, 0] {
        clock.set(ahead);
        api.post(&format!("{}/heartbeat", activity_path(&task)), &json!({})).await.json(200);
    }
    // Rotating the signing secret with a clock ahead does not shorten the validity of earlier tokens.
    clock.set(YEAR / 2);
    api.ask(Ask::post("/v1/secret/rotate", &json!({}))).await.json(200);
    clock.set(0);
    api.post(&format!("{}/heartbeat", activity_path(&task)), &json!({})).await.json(200);
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
}
