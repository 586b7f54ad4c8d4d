//! The audit log: one entry before each change and one with its outcome. Calls that only read have no entries.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use service::access::Credentials;
use service::access::{CallAccess, CallEffect, Level, Wire};
use service::api::router_for;
use service::api::table;
use service::audit::{AuditLog, verify};
use service::http::with_audit_log;
use tempfile::TempDir;

use crate::holders::credential;
use crate::support::{Answer, Api, Ask, WORKFLOWS, activity_path, schedule, turn_path};

/// Text that every payload contains, and secret of the caller.
const NEEDLE: &str = "sesame-in-a-payload";

/// A service with an audit log, and one over the same engine without.
struct Audited {
    open: Api,
    asks: Api,
    log: Arc<AuditLog>,
    path: PathBuf,
    seen: usize,
    scratch: TempDir,
}

impl Audited {
    async fn open() -> Self {
        let open = Api::open().await;
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("audit");
        let log = AuditLog::open(&path, Arc::clone(open.engine.clock())).unwrap();
        let mut operator = credential(NEEDLE);
        (operator.name, operator.operator) = ("ops".to_owned(), true);
        let metrics = service::access::Credential { metrics: true, ..credential("metrics") };
        let router = router_for(Arc::clone(&open.engine), Credentials::new(vec![operator, metrics]).unwrap());
        let router = with_audit_log(router, Arc::clone(&log));
        let asks = open.with(router);
        Self { open, asks, log, path, seen: 0, scratch }
    }

    async fn ask(&self, ask: Ask) -> Answer {
        let ask = ask.header("authorization", &format!("Bearer {NEEDLE}"));
        Answer::read(self.asks.call(ask).await).await
    }

    /// Returns and removes the entries written since the last call.
    async fn entries(&mut self) -> Vec<Value> {
        self.log.flush().await;
        let mut files: Vec<_> = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let entries: Vec<Value> = text.lines().skip(self.seen).map(|it| serde_json::from_str(it).unwrap()).collect();
        self.seen += entries.len();
        entries
    }
}

/// A body that the call accepts, with the secret text in every payload.
pub(crate) fn body(call: CallAccess) -> Value {
    let action = json!({ "workflowId": "n", "workflowType": "t", "input": NEEDLE });
    let schedule = json!({ "spec": { "intervals": [{ "every": "P1D" }] }, "action": action });
    let last = call.name.rsplit('/').next().unwrap();
    match (call.method, call.name, last) {
        ("POST", "/v1/domains", _) => json!({ "name": "n", "description": NEEDLE, "tags": { "k": NEEDLE } }),
        ("PATCH", ..) => json!({ "description": NEEDLE }),
        (_, _, "tags") => json!({ "add": { "k": NEEDLE } }),
        (_, _, "workflows") => json!({ "workflowId": "new", "workflowType": "t", "input": NEEDLE, "tags": [NEEDLE] }),
        (_, _, "activities") => json!({ "workflowId": "one", "activityType": "t", "input": NEEDLE, "tags": [NEEDLE] }),
        (_, _, "imported-runs") => {
            let (timestamp, kind) = ("2026-01-01T00:00:00.000Z", "Signal");
            json!({ "events": [{ "id": 1, "timestamp": timestamp, "type": kind, "name": "s", "input": NEEDLE }] })
        }
        (_, _, "schedules") => json!({ "scheduleId": "s", "schedule": schedule }),
        (_, _, "limits") => json!({ "group": "g", "limits": [{ "key": NEEDLE }] }),
        (_, _, "{group}") => json!({ "maxRunning": 1 }),
        (_, _, "batches") => {
            let operation = json!({ "type": "signal", "name": "s", "input": NEEDLE });
            json!({ "operation": operation, "reason": NEEDLE, "identity": "ann" })
        }
        (_, _, "pace") => json!({ "pace": 10 }),
        ("PUT", ..) => schedule,
        (_, _, "backfill") => json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" }),
        (_, _, "workflow-types" | "activity-types") => json!({ "name": "t", "description": NEEDLE }),
        (_, _, "reset") => json!({ "eventId": 4, "reason": NEEDLE }),
        (_, name, "failure") if name.contains("/activities/") => {
            json!({ "failureReason": "r", "details": NEEDLE, "reason": NEEDLE })
        }
        (_, _, "failure" | "fail") => json!({ "reason": "r", "details": NEEDLE }),
        (_, _, "complete") => json!({ "decisions": [schedule_one()], "context": NEEDLE }),
        (_, name, "success") if name.contains("/activities/") => json!({ "result": NEEDLE, "identity": "ann" }),
        (_, _, "success") => json!({ "result": NEEDLE }),
        (_, _, "canceled" | "heartbeat") => json!({ "details": NEEDLE }),
        (_, _, "terminate") => json!({ "reason": "r", "details": NEEDLE, "identity": "ann" }),
        (_, name, _) if name.contains("/signals/") || name.contains("/queries/") => json!({ "input": NEEDLE }),
        (_, name, _) if name.contains("/updates/") => json!({ "input": NEEDLE, "updateId": "u", "identity": "ann" }),
        _ => json!({}),
    }
}

fn schedule_one() -> Value {
    let mut decision = schedule("another", "acts");
    (decision["input"], decision["control"]) = (json!(NEEDLE), json!(NEEDLE));
    decision
}

/// Request to a call, in domain `default`, for the given tasks.
fn request(call: CallAccess, turn: &str, activity: &str) -> Ask {
    let list = if call.level == Level::Decider { "deciders" } else { "acts" };
    let path = call.name.replace("/v1/decider-tasks/{token}", turn).replace("/v1/activity-tasks/{token}", activity);
    let path = path.replace("{domain}", "default").replace("{list}", list).replace("{id}", "w");
    let path = path.replace("{name}", "s").replace("{activity}", "a").replace("{type}", "t");
    let path = path.replace("{group}", "g");
    let ask = Ask::new(call.method, &path);
    let has_none = call.method == "GET" || body(call) == json!({});
    if has_none { ask } else { ask.header("content-type", "application/json").body(body(call).to_string()) }
}

/// Starts a turn and an activity of run `w`, and returns the paths of both tasks.
async fn tasks(open: &Api) -> (String, String) {
    let activity = activity_path(&open.activity("w").await);
    open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    (turn_path(&open.turn().await), activity)
}

fn rest() -> impl Iterator<Item = CallAccess> {
    table().into_iter().filter(|call| call.wire == Wire::Rest)
}

#[tokio::test]
async fn only_changing_calls_have_an_audit_entry_and_outcome() {
    let mut it = Audited::open().await;
    let (turn, activity) = tasks(&it.open).await;
    // Waiting calls return at once.
    it.open.engine.begin_shutdown();
    let mut changing = 0;
    for call in rest() {
        let answer = it.ask(request(call, &turn, &activity)).await;
        let entries = it.entries().await;
        let what = format!("{} {}: {} {entries:?}", call.method, call.name, answer.text);
        if call.effect != CallEffect::Changes {
            assert!(entries.is_empty(), "{what}");
            continue;
        }
        changing += 1;
        let [change, outcome] = entries.as_slice() else { panic!("{what}") };
        assert_eq!(change["call"], format!("{} {}", call.method, call.name), "{what}");
        assert_eq!((&change["by"], outcome.get("by")), (&json!("ops"), None), "{what}");
        assert_eq!(change["requestId"], answer.headers["x-request-id"].to_str().unwrap(), "{what}");
        assert_eq!(
            (&outcome["requestSeq"], &outcome["status"]),
            (&change["seq"], &json!(answer.status.as_u16())),
            "{what}"
        );
        if !answer.status.is_success() {
            let problem: Value = serde_json::from_str(&answer.text).unwrap();
            assert_eq!(outcome["code"], problem["code"], "{what}");
        }
        let is_of_one = call.name.contains("{domain}") || call.name.contains("{token}");
        assert_eq!(change["domain"].as_str(), is_of_one.then_some("default"), "{what}");
        let is_of_run = call.name.contains("workflows/{id}") || call.name.contains("{token}");
        assert_eq!(change["workflowId"] == "w", is_of_run, "{what}");
        let is_of_group = call.name.contains("{group}") || call.name.ends_with("/limits");
        assert_eq!(change["group"] == "g", is_of_group, "{what}");
        for secret in [NEEDLE, turn.rsplit('/').next().unwrap(), activity.rsplit('/').next().unwrap()] {
            assert!(!json!(entries).to_string().contains(secret), "{what}");
        }
    }
    assert!(changing > 40, "{changing}");
    drop((it.asks, it.log));
    assert_eq!(verify(&it.path, None).unwrap().entries, 2 * changing);
}

#[tokio::test]
async fn an_entry_names_its_subjects_and_early_refusals_have_none() {
    let mut it = Audited::open().await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "input": NEEDLE });
    it.ask(Ask::post(WORKFLOWS, &start)).await.json(201);
    let entries = it.entries().await;
    assert_eq!(entries[0]["workflowId"], "w");
    assert_eq!((&entries[0]["workflowType"], &entries[0]["taskList"]), (&json!("t"), &json!("deciders")));
    assert_eq!(entries[1]["status"], 201);
    it.ask(Ask::new("DELETE", &format!("{WORKFLOWS}/w?identity=ann&reason={NEEDLE}"))).await.problem(409, "run-open");
    let entries = it.entries().await;
    assert_eq!((&entries[0]["identity"], &entries[1]["code"]), (&json!("ann"), &json!("run-open")));
    let bad = |body: &str| Ask::text(WORKFLOWS, body);
    it.ask(bad("{")).await.problem(400, "bad-json");
    it.ask(bad("{\"workflowId\":\"w\"}")).await.problem(400, "bad-json");
    it.ask(Ask::new("DELETE", "/v1/domains")).await.problem(405, "method-not-allowed");
    let refused = Ask::post(WORKFLOWS, &start).header("authorization", "Bearer metrics");
    Answer::read(it.asks.call(refused).await).await.problem(403, "forbidden");
    assert_eq!(it.entries().await, Vec::<Value>::new());
}

#[tokio::test]
async fn nothing_changes_while_the_audit_log_cannot_be_written() {
    let mut it = Audited::open().await;
    let (turn, activity) = tasks(&it.open).await;
    let before = it.open.everything().await;
    let elsewhere = it.scratch.path().join("elsewhere");
    std::fs::rename(&it.path, &elsewhere).unwrap();
    for call in rest().filter(|call| call.effect == CallEffect::Changes) {
        let answer = it.ask(request(call, &turn, &activity)).await;
        println!("{} {}: {}", call.method, call.name, answer.text);
        let problem = answer.problem(503, "audit-log-unavailable");
        assert_eq!((&problem["retryable"], answer.header("retry-after")), (&json!(true), "1"));
    }
    it.ask(Ask::get(WORKFLOWS)).await.json(200);
    assert_eq!(it.open.everything().await, before, "nothing was changed");
    let counted = it.log.counts();
    assert!(counted.failures() > 40 && counted.entries() == 0, "{counted:?}");
    std::fs::rename(&elsewhere, &it.path).unwrap();
    it.ask(Ask::post(&format!("{WORKFLOWS}/w/terminate"), &json!({}))).await.json(200);
    assert_eq!(it.entries().await.len(), 2);
    assert_ne!(it.open.everything().await, before);
}

#[tokio::test]
async fn an_operator_reads_the_audit_log_in_pages() {
    let mut it = Audited::open().await;
    for number in 0..5 {
        let start = json!({ "workflowId": format!("w-{number}"), "workflowType": "t" });
        it.ask(Ask::post(WORKFLOWS, &start)).await.json(201);
    }
    let written = it.entries().await;
    let bearer = |path: &str| Ask::get(path).header("authorization", &format!("Bearer {NEEDLE}"));
    let (mut after, mut read) = (0, Vec::new());
    loop {
        // Also checked against the `OpenAPI` document.
        let page = it.asks.ask(bearer(&format!("/v1/audit?after={after}&limit=3"))).await.json(200);
        let entries = page["entries"].as_array().unwrap();
        assert!((1..=3).contains(&entries.len()) && page["last"] == 10, "{page}");
        read.extend(entries.clone());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(read, written);
    let page = it.asks.ask(bearer("/v1/audit?after=10")).await.json(200);
    assert_eq!(page, json!({ "entries": [], "last": 10 }));
    for limit in ["0", "1001", "x"] {
        it.asks.ask(bearer(&format!("/v1/audit?limit={limit}"))).await.problem(400, "bad-query");
    }
    let metrics = Ask::get("/v1/audit").header("authorization", "Bearer metrics");
    it.asks.ask(metrics).await.problem(403, "forbidden");
    it.open.get("/v1/audit").await.problem(404, "audit-log-disabled");
}

#[tokio::test]
async fn an_outcome_after_a_disconnect_has_no_status() {
    let mut it = Audited::open().await;
    let start = json!({ "workflowId": "w", "workflowType": "t" });
    let ask = Ask::post(WORKFLOWS, &start).header("prefer", "wait=60");
    let ask = ask.header("authorization", &format!("Bearer {NEEDLE}"));
    let asked = it.asks.call(ask);
    let started = async {
        while it.log.last() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = asked => panic!("the run does not end"),
        () = started => {}
    }
    let entries = it.entries().await;
    assert_eq!((&entries[1]["requestSeq"], entries[1].get("status")), (&json!(1), None), "{entries:?}");
}
