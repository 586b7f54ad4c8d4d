//! Runs that an operator pauses and resumes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS, activity_path, schedule, turn_path};

fn call(verb: &str) -> String {
    format!("{WORKFLOWS}/w/{verb}")
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

async fn no_turn_waits(api: &Api) {
    let answer = api.ask(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=0")).await;
    assert_eq!(answer.status.as_u16(), 204, "{}", answer.text);
}

fn advance(api: &Api, seconds: u64) {
    api.clock.advance(history::Duration::from_secs(seconds));
}

async fn listed(api: &Api, status: &str) -> Vec<Value> {
    let page = api.get(&format!("{WORKFLOWS}?status={status}")).await.json(200);
    page["workflows"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_paused_run_records_events_and_dispatches_nothing() {
    let api = Api::open().await;
    api.start("w").await;
    api.decide(json!([schedule("a", "acts"), schedule("b", "acts")])).await;
    let held = api.take_activity("acts").await;
    let pause = json!({ "identity": "ann", "reason": "the bank is down" });
    let key = |ask: Ask| ask.header("idempotency-key", "k");
    let first = api.ask(key(Ask::post(&call("pause"), &pause))).await.json(200);
    assert_eq!(api.ask(key(Ask::post(&call("pause"), &pause))).await.json(200), first);
    api.refused(Ask::post(&call("pause"), &json!({})), 409, "already-paused").await;

    let paused = &describe(&api).await["paused"];
    assert_eq!((&paused["identity"], &paused["reason"]), (&json!("ann"), &json!("the bank is down")));
    assert_eq!((&paused["stopClocks"], &paused["eventId"]), (&json!(false), &first["eventId"]));
    let rows = listed(&api, "paused").await;
    assert_eq!((rows.len(), &rows[0]["status"], &rows[0]["paused"]), (1, &json!("open"), &json!(true)));

    // Another activity waits and a signal arrives; the runner completes the started one.
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    api.post(&format!("{}/success", activity_path(&held)), &json!({})).await.json(200);
    no_turn_waits(&api).await;
    let path = "/v1/domains/default/task-lists/acts/activity/poll";
    assert_eq!(api.ask(Ask::post(path, &json!({})).header("prefer", "wait=0")).await.status.as_u16(), 204);

    // The pause survives a restart. After a resume, waiting pollers get the tasks.
    let api = Api::over(Arc::clone(api.engine.store())).await;
    no_turn_waits(&api).await;
    let (turn, ()) = tokio::join!(api.turn(), async {
        api.until_pollers("deciders", 1).await;
        api.post(&call("resume"), &json!({ "identity": "ann" })).await.json(200);
    });
    assert_eq!(api.take_activity("acts").await["activityId"], json!("b"));
    api.refused(Ask::post(&call("resume"), &json!({})), 409, "not-paused").await;
    assert_eq!((describe(&api).await.get("paused"), listed(&api, "paused").await.len()), (None, 0));
    let done = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
    api.post(&format!("{}/complete", turn_path(&turn)), &done).await.json(200);
    let names = api.names("w").await;
    let after =
        ["WorkflowPaused", "Signal", "DeciderScheduled", "ActivitySuccess", "WorkflowResumed", "DeciderStarted"];
    assert_eq!(names[7..13], after);
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!(report.findings, vec![]);
}

#[tokio::test]
async fn timers_of_a_run_paused_with_stopped_clocks_continue() {
    for stops in [false, true] {
        let api = Api::open().await;
        api.start("w").await;
        api.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": 60 }])).await;
        advance(&api, 20);
        api.post(&call("pause"), &json!({ "stopClocks": stops })).await.json(200);
        let due = describe(&api).await["deadlines"].as_array().unwrap().len();
        assert_eq!(due, if stops { 0 } else { 2 });
        advance(&api, 1_000);
        let expired = async {
            while api.names("w").await.last().unwrap() != "DeciderScheduled" {
                tokio::task::yield_now().await;
            }
        };
        if stops {
            // Even if a signal arrives in between.
            api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
            assert!(!api.names("w").await.contains(&"TimerExpired".to_owned()));
            api.post(&call("resume"), &json!({})).await.json(200);
            let timer = describe(&api).await["deadlines"][0].clone();
            assert_eq!((&timer["kind"], &timer["at"]), (&json!("timer"), &json!("2023-11-14T22:31:00.000Z")));
            advance(&api, 40);
            let has_expired = async {
                while !api.names("w").await.contains(&"TimerExpired".to_owned()) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(crate::support::PATIENCE, has_expired).await.unwrap();
        } else {
            tokio::time::timeout(crate::support::PATIENCE, expired).await.unwrap();
            no_turn_waits(&api).await;
        }
        let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
        assert_eq!(report.findings, vec![]);
    }
}

#[tokio::test]
async fn a_paused_run_can_be_canceled_and_terminated() {
    let api = Api::open().await;
    api.start("w").await;
    api.refused(Ask::post(&call("resume"), &json!({})), 409, "not-paused").await;
    api.refused(Ask::post(&call("pause"), &json!({ "stopClock": true })), 400, "bad-json").await;
    api.refused(Ask::post(&call("pause"), &json!({ "reason": "x".repeat(257) })), 413, "too-large").await;
    for verb in ["pause", "resume"] {
        api.refused(Ask::post(&format!("{WORKFLOWS}/nobody/{verb}"), &json!({})), 404, "unknown-workflow").await;
    }
    api.post(&call("pause"), &json!({ "stopClocks": true })).await.json(200);
    api.post(&call("cancel"), &json!({})).await.json(202);
    api.post(&call("terminate"), &json!({})).await.json(200);
    api.refused(Ask::post(&call("pause"), &json!({})), 409, "run-closed").await;
    api.refused(Ask::post(&call("resume"), &json!({})), 409, "run-closed").await;
    assert_eq!(listed(&api, "paused").await.len(), 0);
}
