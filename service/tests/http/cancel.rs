//! Cancel requests: attempts that they end, successors that receive them, and turns that they start early.

use serde_json::{Value, json};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS};

/// Starts run `w` with these additional fields.
async fn start(api: &Api, more: Value) {
    let mut body = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.post(WORKFLOWS, &body).await.json(201);
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

async fn cancel(api: &Api) {
    api.post(&format!("{WORKFLOWS}/w/cancel"), &json!({ "reason": "changed my mind" })).await.json(202);
}

async fn has_turn(api: &Api) -> bool {
    api.ask(Ask::post(DECIDERS, &json!({})).header("prefer", "wait=0")).await.status.as_u16() == 200
}

async fn assert_consistent(api: &Api) {
    assert_eq!(api.engine.views().fsck("default", |_| {}).await.unwrap().findings, vec![]);
}

fn fail() -> Value {
    json!([{ "type": "FailWorkflow", "reason": "busy" }])
}

/// A policy with another attempt in an hour.
fn retry() -> Value {
    json!({ "retry": { "initialInterval": "PT1H" }, "runTimeout": "PT1M" })
}

const SCHEDULES: &str = "/v1/domains/default/schedules";

#[tokio::test]
async fn a_canceled_run_is_not_retried() {
    for times_out in [false, true] {
        let api = Api::open().await;
        start(&api, retry()).await;
        api.decide(json!([])).await;
        cancel(&api).await;
        if times_out {
            api.clock.advance(history::Duration::from_secs(60));
        } else {
            api.decide(fail()).await;
        }
        let result = api.ask(Ask::get(&format!("{WORKFLOWS}/w/result")).header("prefer", "wait=20")).await.json(200);
        assert_eq!(result["status"], if times_out { "timed-out" } else { "failed" });
        api.clock.advance(history::Duration::from_secs(7_200));
        let closed = describe(&api).await;
        assert_eq!((&closed["attempt"], &closed["cancelRequested"]), (&json!(1), &json!(true)), "{closed}");
        assert_eq!((closed["status"] == "open", has_turn(&api).await), (false, false));
        // The workflow id can be used again.
        start(&api, retry()).await;
        assert_eq!(describe(&api).await["cancelRequested"], json!(false), "the new run has no cancel request");
        assert_consistent(&api).await;
    }
}

#[tokio::test]
async fn a_cancel_request_passes_to_the_run_that_continues_as_new() {
    let api = Api::open().await;
    start(&api, json!({})).await;
    cancel(&api).await;
    // The service finds the request even if many events follow it.
    let signal = format!("{WORKFLOWS}/w/signals/go");
    for _ in 0..1_100 {
        api.post(&signal, &json!({})).await.json(202);
    }
    for _ in 0..2 {
        api.decide(json!([{ "type": "ContinueAsNew" }])).await;
        assert_eq!(describe(&api).await["cancelRequested"], json!(true));
        assert_eq!(api.names("w").await[..3], ["WorkflowStarted", "DeciderScheduled", "WorkflowCancelRequested"]);
    }
    // The new run's decider receives the request in its window.
    let turn = api.turn().await;
    assert_eq!(turn["events"][2]["type"], "WorkflowCancelRequested");
    assert_eq!(turn["events"][2]["reason"], "changed my mind");
    assert_consistent(&api).await;
}

#[tokio::test]
async fn a_cancel_request_starts_a_delayed_turn_at_once() {
    for poll_comes_first in [true, false] {
        for is_retry in [true, false] {
            let api = Api::open().await;
            if is_retry {
                start(&api, retry()).await;
                api.decide(fail()).await;
                assert_eq!(describe(&api).await["attempt"], json!(2));
            } else {
                start(&api, json!({ "startAfter": "P3650D" })).await;
            }
            assert!(!has_turn(&api).await);
            let turn = if poll_comes_first {
                let ask = async {
                    api.until_pollers("\"deciders\"", 1).await;
                    cancel(&api).await;
                };
                tokio::join!(api.turn(), ask).0
            } else {
                cancel(&api).await;
                api.turn().await
            };
            let request = &turn["events"][2];
            assert_eq!(request["type"], "WorkflowCancelRequested");
            assert_eq!(request["releasesFirstTurn"], json!(true));
            assert_consistent(&api).await;
        }
    }
}

#[tokio::test]
async fn a_refusal_says_until_when_a_turn_is_delayed() {
    for is_retry in [true, false] {
        let api = Api::open().await;
        let until = history::Timestamp::from_millis(api.clock_now().as_millis() + 3_600_000);
        if is_retry {
            start(&api, retry()).await;
            api.decide(fail()).await;
        } else {
            start(&api, json!({ "startAfter": "PT1H" })).await;
        }
        for (what, code) in [("queries/total", "query-timed-out"), ("updates/add", "update-timed-out")] {
            let ask = Ask::post(&format!("{WORKFLOWS}/w/{what}"), &json!({})).header("prefer", "wait=0.01");
            let problem = api.ask(ask).await.problem(504, code);
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(&format!("the run's first turn is delayed until {until}")), "{detail}");
            assert_eq!((&problem["turnNotBefore"], &problem["noPollersSince"]), (&json!(until), &Value::Null));
        }
        cancel(&api).await;
        let ask = Ask::post(&format!("{WORKFLOWS}/w/queries/total"), &json!({})).header("prefer", "wait=0.01");
        let problem = api.ask(ask).await.problem(504, "query-timed-out");
        assert_eq!((&problem["turnNotBefore"], &problem["taskList"]), (&Value::Null, &json!("deciders")));
    }
    // The same holds for a turn that a decider has failed.
    let api = Api::open().await;
    start(&api, json!({})).await;
    let turn = api.turn().await;
    api.post(&format!("{}/fail", crate::support::turn_path(&turn)), &json!({ "reason": "no" })).await.json(200);
    let ask = Ask::post(&format!("{WORKFLOWS}/w/queries/total"), &json!({})).header("prefer", "wait=0.01");
    let problem = api.ask(ask).await.problem(504, "query-timed-out");
    assert!(problem["detail"].as_str().unwrap().contains("a decider failed the run's turn"), "{problem}");
}

#[tokio::test]
async fn a_canceled_child_or_scheduled_run_is_not_retried() {
    let api = Api::open().await;
    let child = json!({
        "type": "StartChild", "workflowId": "w", "workflowType": "t", "taskList": "children",
        "retry": { "initialInterval": "PT1H" },
    });
    let parent = json!({ "workflowId": "parent", "workflowType": "t", "taskList": "deciders" });
    api.post(WORKFLOWS, &parent).await.json(201);
    api.decide(json!([child])).await;
    let polled = api.ask(Ask::post("/v1/domains/default/task-lists/children/decider/poll", &json!({}))).await;
    let turn = polled.json(200);
    api.post(&format!("{WORKFLOWS}/parent/signals/go"), &json!({})).await.json(202);
    api.decide(json!([{ "type": "CancelExternal", "workflowId": "w" }])).await;
    until(|| async { describe(&api).await["cancelRequested"] == json!(true) }).await;
    let by_force = json!({ "decisions": [{ "type": "FailWorkflow", "reason": "busy", "force": true }] });
    api.post(&format!("{}/complete", crate::support::turn_path(&turn)), &by_force).await.json(200);
    until(|| async { api.names("parent").await.iter().any(|name| name == "ChildFailed") }).await;
    assert_eq!(describe(&api).await["status"], "failed");

    // An overlapping run of a schedule is asked to cancel and fails, so the next action starts.
    let api = Api::open().await;
    let action = json!({
        "workflowId": "report", "workflowType": "t", "taskList": "deciders",
        "retry": { "initialInterval": "PT1H" },
    });
    let hourly = json!({
        "scheduleId": "hourly",
        "schedule": { "spec": { "cron": ["0 * * * *"] }, "action": action, "overlap": "cancel-other" },
    });
    api.post(SCHEDULES, &hourly).await.json(201);
    let show = || async { api.get(&format!("{SCHEDULES}/hourly")).await.json(200) };
    let words = |shown: &Value| -> Vec<Value> {
        shown["recentActions"].as_array().unwrap().iter().rev().map(|action| action["outcome"].clone()).collect()
    };
    api.clock.advance(history::Duration::from_secs(3_600));
    until(|| async { words(&show().await) == ["open"] }).await;
    api.clock.advance(history::Duration::from_secs(3_600));
    let list = format!("{WORKFLOWS}?status=open");
    until(|| async {
        let open = api.get(&list).await.json(200)["workflows"].clone();
        let Some(id) = open[0]["workflowId"].as_str() else { return false };
        api.get(&format!("{WORKFLOWS}/{}", crate::support::segment(id))).await.json(200)["cancelRequested"]
            == json!(true)
    })
    .await;
    api.decide(fail()).await;
    until(|| async { words(&show().await) == ["failed", "open"] }).await;
    assert_consistent(&api).await;
}

/// Waits for the condition.
async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, look).await.expect("the condition is met in time");
}

impl Api {
    fn clock_now(&self) -> history::Timestamp {
        engine::Clock::now(&*self.clock)
    }
}
