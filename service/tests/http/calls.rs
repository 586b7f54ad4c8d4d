//! One successful request to every call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store::fault::{Chances, FaultStore};
use store::memory::Memory;

use crate::support::{Api, Ask, DECIDERS, READY, WORKFLOWS, activity_path, segment, turn_path};

#[tokio::test]
async fn domains_are_created_listed_and_shown() {
    let api = Api::open().await;
    let create = json!({ "name": "shop/é 1", "description": "what for", "retention": "P7D" });
    let created = api.post("/v1/domains", &create).await.json(201);
    assert_eq!(created["retention"], "P7D");
    assert_eq!(created["createdAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(api.get(&format!("/v1/domains/{}", segment("shop/é 1"))).await.json(200), created);
    let listed = api.get("/v1/domains").await.json(200);
    let names: Vec<_> = listed["domains"].as_array().unwrap().iter().map(|domain| &domain["name"]).collect();
    assert_eq!(names, ["default", "shop/é 1"]);
}

#[tokio::test]
async fn a_deprecated_domain_takes_no_starts_until_it_is_restored() {
    let api = Api::open().await;
    let created = api.post("/v1/domains", &json!({ "name": "old", "tags": { "team": "a" } })).await.json(201);
    assert_eq!(created["tags"], json!({ "team": "a" }));
    let start = json!({ "workflowId": "w", "workflowType": "t" });
    api.post("/v1/domains/old/workflows", &start).await.json(201);
    api.ask(Ask::new("POST", "/v1/domains/old/undeprecate")).await.problem(409, "domain-exists");
    let deprecated = api.ask(Ask::new("POST", "/v1/domains/old/deprecate")).await.json(200);
    assert!(deprecated["deprecatedAt"].is_string(), "{deprecated}");
    api.ask(Ask::new("POST", "/v1/domains/old/deprecate")).await.problem(409, "domain-deprecated");
    let other = json!({ "workflowId": "w2", "workflowType": "t" });
    api.post("/v1/domains/old/workflows", &other).await.problem(409, "domain-deprecated");
    // Open runs continue and stay visible.
    api.post("/v1/domains/old/workflows/w/signals/go", &json!({})).await.json(202);
    assert_eq!(api.get("/v1/domains/old/workflows").await.json(200)["workflows"].as_array().unwrap().len(), 1);
    api.ask(Ask::new("POST", "/v1/domains/old/undeprecate")).await.json(200);
    api.post("/v1/domains/old/workflows", &other).await.json(201);
}

#[tokio::test]
async fn only_a_deprecated_empty_domain_can_be_deleted() {
    let api = Api::open().await;
    let gone = |why: &'static str| {
        let ask = api.ask(Ask::new("DELETE", "/v1/domains/old"));
        async move {
            let problem = ask.await.problem(409, "domain-in-use");
            assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
        }
    };
    api.post("/v1/domains", &json!({ "name": "old" })).await.json(201);
    api.post("/v1/domains/old/workflow-types", &json!({ "name": "t" })).await.json(201);
    api.post("/v1/domains/old/workflows", &json!({ "workflowId": "w", "workflowType": "t" })).await.json(201);
    let action = json!({ "workflowId": "s", "workflowType": "t" });
    let schedule = json!({ "scheduleId": "s", "schedule": { "spec": { "cron": ["0 8 * * *"] }, "action": action } });
    api.post("/v1/domains/old/schedules", &schedule).await.json(201);
    gone("is not deprecated").await;
    api.ask(Ask::new("POST", "/v1/domains/old/deprecate")).await.json(200);
    gone("less than a minute ago").await;
    api.clock.advance(history::Duration::from_secs(60));
    gone("it has open runs").await;
    api.post("/v1/domains/old/workflows/w/terminate", &json!({})).await.json(200);
    gone("within their retention").await;
    api.ask(Ask::new("DELETE", "/v1/domains/old/workflows/w")).await.json(200);
    gone("it has schedules").await;
    api.ask(Ask::new("DELETE", "/v1/domains/old/schedules/s")).await.json(200);
    assert_eq!(api.ask(Ask::new("DELETE", "/v1/domains/old")).await.status.as_u16(), 204);
    api.get("/v1/domains/old").await.problem(404, "unknown-domain");
    api.ask(Ask::new("DELETE", "/v1/domains/old")).await.problem(404, "unknown-domain");
    api.post("/v1/domains", &json!({ "name": "old" })).await.json(201);
    let types = api.get("/v1/domains/old/workflow-types").await.json(200);
    assert_eq!(types["types"], json!([]), "its types are deleted with it");
    let always = api.ask(Ask::new("DELETE", "/v1/domains/default")).await.problem(409, "domain-in-use");
    assert!(always["detail"].as_str().unwrap().contains("it is the default domain"), "{always}");
}

#[tokio::test]
async fn domains_whose_record_is_full_are_refused_with_advice() {
    let api = Api::open().await;
    let description = "x".repeat(4_096);
    let mut refused = None;
    for number in 0..300 {
        let create = json!({ "name": format!("d{number}"), "description": description });
        let answer = api.post("/v1/domains", &create).await;
        if answer.status.as_u16() != 201 {
            refused = Some(answer.problem(409, "limit-exceeded"));
            break;
        }
    }
    let refused = refused.expect("the record of domains has a size limit");
    assert!(refused["detail"].as_str().unwrap().contains("shorten some, or delete domains"), "{refused}");
    // A shorter description or a deleted domain makes room.
    let shorter = Ask::new("PATCH", "/v1/domains/d1").header("content-type", "application/json");
    api.ask(shorter.body(r#"{"description":null}"#)).await.json(200);
    api.ask(Ask::new("POST", "/v1/domains/d0/deprecate")).await.json(200);
    api.clock.advance(history::Duration::from_secs(60));
    assert_eq!(api.ask(Ask::new("DELETE", "/v1/domains/d0")).await.status.as_u16(), 204);
    api.post("/v1/domains", &json!({ "name": "another", "description": description })).await.json(201);
}

#[tokio::test]
async fn at_most_1000_domains_can_be_created() {
    let api = Api::open().await;
    let create = |number: usize| json!({ "name": format!("d{number}") });
    // Domain `default` exists already.
    for number in 1..1_000 {
        api.post("/v1/domains", &create(number)).await.json(201);
    }
    let refused = api.post("/v1/domains", &create(1_000)).await.problem(409, "limit-exceeded");
    assert!(refused["detail"].as_str().unwrap().contains("1000"), "{refused}");
    assert_eq!(api.get("/v1/domains").await.json(200)["domains"].as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn domain_tags_are_changed_together_and_limited() {
    let api = Api::open().await;
    let tags = |add: Value, remove: &[&str]| json!({ "add": add, "remove": remove });
    let tag = async |body: Value| api.post("/v1/domains/default/tags", &body).await;
    let changed = tag(tags(json!({ "a": "1", "b": "2" }), &[])).await.json(200);
    assert_eq!(changed["tags"], json!({ "a": "1", "b": "2" }));
    let changed = tag(tags(json!({ "b": "3" }), &["a", "none"])).await.json(200);
    assert_eq!(changed["tags"], json!({ "b": "3" }));
    let many: serde_json::Map<String, Value> = (0..49).map(|n| (format!("k{n}"), json!(""))).collect();
    tag(tags(json!(many), &[])).await.json(200);
    tag(tags(json!({ "one more": "" }), &[])).await.problem(409, "limit-exceeded");
    tag(tags(json!({ "k".repeat(128): "v".repeat(256) }), &["b"])).await.json(200);
    for bad in [json!({ "k".repeat(129): "" }), json!({ "": "" }), json!({ "k1": "v".repeat(257) })] {
        tag(tags(bad, &["k0"])).await.problem(400, "invalid-field");
    }
}

#[tokio::test]
async fn the_same_id_in_two_domains_is_two_workflows() {
    let api = Api::open().await;
    api.post("/v1/domains", &json!({ "name": "other", "retention": 60 })).await.json(201);
    let start = json!({ "workflowId": "w", "workflowType": "t" });
    let here = api.post(WORKFLOWS, &start).await.json(201);
    let there = api.post("/v1/domains/other/workflows", &start).await.json(201);
    assert_ne!(here["runId"], there["runId"]);
    assert_eq!(api.get("/v1/domains/other/workflows/w").await.json(200)["runId"], there["runId"]);
}

#[tokio::test]
async fn a_workflow_is_started_described_signaled_and_canceled() {
    let api = Api::open().await;
    let start = json!({
        "workflowId": "w", "workflowType": "order", "taskList": "deciders", "input": { "n": 1 },
        "executionTimeout": "P1D", "deciderStartToClose": 5, "deciderScheduleToStart": "PT1H",
        "activityTimeouts": { "startToClose": "PT30S", "heartbeat": 2.5 }, "tags": ["a", "b"],
        "retention": "P3D", "reusePolicy": "allow-duplicate", "identity": "me",
    });
    let started = api.post(WORKFLOWS, &start).await.json(201);
    assert_eq!(started["workflowId"], "w");
    let run_id = started["runId"].as_str().unwrap();

    let answer = api.get(&format!("{WORKFLOWS}/w")).await;
    let described = answer.json(200);
    assert_eq!(answer.header("etag"), format!("\"{run_id}-{}\"", described["version"]));
    assert_eq!(described["runId"], run_id);
    assert_eq!(described["workflowType"], "order");
    assert_eq!(described["taskList"], "deciders");
    assert_eq!(described["status"], "open");
    assert_eq!(described["executionTimeout"], "P1D");
    assert_eq!(described["tags"], json!(["a", "b"]));
    assert_eq!(described["cancelRequested"], false);
    assert_eq!(described["historyLength"], 2);
    assert_eq!(described["turn"], "waiting");
    assert_eq!(described["openActivities"], json!([]));
    let whats: Vec<_> = described["deadlines"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(whats, ["turn-schedule-to-start", "execution"]);

    let signaled = api.post(&format!("{WORKFLOWS}/w/signals/paid"), &json!({ "input": [1], "identity": "bank" })).await;
    assert_eq!(signaled.json(202), json!({ "eventId": 3, "runId": run_id }));
    let canceled = api.post(&format!("{WORKFLOWS}/w/cancel"), &json!({ "reason": "no stock" })).await;
    assert_eq!(canceled.json(202)["runId"], run_id);
    assert_eq!(api.get(&format!("{WORKFLOWS}/w")).await.json(200)["cancelRequested"], true);
    api.decide(json!([{ "type": "CancelWorkflow", "details": "as asked" }])).await;
    let result = api.get(&format!("{WORKFLOWS}/w/result")).await.json(200);
    assert_eq!(result["status"], "canceled");
    assert_eq!(result["details"], "as asked");
}

#[tokio::test]
async fn a_run_is_terminated() {
    let api = Api::open().await;
    let run_id = api.start("w").await;
    let path = format!("{WORKFLOWS}/w/terminate?runId={run_id}");
    let told = api.post(&path, &json!({ "reason": "stuck", "details": { "by": 1 }, "identity": "op" })).await;
    assert_eq!(told.json(200), json!({ "eventId": 3, "runId": run_id }));
    let result = api.get(&format!("{WORKFLOWS}/w/result")).await.json(200);
    assert_eq!((&result["status"], &result["reason"]), (&json!("terminated"), &json!("stuck")));
    assert_eq!(result["details"], json!({ "by": 1 }));
}

#[tokio::test]
async fn a_missing_body_is_an_empty_object() {
    let api = Api::open().await;
    api.start("w").await;
    let answer = api.ask(Ask::new("POST", &format!("{WORKFLOWS}/w/signals/go"))).await;
    assert_eq!(answer.json(202)["eventId"], 3);
    let answer = api.ask(Ask::new("POST", &format!("{WORKFLOWS}/w/terminate"))).await;
    answer.json(200);
}

#[tokio::test]
async fn a_result_waits_for_the_close_or_returns_202() {
    let api = Api::open().await;
    let run_id = api.start("w").await;
    let path = format!("{WORKFLOWS}/w/result");
    let open = api.get(&path).await.json(202);
    assert_eq!(open, json!({ "status": "open", "runId": run_id }));
    api.ask(Ask::get(&path).header("prefer", "wait=0.01")).await.json(202);
    let wait = api.ask(Ask::get(&path).header("prefer", "respond-async, wait=20"));
    let close = api.decide(json!([{ "type": "FailWorkflow", "reason": "declined", "details": [1.50] }]));
    let (result, _) = tokio::join!(wait, close);
    let closed = result.json(200);
    assert_eq!((&closed["status"], &closed["reason"]), (&json!("failed"), &json!("declined")));
    assert!(result.text.contains("[1.5]"), "{}", result.text);
    assert_eq!(closed["closedAt"], "2023-11-14T22:13:20.000Z");
}

#[tokio::test]
async fn a_start_waits_for_the_close_or_returns_without_it() {
    let api = Api::open().await;
    let body = |id: &str| json!({ "workflowId": id, "workflowType": "t", "taskList": "deciders" }).to_string();
    let start =
        |id: &str, wait: &str| Ask::text(WORKFLOWS, &body(id)).header("prefer", wait).header("idempotency-key", id);
    let open = api.ask(start("slow", "wait=0.01")).await;
    assert_eq!(open.header("preference-applied"), "wait=0.01");
    let open = open.json(201);
    assert_eq!(open.get("closed"), None);
    api.decide(json!([{ "type": "FailWorkflow", "reason": "late" }])).await;
    let repeated = api.ask(start("slow", "wait=3600")).await;
    assert_eq!(repeated.header("preference-applied"), "wait=60", "a wait is at most a minute");
    let repeated = repeated.json(200);
    assert_eq!((&repeated["runId"], &repeated["closed"]["reason"]), (&open["runId"], &json!("late")));

    let close = api.decide(json!([{ "type": "SucceedWorkflow", "result": { "paid": 1 } }]));
    let (started, ()) = tokio::join!(api.ask(start("quick", "wait=20")), async { drop(close.await) });
    assert_eq!(started.header("preference-applied"), "wait=20");
    let closed = &started.json(201)["closed"];
    assert_eq!((&closed["status"], &closed["result"]), (&json!("success"), &json!({ "paid": 1 })));

    let plain = api.ask(Ask::text(WORKFLOWS, &body("plain"))).await;
    assert_eq!(plain.headers.get("preference-applied"), None, "no wait was requested");
}

#[tokio::test]
async fn payloads_are_kept_byte_for_byte() {
    let api = Api::open().await;
    let payload = r#"{"b": 1.0,   "a":1e2, "big":123456789012345678901234567890, "s":"é\u00e9", "b":null}"#;
    let start = format!(r#"{{"workflowId":"w","workflowType":"t","taskList":"deciders","input":{payload}}}"#);
    api.ask(Ask::text(WORKFLOWS, &start)).await.json(201);
    let history = api.get(&format!("{WORKFLOWS}/w/history")).await;
    assert!(history.text.contains(payload), "{}", history.text);
    let turn = api.turn().await;
    let result = format!(r#"{{"decisions":[{{"type":"SucceedWorkflow","result":{payload}}}]}}"#);
    api.ask(Ask::text(&format!("{}/complete", turn_path(&turn)), &result)).await.json(200);
    let result = api.get(&format!("{WORKFLOWS}/w/result")).await;
    assert!(result.text.contains(payload), "{}", result.text);
}

#[tokio::test]
async fn a_null_payload_differs_from_an_absent_one() {
    let api = Api::open().await;
    for (id, end, expected) in [("null", ",\"result\":null", true), ("none", "", false)] {
        api.start(id).await;
        let turn = api.turn().await;
        let answer = format!(r#"{{"decisions":[{{"type":"SucceedWorkflow"{end}}}]}}"#);
        api.ask(Ask::text(&format!("{}/complete", turn_path(&turn)), &answer)).await.json(200);
        let result = api.get(&format!("{WORKFLOWS}/{id}/result")).await.json(200);
        assert_eq!(result.as_object().unwrap().contains_key("result"), expected, "{result}");
    }
}

#[tokio::test]
async fn a_decider_takes_a_turn_reads_back_and_leaves_a_context() {
    let api = Api::open().await;
    let run_id = api.start("w").await;
    let turn = api.turn().await;
    assert_eq!(
        (&turn["domain"], &turn["workflowId"], &turn["runId"]),
        (&json!("default"), &json!("w"), &json!(run_id))
    );
    assert_eq!((&turn["workflowType"], &turn["taskList"]), (&json!("test"), &json!("deciders")));
    assert_eq!((&turn["attempt"], &turn["startedEventId"]), (&json!(1), &json!(3)));
    assert_eq!(turn["previousStartedEventId"], 0);
    assert_eq!(turn["events"].as_array().unwrap().len(), 3);
    let answer =
        json!({ "decisions": [{ "type": "StartTimer", "timerId": "t", "after": "PT1H" }], "context": { "k": 1 } });
    api.post(&format!("{}/complete", turn_path(&turn)), &answer).await.json(200);
    let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!(described["openTimers"][0]["timerId"], "t");
    assert_eq!(described["openTimers"][0]["expiresAt"], "2023-11-14T23:13:20.000Z");
    api.clock.advance(history::Duration::from_secs(3_600));
    let turn = api.turn().await;
    assert_eq!((&turn["previousStartedEventId"], &turn["context"]), (&json!(3), &json!({ "k": 1 })));
    api.post(&format!("{WORKFLOWS}/w/signals/late"), &json!({})).await.json(202);
    let look = api.get(&format!("{}/history", turn_path(&turn))).await.json(200);
    let last = look["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["id"], turn["startedEventId"], "never an event after the turn's own DeciderStarted");
    let back = format!("{}/history?reverse=true&limit=2", turn_path(&turn));
    let back = api.get(&back).await.json(200);
    assert_eq!(back["events"][0]["id"], turn["startedEventId"]);
    assert_eq!(back["next"], turn["startedEventId"].as_u64().unwrap() - 1);
}

#[tokio::test]
async fn a_failed_turn_is_dispatched_again() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let fail = json!({ "reason": "panic", "details": "at main.rs" });
    assert_eq!(api.post(&format!("{}/fail", turn_path(&turn)), &fail).await.json(200), json!({}));
    assert!(api.names("w").await.contains(&"DeciderFailed".to_owned()));
    api.clock.advance(history::Duration::from_secs(1));
    assert_eq!(api.turn().await["attempt"], 2);
}

#[tokio::test]
async fn a_poll_of_an_empty_list_returns_204() {
    let api = Api::open().await;
    for side in ["decider", "activity"] {
        let path = format!("/v1/domains/default/task-lists/nobody/{side}/poll");
        for wait in ["wait=0", "wait=0.01", "WAIT=\"0\"", "handling=lenient; wait=0"] {
            let answer = api.ask(Ask::post(&path, &json!({})).header("prefer", wait)).await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
        }
    }
}

#[tokio::test]
async fn an_activity_is_taken_heartbeats_and_succeeds() {
    let api = Api::open().await;
    api.start("w").await;
    let decision = json!({
        "type": "ScheduleActivity", "activityId": "charge", "activityType": "card", "taskList": "PCI",
        "input": { "cents": 1 }, "timeouts": { "heartbeat": "PT10S", "startToClose": 60 },
    });
    api.decide(json!([decision])).await;
    let task = api.take_activity("PCI").await;
    assert_eq!((&task["activityId"], &task["activityType"]), (&json!("charge"), &json!("card")));
    assert_eq!((&task["taskList"], &task["input"]), (&json!("PCI"), &json!({ "cents": 1 })));
    assert_eq!((&task["timeouts"]["heartbeat"], &task["timeouts"]["startToClose"]), (&json!("PT10S"), &json!("PT1M")));
    assert_eq!((&task["scheduledEventId"], &task["startedEventId"]), (&json!(5), &json!(6)));
    let beat = format!("{}/heartbeat", activity_path(&task));
    assert_eq!(api.post(&beat, &json!({ "details": 50 })).await.json(200), json!({ "cancelRequested": false }));
    let open = api.get(&format!("{WORKFLOWS}/w")).await.json(200)["openActivities"][0].clone();
    assert_eq!((&open["activityId"], &open["scheduledEventId"]), (&json!("charge"), &json!(5)));
    assert!(open["lastHeartbeatAt"].is_string(), "{open}");
    let done = api.post(&format!("{}/success", activity_path(&task)), &json!({ "result": "ok" })).await;
    assert_eq!(done.json(200), json!({}));
    assert!(api.names("w").await.contains(&"ActivitySuccess".to_owned()));
}

#[tokio::test]
async fn an_activity_fails_with_a_reason() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    let fail = json!({ "reason": "declined", "details": {}, "nonRetryable": true });
    assert_eq!(api.post(&format!("{}/failure", activity_path(&task)), &fail).await.json(200), json!({}));
    let history = api.get(&format!("{WORKFLOWS}/w/history?reverse=true")).await.json(200);
    let events = history["events"].as_array().unwrap();
    let failed = events.iter().find(|event| event["type"] == "ActivityFailed").unwrap();
    assert_eq!((&failed["reason"], &failed["nonRetryable"]), (&json!("declined"), &json!(true)));
}

#[tokio::test]
async fn an_activity_learns_of_its_cancellation_by_heartbeat() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&format!("{WORKFLOWS}/w/signals/stop"), &json!({})).await.json(202);
    api.decide(json!([{ "type": "CancelActivity", "activityId": "a" }])).await;
    let beat = api.post(&format!("{}/heartbeat", activity_path(&task)), &json!({})).await;
    assert_eq!(beat.json(200), json!({ "cancelRequested": true }));
    let path = format!("{}/canceled", activity_path(&task));
    assert_eq!(api.post(&path, &json!({ "details": "undone" })).await.json(200), json!({}));
    assert!(api.names("w").await.contains(&"ActivityCanceled".to_owned()));
}

#[tokio::test]
async fn health_readiness_and_metrics_show_the_services_state() {
    let api = Api::open().await;
    assert_eq!(api.get("/healthz").await.text, "ok\n");
    assert_eq!(api.get("/readyz").await.text, READY);
    let metrics = api.get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    assert!(metrics.text.ends_with("# EOF\n"), "{}", metrics.text);
    api.engine.begin_shutdown();
    let stopping = api.get("/readyz").await;
    assert_eq!(stopping.problem(503, "stopping")["retryable"], true);
    assert_eq!(stopping.header("retry-after"), "1");
    assert_eq!(api.get("/healthz").await.status, 200);
    let answer = api.ask(Ask::post(DECIDERS, &json!({}))).await;
    assert_eq!(answer.status, 204, "a poll does not wait while the service shuts down");
}
#[tokio::test]
async fn a_shortened_window_has_the_context() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    api.post(&format!("{}/complete", turn_path(&turn)), &json!({ "context": "kept" })).await.json(200);
    for _ in 0..5 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    }
    let turn = api.post(DECIDERS, &json!({ "maxEvents": 2 })).await.json(200);
    assert_eq!(turn["events"].as_array().unwrap().len(), 2, "the oldest events are left out");
    assert_eq!(turn["context"], "kept");
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_is_a_warning_while_it_fails() {
    let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 1, Chances { not_applied: 1_000, ..Chances::NONE }));
    store.set_on(false);
    let api = Api::over(Arc::clone(&store) as _).await;
    store.set_on(true);
    let ready = api.get("/readyz").await.json(200);
    assert_eq!((&ready["ready"], &ready["warnings"][0]["code"]), (&json!(true), &json!("store-failing")));
    store.set_on(false);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(api.get("/readyz").await.text, READY);
}
