//! Tests of the host over HTTP, against a fake service and a clock that the tests control.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

#[path = "../../client/tests/double/mod.rs"]
mod double;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_runner_kit::{Activity, ActivityContext, ActivityFailure, Host, activity_fn};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::double::{Request, Running};

impl Running {
    /// Starts a host with one slot for activities. `with` can change its settings.
    async fn start(with: impl FnOnce(Host) -> Host) -> Self {
        Self::begin(|client, stopped| {
            let host = with(Host::new(client, "PCI").identity("rack").concurrency(1));
            host.run_until(async { drop(stopped.await) })
        })
        .await
    }

    async fn poll(&mut self) -> Request {
        self.double.next("/v1/domains/default/task-lists/PCI/activity/poll").await
    }

    /// Returns the next request about the task with this token.
    async fn about(&mut self, token: &str, what: &str) -> Request {
        self.double.next(&format!("/v1/activity-tasks/{token}/{what}")).await
    }
}

/// Returns a task of this type, with the id as its token.
fn task(id: &str, activity_type: &str) -> Value {
    json!({
        "token": id, "domain": "default", "workflowId": "w", "runId": "00000000-0000-0000-0000-000000000007",
        "workflowType": "order", "taskList": "PCI", "activityId": id, "activityType": activity_type,
        "scheduledEventId": 5, "attempt": 1, "timeouts": {},
    })
}

fn with(mut task: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("fields") };
    task.as_object_mut().unwrap().extend(more);
    task
}

async fn double(_: ActivityContext, number: u64) -> Result<u64, ActivityFailure> {
    Ok(number * 2)
}

/// Waits until the activity is canceled, then stops.
async fn wait(context: ActivityContext, (): ()) -> Result<(), ActivityFailure> {
    context.canceled().await;
    Err(ActivityFailure::canceled().details("stopped half-way"))
}

/// Returns an activity that never ends. For each start of the activity, the receiver gets a channel that closes when
/// this execution is dropped.
fn hanging() -> (impl Activity, UnboundedReceiver<oneshot::Receiver<()>>) {
    let (begin, begun) = unbounded_channel();
    let hang = move |_: ActivityContext, (): ()| {
        let (here, gone) = oneshot::channel::<()>();
        begin.send(gone).unwrap();
        async move {
            let _here = here;
            std::future::pending::<Result<(), ActivityFailure>>().await
        }
    };
    (activity_fn("hang", hang), begun)
}

/// Runs one task whose activity ends immediately. Returns the kind and the body of the answer.
async fn outcome(host: impl FnOnce(Host) -> Host, task: &Value) -> (String, Value) {
    let mut running = Running::start(host).await;
    running.poll().await.answer(200, task).await;
    let mut request = running.double.next("").await;
    request.body.as_object_mut().unwrap().remove("poll");
    (request.path.rsplit('/').next().unwrap().to_owned(), request.body)
}

#[tokio::test(start_paused = true)]
async fn an_answer_brings_the_next_activity() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    let poll = running.poll().await;
    assert_eq!((&poll.body["identity"], poll.body.get("attempt")), (&json!("rack"), None));
    poll.answer(200, &with(task("a", "double"), json!({ "input": 4 }))).await;
    let first = running.about("a", "success").await;
    assert_eq!(first.body["result"], 8);
    assert_eq!(first.body["poll"]["identity"], "rack");
    first.record(with(task("b", "double"), json!({ "input": 5 }))).await;
    let second = running.about("b", "success").await;
    assert_eq!(second.body["result"], 10);
    second.record(Value::Null).await;
    // The response to the first activity's answer contained no further activity.
    running.poll().await.answer(204, &Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_can_take_the_activities_of_one_run_only() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double)).only_workflow("w")).await;
    let poll = running.poll().await;
    assert_eq!(poll.body["workflowId"], "w");
    poll.answer(200, &with(task("a", "double"), json!({ "input": 4 }))).await;
    assert_eq!(running.about("a", "success").await.body["poll"]["workflowId"], "w");
}

#[tokio::test(start_paused = true)]
async fn an_activity_knows_its_attempt_and_the_last_heartbeat() {
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    let look = async move |context: ActivityContext, (): ()| {
        let last: Option<String> = context.last_heartbeat();
        *sees.lock().unwrap() = Some((context, last));
        Ok::<_, ActivityFailure>(())
    };
    let given = with(task("a", "look"), json!({ "attempt": 3, "heartbeatDetails": "page 7" }));
    let look = move |context: ActivityContext, input: ()| {
        let look = look.clone();
        async move { look(context, input).await }
    };
    let (result, body) = outcome(|host| host.register(activity_fn("look", look)), &given).await;
    assert_eq!((result.as_str(), body), ("success", json!({ "result": null })));
    let (context, last) = seen.lock().unwrap().take().unwrap();
    assert_eq!((&*context.workflow_id, &*context.activity_id, context.scheduled_event_id), ("w", "a", 5));
    assert_eq!((context.attempt, context.run_id.as_u128(), last.as_deref()), (3, 7, Some("page 7")));
    assert_eq!(context.last_heartbeat::<u64>(), None, "the details are not a number");
}

#[tokio::test(start_paused = true)]
async fn a_failure_reports_whether_and_when_to_retry() {
    let decline = async |_: ActivityContext, (): ()| {
        Err::<(), _>(ActivityFailure::new("card-declined").details(&4_200).non_retryable())
    };
    let (result, body) = outcome(|host| host.register(activity_fn("charge", decline)), &task("a", "charge")).await;
    assert_eq!(result, "failure");
    assert_eq!(body, json!({ "reason": "card-declined", "details": 4200, "nonRetryable": true }));

    let busy = async |_: ActivityContext, (): ()| {
        Err::<(), _>(ActivityFailure::new("busy").retry_after(Duration::from_secs(90)))
    };
    let (result, body) = outcome(|host| host.register(activity_fn("ship", busy)), &task("a", "ship")).await;
    assert_eq!((result.as_str(), body), ("failure", json!({ "reason": "busy", "retryAfter": "PT1M30S" })));

    let read = async |_: ActivityContext, (): ()| Ok::<u64, ActivityFailure>("seven".parse::<u64>()?);
    let (result, body) = outcome(|host| host.register(activity_fn("read", read)), &task("a", "read")).await;
    assert_eq!((result.as_str(), &body["reason"]), ("failure", &json!("error")));
    assert_eq!(body["details"], "invalid digit found in string");
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_activity_and_not_the_host() {
    let burst = async |_: ActivityContext, number: u64| {
        assert!(number > 1, "{number} is too few");
        Ok::<_, ActivityFailure>(number)
    };
    let mut running = Running::start(|host| host.register(activity_fn("burst", burst))).await;
    running.poll().await.answer(200, &with(task("a", "burst"), json!({ "input": 1 }))).await;
    let failure = running.about("a", "failure").await;
    assert_eq!((&failure.body["reason"], &failure.body["details"]), (&json!("panic"), &json!("1 is too few")));
    assert_eq!(failure.body.get("nonRetryable"), None, "a retry may help");
    failure.record(with(task("b", "burst"), json!({ "input": 2 }))).await;
    assert_eq!(running.about("b", "success").await.body["result"], 2);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_reported_as_non_retryable() {
    let register = |host: Host| host.register(activity_fn("double", double));
    let (result, body) = outcome(register, &task("a", "triple")).await;
    let details = json!("no activity `triple` on this runner of `PCI`");
    let unknown = json!({ "reason": "unknown-activity-type", "details": details, "nonRetryable": true });
    assert_eq!((result.as_str(), body), ("failure", unknown));
    for input in [json!({}), json!({ "input": "four" })] {
        let (result, body) = outcome(register, &with(task("a", "double"), input)).await;
        assert_eq!(
            (result.as_str(), &body["reason"], &body["nonRetryable"]),
            ("failure", &json!("bad-input"), &json!(true))
        );
    }
    let bad =
        async |_: ActivityContext, (): ()| Ok::<_, ActivityFailure>(std::collections::BTreeMap::from([((1, 2), 3)]));
    let (result, body) = outcome(|host| host.register(activity_fn("bad", bad)), &task("a", "bad")).await;
    assert_eq!(
        (result.as_str(), &body["reason"], &body["nonRetryable"]),
        ("failure", &json!("bad-output"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_sent_every_third_of_the_timeout() {
    let (details_set, proceed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = Arc::clone(&proceed);
    let set = Arc::clone(&details_set);
    let work = move |context: ActivityContext, (): ()| {
        let (waits, set) = (Arc::clone(&waits), Arc::clone(&set));
        async move {
            waits.notified().await;
            context.heartbeat(&"a quarter");
            context.heartbeat(&"half");
            set.notify_one();
            waits.notified().await;
            Ok::<_, ActivityFailure>(())
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("work", work))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT30S" }, "heartbeatDetails": "details of the last attempt" });
    running.poll().await.answer(200, &with(task("a", "work"), given)).await;
    // The first heartbeat comes soon after the start, and waits until the next.
    let beat = beats(&mut running).await;
    let mut last = beat.at;
    assert_eq!(beat.prefer.as_deref(), Some("wait=10"));
    assert_eq!(
        beat.body,
        json!({ "details": "details of the last attempt" }),
        "the next attempt needs the details, too"
    );
    proceed.notify_one();
    details_set.notified().await;
    // A lost heartbeat does not stop the activity.
    beat.lose().await;
    for details in ["half", "half"] {
        let beat = beats(&mut running).await;
        assert_eq!(beat.body, json!({ "details": details }));
        let after = beat.at - last;
        assert!(after >= Duration::from_secs(10) && after < Duration::from_secs(11), "{after:?}");
        last = beat.at;
        beat.answer(200, &json!({ "cancelRequested": false })).await;
    }
    proceed.notify_one();
    running.about("a", "success").await;
}

/// Advances the clock until the next heartbeat is sent, and returns it.
async fn beats(running: &mut Running) -> Request {
    while !running.double.has_request() {
        running.double.step(Duration::from_millis(100)).await;
    }
    running.about("a", "heartbeat").await
}

#[tokio::test(start_paused = true)]
async fn details_cause_heartbeats_without_a_heartbeat_timeout() {
    let say = Arc::new(Notify::new());
    let says = Arc::clone(&say);
    let work = move |context: ActivityContext, (): ()| {
        let says = Arc::clone(&says);
        async move {
            says.notified().await;
            context.heartbeat(&1);
            context.canceled().await;
            Ok::<_, ActivityFailure>("stopped")
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("work", work))).await;
    running.poll().await.answer(200, &task("a", "work")).await;
    for _ in 0..60 {
        running.double.step(Duration::from_secs(1)).await;
    }
    assert!(!running.double.has_request(), "no details are set yet");
    say.notify_one();
    let beat = running.about("a", "heartbeat").await;
    assert_eq!(beat.body, json!({ "details": 1 }));
    beat.answer(200, &json!({ "cancelRequested": true })).await;
    assert_eq!(running.about("a", "success").await.body["result"], "stopped", "it may still succeed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_blocks_its_thread_sends_heartbeats() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let hold = move |_: ActivityContext, (): ()| {
        assert!(held.lock().unwrap().recv().is_ok(), "the test releases it");
        std::future::ready(Ok::<_, ActivityFailure>("held"))
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold))).await;
    let timeouts = json!({ "timeouts": { "heartbeat": "PT0.3S" } });
    running.poll().await.answer(200, &with(task("a", "hold"), timeouts)).await;
    let beat = tokio::time::timeout(Duration::from_secs(30), running.about("a", "heartbeat")).await;
    beat.expect("heartbeats continue while the thread is blocked")
        .answer(200, &json!({ "cancelRequested": false }))
        .await;
    let_go.send(()).unwrap();
    assert_eq!(running.about("a", "success").await.body["result"], "held");
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_stops_on_request_is_canceled() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT3S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    let beat = beats(&mut running).await;
    assert_eq!(beat.body, json!({}), "no details are set");
    beat.answer(200, &json!({ "cancelRequested": true })).await;
    let canceled = running.about("a", "canceled").await;
    assert_eq!(canceled.body["details"], "stopped half-way");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_seen_before_the_next_heartbeat_is_due() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT30S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    let beat = beats(&mut running).await;
    // From here on, the clock stands still, so that no other heartbeat becomes due.
    beat.answer(200, &json!({ "cancelRequested": true })).await;
    let canceled = running.double.next("").await;
    assert_eq!(canceled.path, "/v1/activity-tasks/a/canceled");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_heartbeat_does_not_delay_the_next() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT30S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    let first = beats(&mut running).await;
    let second = beats(&mut running).await;
    let after = second.at - first.at;
    assert!(after >= Duration::from_secs(10) && after < Duration::from_secs(11), "{after:?}");
    // Two heartbeats are unanswered, so that no third one is sent.
    for _ in 0..20 {
        running.double.step(Duration::from_secs(1)).await;
    }
    assert!(!running.double.has_request());
    first.answer(200, &json!({ "cancelRequested": false })).await;
    beats(&mut running).await.answer(200, &json!({ "cancelRequested": false })).await;
    // Each of them can report a cancel request.
    second.answer(200, &json!({ "cancelRequested": true })).await;
    running.about("a", "canceled").await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_each_minute_at_least() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT1H" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    let first = beats(&mut running).await;
    assert_eq!(first.prefer.as_deref(), Some("wait=60"), "the longest wait of the service");
    let second = beats(&mut running).await;
    let after = second.at - first.at;
    assert!(after >= Duration::from_secs(60) && after < Duration::from_secs(61), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_after_a_cancel_request_do_not_wait() {
    let (context, mut contexts) = unbounded_channel();
    let stay = move |it: ActivityContext, (): ()| {
        let context = context.clone();
        async move {
            it.canceled().await;
            context.send(it).unwrap();
            std::future::pending::<Result<(), ActivityFailure>>().await
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("stay", stay))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT3S" } });
    running.poll().await.answer(200, &with(task("a", "stay"), given)).await;
    beats(&mut running).await.answer(200, &json!({ "cancelRequested": true })).await;
    assert!(contexts.recv().await.unwrap().is_canceled());
    assert_eq!(beats(&mut running).await.prefer, None);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_stops_unasked_has_failed() {
    let stop = async |_: ActivityContext, (): ()| Err::<(), _>(ActivityFailure::canceled());
    let (result, body) = outcome(|host| host.register(activity_fn("stop", stop)), &task("a", "stop")).await;
    assert_eq!((result.as_str(), body), ("failure", json!({ "reason": "canceled" })));
}

#[tokio::test(start_paused = true)]
async fn an_activity_no_longer_open_is_canceled() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT3S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    beats(&mut running).await.refuse(409, "activity-closed", false).await;
    running.about("a", "canceled").await.refuse(409, "activity-closed", false).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_fails_the_activity_with_its_reason() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    running.poll().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    running.about("a", "success").await.refuse(413, "payload-too-large", false).await;
    let failure = running.about("a", "failure").await;
    let details = "no: payload-too-large (payload-too-large)";
    assert_eq!(failure.body, json!({ "reason": "answer-refused", "details": details, "nonRetryable": true }));
    failure.record(Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_repeats_the_answer_and_its_poll() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    running.poll().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    let lost = running.about("a", "success").await;
    let poll_id = lost.body["poll"]["pollId"].clone();
    assert!(poll_id.is_string());
    lost.lose().await;
    let again = running.double.later().await;
    assert!(again.path.ends_with("/a/success"));
    let next = &again.body["poll"];
    assert_eq!((&again.body["result"], &next["pollId"]), (&json!(2), &poll_id));
    assert_eq!(next["attempt"], 2, "the lost response may have contained an activity");
    // The first attempt of the answer was recorded, so the host does not send a failure instead.
    again.refuse(409, "activity-closed", false).await;
    let poll = running.poll().await;
    assert!(poll.body["pollId"] != poll_id && poll.body.get("attempt").is_none(), "{}", poll.body);
}

#[tokio::test(start_paused = true)]
async fn an_outage_repeats_polls_and_answers_with_backoff() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    let first = running.poll().await;
    let (poll_id, mut last, mut waits) = (first.body["pollId"].clone(), first.at, Vec::new());
    first.refuse(503, "overloaded", true).await;
    for _ in 0..12 {
        let again = running.double.later().await;
        assert_eq!((&again.body["pollId"], again.body.get("attempt")), (&poll_id, None), "the poll took no activity");
        waits.push(again.at - last);
        last = again.at;
        again.refuse(503, "overloaded", true).await;
    }
    // Each wait is 1.5 times as long as the previous one, and is changed at random by up to half of its length.
    assert!(waits[0] < Duration::from_secs(1) && waits[11] > Duration::from_secs(3), "{waits:?}");
    running.double.later().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    running.about("a", "success").await.refuse(503, "overloaded", true).await;
    let again = running.double.later().await;
    assert_eq!(again.body["result"], 2);
    again.record(Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_poll_is_repeated_every_ten_seconds() {
    let mut running = Running::start(|host| host).await;
    let first = running.poll().await;
    let at = first.at;
    first.refuse(403, "forbidden", false).await;
    let again = running.double.later().await;
    assert!(again.at - at >= Duration::from_secs(10), "{:?}", again.at - at);
}

#[tokio::test(start_paused = true)]
async fn concurrent_activities_are_limited() {
    let (free, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (frees, holds) = (Arc::clone(&free), Arc::clone(&held));
    let hold = move |_: ActivityContext, (): ()| {
        let (frees, holds) = (Arc::clone(&frees), Arc::clone(&holds));
        async move {
            holds.notify_one();
            frees.notified().await;
            Ok::<_, ActivityFailure>(())
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold)).concurrency(3)).await;
    for token in ["a", "b", "c"] {
        running.poll().await.answer(200, &task(token, "hold")).await;
        held.notified().await;
    }
    free.notify_one();
    // All three slots are busy. The next request is therefore an answer, which also contains the next poll.
    let answer = running.double.next("/success").await;
    assert!(answer.body["poll"].is_object());
}

#[tokio::test(start_paused = true)]
async fn the_rate_limit_spaces_activities() {
    let register = |host: Host| host.register(activity_fn("double", double)).concurrency(3).rate_limit(2.0);
    let mut running = Running::start(register).await;
    let begun = Instant::now();
    for number in 0..6u64 {
        let poll = running.double.later().await;
        let due = Duration::from_millis(500) * u32::try_from(number).unwrap();
        assert!(poll.path.ends_with("/poll") && poll.at - begun >= due, "{number}: {:?}", poll.at - begun);
        let token = number.to_string();
        poll.answer(200, &with(task(&token, "double"), json!({ "input": number }))).await;
        let answer = running.about(&token, "success").await;
        assert_eq!(answer.body.get("poll"), None, "the next activity must wait for the rate limit");
        answer.record(Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_finishes_its_activity_and_takes_no_other() {
    stops_while_it_holds_an_activity().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_host_finishes_its_activity_with_several_threads() {
    stops_while_it_holds_an_activity().await;
}

async fn stops_while_it_holds_an_activity() {
    let (free, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (frees, holds) = (Arc::clone(&free), Arc::clone(&held));
    let hold = move |_: ActivityContext, (): ()| {
        let (frees, holds) = (Arc::clone(&frees), Arc::clone(&holds));
        async move {
            holds.notify_one();
            frees.notified().await;
            Ok::<_, ActivityFailure>("done")
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold)).concurrency(2)).await;
    running.poll().await.answer(200, &task("a", "hold")).await;
    held.notified().await;
    // The other slot is polling. Its poll is dropped when the host stops.
    let waiting = running.poll().await;
    running.stop().await;
    waiting.until_closed().await;
    free.notify_one();
    let answer = running.about("a", "success").await;
    assert_eq!(answer.body, json!({ "result": "done" }), "the answer contains no poll");
    answer.record(Value::Null).await;
    running.ended.await.unwrap();
    assert!(!running.double.has_request());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_host_stops_at_once_with_several_threads() {
    let (hang, mut begun) = hanging();
    let register = |host: Host| host.register(hang).drain_wait(Duration::from_hours(1));
    let mut running = Running::start(|host| register(host).concurrency(2)).await;
    running.poll().await.answer(200, &task("a", "hang")).await;
    let gone = begun.recv().await.unwrap();
    let waiting = running.poll().await;
    running.ended.abort();
    let gone = tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the host does not wait for it");
    assert!(gone.is_err(), "the activity is dropped");
    waiting.until_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_waits_for_activities_up_to_its_drain_wait() {
    for timeouts in [json!({}), json!({ "heartbeat": "PT1H" })] {
        let (hang, mut begun) = hanging();
        let register = |host: Host| host.register(hang).drain_wait(Duration::from_secs(7));
        let mut running = Running::start(register).await;
        running.poll().await.answer(200, &with(task("a", "hang"), json!({ "timeouts": timeouts }))).await;
        let gone = begun.recv().await.unwrap();
        let since = Instant::now();
        running.stop().await;
        while !running.ended.is_finished() {
            running.double.step(Duration::from_millis(500)).await;
        }
        assert!(since.elapsed() >= Duration::from_secs(7), "{:?}", since.elapsed());
        while running.double.has_request() {
            let path = running.double.next("").await.path;
            assert!(path.ends_with("/heartbeat"), "the activity is left to its timeouts: {path}");
        }
        assert!(gone.await.is_err(), "the activity is dropped at its next await");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_releases_the_activity_it_just_received() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    running.poll().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    let held = running.about("a", "success").await;
    assert!(held.body["poll"].is_object());
    // The answer is in flight, and its response may contain the next activity.
    running.stop().await;
    while !running.ended.is_finished() {
        running.double.step(Duration::from_millis(500)).await;
    }
    drop(held);
}

fn refused(code: &str, retryable: bool) -> Value {
    json!({ "type": "t", "title": code, "status": 0, "detail": code, "code": code, "retryable": retryable,
            "recorded": false, "advice": "" })
}

/// Advances the clock until the request arrives.
async fn while_time_passes(request: impl Future<Output = Request>) -> Request {
    let pass = async {
        loop {
            tokio::time::advance(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        request = request => request,
        () = pass => unreachable!("it never ends"),
    }
}

/// Returns a response to appended output.
fn kept(next: u64, cancel_requested: bool) -> Value {
    json!({ "stream": "0000000000000001", "next": next, "cancelRequested": cancel_requested })
}

#[tokio::test(start_paused = true)]
async fn output_is_sent_in_order_and_before_the_answer() {
    let proceed = Arc::new(Notify::new());
    let waits = Arc::clone(&proceed);
    let talk = move |context: ActivityContext, (): ()| {
        let waits = Arc::clone(&waits);
        async move {
            context.append("one\n");
            context.append(&json!({ "rows": 2 }));
            waits.notified().await;
            context.append("last");
            Ok::<_, ActivityFailure>(())
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("talk", talk))).await;
    running.poll().await.answer(200, &task("a", "talk")).await;
    let first = running.about("a", "output").await;
    assert_eq!(first.body, json!({ "chunks": ["one\n", { "rows": 2 }], "sequence": 0 }));
    first.answer(200, &kept(2, false)).await;
    proceed.notify_one();
    let last = while_time_passes(running.about("a", "output")).await;
    // If the activity ends before the first response has arrived, all chunks are sent again with their numbers.
    let repeated = last.body["sequence"] == 0;
    let chunks = if repeated { json!(["one\n", { "rows": 2 }, "last"]) } else { json!(["last"]) };
    assert_eq!(last.body, json!({ "chunks": chunks, "sequence": if repeated { 0 } else { 2 } }));
    last.answer(200, &kept(3, false)).await;
    running.about("a", "success").await;
}

#[tokio::test(start_paused = true)]
async fn output_without_a_response_is_sent_again_with_its_number() {
    let talk = async |context: ActivityContext, (): ()| {
        context.append("one");
        context.canceled().await;
        Err::<(), _>(ActivityFailure::canceled())
    };
    let mut running = Running::start(|host| host.register(activity_fn("talk", talk))).await;
    running.poll().await.answer(200, &task("a", "talk")).await;
    running.about("a", "output").await.answer(503, &refused("unavailable", true)).await;
    let again = while_time_passes(running.about("a", "output")).await;
    assert_eq!(again.body, json!({ "chunks": ["one"], "sequence": 0 }));
    // The response reports the cancel request, as the response to a heartbeat does.
    again.answer(200, &kept(1, true)).await;
    running.about("a", "canceled").await;
}

#[tokio::test(start_paused = true)]
async fn refused_output_does_not_fail_its_activity() {
    let talk = async |context: ActivityContext, (): ()| {
        context.append(&"x".repeat(64 * 1024));
        context.append("one");
        tokio::time::sleep(Duration::from_secs(1)).await;
        context.append("two");
        Ok::<_, ActivityFailure>(1)
    };
    let mut running = Running::start(|host| host.register(activity_fn("talk", talk))).await;
    running.poll().await.answer(200, &task("a", "talk")).await;
    let first = running.about("a", "output").await;
    assert_eq!(first.body["chunks"], json!(["one"]), "a chunk that is too large is dropped");
    first.answer(409, &refused("activity-closed", false)).await;
    assert_eq!(while_time_passes(running.about("a", "success")).await.body["result"], 1);
}
