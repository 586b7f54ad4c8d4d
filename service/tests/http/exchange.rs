//! Exchanges: many answers in one request, each with a receipt, and tasks for slots, in one response or in lines.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use engine::admission::{Limit, QuotaLimits};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use service::audit::AuditLog;
use service::http::with_audit_log;
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use store::memory::Memory;
use store::{Cas, Error, HeadKey, PartKey, RunId, Store};
use tokio::sync::watch;

use crate::hash::sha256_hex;
use crate::support::{Api, Ask, PATIENCE, WORKFLOWS, schedule};

const TURNS: &str = "/v1/domains/default/task-lists/deciders/decider/exchange";
const ACTIVITIES: &str = "/v1/domains/default/task-lists/acts/activity/exchange";
const LINES: &str = "application/x-ndjson";

/// Exchanges without waiting.
async fn exchange(api: &Api, path: &str, body: Value) -> Value {
    api.ask(Ask::post(path, &body).header("prefer", "wait=0")).await.json(200)
}

fn slots(exchanged: &Value) -> Vec<u64> {
    exchanged["tasks"].as_array().unwrap().iter().map(|task| task["slot"].as_u64().unwrap()).collect()
}

fn task(exchanged: &Value, at: usize) -> &Value {
    &exchanged["tasks"][at]["task"]
}

/// Starts runs with one activity each, on list `acts`.
async fn with_activities(api: &Api, ids: &[&str]) {
    for id in ids {
        api.start(id).await;
        api.decide(json!([schedule("a", "acts")])).await;
    }
}

/// Reads a response line by line.
struct Lines {
    response: Response,
    rest: String,
}

impl Lines {
    async fn of(api: &Api, path: &str, body: &Value) -> Self {
        let response = api.call(Ask::post(path, body).header("accept", LINES).header("prefer", "wait=20")).await;
        assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &LINES.parse().unwrap()));
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, rest: String::new() }
    }

    /// The next line, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.find('\n') {
                let line: String = self.rest.drain(..=end).collect();
                return Some(serde_json::from_str(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.response.body_mut().frame()).await.expect("it goes on")?;
            self.rest.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_gets_a_separate_slot_up_to_the_room() {
    let api = Api::open().await;
    for id in ["a", "b", "c"] {
        api.start(id).await;
    }
    let first = exchange(&api, TURNS, json!({ "maxTasks": 2, "identity": "host" })).await;
    assert_eq!((slots(&first), first.get("receipts")), (vec![0, 1], Some(&json!([]))));
    assert_eq!([&task(&first, 0)["workflowId"], &task(&first, 1)["workflowId"]], ["a", "b"]);
    let second = exchange(&api, TURNS, json!({ "maxTasks": 2 })).await;
    assert_eq!((slots(&second), &task(&second, 0)["workflowId"]), (vec![0], &json!("c")));
    assert_eq!(slots(&exchange(&api, TURNS, json!({ "maxTasks": 2 })).await), Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_a_separate_receipt() {
    let api = Api::open().await;
    for id in ["a", "b", "c"] {
        api.start(id).await;
    }
    let turns = exchange(&api, TURNS, json!({ "maxTasks": 3 })).await;
    let token = |at: usize| task(&turns, at)["token"].clone();
    let decide = |decisions: Value| json!({ "decisions": decisions });
    let answers = json!([
        { "token": token(0), "complete": decide(json!([schedule("x", "acts")])) },
        { "token": "no token", "complete": {} },
        { "token": token(1), "complete": decide(json!([{ "type": "SucceedWorkflow", "result": [1,  2] }])) },
        { "token": token(1), "complete": {} },
        { "token": token(2), "fail": { "reason": "not now" } },
    ]);
    let said = exchange(&api, TURNS, json!({ "answers": answers, "maxTasks": 0 })).await;
    let codes: Vec<_> = said["receipts"].as_array().unwrap().iter().map(|it| it["problem"]["code"].clone()).collect();
    // Of two concurrent answers to one turn either may come first; the other is refused.
    let one_is_refused = codes[2].is_null() != codes[3].is_null();
    assert!(one_is_refused && codes[0].is_null() && codes[1] == "bad-token" && codes[4].is_null(), "{said}");
    assert_eq!(api.names("a").await.last().unwrap(), "ActivityScheduled");
    assert!(api.names("c").await.contains(&"DeciderFailed".to_owned()));

    // An exchange of its list answers the activity that the first answer has scheduled.
    let acts = exchange(&api, ACTIVITIES, json!({ "maxTasks": 5 })).await;
    assert_eq!(slots(&acts), [0]);
    let token = &task(&acts, 0)["token"];
    let said = exchange(&api, ACTIVITIES, json!({ "answers": [{ "token": token, "success": { "result": 7 } }] })).await;
    assert_eq!(said, json!({ "receipts": [{}], "tasks": [] }));
    let failed =
        exchange(&api, ACTIVITIES, json!({ "answers": [{ "token": token, "failure": { "reason": "r" } }] })).await;
    assert_eq!(failed["receipts"][0]["problem"]["code"], "activity-closed");
    assert!(api.names("a").await.contains(&"ActivitySuccess".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_bring_receipts_first_and_then_tasks_as_they_come() {
    let api = Api::open().await;
    with_activities(&api, &["a"]).await;
    let first = exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await;
    let answers = json!([{ "token": task(&first, 0)["token"], "success": {} }]);
    let mut lines = Lines::of(&api, ACTIVITIES, &json!({ "answers": answers, "maxTasks": 2 })).await;
    assert_eq!(lines.next().await.unwrap(), json!({ "receipts": [{}], "tasks": [] }));
    // Only the turn for that success is waiting.
    api.decide(json!([])).await;
    with_activities(&api, &["b"]).await;
    let line = lines.next().await.unwrap();
    assert_eq!((slots(&line), &task(&line, 0)["workflowId"]), (vec![0], &json!("b")));
    with_activities(&api, &["c"]).await;
    let line = lines.next().await.unwrap();
    assert_eq!((slots(&line), &task(&line, 0)["workflowId"]), (vec![1], &json!("c")));
    assert_eq!(lines.next().await, None);
    // A payload may contain line breaks; a line of the response has none.
    let start = r#"{"workflowId":"d","workflowType":"test","taskList":"deciders","input":{"two":
        "lines"}}"#;
    api.ask(Ask::text(WORKFLOWS, start)).await.json(201);
    let mut lines = Lines::of(&api, TURNS, &json!({ "maxTasks": 2 })).await;
    let window = lines.next().await.unwrap();
    let inputs = window["tasks"].as_array().unwrap().iter().map(|it| &it["task"]["events"][0]["input"]);
    assert!(inputs.into_iter().any(|input| *input == json!({ "two": "lines" })), "{window}");
}

#[tokio::test(start_paused = true)]
async fn a_receipt_waits_2_ms_for_a_task_that_would_share_its_line() {
    let api = Arc::new(Api::open().await);
    with_activities(&api, &["a", "b"]).await;
    let taken = exchange(&api, ACTIVITIES, json!({ "maxTasks": 2 })).await;
    let answered = async |at: usize| {
        let answers = json!([{ "token": task(&taken, at)["token"], "success": {} }]);
        // The paused clock advances only while a task waits for it.
        let began = tokio::time::Instant::now();
        let mut lines = Lines::of(&api, ACTIVITIES, &json!({ "answers": answers, "maxTasks": 1 })).await;
        assert_eq!(lines.next().await.unwrap()["receipts"], json!([{}]));
        began.elapsed().as_millis()
    };
    assert_eq!(answered(0).await, 2, "the next task would come in this response");
    let others = Arc::clone(&api);
    let waiting =
        tokio::spawn(async move { Lines::of(&others, ACTIVITIES, &json!({ "maxTasks": 1 })).await.next().await });
    api.until_pollers("acts", 1).await;
    assert_eq!(answered(1).await, 0, "the next task goes to a poller that has waited longer");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_wait_while_answers_are_recorded() {
    let api = Api::open().await;
    api.start("a").await;
    let first = exchange(&api, TURNS, json!({ "maxTasks": 1 })).await;
    // The signal arrives during the turn, so the commit that completes the turn creates the next one.
    let signaled = async |turns: &Value| {
        api.post(&format!("{WORKFLOWS}/a/signals/s"), &json!({})).await.json(202);
        json!({ "answers": [{ "token": task(turns, 0)["token"], "complete": { "decisions": [] } }], "maxTasks": 1 })
    };
    let mut lines = Lines::of(&api, TURNS, &signaled(&first).await).await;
    let mut line = lines.next().await.unwrap();
    assert_eq!(line["receipts"], json!([{}]), "receipts come first");
    if slots(&line).is_empty() {
        line = lines.next().await.unwrap();
    }
    assert_eq!(task(&line, 0)["workflowId"], "a");
    let matched = |count: u32| format!("\nbaton_sync_matches_total {count}\n");
    let metrics = api.engine.render_metrics();
    assert!(metrics.contains(&matched(1)), "{metrics}");

    let whole = exchange(&api, TURNS, signaled(&line).await).await;
    assert_eq!((&whole["receipts"], &task(&whole, 0)["workflowId"]), (&json!([{}]), &json!("a")));
    let metrics = api.engine.render_metrics();
    assert!(metrics.contains(&matched(2)), "{metrics}");
}

/// A store that does not commit to the run `slow` while it is held.
struct Slow {
    store: Arc<dyn Store>,
    is_held: watch::Receiver<bool>,
}

#[async_trait]
impl Interceptor for Slow {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if &*key.workflow_id == "slow" {
            let mut is_held = self.is_held.clone();
            is_held.wait_for(|is_held| !is_held).await.expect("the test continues");
        }
        self.store.commit(key, expect, head, parts).await
    }
}

#[tokio::test(start_paused = true)]
async fn slots_stop_waiting_while_answers_take_long() {
    let (hold, is_held) = watch::channel(false);
    let api = Arc::new(Api::over(Arc::new(Intercepted(Slow { store: Arc::new(Memory::new()), is_held }))).await);
    api.start("slow").await;
    let first = exchange(&api, TURNS, json!({ "maxTasks": 1 })).await;
    hold.send_replace(true);
    let answers = json!([{ "token": task(&first, 0)["token"], "complete": { "decisions": [] } }]);
    let exchanging = Arc::clone(&api);
    let lines =
        tokio::spawn(async move { Lines::of(&exchanging, TURNS, &json!({ "answers": answers, "maxTasks": 2 })).await });
    api.until_pollers("deciders", 2).await;
    api.start("b").await;
    assert!(api.names("b").await.contains(&"DeciderStarted".to_owned()), "a slot has received it");
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.start("c").await;
    assert_eq!(api.turn().await["workflowId"], "c", "the slots take no further task");
    hold.send_replace(false);
    let mut lines = lines.await.unwrap();
    assert_eq!(lines.next().await.unwrap(), json!({ "receipts": [{}], "tasks": [] }));
    let came = lines.next().await.unwrap();
    assert_eq!((slots(&came), &task(&came, 0)["workflowId"]), (vec![0], &json!("b")), "the received task is delivered");
    api.start("d").await;
    let came = lines.next().await.unwrap();
    assert_eq!((slots(&came), &task(&came, 0)["workflowId"]), (vec![1], &json!("d")), "the other slot waits again");
    assert_eq!(api.names("b").await, ["WorkflowStarted", "DeciderScheduled", "DeciderStarted"]);
}

/// A store in which the parts of the run `bad` are damaged.
struct Damaged {
    store: Arc<dyn Store>,
}

#[async_trait]
impl Interceptor for Damaged {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        if &*key.workflow_id == "bad" {
            return Err(Error::Corrupt { what: "a part".to_owned() });
        }
        self.store.parts(key, run, want).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_damaged_run_leaves_other_slots_waiting() {
    // Large enough to be stored as a separate part.
    let large = json!("x".repeat(250_000));
    for (path, list, is_decider) in [(TURNS, "deciders", true), (ACTIVITIES, "acts", false)] {
        let api = Arc::new(Api::over(Arc::new(Intercepted(Damaged { store: Arc::new(Memory::new()) }))).await);
        let make = async |id: &str, input: &Value| {
            let mut start = json!({ "workflowId": id, "workflowType": "test", "taskList": "deciders" });
            if is_decider {
                start["input"] = input.clone();
            }
            api.post(WORKFLOWS, &start).await.json(201);
            if !is_decider {
                let mut activity = schedule("a", "acts");
                activity["input"] = input.clone();
                api.decide(json!([activity])).await;
            }
        };
        let mut lines = Lines::of(&api, path, &json!({ "maxTasks": 2 })).await;
        let lines = tokio::spawn(async move { (lines.next().await, lines.next().await) });
        api.until_pollers(list, 2).await;
        make("bad", &large).await;
        api.until_pollers(list, 1).await;
        make("good", &json!(1)).await;
        let (came, rest) = lines.await.unwrap();
        let came = came.expect("the wait continues");
        assert_eq!((slots(&came), &task(&came, 0)["workflowId"]), (vec![1], &json!("good")), "{came}");
        assert_eq!(rest, None, "each slot has got its task");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_response_has_all_tasks_however_large() {
    let api = Api::open().await;
    // Three times the size of one line of an exchange.
    let (count, input) = (100, "x".repeat(250_000));
    for number in 0..count {
        let mut activity = schedule("a", "acts");
        activity["input"] = json!(input);
        api.start(&format!("w{number}")).await;
        api.decide(json!([activity])).await;
    }
    let said = exchange(&api, ACTIVITIES, json!({ "maxTasks": count })).await;
    assert_eq!(slots(&said), (0..count).collect::<Vec<_>>());
    for at in 0..100 {
        assert_eq!(task(&said, at)["input"], json!(input), "{at}");
    }
    let metrics = api.engine.render_metrics();
    assert!(metrics.contains("baton_deliveries_failed_total{reason=\"connection-closed\"} 0"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_exchange_names_lists_without_pollers() {
    let api = Api::open().await;
    with_activities(&api, &["a"]).await;
    let other = "/v1/domains/default/task-lists/act/activity/exchange";
    let said = exchange(&api, other, json!({ "maxTasks": 1 })).await;
    assert!(said["noPollers"].as_str().unwrap().starts_with("acts;activity;since="), "{said}");
    let said = exchange(&api, other, json!({ "maxTasks": 0 })).await;
    assert_eq!(said, json!({ "receipts": [], "tasks": [] }), "it did not poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnect_returns_tasks_and_frees_the_slots() {
    let api = Api::open().await;
    let lines = Lines::of(&api, ACTIVITIES, &json!({ "maxTasks": 3, "pollId": "p" })).await;
    let mut lines = Box::pin(async move {
        let mut lines = lines;
        lines.next().await
    });
    // It waits once the client reads.
    tokio::select! { biased; _ = &mut lines => panic!("no line has come"), () = tokio::task::yield_now() => {} }
    api.until_pollers("list=\"acts\"", 3).await;
    drop(lines);
    api.until_pollers("list=\"acts\"", 0).await;
    with_activities(&api, &["a"]).await;
    assert_eq!(api.take_activity("acts").await["workflowId"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_exchange_redelivers_only_missing_slots() {
    let api = Api::open().await;
    with_activities(&api, &["a", "b"]).await;
    let first = exchange(&api, ACTIVITIES, json!({ "maxTasks": 3, "pollId": "p" })).await;
    assert_eq!(slots(&first), [0, 1]);
    // The task in slot 0 arrived, the other did not.
    let again = exchange(&api, ACTIVITIES, json!({ "slots": [1, 2], "pollId": "p", "attempt": 2 })).await;
    assert_eq!(slots(&again), [1]);
    assert_eq!(task(&again, 0), task(&first, 1), "the same attempt of the same activity");
    let other = exchange(&api, ACTIVITIES, json!({ "slots": [1], "pollId": "q", "attempt": 2 })).await;
    assert_eq!(slots(&other), Vec::<u64>::new(), "that poll had no tasks");
    let answers: Vec<_> =
        [task(&first, 0), task(&again, 0)].iter().map(|it| json!({ "token": it["token"], "success": {} })).collect();
    let said = exchange(&api, ACTIVITIES, json!({ "answers": answers })).await;
    assert_eq!(said["receipts"], json!([{}, {}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_takes_256_answers_and_slots() {
    let api = Api::open().await;
    let refused = async |body: Value, says: &str| {
        let problem = api.refused(Ask::post(TURNS, &body).header("prefer", "wait=0"), 400, "invalid-field").await;
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    };
    let answers = |count: usize| json!(vec![json!({ "token": "t", "complete": {} }); count]);
    let said = exchange(&api, TURNS, json!({ "answers": answers(256), "maxTasks": 256 })).await;
    assert_eq!(said["receipts"].as_array().unwrap().len(), 256);
    refused(json!({ "answers": answers(257) }), "257 answers, at most 256").await;
    refused(json!({ "maxTasks": 257 }), "is 257, at most 256").await;
    refused(json!({ "slots": (0..257).collect::<Vec<_>>(), "pollId": "p", "attempt": 2 }), "257 slots").await;
    refused(json!({ "slots": [1, 1], "pollId": "p", "attempt": 2 }), "slot 1 twice").await;
    refused(json!({ "slots": [1], "maxTasks": 1 }), "must be absent if there are `slots`").await;
    refused(json!({ "maxTasks": 1, "attempt": 2 }), "pollId").await;

    api.start("w").await;
    let turn = exchange(&api, TURNS, json!({ "maxTasks": 1 })).await;
    let token = &task(&turn, 0)["token"];
    for (answer, says) in [
        (json!({ "token": token }), "exactly one of `complete` and `fail`"),
        (json!({ "token": token, "complete": {}, "fail": {} }), "exactly one of `complete` and `fail`"),
    ] {
        let said = exchange(&api, TURNS, json!({ "answers": [answer] })).await;
        let detail = said["receipts"][0]["problem"]["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{said}");
    }
    assert_eq!(api.names("w").await.len(), 3, "nothing was recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_takes_only_tokens_of_its_own_list() {
    let api = Api::open().await;
    let runner = Credential {
        name: "rack".to_owned(),
        secret_sha256: sha256_hex("rack"),
        runners: vec!["default/other".to_owned()],
        ..Credential::default()
    };
    let guarded = api.with(router_for(Arc::clone(&api.engine), Credentials::new(vec![runner]).unwrap()));
    with_activities(&api, &["a"]).await;
    let taken = exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await;
    let answers = json!([{ "token": task(&taken, 0)["token"], "success": {} }]);
    let ask = |path: &str| Ask::post(path, &json!({ "answers": answers })).header("authorization", "Bearer rack");
    guarded.ask(ask(ACTIVITIES)).await.problem(403, "forbidden");
    let own = "/v1/domains/default/task-lists/other/activity/exchange";
    let said = guarded.ask(ask(own)).await.json(200);
    let problem = &said["receipts"][0]["problem"];
    assert_eq!((&problem["code"], problem["status"].as_u64()), (&json!("invalid-field"), Some(400)), "{said}");
    assert!(problem["detail"].as_str().unwrap().contains("belongs to list `acts` in domain `default`"), "{said}");
    assert!(!api.names("a").await.contains(&"ActivitySuccess".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_quota_refuses_polls_but_takes_answers() {
    let api = Api::open().await;
    with_activities(&api, &["a"]).await;
    let taken = exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await;
    let limit =
        Limit { domain: Some("default".to_owned()), requests_per_second: Some(1), burst: Some(1), ..Limit::default() };
    api.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await;
    let poll = Ask::post(ACTIVITIES, &json!({ "maxTasks": 1 })).header("prefer", "wait=0");
    api.ask(poll).await.problem(429, "quota-exceeded");
    let answers = json!([{ "token": task(&taken, 0)["token"], "success": {} }]);
    assert_eq!(exchange(&api, ACTIVITIES, json!({ "answers": answers })).await["receipts"], json!([{}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_list_records_answers_and_dispatches_nothing() {
    let api = Api::open().await;
    with_activities(&api, &["a", "b"]).await;
    let taken = exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await;
    let limit = Limit { domain: Some("default".to_owned()), task_lists: Some(1), ..Limit::default() };
    api.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    let other = "/v1/domains/default/task-lists/other/activity/exchange";
    let lines = Lines::of(&api, other, &json!({ "maxTasks": 1 })).await;
    let answers = json!([{ "token": task(&taken, 0)["token"], "success": {} }]);
    let poll = Ask::post(ACTIVITIES, &json!({ "maxTasks": 1 })).header("prefer", "wait=0");
    api.ask(poll).await.problem(429, "quota-exceeded");
    let said = exchange(&api, ACTIVITIES, json!({ "answers": answers, "maxTasks": 1 })).await;
    assert_eq!(said, json!({ "receipts": [{}], "tasks": [] }));
    drop(lines);
    assert_eq!(slots(&exchange(&api, ACTIVITIES, json!({ "maxTasks": 1 })).await), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_an_audit_entry_and_a_poll_has_none() {
    let api = Api::open().await;
    let scratch = tempfile::tempdir().unwrap();
    let log = AuditLog::open(&scratch.path().join("audit"), Arc::clone(api.engine.clock())).unwrap();
    let logged = api.with(with_audit_log(api.router.clone(), Arc::clone(&log)));
    with_activities(&api, &["a", "b"]).await;
    let taken = exchange(&logged, ACTIVITIES, json!({ "maxTasks": 2 })).await;
    let answers = json!([
        { "token": task(&taken, 0)["token"], "success": {} },
        { "token": task(&taken, 1)["token"], "canceled": {} },
    ]);
    exchange(&logged, ACTIVITIES, json!({ "answers": answers })).await;
    log.flush().await;
    let file = std::fs::read_dir(scratch.path().join("audit")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|it| it == "jsonl")).unwrap();
    let entries: Vec<Value> =
        std::fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changes: Vec<_> = entries.iter().filter(|entry| entry.get("call").is_some()).collect();
    assert_eq!(changes.len(), 2, "{entries:?}");
    for (change, id) in changes.iter().zip(["a", "b"]) {
        assert_eq!(change["call"], "POST /v1/domains/{domain}/task-lists/{list}/activity/exchange");
        assert_eq!(change["workflowId"], id, "{change}");
    }
    let mut outcomes: Vec<_> = entries.iter().filter_map(|entry| entry["status"].as_u64()).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [200, 409], "no cancellation of the second was requested");
}
