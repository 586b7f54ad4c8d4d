//! Deadlines that were set while the clock was two days ahead: they are listed, repaired, and expire.

use serde_json::{Value, json};
use simulation::stores::fresh;

use crate::clocks::{Settable, confirm, open, pass};
use crate::support::{Api, Ask, WORKFLOWS, activity_path, schedule, turn_path};

const TWO_DAYS: i64 = 172_800;

const LATE: &str = "/v1/domains/default/late-runs";

async fn late(api: &Api) -> Vec<Value> {
    let page = api.get(LATE).await.json(200);
    page["runs"].as_array().unwrap().clone()
}

fn repair_path(id: &str) -> String {
    format!("{WORKFLOWS}/{id}/repair-deadlines")
}

async fn repair(api: &Api, id: &str) -> Value {
    api.post(&repair_path(id), &json!({ "identity": "ann", "reason": "the clock was ahead" })).await.json(200)
}

async fn start(api: &Api, id: &str, more: Value) {
    let mut start = json!({ "workflowId": id, "workflowType": "test", "taskList": id });
    start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.post(WORKFLOWS, &start).await.json(201);
}

/// Completes a turn of the run. Its task list is named after the run.
async fn decide(api: &Api, id: &str, decisions: Value) {
    let path = format!("/v1/domains/default/task-lists/{id}/decider/poll");
    let turn = api.ask(Ask::post(&path, &json!({})).header("prefer", "wait=5")).await.json(200);
    api.post(&format!("{}/complete", turn_path(&turn)), &json!({ "decisions": decisions })).await.json(200);
}

async fn take(api: &Api, list: &str) -> Option<Value> {
    let path = format!("/v1/domains/default/task-lists/{list}/activity/poll");
    let answer = api.ask(Ask::post(&path, &json!({})).header("prefer", "wait=0")).await;
    (answer.status == 200).then(|| answer.json(200))
}

fn timer(after: u64) -> Value {
    json!({ "type": "StartTimer", "timerId": "t", "after": after })
}

async fn names(api: &Api, id: &str) -> Vec<String> {
    api.names(id).await
}

async fn assert_consistent(api: &Api) {
    assert_eq!(api.engine.views().fsck("default", |_| {}).await.unwrap().findings, vec![]);
}

/// Runs that changed while the clock was two days ahead for two seconds. The clock is right again but not confirmed.
async fn touched() -> Api {
    let clock = Settable::new();
    let api = open(&fresh().await, &clock, None).await;
    pass(61).await;
    let again = json!({ "initialInterval": 0.5 });
    let mut tried = schedule("a", "tried");
    tried["retry"] = again;
    let mut beating = schedule("a", "beating");
    beating["timeouts"] = json!({ "heartbeat": 2 });
    for id in ["tried", "beating", "right", "closed", "paused", "parent", "behind"] {
        start(&api, id, json!({})).await;
    }
    decide(&api, "tried", json!([tried])).await;
    let failing = take(&api, "tried").await.unwrap();
    decide(&api, "beating", json!([beating])).await;
    decide(&api, "right", json!([timer(1_000_000)])).await;

    clock.set(TWO_DAYS);
    // Long enough for the service to detect the jump.
    pass(2).await;
    let held = take(&api, "beating").await.unwrap();
    api.post(&format!("{}/heartbeat", activity_path(&held)), &json!({})).await.json(200);
    api.post(&format!("{}/failure", activity_path(&failing)), &json!({ "reason": "busy" })).await.json(200);
    start(&api, "timed", json!({ "runTimeout": 3 })).await;
    start(&api, "delayed", json!({ "startAfter": 2 })).await;
    decide(&api, "closed", json!([{ "type": "SucceedWorkflow" }])).await;
    decide(&api, "paused", json!([timer(1)])).await;
    decide(&api, "behind", json!([timer(1)])).await;
    decide(
        &api,
        "parent",
        json!([{ "type": "StartChild", "workflowId": "child", "workflowType": "test", "taskList": "child" }]),
    )
    .await;
    decide(&api, "child", json!([timer(1)])).await;
    clock.set(0);
    api.post(&format!("{WORKFLOWS}/paused/pause"), &json!({ "identity": "bob" })).await.json(200);
    pass(2).await;
    api
}

#[tokio::test(start_paused = true)]
async fn late_deadlines_are_listed_repaired_and_expire() {
    let api = touched().await;
    let page = api.get(LATE).await.json(200);
    assert!(page["clockProblem"].as_str().unwrap().contains("jumps"), "{page}");
    let mut found: Vec<_> = late(&api).await.iter().map(|run| run["workflowId"].as_str().unwrap().to_owned()).collect();
    found.sort_unstable();
    let all = ["beating", "behind", "child", "delayed", "paused", "timed", "tried"];
    assert_eq!(found, all);
    let behind = api.get(&format!("{LATE}?workflowId=behind")).await.json(200);
    assert_eq!((behind["runs"].as_array().unwrap().len(), &behind["examined"]), (1, &json!(1)));
    let deadline = &behind["runs"][0]["deadlines"][0];
    assert_eq!((&deadline["kind"], &deadline["name"]), (&json!("timer"), &json!("t")));
    let mut pages = (0, api.get(&format!("{LATE}?limit=2")).await.json(200));
    while let Some(next) = pages.1["nextPage"].as_str().map(str::to_owned) {
        assert!(pages.1["examined"].as_u64().unwrap() <= 2);
        pages = (pages.0 + 1, api.get(&format!("{LATE}?limit=2&page={next}")).await.json(200));
    }
    assert!(pages.0 >= 4, "nine open runs");

    // An unconfirmed clock allows no repair.
    api.refused(Ask::post(&repair_path("behind"), &json!({})), 409, "clock-suspect").await;
    confirm(&api).await;
    assert_eq!(api.get(LATE).await.json(200).get("clockProblem"), None);
    for id in all {
        let repaired = repair(&api, id).await;
        assert!(repaired["eventId"].is_number(), "{id}: {repaired}");
        assert!(!repaired["deadlines"].as_array().unwrap().is_empty(), "{id}: {repaired}");
        let again = repair(&api, id).await;
        assert_eq!((again.get("eventId"), &again["deadlines"]), (None, &json!([])), "{id}");
    }
    assert_eq!(late(&api).await, Vec::<Value>::new());
    let right = repair(&api, "right").await;
    assert_eq!((right.get("eventId"), &right["deadlines"]), (None, &json!([])));
    api.refused(Ask::post(&repair_path("closed"), &json!({})), 409, "run-closed").await;
    api.refused(Ask::post(&repair_path("nobody"), &json!({})), 404, "unknown-workflow").await;
    assert_eq!(names(&api, "right").await.last().unwrap(), "TimerScheduled");
    let paused = api.get(&format!("{WORKFLOWS}/paused")).await.json(200);
    assert_eq!(paused["paused"]["identity"], "bob", "it is unchanged");

    pass(4).await;
    let of = |wanted: &str, names: Vec<String>| assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
    assert!(take(&api, "tried").await.is_some(), "it is retried");
    of("ActivityTimedOut", names(&api, "beating").await);
    of("WorkflowTimedOut", names(&api, "timed").await);
    for id in ["behind", "child", "paused"] {
        of("TimerExpired", names(&api, id).await);
    }
    decide(&api, "delayed", json!([])).await;
    assert_consistent(&api).await;
}

#[tokio::test(start_paused = true)]
async fn a_repair_survives_a_restart_and_has_its_author() {
    let clock = Settable::new();
    let store = fresh().await;
    let api = open(&store, &clock, None).await;
    start(&api, "w", json!({})).await;
    clock.set(TWO_DAYS);
    decide(&api, "w", json!([timer(100)])).await;
    clock.set(0);
    pass(2).await;
    confirm(&api).await;
    api.engine.begin_shutdown();
    let api = open(&store, &clock, None).await;
    assert_eq!(late(&api).await.len(), 1);
    repair(&api, "w").await;
    api.engine.begin_shutdown();
    let api = open(&store, &clock, None).await;
    pass(120).await;
    let history = api.get(&format!("{WORKFLOWS}/w/history")).await.json(200);
    let resumed = history["events"].as_array().unwrap().iter().find(|it| it["type"] == "WorkflowResumed").unwrap();
    assert_eq!((&resumed["identity"], &resumed["repairsDeadlines"]), (&json!("ann"), &json!(true)));
    assert!(names(&api, "w").await.iter().any(|name| name == "TimerExpired"));
    assert_consistent(&api).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_from_a_clock_ahead_survives_its_node() {
    let (store, clock) = (fresh().await, Settable::new());
    let api = open(&store, &clock, None).await;
    pass(2).await;
    clock.set(TWO_DAYS);
    pass(2).await;
    start(&api, "w", json!({})).await;
    // The node has the task in memory, and the due index has the run in two days.
    api.engine.begin_shutdown();
    clock.set(0);
    let api = open(&store, &clock, None).await;
    decide(&api, "w", json!([])).await;
}
