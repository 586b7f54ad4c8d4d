//! Quotas of domains and credentials, each at its limit.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use client::body::StartWorkflow;
use client::{Client, Patience};
use decider_kit::{Decider, Decisions, Event, Host, Window};
use engine::admission::{Limit, QuotaLimits};
use engine::{Engine, Settings, SystemClock};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::{router, router_for};
use service::http::{Server, ServerLimits};
use simulation::stores::fresh;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::holders::{credential, one};
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, activity_path, schedule, turn_path};

const DOMAIN: &str = "/v1/domains/default";

fn limit() -> Limit {
    Limit { domain: Some("default".to_owned()), ..Limit::default() }
}

fn put(api: &Api, limits: Vec<Limit>) {
    api.engine.quotas().replace(QuotaLimits::read(limits).unwrap());
}

async fn limited(limit: Limit) -> Api {
    let api = Api::open().await;
    put(&api, vec![limit]);
    api
}

/// Checks a refusal by a limit of the domain, and returns its `retry-after`.
#[track_caller]
fn refused(answer: &Answer, limit: &str, max: u64) -> u64 {
    let problem = answer.problem(429, "quota-exceeded");
    let found = [&problem["limit"], &problem["max"], &problem["scope"], &problem["name"], &problem["retryable"]];
    assert_eq!(found, [&json!(limit), &json!(max), &json!("domain"), &json!("default"), &json!(true)]);
    answer.header("retry-after").parse().unwrap()
}

async fn start(api: &Api, id: &str, more: Value) -> Answer {
    let mut start = json!({ "workflowId": id, "workflowType": "test", "taskList": "deciders" });
    start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.post(WORKFLOWS, &start).await
}

/// Starts a waiting request, and lets it run until it waits.
async fn waiting(api: &Api, ask: Ask) -> JoinHandle<Response> {
    let router = api.with(api.router.clone());
    let waiting = tokio::spawn(async move { router.call(ask).await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    waiting
}

fn poll(list: &str) -> Ask {
    Ask::post(&format!("{DOMAIN}/task-lists/{list}/activity/poll"), &json!({})).header("prefer", "wait=60")
}

#[tokio::test(start_paused = true)]
async fn requests_per_second_are_limited() {
    let api = limited(Limit { requests_per_second: Some(2), ..limit() }).await;
    for _ in 0..2 {
        api.get(DOMAIN).await.json(200);
    }
    assert_eq!(refused(&api.get(DOMAIN).await, "requests-per-second", 2), 1);
    api.get("/v1/domains").await.json(200);
    api.get("/v1/domains/another").await.problem(404, "unknown-domain");
    tokio::time::advance(Duration::from_millis(499)).await;
    refused(&api.get(DOMAIN).await, "requests-per-second", 2);
    tokio::time::advance(Duration::from_millis(1)).await;
    api.get(DOMAIN).await.json(200);
    refused(&api.get(DOMAIN).await, "requests-per-second", 2);
    let metrics = api.engine.render_metrics();
    let counted = "baton_throttled_requests_total{limit=\"requests-per-second\",scope=\"domain\",name=\"default\"} 3\n";
    assert!(metrics.contains(counted), "{metrics}");
    // A poll counts as one request, however long it waits.
    tokio::time::advance(Duration::from_secs(1)).await;
    let polling = waiting(&api, poll("l")).await;
    tokio::time::advance(Duration::from_secs(50)).await;
    api.get(DOMAIN).await.json(200);
    polling.abort();
    put(&api, vec![Limit { requests_per_second: Some(7), ..limit() }]);
    for _ in 0..7 {
        api.get(DOMAIN).await.json(200);
    }
    assert_eq!(refused(&api.get(DOMAIN).await, "requests-per-second", 7), 1);
}

#[tokio::test(start_paused = true)]
async fn a_credential_over_its_quota_does_not_affect_others() {
    let api = Api::open().await;
    let application = |name: &str| Credential { applications: one("default"), ..credential(name) };
    let credentials = Credentials::new(vec![application("one"), application("two")]).unwrap();
    let api = Api { router: router_for(Arc::clone(&api.engine), credentials), ..api };
    put(&api, vec![Limit { credential: Some("one".to_owned()), requests_per_second: Some(1), ..Limit::default() }]);
    let ask = |name: &str| Ask::get(DOMAIN).header("authorization", &format!("Bearer {name}"));
    api.ask(ask("one")).await.json(200);
    let problem = api.ask(ask("one")).await.problem(429, "quota-exceeded");
    assert_eq!((&problem["scope"], &problem["name"]), (&json!("credential"), &json!("one")));
    api.ask(ask("two")).await.json(200);
    tokio::time::advance(Duration::from_secs(1)).await;
    api.ask(ask("one")).await.json(200);
    // Requests without permission in a domain do not count for it.
    put(&api, vec![Limit { domain: Some("other".to_owned()), requests_per_second: Some(1), ..Limit::default() }]);
    for _ in 0..3 {
        api.ask(Ask::get("/v1/domains/other").header("authorization", "Bearer one")).await.problem(403, "forbidden");
    }
    let metrics = api.engine.render_metrics();
    assert!(!metrics.contains("name=\"other\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn bytes_per_second_delay_later_requests() {
    let api = limited(Limit { bytes_per_second: Some(65_536), ..limit() }).await;
    start(&api, "w", json!({ "input": "x".repeat(100_000) })).await.json(201);
    let wait = refused(&api.get(DOMAIN).await, "bytes-per-second", 65_536);
    assert_eq!(wait, 1);
    tokio::time::advance(Duration::from_secs(wait)).await;
    let history = format!("{WORKFLOWS}/w/history");
    api.get(&history).await.json(200);
    let wait = refused(&api.get(&history).await, "bytes-per-second", 65_536);
    tokio::time::advance(Duration::from_secs(wait)).await;
    api.get(DOMAIN).await.json(200);
}

#[tokio::test(start_paused = true)]
async fn open_runs_are_limited_and_a_closed_run_makes_room() {
    let store = fresh().await;
    let limits = || vec![Limit { open_runs: Some(2), ..limit() }];
    let api = Api::over(Arc::clone(&store)).await;
    put(&api, limits());
    start(&api, "a", json!({})).await.json(201);
    start(&api, "b", json!({})).await.json(201);
    assert_eq!(refused(&start(&api, "c", json!({})).await, "open-runs", 2), 1);
    start(&api, "b", json!({})).await.problem(409, "workflow-already-open");
    start(&api, "b", json!({ "conflictPolicy": "use-existing" })).await.json(200);
    start(&api, "b", json!({ "conflictPolicy": "terminate-existing" })).await.json(201);
    refused(&start(&api, "c", json!({})).await, "open-runs", 2);
    // After a restart, the service counts the open runs again.
    let api = Api::over(store).await;
    put(&api, limits());
    let wait = refused(&start(&api, "c", json!({})).await, "open-runs", 2);
    api.post(&format!("{WORKFLOWS}/a/terminate"), &json!({})).await.json(200);
    // The service does not repeat a count that costs read units before this time.
    tokio::time::advance(Duration::from_secs(wait)).await;
    start(&api, "c", json!({})).await.json(201);
    refused(&start(&api, "d", json!({})).await, "open-runs", 2);
    put(&api, Vec::new());
    start(&api, "d", json!({})).await.json(201);
}

#[tokio::test(start_paused = true)]
async fn children_over_the_open_runs_limit_fail_to_start() {
    let api = limited(Limit { open_runs: Some(2), ..limit() }).await;
    api.start("parent").await;
    let child = |id: &str| json!({ "type": "StartChild", "workflowId": id, "workflowType": "c", "taskList": "c" });
    api.decide(json!([child("a"), child("b")])).await;
    let history = api.get(&format!("{WORKFLOWS}/parent/history")).await.json(200);
    let failed = history["events"].as_array().unwrap().iter().find(|event| event["type"] == "ChildScheduleFailed");
    let failed = failed.unwrap_or_else(|| panic!("{history}"));
    assert_eq!((&failed["workflowId"], &failed["cause"]), (&json!("b"), &json!("OpenRunsLimit")));
    // Successors need no room: the run continues as new.
    api.decide(json!([{ "type": "ContinueAsNew" }])).await;
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
}

#[tokio::test(start_paused = true)]
async fn polled_task_lists_are_limited() {
    let api = limited(Limit { task_lists: Some(1), ..limit() }).await;
    let polling = waiting(&api, poll("a")).await;
    let again = waiting(&api, poll("a")).await;
    assert_eq!(refused(&api.ask(poll("b")).await, "task-lists", 1), 1);
    polling.abort();
    assert!(polling.await.is_err());
    refused(&api.ask(poll("b")).await, "task-lists", 1);
    again.abort();
    assert!(again.await.is_err());
    waiting(&api, poll("b")).await.abort();
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_limited() {
    let api = limited(Limit { watchers: Some(1), ..limit() }).await;
    start(&api, "w", json!({})).await.json(201);
    let result = || Ask::get(&format!("{WORKFLOWS}/w/result")).header("prefer", "wait=60");
    let stream = || Ask::get(&format!("{WORKFLOWS}/w/history")).header("accept", "text/event-stream");
    let query = || Ask::post(&format!("{WORKFLOWS}/w/queries/q"), &json!({}));
    let update = || Ask::post(&format!("{WORKFLOWS}/w/updates/u"), &json!({}));
    let held = waiting(&api, result()).await;
    for ask in [result(), stream(), query(), update(), poll("l")] {
        assert_eq!(refused(&api.ask(ask).await, "watchers", 1), 1);
    }
    // Requests that do not wait pass.
    api.get(&format!("{WORKFLOWS}/w/result")).await.json(202);
    api.ask(poll("l").header("prefer", "wait=0")).await;
    held.abort();
    assert!(held.await.is_err());
    // A stream counts as long as its client reads it.
    let mut body = api.call(stream()).await.into_body();
    assert!(body.frame().await.is_some());
    refused(&api.ask(result()).await, "watchers", 1);
    drop(body);
    waiting(&api, poll("l")).await.abort();
}

#[tokio::test(start_paused = true)]
async fn answers_to_tasks_pass_every_exhausted_quota() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let one = Limit { requests_per_second: Some(1), bytes_per_second: Some(65_536), watchers: Some(1), ..limit() };
    put(&api, vec![one]);
    let use_up = async || {
        // The burst is one request.
        api.get(DOMAIN).await;
        assert_eq!(api.get(DOMAIN).await.status.as_u16(), 429);
    };
    use_up().await;
    api.get(&format!("{}/history", turn_path(&turn))).await.json(200);
    let complete = json!({ "decisions": [schedule("a", "acts")] });
    api.post(&format!("{}/complete", turn_path(&turn)), &complete).await.json(200);
    assert_eq!(api.ask(Ask::post(DECIDERS, &json!({}))).await.status.as_u16(), 429);
    tokio::time::advance(Duration::from_secs(1)).await;
    let activity = api.take_activity("acts").await;
    use_up().await;
    let path = activity_path(&activity);
    api.post(&format!("{path}/heartbeat"), &json!({ "details": "x".repeat(200_000) })).await.json(200);
    api.post(&format!("{path}/heartbeat"), &json!({})).await.json(200);
}

/// A decider that completes its run at once.
struct Done;

impl Decider for Done {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), _: &Window) -> Decisions {
        Decisions::new().succeed(&())
    }
}

#[tokio::test]
async fn clients_and_kits_wait_and_retry_after_429() {
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let limit = Limit { requests_per_second: Some(2), ..limit() };
    engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server { listener, router: router(Arc::clone(&engine)), limits: ServerLimits::default(), tls: None };
    tokio::spawn(server.run_until(std::future::pending()));
    let client = Client::new(&address).unwrap().patience(Patience::For(Duration::from_secs(60)));
    for id in ["a", "b", "c"] {
        let (workflow_id, workflow_type) = (id.to_owned(), "done".to_owned());
        let start = StartWorkflow { workflow_id, workflow_type, ..StartWorkflow::default() };
        client.start(&start, Some(id)).await.unwrap();
    }
    let host = Host::new(client.clone(), "default").register("done", Done);
    tokio::spawn(host.run_until(std::future::pending()));
    for id in ["a", "b", "c"] {
        let result = client.result(id, None, Duration::from_secs(30)).await.unwrap();
        assert_eq!(result.status, history::Status::Success, "{id}");
    }
    assert!(engine.render_metrics().contains("baton_throttled_requests_total{"));
}
