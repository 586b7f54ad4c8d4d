//! Little disk space: the service refuses new runs and lets open ones continue.

use std::sync::Arc;

use engine::{Engine, Settings};
use history::{Duration, Timestamp};
use serde_json::{Value, json};
use service::front::Front;
use simulation::manual_clock::ManualClock;
use store_embedded::faults::Faults;
use store_embedded::{Embedded, Options};
use tempfile::TempDir;

use crate::support::{Api, Ask, PATIENCE, READY, WORKFLOWS, activity_path, schedule, turn_path};

const RESERVE: u64 = 512 << 20;

/// The service over the embedded store, with the free disk space that the test sets.
pub(crate) struct Disk {
    pub(crate) api: Api,
    faults: Arc<Faults>,
    _directory: TempDir,
}

impl Disk {
    pub(crate) async fn open(reserve: u64) -> Self {
        let directory = TempDir::new().unwrap();
        let options = Options::new(directory.path());
        let faults = Arc::clone(&options.faults);
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), disk_reserve: reserve, ..Settings::default() };
        let store = Embedded::open(options).await.unwrap();
        let engine = Engine::open(store, Arc::clone(&clock) as _, settings).await.unwrap();
        Self { api: Api::of(Front::from(engine), clock), faults, _directory: directory }
    }

    pub(crate) fn set_free(&self, free: u64) {
        self.faults.set_disk_free(free);
    }

    /// One byte less than the reserve.
    pub(crate) fn set_low(&self) {
        self.set_free(RESERVE - 1);
    }
}

pub(crate) async fn with_reserve() -> Disk {
    Disk::open(RESERVE).await
}

fn start(id: &str, more: &Value) -> Ask {
    let mut start = json!({ "workflowId": id, "workflowType": "test", "taskList": "deciders" });
    start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Ask::post(WORKFLOWS, &start)
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_are_refused_below_the_disk_reserve() {
    let disk = with_reserve().await;
    let api = &disk.api;
    disk.set_free(RESERVE);
    let first = || start("first", &json!({})).header("idempotency-key", "k");
    api.ask(first()).await.json(201);

    disk.set_low();
    let problem = api.refused(start("second", &json!({})), 507, "insufficient-storage").await;
    assert_eq!(
        [&problem["free"], &problem["reserve"], &problem["retryable"]],
        [&json!(RESERVE - 1), &json!(RESERVE), &json!(true)]
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("511 MiB are free") && detail.contains("512 MiB are reserved"), "{detail}");
    assert!(problem["advice"].as_str().unwrap().contains("--disk-reserve"), "{problem}");
    assert_eq!(api.ask(start("second", &json!({}))).await.header("retry-after"), "10");
    let metrics = api.engine.render_metrics();
    for line in [
        format!("baton_disk_free_bytes {}", RESERVE - 1),
        format!("baton_disk_reserve_bytes {RESERVE}"),
        "baton_refusals_total{code=\"insufficient-storage\"} 2".to_owned(),
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} in {metrics}");
    }
    let ready = api.get("/readyz").await.json(200);
    assert_eq!((&ready["ready"], &ready["warnings"][0]["code"]), (&json!(true), &json!("disk-low")));
    let detail = ready["warnings"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("511 MiB are free") && detail.contains("512 MiB are reserved"), "{detail}");
    // Starts by a signal or an update are refused, too.
    api.refused(start("second", &json!({ "signal": { "name": "s" } })), 507, "insufficient-storage").await;
    let update =
        json!({ "updateId": "u", "start": { "workflowId": "second", "workflowType": "t", "taskList": "deciders" } });
    api.refused(Ask::post(&format!("{WORKFLOWS}/second/updates/u"), &update), 507, "insufficient-storage").await;
    // A repeated start still returns its run, and open runs take requests.
    assert_eq!(api.ask(first()).await.status, 200);
    let signaled = api.ask(start("first", &json!({ "signal": { "name": "s" } }))).await.json(200);
    assert_eq!(signaled["existing"], true);
    assert_eq!(api.names("first").await, ["WorkflowStarted", "DeciderScheduled", "Signal"]);

    disk.set_free(RESERVE);
    api.ask(start("second", &json!({}))).await.json(201);
    assert_eq!(api.get("/readyz").await.text, READY);
}

/// Space that the store itself needs, with its default memory and segments.
const LEAST: u64 = 2 * ((16 << 20) + 2 * (32 << 20) + (4 << 20));

#[tokio::test(flavor = "multi_thread")]
async fn a_small_reserve_admits_runs_until_the_store_is_full() {
    for reserve in [0, 1, 8 << 20, LEAST] {
        let disk = Disk::open(reserve).await;
        disk.set_free(LEAST);
        disk.api.start("w").await;
        disk.set_free(LEAST - 1);
        disk.api.refused(start("another", &json!({})), 507, "disk-full").await;
        let metrics = disk.api.engine.render_metrics();
        for line in [format!("baton_disk_reserve_bytes {reserve}\n"), format!("baton_disk_minimum_bytes {LEAST}\n")] {
            assert!(metrics.contains(&line), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_allows_only_reads_exports_and_deletions() {
    let disk = with_reserve().await;
    let api = &disk.api;
    disk.set_free(RESERVE);
    for id in ["open", "waits", "closed"] {
        api.start(id).await;
    }
    let turn = api.turn().await;
    assert_eq!(turn["workflowId"], "open");
    api.post(&format!("{WORKFLOWS}/closed/terminate"), &json!({})).await.json(200);
    let names = api.names("open").await;

    disk.set_free(LEAST - 1);
    let poll = "/v1/domains/default/task-lists/deciders/decider/poll";
    let schedule = json!({ "scheduleId": "s", "schedule": { "spec": { "cron": ["30 2 * * *"] },
        "action": { "workflowId": "report", "workflowType": "t", "taskList": "deciders" } } });
    for refused in [
        start("another", &json!({})),
        start("open", &json!({ "signal": { "name": "s" } })),
        Ask::post(&format!("{WORKFLOWS}/open/signals/s"), &json!({})),
        Ask::post(&format!("{WORKFLOWS}/open/cancel"), &json!({})),
        Ask::post(&format!("{WORKFLOWS}/open/terminate"), &json!({})),
        Ask::post(&format!("{WORKFLOWS}/open/pause"), &json!({})),
        Ask::post(&format!("{}/complete", turn_path(&turn)), &json!({ "decisions": [] })),
        Ask::post(poll, &json!({})),
        Ask::post("/v1/domains", &json!({ "name": "other" })),
        Ask::post("/v1/domains/default/schedules", &schedule),
    ] {
        let problem = api.refused(refused, 507, "disk-full").await;
        assert_eq!((&problem["free"], &problem["minimum"]), (&json!(LEAST - 1), &json!(LEAST)), "{problem}");
        assert_eq!((&problem["retryable"], &problem["recorded"]), (&json!(true), &json!(false)), "{problem}");
    }
    assert_eq!(api.ask(start("another", &json!({}))).await.header("retry-after"), "10");
    let ready = api.get("/readyz").await.json(200);
    assert_eq!((&ready["ready"], &ready["warnings"][0]["code"]), (&json!(true), &json!("disk-full")), "{ready}");
    assert_eq!(ready["warnings"].as_array().unwrap().len(), 1, "{ready}");

    // Runs can still be described, listed and exported.
    assert_eq!(api.names("open").await, names);
    assert_eq!(api.get(WORKFLOWS).await.json(200)["workflows"].as_array().unwrap().len(), 3);
    api.ask(Ask::new("DELETE", &format!("{WORKFLOWS}/closed"))).await.json(200);
    api.refused(Ask::get(&format!("{WORKFLOWS}/closed")), 404, "unknown-workflow").await;

    // With space again, the turn is still started and the waiting task is dispatched.
    disk.set_free(RESERVE);
    api.post(&format!("{}/complete", turn_path(&turn)), &json!({ "decisions": [{ "type": "SucceedWorkflow" }] }))
        .await
        .json(200);
    api.clock.advance(Duration::from_secs(10));
    assert_eq!(api.turn().await["workflowId"], "waits");
    assert_eq!(api.get("/readyz").await.text, READY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_store_has_no_disk_reserve() {
    let settings = Settings { disk_reserve: u64::MAX, ..Settings::default() };
    let engine = Engine::open(Arc::new(store::memory::Memory::new()), ManualClock::new(), settings).await.unwrap();
    let api = Api::of(Front::from(engine), ManualClock::new());
    api.start("w").await;
    assert!(!api.engine.render_metrics().contains("baton_disk_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_runs_continue_on_a_low_disk() {
    let disk = with_reserve().await;
    let api = &disk.api;
    disk.set_free(RESERVE);
    api.ask(start("parent", &json!({}))).await.json(201);
    disk.set_low();

    let child = json!({ "type": "StartChild", "workflowId": "child", "workflowType": "t", "taskList": "children",
        "retry": { "initialInterval": 1, "maximumAttempts": 2 } });
    api.decide(json!([child, schedule("a", "acts")])).await;
    let task = api.take_activity("acts").await;
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
    // The child starts, fails and is retried.
    for attempt in 1..=2 {
        let poll = "/v1/domains/default/task-lists/children/decider/poll";
        let turn = api.ask(Ask::post(poll, &json!({})).header("prefer", "wait=20")).await.json(200);
        assert_eq!(turn["workflowId"], "child", "try {attempt}");
        let fail = json!({ "decisions": [{ "type": "FailWorkflow", "reason": "no" }] });
        api.post(&format!("{}/complete", turn_path(&turn)), &fail).await.json(200);
        api.clock.advance(Duration::from_secs(1));
    }
    // The child's failure is delivered separately. A turn that starts before it arrives is followed by another.
    while !api.names("parent").await.iter().any(|name| name == "ChildFailed") {
        tokio::task::yield_now().await;
    }
    // The parent continues as new, and its successor succeeds.
    api.decide(json!([{ "type": "ContinueAsNew" }])).await;
    let turn = api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    assert!(turn["events"][0]["continuedFrom"].is_string(), "{turn}");

    // A reset starts a run from an earlier event, and a start that terminates this run replaces it.
    let names = api.names("parent").await;
    let scheduled = names.iter().position(|name| name == "DeciderScheduled").unwrap() + 1;
    let reset = json!({ "eventId": scheduled });
    api.post(&format!("{WORKFLOWS}/parent/reset"), &reset).await.json(201);
    let replacing = start("parent", &json!({ "conflictPolicy": "terminate-existing" }));
    api.ask(replacing).await.json(201);
    api.refused(start("another", &json!({})), 507, "insufficient-storage").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_waits_for_disk_space_and_catches_up() {
    let disk = with_reserve().await;
    let api = &disk.api;
    let at = "/v1/domains/default/schedules/nightly";
    let nightly = json!({ "spec": { "cron": ["30 2 * * *"] },
        "action": { "workflowId": "report", "workflowType": "t", "taskList": "deciders" } });
    disk.set_free(RESERVE);
    let create = json!({ "scheduleId": "nightly", "schedule": nightly });
    let created = api.post("/v1/domains/default/schedules", &create).await.json(201);
    let next: Timestamp = serde_json::from_value(created["nextTimes"][0].clone()).unwrap();
    let once = async |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        let look = async {
            loop {
                let shown = api.get(at).await.json(200);
                if is_so(&shown) {
                    return shown;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{what}"))
    };

    disk.set_low();
    api.clock.advance(next.since(api.engine.clock().now()));
    let waits =
        once("it shows why it waits", &|shown| shown["recentActions"][0]["refusal"] == "insufficient-storage").await;
    assert_eq!(waits["recentActions"][0]["outcome"], "starting");
    assert_eq!(waits["totals"], json!({ "started": 0, "refused": 0, "skipped": 0, "missed": 0 }));

    disk.set_free(RESERVE);
    api.clock.advance(history::limits::EFFECT_WAIT_FIRST);
    let started = once("the missed action is started", &|shown| shown["totals"]["started"] == 1).await;
    let action = &started["recentActions"][0];
    assert_eq!((&action["outcome"], &action["refusal"]), (&json!("open"), &Value::Null));
    assert_eq!(action["nominalTime"], json!(next));
}
