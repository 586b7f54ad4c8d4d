//! Deletion of runs, retention, and the deadlines that a description lists.

use serde_json::{Value, json};

use crate::support::{Api, Ask, READY, WORKFLOWS, activity_path, schedule, turn_path};

fn delete(tail: &str) -> Ask {
    Ask::new("DELETE", &format!("{WORKFLOWS}/{tail}"))
}

fn patch(domain: &str, body: &Value) -> Ask {
    let ask = Ask::new("PATCH", &format!("/v1/domains/{domain}"));
    ask.header("content-type", "application/json").body(body.to_string())
}

async fn runs(api: &Api, id: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?workflowId={id}")).await.json(200);
    let ids = page["workflows"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap().to_owned());
    ids.collect()
}

/// Starts three runs of one workflow id; the newest is open.
async fn three(api: &Api) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let start = json!({ "workflowId": "w", "workflowType": "test", "taskList": "deciders",
                            "conflictPolicy": "terminate-existing" });
        let started = api.post(WORKFLOWS, &start).await.json(201);
        ids.push(started["runId"].as_str().unwrap().to_owned());
    }
    ids
}

#[tokio::test]
async fn one_run_or_all_runs_of_a_workflow_id_are_deleted() {
    let api = Api::open().await;
    let ids = three(&api).await;
    let first = delete(&format!("w?runId={}", ids[0]));
    assert_eq!(api.ask(first).await.json(200), json!({ "runs": 1 }));
    assert_eq!(runs(&api, "w").await.len(), 2);
    api.refused(delete(&format!("w?runId={}", ids[0])), 404, "unknown-run").await;
    api.get(&format!("{WORKFLOWS}/w/history?runId={}", ids[0])).await.problem(404, "unknown-run");
    assert_eq!(api.names("w").await, ["WorkflowStarted", "DeciderScheduled"], "the newest run is unchanged");

    let problem = api.refused(delete("w"), 409, "run-open").await;
    assert_eq!(problem["runId"], json!(ids[2]));
    api.refused(delete(&format!("w?runId={}", ids[2])), 409, "run-open").await;
    assert_eq!(api.ask(delete("w?terminate=true&reason=gdpr")).await.json(200), json!({ "runs": 2 }));
    assert_eq!(runs(&api, "w").await, Vec::<String>::new());
    api.get(&format!("{WORKFLOWS}/w")).await.problem(404, "unknown-workflow");
    api.refused(delete("w"), 404, "unknown-workflow").await;
    // Its workflow id can be used again, and the new run has nothing of the old ones.
    api.start("w").await;
    assert_eq!((runs(&api, "w").await.len(), api.names("w").await.len()), (1, 2));
}

#[tokio::test]
async fn deleting_an_unknown_run_is_refused() {
    let api = Api::open().await;
    api.succeeded("w").await;
    api.refused(delete("nobody"), 404, "unknown-workflow").await;
    api.refused(delete("w?runId=00000000-0000-7000-8000-000000000000"), 404, "unknown-run").await;
    api.refused(delete("w?force=true"), 400, "bad-query").await;
    api.refused(Ask::new("DELETE", "/v1/domains/nowhere/workflows/w"), 404, "unknown-domain").await;
    assert_eq!(api.ask(delete("w")).await.json(200), json!({ "runs": 1 }));
}

#[tokio::test]
async fn a_deleted_run_reports_its_end_to_its_parent() {
    let api = Api::open().await;
    api.start("parent").await;
    let child = json!({ "type": "StartChild", "workflowId": "child", "workflowType": "test", "taskList": "children" });
    api.decide(json!([child])).await;
    let begun = async {
        while api.get(&format!("{WORKFLOWS}/child")).await.status.as_u16() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, begun).await.unwrap();
    assert_eq!(api.ask(delete("child?terminate=true&reason=gone")).await.json(200), json!({ "runs": 1 }));
    let names = api.names("parent").await;
    assert!(names.contains(&"ChildTerminated".to_owned()), "{names:?}");
    api.get(&format!("{WORKFLOWS}/child")).await.problem(404, "unknown-workflow");
}

/// Deletes a run whose task is started. If `is_followed`, starts another run of its workflow id.
async fn deleted(api: &Api, id: &str, is_followed: bool) {
    api.ask(delete(&format!("{id}?terminate=true"))).await.json(200);
    assert_eq!(runs(api, id).await.len(), 0);
    if is_followed {
        api.start(id).await;
    }
}

#[tokio::test]
async fn tasks_of_a_deleted_run_are_lost() {
    for is_followed in [false, true] {
        let api = Api::open().await;
        let history = if is_followed { "unknown-run" } else { "unknown-workflow" };
        for (call, body) in [("complete", json!({ "decisions": [] })), ("fail", json!({ "reason": "no" }))] {
            api.start("w").await;
            let turn = api.turn().await;
            deleted(&api, "w", is_followed).await;
            api.refused(Ask::post(&format!("{}/{call}", turn_path(&turn)), &body), 409, "turn-lost").await;
            api.get(&format!("{}/history", turn_path(&turn))).await.problem(404, history);
            let answer = json!({ "answers": [{ "token": turn["token"], call: body }] });
            let list = "/v1/domains/default/task-lists/deciders/decider/exchange";
            let said = api.ask(Ask::post(list, &answer).header("prefer", "wait=0")).await.json(200);
            let problem = &said["receipts"][0]["problem"];
            assert_eq!((&problem["status"], &problem["code"]), (&json!(409), &json!("turn-lost")), "{said}");
            if is_followed {
                api.ask(delete("w?terminate=true")).await.json(200);
            }
        }
        let task = api.activity("w").await;
        deleted(&api, "w", is_followed).await;
        for (call, body) in [
            ("success", json!({ "result": 1 })),
            ("failure", json!({ "reason": "no" })),
            ("canceled", json!({})),
            ("heartbeat", json!({ "details": 1 })),
        ] {
            let answer = Ask::post(&format!("{}/{call}", activity_path(&task)), &body);
            api.refused(answer, 409, "activity-closed").await;
            if call != "heartbeat" {
                let answer = json!({ "answers": [{ "token": task["token"], call: body }] });
                let list =
                    format!("/v1/domains/default/task-lists/{}/activity/exchange", task["taskList"].as_str().unwrap());
                let said = api.ask(Ask::post(&list, &answer).header("prefer", "wait=0")).await.json(200);
                let problem = &said["receipts"][0]["problem"];
                assert_eq!((&problem["status"], &problem["code"]), (&json!(409), &json!("activity-closed")), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn a_changed_retention_applies_to_later_starts_only() {
    let api = Api::open().await;
    api.start("before").await;
    let changed = api.ask(patch("default", &json!({ "retention": "P2D", "description": "shop" }))).await.json(200);
    assert_eq!((&changed["retention"], &changed["description"]), (&json!("P2D"), &json!("shop")));
    let changed = api.ask(patch("default", &json!({ "description": null }))).await.json(200);
    assert_eq!((&changed["retention"], changed.get("description")), (&json!("P2D"), None));
    api.start("after").await;
    for id in ["before", "after"] {
        api.post(&format!("{WORKFLOWS}/{id}/terminate"), &json!({})).await.json(200);
    }
    let retention = |history: Value| history["events"][0]["retention"].clone();
    let of = |id: &str| format!("{WORKFLOWS}/{id}/history?limit=1");
    assert_eq!(retention(api.get(&of("before")).await.json(200)), json!("P30D"));
    assert_eq!(retention(api.get(&of("after")).await.json(200)), json!("P2D"));
    for (body, code) in [(json!({ "retention": "P4000D" }), "invalid-field"), (json!({ "name": "x" }), "bad-json")] {
        api.refused(patch("default", &body), 400, code).await;
    }
    api.refused(patch("nowhere", &json!({})), 404, "unknown-domain").await;
}

#[tokio::test]
async fn deadlines_list_delayed_turns_attempts_and_effects() {
    let api = Api::open().await;
    let what = |run: &Value| -> Vec<String> {
        run["deadlines"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap().to_owned()).collect()
    };
    let start = json!({ "workflowId": "late", "workflowType": "test", "taskList": "later", "startAfter": 60 });
    api.post(WORKFLOWS, &start).await.json(201);
    assert_eq!(what(&api.get(&format!("{WORKFLOWS}/late")).await.json(200)), ["first-turn", "execution"]);

    api.start("w").await;
    let turn = api.turn().await;
    api.post(&format!("{}/fail", turn_path(&turn)), &json!({})).await.json(200);
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!(what(&run), ["turn-retry", "execution"]);
    api.clock.advance(history::Duration::from_secs(1));
    let mut tried = schedule("a", "acts");
    tried["retry"] = json!({ "initialInterval": 7 });
    api.decide(json!([tried, { "type": "StartTimer", "timerId": "t", "after": 3 }])).await;
    let task = api.take_activity("acts").await;
    api.post(&format!("{}/failure", activity_path(&task)), &json!({ "reason": "busy" })).await.json(200);
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!(what(&run), ["timer", "activity-retry", "execution"]);
}

/// Waits until the service has checked its clock and expired what it may.
async fn sweep() {
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
}

/// Closes a run with a retention of this many days.
async fn closed(api: &Api, id: &str, days: u64) -> String {
    let start = json!({ "workflowId": id, "workflowType": "t", "retention": format!("P{days}D") });
    api.post(WORKFLOWS, &start).await.json(201);
    api.post(&format!("{WORKFLOWS}/{id}/terminate"), &json!({})).await.json(200);
    format!("{WORKFLOWS}/{id}")
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_expires_nothing_until_confirmed() {
    let api = Api::open().await;
    let doubted = async || {
        let metrics = api.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("baton_clock_suspect ")).unwrap().to_owned();
        line.ends_with(" 1")
    };
    let kept = closed(&api, "w", 30).await;
    sweep().await;
    assert!(!doubted().await);
    api.clock.advance(history::Duration::from_days(40));
    sweep().await;
    assert!(doubted().await);
    api.get(&kept).await.json(200);
    let ready = api.get("/readyz").await.json(200);
    let warning = &ready["warnings"][0];
    assert_eq!((&ready["ready"], &warning["code"]), (&json!(true), &json!("clock-suspect")), "it stays ready");
    assert!(warning["detail"].as_str().unwrap().contains("2023-12-24"), "{warning}");
    assert!(warning["advice"].as_str().unwrap().contains("baton clock confirm"), "{warning}");
    // Another service over the same store warns, too.
    let again = Api::over(api.engine.store().clone()).await;
    again.clock.advance(history::Duration::from_days(40));
    sweep().await;
    again.get(&kept).await.json(200);

    let confirmed = api.ask(Ask::new("POST", "/v1/clock/confirm")).await.json(200);
    assert_eq!(confirmed["now"], "2023-12-24T22:13:20.000Z");
    sweep().await;
    assert!(!doubted().await);
    assert_eq!(api.get("/readyz").await.text, READY);
    api.get(&kept).await.problem(404, "unknown-workflow");
}

#[tokio::test(start_paused = true)]
async fn runs_expire_while_the_clock_advances_steadily() {
    let api = Api::open().await;
    let kept = closed(&api, "w", 2).await;
    for _ in 0..2 {
        api.clock.advance(history::Duration::from_secs(23 * 3_600));
        sweep().await;
        api.get(&kept).await.json(200);
    }
    api.clock.advance(history::Duration::from_secs(3 * 3_600));
    sweep().await;
    api.get(&kept).await.problem(404, "unknown-workflow");
}
