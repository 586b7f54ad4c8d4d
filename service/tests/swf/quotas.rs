//! Quotas of a domain over the SWF protocol.

use std::sync::Arc;

use engine::admission::{Limit, QuotaLimits};
use engine::{Engine, Settings, SystemClock};
use serde_json::{Value, json};
use simulation::stores::fresh;

use crate::support::{Answer, Swf, kind, register};

const THROTTLED: &str = "com.amazon.coral.availability#ThrottlingException";

async fn ready() -> (Arc<Engine>, Swf) {
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let swf = Swf { router: service::api::router(Arc::clone(&engine)) };
    register(&swf).await;
    (engine, swf)
}

fn put(engine: &Engine, limit: Limit) {
    let limit = Limit { domain: Some("default".to_owned()), ..limit };
    engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
}

async fn start(swf: &Swf, id: &str) -> Answer {
    let start = json!({ "domain": "default", "workflowId": id, "workflowType": kind() });
    swf.ask("StartWorkflowExecution", &start).await
}

fn list(name: &str) -> Value {
    json!({ "domain": "default", "taskList": { "name": name } })
}

#[tokio::test(start_paused = true)]
async fn requests_over_a_rate_are_throttled_and_task_answers_are_not() {
    let (engine, swf) = ready().await;
    start(&swf, "w").await.json();
    let task = swf.ask("PollForDecisionTask", &list("deciders")).await.json();
    put(&engine, Limit { requests_per_second: Some(1), ..Limit::default() });
    let describe = json!({ "name": "default" });
    swf.ask("DescribeDomain", &describe).await.json();
    let answer = swf.ask("DescribeDomain", &describe).await;
    answer.status_is(429);
    let fault: Value = serde_json::from_str(&answer.text).unwrap();
    let message = "Rate exceeded: domain `default` has reached its limit of 1 requests-per-second";
    assert_eq!((&fault["__type"], &fault["message"]), (&json!(THROTTLED), &json!(message)));
    assert_eq!(answer.headers["retry-after"], "1");
    swf.ask("ListDomains", &json!({ "registrationStatus": "REGISTERED" })).await.json();
    swf.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": task["taskToken"], "decisions": [] }))
        .await
        .nothing();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    swf.ask("DescribeDomain", &describe).await.json();
}

#[tokio::test(start_paused = true)]
async fn bytes_over_swf_count_for_the_quota() {
    let (engine, swf) = ready().await;
    put(&engine, Limit { bytes_per_second: Some(65_536), ..Limit::default() });
    let input = "x".repeat(30_000);
    let start = json!({ "domain": "default", "workflowId": "w", "workflowType": kind(), "input": input });
    let run = swf.ask("StartWorkflowExecution", &start).await.json();
    let execution = json!({ "workflowId": "w", "runId": run["runId"] });
    let history = json!({ "domain": "default", "execution": execution });
    // The request has 30,000 bytes, and so has each response.
    swf.ask("GetWorkflowExecutionHistory", &history).await.json();
    swf.ask("GetWorkflowExecutionHistory", &history).await.json();
    swf.ask("GetWorkflowExecutionHistory", &history).await.status_is(429);
}

#[tokio::test(start_paused = true)]
async fn exhausted_counts_return_the_limit_fault_of_aws() {
    let (engine, swf) = ready().await;
    put(&engine, Limit { open_runs: Some(1), task_lists: Some(1), watchers: Some(1), ..Limit::default() });
    let reached = |limit: &str| format!("Rate exceeded: domain `default` has reached its limit of 1 {limit}");
    start(&swf, "a").await.json();
    let kind = "com.amazonaws.swf.base.model#LimitExceededFault";
    start(&swf, "b").await.fault(kind, &reached("open-runs"));
    let polling = {
        let swf = Swf { router: swf.router.clone() };
        tokio::spawn(async move { swf.ask("PollForActivityTask", &list("one")).await })
    };
    let waits = |line: &str| line.starts_with("baton_pollers_waiting{") && line.ends_with(" 1");
    while !engine.render_metrics().lines().any(waits) {
        tokio::task::yield_now().await;
    }
    swf.ask("PollForActivityTask", &list("two")).await.fault(kind, &reached("task-lists"));
    let answer = swf.ask("PollForActivityTask", &list("one")).await;
    answer.status_is(429);
    assert!(answer.text.contains(THROTTLED) && answer.text.contains("watchers"), "{}", answer.text);
    polling.abort();
}
