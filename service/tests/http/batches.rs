//! Batches: one operation on many runs, its progress, its refusals and its permissions.

use std::sync::Arc;

use history::Duration;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use store::Store;
use store::memory::Memory;

use crate::holders::{credential, one};
use crate::support::{Answer, Api, Ask, COUNT, PATIENCE, WORKFLOWS, activity_path};

const BATCHES: &str = "/v1/domains/default/batches";

/// Starts runs that are blocked: their activity has failed, and its retries are exhausted.
async fn start_blocked(api: &Api, count: usize) {
    let retry = json!({ "initialInterval": 60, "maximumAttempts": 1, "whenExhausted": "pause" });
    let activity = json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "mail", "taskList": "acts",
                           "retry": retry });
    for number in 0..count {
        api.start(&format!("w{number}")).await;
        api.decide(json!([activity])).await;
        let task = api.take_activity("acts").await;
        let failure = json!({ "reason": "smtp-refused" });
        api.post(&format!("{}/failure", activity_path(&task)), &failure).await.json(200);
    }
}

async fn create(api: &Api, body: &Value) -> Value {
    api.post(BATCHES, body).await.json(201)
}

fn path(batch: &Value, rest: &str) -> String {
    format!("{BATCHES}/{}{rest}", batch["batchId"].as_str().unwrap())
}

async fn show(api: &Api, batch: &Value) -> Value {
    api.get(&path(batch, "")).await.json(200)
}

/// Returns the batch once it meets a condition. Advances the clock in between if `step` is not zero.
async fn once(api: &Api, batch: &Value, step: u64, is_so: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let shown = show(api, batch).await;
            if is_so(&shown) {
                return shown;
            }
            api.clock.advance(Duration::from_millis(step));
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the condition is met in time")
}

async fn completed(api: &Api, batch: &Value) -> Value {
    once(api, batch, 500, |shown| shown["status"] == "completed").await
}

async fn has_done(api: &Api, batch: &Value, count: u64) -> Value {
    once(api, batch, 0, |shown| shown["done"].as_u64().unwrap() >= count).await
}

/// Returns how many events of this type each of the runs has.
async fn events(api: &Api, count: usize, name: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for number in 0..count {
        let names = api.names(&format!("w{number}")).await;
        found.push(names.iter().filter(|found| *found == name).count());
    }
    found
}

fn signals(more: &Value) -> Value {
    let mut body = json!({ "operation": { "type": "signal", "name": "go" } });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn three_hundred_blocked_runs_are_retried_once() {
    let api = Api::open().await;
    start_blocked(&api, 300).await;
    let body = json!({
        "operation": { "type": "retry-activities" }, "filter": { "status": "blocked", "type": "test" }, "pace": 100,
        "reason": "smtp is back", "identity": "ann",
    });
    let batch = create(&api, &body).await;
    assert_eq!((&batch["estimatedTotal"], &batch["pace"]), (&json!(300), &json!(100)));
    let shown = completed(&api, &batch).await;
    assert_eq!((&shown["done"], &shown["examined"], &shown["refused"]), (&json!(300), &json!(300), &json!(0)));
    assert_eq!(events(&api, 300, "ActivityRetried").await, [1; 300]);
    assert_eq!(api.get(&format!("{COUNT}?status=blocked")).await.json(200)["count"], 0);
    let history = api.get(&format!("{WORKFLOWS}/w7/history?reverse=true&limit=1")).await.json(200);
    let event = &history["events"][0];
    assert_eq!((&event["reason"], &event["identity"]), (&json!("smtp is back"), &json!("ann")));
}

#[tokio::test]
async fn a_run_that_refuses_is_reported() {
    let api = Api::open().await;
    start_blocked(&api, 1).await;
    api.start("fine").await;
    let batch = create(&api, &json!({ "operation": { "type": "retry-activities" } })).await;
    let shown = completed(&api, &batch).await;
    assert_eq!((&shown["done"], &shown["refused"]), (&json!(1), &json!(1)));
    assert_eq!(shown["refusedByCode"], json!({ "activity-not-retryable": 1 }));
    let refusal = &shown["refusals"][0];
    assert_eq!((&refusal["workflowId"], &refusal["code"]), (&json!("fine"), &json!("activity-not-retryable")));
    assert!(refusal["runId"].is_string() && refusal["reason"].as_str().unwrap().contains("no open activity"));
}

#[tokio::test]
async fn a_batch_retries_activities_by_the_reason_of_their_failure() {
    let api = Api::open().await;
    start_blocked(&api, 2).await;
    for (reason, done) in [("timeout", 0), ("smtp-refused", 2)] {
        let operation = json!({ "type": "retry-activities", "failureReason": reason });
        let batch = create(&api, &json!({ "operation": operation })).await;
        let shown = completed(&api, &batch).await;
        assert_eq!((&shown["done"], &shown["refused"]), (&json!(done), &json!(2 - done)), "{shown}");
    }
}

#[tokio::test]
async fn a_stopped_batch_continues_when_it_is_resumed() {
    let api = Api::open().await;
    for number in 0..3 {
        api.start(&format!("w{number}")).await;
    }
    let batch = create(&api, &signals(&json!({ "pace": 1 }))).await;
    has_done(&api, &batch, 1).await;
    let stopped = api.post(&path(&batch, "/stop"), &json!({})).await.json(200);
    assert_eq!((&stopped["status"], &stopped["done"]), (&json!("stopped"), &json!(1)));
    assert_eq!(
        api.post(&path(&batch, "/stop"), &json!({})).await.json(200),
        stopped,
        "a repeated stop changes nothing"
    );
    api.clock.advance(Duration::from_secs(60));
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(show(&api, &batch).await, stopped);
    let listed = api.get(BATCHES).await.json(200);
    assert_eq!(
        (&listed["batches"][0]["status"], &listed["batches"][0]["operation"]),
        (&json!("stopped"), &json!("signal"))
    );
    assert_eq!(api.post(&path(&batch, "/resume"), &json!({})).await.json(200)["status"], "running");
    assert_eq!(completed(&api, &batch).await["done"], 3);
    assert_eq!(events(&api, 3, "Signal").await, [1; 3]);
}

#[tokio::test]
async fn a_changed_pace_applies_from_the_next_step() {
    let api = Api::open().await;
    for number in 0..20 {
        api.start(&format!("w{number}")).await;
    }
    let batch = create(&api, &signals(&json!({ "pace": 1 }))).await;
    has_done(&api, &batch, 1).await;
    let changed = api.ask(put_pace(&batch, 1_000)).await.json(200);
    assert_eq!(changed["pace"], 1_000);
    api.clock.advance(Duration::from_secs(1));
    let shown = once(&api, &batch, 0, |shown| shown["status"] == "completed").await;
    assert_eq!(shown["done"], 20, "nineteen runs in one step");
    api.ask(put_pace(&batch, 1)).await.problem(409, "batch-completed");
}

fn put_pace(batch: &Value, pace: u64) -> Ask {
    let body = json!({ "pace": pace }).to_string();
    Ask::new("PUT", &path(batch, "/pace")).header("content-type", "application/json").body(body)
}

#[tokio::test]
async fn a_batch_continues_after_a_restart_of_the_service() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let api = Api::over(Arc::clone(&store)).await;
    for number in 0..60 {
        api.start(&format!("w{number}")).await;
    }
    let batch = create(&api, &signals(&json!({ "pace": 20, "identity": "ann" }))).await;
    has_done(&api, &batch, 20).await;
    api.engine.begin_shutdown();
    let api = Api::over(store).await;
    assert_eq!(show(&api, &batch).await["status"], "running");
    assert_eq!(completed(&api, &batch).await["done"], 60);
    assert_eq!(events(&api, 60, "Signal").await, [1; 60]);
}

#[tokio::test]
async fn a_dry_run_counts_and_lists_runs_and_changes_nothing() {
    let api = Api::open().await;
    for number in 0..101 {
        api.start(&format!("w{number}")).await;
    }
    let before = api.everything().await;
    let body = signals(&json!({ "dryRun": true }));
    let answer = api.post(BATCHES, &body).await.json(200);
    assert_eq!((&answer["count"], &answer["truncated"]), (&json!(101), &json!(false)));
    assert_eq!(answer["workflows"].as_array().unwrap().len(), 100);
    assert_eq!(api.everything().await, before);
    assert_eq!(api.get(BATCHES).await.json(200)["batches"], json!([]));
}

#[tokio::test]
async fn a_batch_selects_runs_by_every_filter_of_lists() {
    let api = Api::open().await;
    for (id, kind, tags) in
        [("a-1", "order", json!(["red"])), ("a-2", "order", json!([])), ("b-1", "invoice", json!([]))]
    {
        let start = json!({ "workflowId": id, "workflowType": kind, "taskList": "deciders", "tags": tags });
        api.post(WORKFLOWS, &start).await.json(201);
        api.clock.advance(Duration::from_secs(1));
    }
    api.post(&format!("{WORKFLOWS}/a-2/pause"), &json!({})).await.json(200);
    let closed = json!({ "workflowId": "c-1", "workflowType": "order", "taskList": "others" });
    api.post(WORKFLOWS, &closed).await.json(201);
    api.post(&format!("{WORKFLOWS}/c-1/terminate"), &json!({ "reason": "test" })).await.json(200);
    let started = api.get(&format!("{WORKFLOWS}/a-2")).await.json(200)["startedAt"].clone();
    let ended = api.get(&format!("{WORKFLOWS}/c-1")).await.json(200)["closedAt"].clone();
    let (open, gone) = (json!({ "type": "cancel" }), json!({ "type": "delete" }));
    let cases = [
        (&open, json!({}), vec!["b-1", "a-2", "a-1"]),
        (&open, json!({ "type": "order" }), vec!["a-2", "a-1"]),
        (&open, json!({ "tag": "red" }), vec!["a-1"]),
        (&open, json!({ "status": "paused" }), vec!["a-2"]),
        (&open, json!({ "workflowId": "b-1" }), vec!["b-1"]),
        (&open, json!({ "workflowIdPrefix": "a-" }), vec!["a-2", "a-1"]),
        (&open, json!({ "workflowIds": ["b-1", "a-1", "c-1", "x"] }), vec!["b-1", "a-1"]),
        (&open, json!({ "workflowIds": ["b-1", "a-1"], "type": "order" }), vec!["a-1"]),
        (&open, json!({ "startedFrom": started }), vec!["b-1", "a-2"]),
        (&open, json!({ "startedBefore": started }), vec!["a-1"]),
        (&gone, json!({}), vec!["c-1"]),
        (&gone, json!({ "status": "failed" }), vec![]),
        (&gone, json!({ "reason": "test" }), vec!["c-1"]),
        (&gone, json!({ "reason": "other" }), vec![]),
        (&gone, json!({ "closedFrom": ended }), vec!["c-1"]),
        (&gone, json!({ "closedBefore": ended }), vec![]),
    ];
    for (operation, filter, expected) in cases {
        let body = json!({ "operation": operation, "filter": filter, "dryRun": true });
        let answer = api.post(BATCHES, &body).await.json(200);
        let found: Vec<_> = answer["workflows"].as_array().unwrap().iter().map(|run| &run["workflowId"]).collect();
        assert_eq!(found, expected, "{filter}");
        assert_eq!(answer["count"], expected.len());
    }
}

#[tokio::test]
async fn a_listed_workflow_id_without_a_run_is_reported() {
    let api = Api::open().await;
    api.start("w0").await;
    let batch = create(&api, &signals(&json!({ "filter": { "workflowIds": ["w0", "lost"] } }))).await;
    assert_eq!(batch["estimatedTotal"], 2);
    let shown = completed(&api, &batch).await;
    assert_eq!((&shown["done"], &shown["refusedByCode"]), (&json!(1), &json!({ "unknown-workflow": 1 })));
    assert_eq!(shown["refusals"][0]["workflowId"], "lost");
}

#[tokio::test]
async fn runs_that_start_after_the_batch_are_not_selected() {
    let api = Api::open().await;
    for number in 0..3 {
        api.start(&format!("w{number}")).await;
    }
    let batch = create(&api, &signals(&json!({ "pace": 1 }))).await;
    has_done(&api, &batch, 1).await;
    api.clock.advance(Duration::from_millis(10));
    api.start("w3").await;
    assert_eq!(completed(&api, &batch).await["examined"], 3);
    assert_eq!(events(&api, 4, "Signal").await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn each_operation_records_what_the_single_call_records() {
    let cases = [
        (json!({ "type": "signal", "name": "go", "input": { "n": 1.0 } }), json!({}), "Signal"),
        (json!({ "type": "cancel" }), json!({}), "WorkflowCancelRequested"),
        (json!({ "type": "terminate" }), json!({}), "WorkflowTerminated"),
        (json!({ "type": "pause", "stopClocks": true }), json!({}), "WorkflowPaused"),
        (json!({ "type": "resume" }), json!({ "status": "paused" }), "WorkflowResumed"),
        (json!({ "type": "reset", "to": "first-event" }), json!({ "status": "open" }), "WorkflowTerminated"),
        (json!({ "type": "reset", "eventId": 2 }), json!({ "status": "open" }), "WorkflowTerminated"),
    ];
    for (operation, filter, expected) in cases {
        let api = Api::open().await;
        let run_id = api.start("w0").await;
        if operation["type"] == "resume" {
            api.post(&format!("{WORKFLOWS}/w0/pause"), &json!({})).await.json(200);
        }
        let body = json!({ "operation": operation, "filter": filter, "reason": "why", "identity": "ann" });
        let batch = create(&api, &body).await;
        assert_eq!(batch["operation"], operation);
        let shown = completed(&api, &batch).await;
        assert_eq!(shown["done"], 1, "{shown}");
        let history = api.get(&format!("{WORKFLOWS}/w0/history?runId={run_id}")).await.json(200);
        let found = history["events"].as_array().unwrap().iter().find(|event| event["type"] == expected);
        let event = found.unwrap_or_else(|| panic!("no {expected} in {history}"));
        assert_eq!(event["identity"], "ann", "{event}");
        if operation["type"] != "signal" {
            assert_eq!(event["reason"], "why", "{event}");
        }
        let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
        assert_eq!(report.findings, vec![]);
    }
}

#[tokio::test]
async fn a_batch_repeats_the_last_turn_of_failed_runs() {
    let api = Api::open().await;
    for number in 0..3 {
        api.start(&format!("w{number}")).await;
        api.decide(
            json!([{ "type": "RecordMarker", "name": "good" }, { "type": "StartTimer", "timerId": "t", "after": 9 }]),
        )
        .await;
        api.post(&format!("{WORKFLOWS}/w{number}/signals/s"), &json!({})).await.json(202);
        api.decide(json!([{ "type": "FailWorkflow", "reason": "defect" }])).await;
    }
    // The newest run of this workflow id has not failed.
    api.start("w2").await;
    let operation = json!({ "type": "reset", "to": "last-turn" });
    let batch = create(&api, &json!({ "operation": operation, "filter": { "status": "failed" } })).await;
    let shown = completed(&api, &batch).await;
    assert_eq!((&shown["done"], &shown["refusedByCode"]), (&json!(2), &json!({ "run-not-current": 1 })));
    for id in ["w0", "w1"] {
        let names = api.names(id).await;
        assert!(names.contains(&"Marker".to_owned()) && names.contains(&"WorkflowReset".to_owned()), "{names:?}");
        assert_eq!(names.iter().filter(|name| *name == "DeciderCompleted").count(), 1, "{names:?}");
        assert_eq!(api.get(&format!("{WORKFLOWS}/{id}")).await.json(200)["status"], "open");
    }
    assert_eq!(api.names("w2").await, ["WorkflowStarted", "DeciderScheduled"], "a newer run is never terminated");
}

#[tokio::test]
async fn a_batch_deletes_closed_runs() {
    let api = Api::open().await;
    for number in 0..3 {
        api.succeeded(&format!("w{number}")).await;
    }
    api.start("open").await;
    let batch = create(&api, &json!({ "operation": { "type": "delete" }, "filter": { "status": "success" } })).await;
    assert_eq!(completed(&api, &batch).await["done"], 3);
    let left = api.get(WORKFLOWS).await.json(200);
    assert_eq!(left["workflows"].as_array().unwrap().len(), 1);
    assert_eq!(left["workflows"][0]["workflowId"], "open");
}

#[tokio::test]
async fn a_repeated_creation_creates_one_batch() {
    let api = Api::open().await;
    for number in 0..2 {
        api.start(&format!("w{number}")).await;
    }
    let ask = || Ask::post(BATCHES, &signals(&json!({ "pace": 1 }))).header("idempotency-key", "k");
    let first = api.ask(ask()).await.json(201);
    assert_eq!(api.ask(ask()).await.json(201)["batchId"], first["batchId"]);
    assert_eq!(api.get(BATCHES).await.json(200)["batches"].as_array().unwrap().len(), 1);
    completed(&api, &first).await;
    assert_eq!(events(&api, 2, "Signal").await, [1; 2]);
}

#[tokio::test]
async fn a_domain_with_an_open_batch_is_not_deleted() {
    let api = Api::open().await;
    api.post("/v1/domains", &json!({ "name": "old" })).await.json(201);
    let of = |rest: &str| format!("/v1/domains/old{rest}");
    for id in ["w0", "w1"] {
        let start = json!({ "workflowId": id, "workflowType": "t", "taskList": "l" });
        api.post(&of("/workflows"), &start).await.json(201);
    }
    let batch = api.post(&of("/batches"), &signals(&json!({ "pace": 1 }))).await.json(201);
    let batch = of(&format!("/batches/{}", batch["batchId"].as_str().unwrap()));
    api.post(&format!("{batch}/stop"), &json!({})).await.json(200);
    api.ask(Ask::new("POST", &of("/deprecate"))).await.json(200);
    for id in ["w0", "w1"] {
        api.ask(Ask::new("DELETE", &of(&format!("/workflows/{id}?terminate=true")))).await.json(200);
    }
    api.clock.advance(Duration::from_secs(61));
    let problem = api.ask(Ask::new("DELETE", &of(""))).await.problem(409, "domain-in-use");
    assert!(problem["detail"].as_str().unwrap().contains("it has batches that are not completed"), "{problem}");
    api.ask(Ask::new("DELETE", &batch)).await.json(200);
    assert_eq!(api.ask(Ask::new("DELETE", &of(""))).await.status.as_u16(), 204);
}

#[tokio::test]
async fn batches_are_listed_in_pages() {
    let api = Api::open().await;
    let mut created = Vec::new();
    for _ in 0..3 {
        created.insert(0, create(&api, &signals(&json!({}))).await["batchId"].clone());
        api.clock.advance(Duration::from_millis(1));
    }
    let first = api.get(&format!("{BATCHES}?limit=2")).await.json(200);
    let next = first["nextPage"].as_str().unwrap();
    let second = api.get(&format!("{BATCHES}?limit=2&page={next}")).await.json(200);
    assert_eq!(second.get("nextPage"), None);
    let listed = [&first, &second].map(|page| page["batches"].as_array().unwrap().clone()).concat();
    let ids: Vec<_> = listed.iter().map(|batch| batch["batchId"].clone()).collect();
    assert_eq!(ids, created, "newest first");
    let foreign = api.get(&format!("/v1/domains/default/schedules?page={next}")).await;
    foreign.problem(400, "bad-page");
}

#[tokio::test]
async fn an_invalid_batch_is_refused_with_its_field() {
    let api = Api::open().await;
    let field = |operation: Value, filter: Value| json!({ "operation": operation, "filter": filter });
    let cases = [
        (field(json!({ "type": "signal" }), json!({})), "operation.name"),
        (field(json!({ "type": "cancel", "name": "go" }), json!({})), "operation.name"),
        (field(json!({ "type": "reset" }), json!({ "status": "failed" })), "operation.to"),
        (field(json!({ "type": "reset", "to": "last-turn" }), json!({})), "filter.status"),
        (field(json!({ "type": "delete" }), json!({ "status": "open" })), "filter.status"),
        (field(json!({ "type": "cancel" }), json!({ "status": "asleep" })), "filter.status"),
        (field(json!({ "type": "cancel" }), json!({ "workflowIds": vec!["w"; 1_001] })), "filter.workflowIds"),
        (signals(&json!({ "pace": 0 })), "pace"),
        (signals(&json!({ "pace": 1_001 })), "pace"),
        (signals(&json!({ "reason": "x".repeat(257) })), "reason"),
    ];
    for (body, field) in cases {
        for dry_run in [false, true] {
            let mut body = body.clone();
            body["dryRun"] = json!(dry_run);
            let problem = api.post(BATCHES, &body).await;
            let problem = problem.json(problem.status.as_u16());
            assert!(problem["detail"].as_str().unwrap().contains(&format!("`{field}`")), "{field}: {problem}");
        }
    }
    for unknown in [json!({ "operation": { "type": "restart" } }), json!({ "operation": { "type": "cancel" }, "x": 1 })]
    {
        api.post(BATCHES, &unknown).await.problem(400, "bad-json");
    }
    let input = "x".repeat(70 * 1024);
    let large = json!({ "operation": { "type": "signal", "name": "go", "input": input } });
    api.post(BATCHES, &large).await.problem(413, "too-large");
    let elsewhere = "/v1/domains/nowhere/batches";
    api.post(elsewhere, &signals(&json!({}))).await.problem(404, "unknown-domain");
    api.get(elsewhere).await.problem(404, "unknown-domain");
    assert_eq!(api.get(BATCHES).await.json(200)["batches"], json!([]));
}

#[tokio::test]
async fn a_batch_in_another_phase_refuses_the_call() {
    let api = Api::open().await;
    let none = json!({ "batchId": "none" });
    for call in ["/stop", "/resume"] {
        api.post(&path(&none, call), &json!({})).await.problem(404, "unknown-batch");
    }
    api.ask(put_pace(&none, 5)).await.problem(404, "unknown-batch");
    api.get(&path(&none, "")).await.problem(404, "unknown-batch");
    api.ask(Ask::new("DELETE", &path(&none, ""))).await.problem(404, "unknown-batch");
    for number in 0..2 {
        api.start(&format!("w{number}")).await;
    }
    let batch = create(&api, &signals(&json!({ "pace": 1 }))).await;
    api.ask(put_pace(&batch, 0)).await.problem(400, "invalid-field");
    api.ask(Ask::new("DELETE", &path(&batch, ""))).await.problem(409, "batch-running");
    completed(&api, &batch).await;
    for call in ["/stop", "/resume"] {
        api.post(&path(&batch, call), &json!({})).await.problem(409, "batch-completed");
    }
    api.ask(Ask::new("DELETE", &path(&batch, ""))).await.json(200);
    api.get(&path(&batch, "")).await.problem(404, "unknown-batch");
}

async fn say(api: &Api, who: &str, ask: Ask) -> Answer {
    api.ask(ask.header("authorization", &format!("Bearer {who}"))).await
}

#[tokio::test]
async fn a_batch_needs_the_permission_of_its_operation() {
    let open = Api::open().await;
    let credentials = vec![
        Credential { operators: one("default"), ..credential("operator") },
        Credential { applications: one("default"), ..credential("application") },
        Credential { operators: one("default"), applications: one("default"), ..credential("both") },
        Credential { readers_without_payloads: one("default"), ..credential("bare reader") },
    ];
    let api = open.with(router_for(Arc::clone(&open.engine), Credentials::new(credentials).unwrap()));
    open.start("w0").await;
    let input = json!({ "operation": { "type": "signal", "name": "go", "input": 7 }, "identity": "ann" });
    let pause = json!({ "operation": { "type": "pause" }, "dryRun": true });
    for operation in [json!({ "type": "cancel" }), json!({ "type": "terminate" }), input["operation"].clone()] {
        let refused = say(&api, "operator", Ask::post(BATCHES, &json!({ "operation": operation }))).await;
        refused.problem(403, "forbidden");
    }
    say(&api, "operator", Ask::post(BATCHES, &pause)).await.json(200);
    for body in [&input, &pause] {
        say(&api, "application", Ask::post(BATCHES, body)).await.problem(403, "forbidden");
        say(&api, "bare reader", Ask::post(BATCHES, body)).await.problem(403, "forbidden");
    }
    let batch = say(&api, "both", Ask::post(BATCHES, &input)).await.json(201);
    assert_eq!((&batch["by"], &batch["operation"]["input"]), (&json!("both"), &json!(7)));
    completed(&open, &batch).await;
    let signal = open.get(&format!("{WORKFLOWS}/w0/history")).await.json(200)["events"][2].clone();
    assert_eq!((&signal["by"], &signal["identity"]), (&json!("both"), &json!("ann")));
    let shown = say(&api, "bare reader", Ask::get(&path(&batch, ""))).await.json(200);
    assert_eq!(shown["operation"], json!({ "type": "signal", "name": "go" }), "without the payload");
}

#[tokio::test]
async fn failures_are_grouped_by_workflow_type_and_reason() {
    let api = Api::open().await;
    start_blocked(&api, 2).await;
    let first = api.engine.clock().now();
    api.clock.advance(Duration::from_secs(1));
    for (id, reason) in [("f0", "defect"), ("f1", "defect"), ("f2", "defect"), ("f3", "other")] {
        api.start(id).await;
        api.decide(json!([{ "type": "FailWorkflow", "reason": reason }])).await;
    }
    api.clock.advance(Duration::from_secs(1));
    api.start("f4").await;
    api.decide(json!([{ "type": "FailWorkflow", "reason": "other" }])).await;
    api.succeeded("fine").await;
    let (second, third) = (first.plus(Duration::from_secs(1)), first.plus(Duration::from_secs(2)));
    let group = |status: &str, reason: &str, runs: u64, first_at, last_at| {
        json!({ "status": status, "workflowType": "test", "reason": reason, "runs": runs, "firstAt": first_at,
                "lastAt": last_at })
    };
    let expected = [
        group("failed", "defect", 3, second, second),
        group("failed", "other", 2, second, third),
        group("blocked", "smtp-refused", 2, first, first),
    ];
    let found = api.get("/v1/domains/default/failures").await.json(200);
    assert_eq!(found, json!({ "failures": expected, "truncated": false }));
    api.get("/v1/domains/nowhere/failures").await.problem(404, "unknown-domain");
}

#[tokio::test]
async fn groups_of_failures_beyond_the_limit_are_left_out() {
    let api = Api::open().await;
    for (count, is_cut) in [(100, false), (101, true)] {
        let id = format!("f{count}");
        let missing = if count == 100 { 0..100 } else { 100..101 };
        for number in missing {
            api.start(&format!("{id}-{number}")).await;
            api.decide(json!([{ "type": "FailWorkflow", "reason": format!("reason {number}") }])).await;
        }
        let found = api.get("/v1/domains/default/failures").await.json(200);
        assert_eq!(found["failures"].as_array().unwrap().len(), 100);
        assert_eq!(found["truncated"], is_cut);
    }
}
