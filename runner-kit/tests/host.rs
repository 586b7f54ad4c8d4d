//! The host over HTTP, against a service that the test plays, with a clock that the test moves.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

#[path = "../../client/tests/double/mod.rs"]
mod double;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_runner_kit::{Activity, Context, Failure, Host, activity_fn};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::double::{Asked, Running};

impl Running {
    /// One activity at a time unless `with` says otherwise.
    async fn start(with: impl FnOnce(Host) -> Host) -> Self {
        Self::begin(|client, stopped| {
            let host = with(Host::new(client, "PCI").identity("rack").concurrency(1));
            host.run_until(async { drop(stopped.await) })
        })
        .await
    }

    async fn poll(&mut self) -> Asked {
        self.double.next("/v1/domains/default/task-lists/PCI/activity/poll").await
    }

    /// The next request about the task with this token.
    async fn about(&mut self, token: &str, what: &str) -> Asked {
        self.double.next(&format!("/v1/activity-tasks/{token}/{what}")).await
    }
}

/// A task of this type, whose token is its id.
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

async fn double(_: Context, number: u64) -> Result<u64, Failure> {
    Ok(number * 2)
}

/// Waits until it is canceled, and stops.
async fn wait(context: Context, (): ()) -> Result<(), Failure> {
    context.canceled().await;
    Err(Failure::canceled().details("stopped half-way"))
}

/// An activity that never ends. For each that begins something comes that ends when it is dropped.
fn hanging() -> (impl Activity, UnboundedReceiver<oneshot::Receiver<()>>) {
    let (begin, begun) = unbounded_channel();
    let hang = move |_: Context, (): ()| {
        let (here, gone) = oneshot::channel::<()>();
        begin.send(gone).unwrap();
        async move {
            let _here = here;
            std::future::pending::<Result<(), Failure>>().await
        }
    };
    (activity_fn("hang", hang), begun)
}

/// Plays one task whose activity ends at once; what is said of it, as what.
async fn outcome(host: impl FnOnce(Host) -> Host, task: &Value) -> (String, Value) {
    let mut running = Running::start(host).await;
    running.poll().await.answer(200, task).await;
    let mut asked = running.double.next("").await;
    asked.body.as_object_mut().unwrap().remove("poll");
    (asked.path.rsplit('/').next().unwrap().to_owned(), asked.body)
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_done_and_the_next_one_comes_with_the_answer_s_answer() {
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
    // None came with that one.
    running.poll().await.answer(204, &Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_knows_what_it_is_and_what_its_last_try_said() {
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    let look = async move |context: Context, (): ()| {
        let last: Option<String> = context.last_heartbeat();
        *sees.lock().unwrap() = Some((context, last));
        Ok::<_, Failure>(())
    };
    let given = with(task("a", "look"), json!({ "attempt": 3, "heartbeatDetails": "page 7" }));
    let look = move |context: Context, input: ()| {
        let look = look.clone();
        async move { look(context, input).await }
    };
    let (said, body) = outcome(|host| host.register(activity_fn("look", look)), &given).await;
    assert_eq!((said.as_str(), body), ("success", json!({ "result": null })));
    let (context, last) = seen.lock().unwrap().take().unwrap();
    assert_eq!((&*context.workflow_id, &*context.activity_id, context.scheduled_event_id), ("w", "a", 5));
    assert_eq!((context.attempt, context.run_id.as_u128(), last.as_deref()), (3, 7, Some("page 7")));
    assert_eq!(context.last_heartbeat::<u64>(), None, "it is no number");
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_whether_and_when_another_try_helps() {
    let decline =
        async |_: Context, (): ()| Err::<(), _>(Failure::new("card-declined").details(&4_200).non_retryable());
    let (said, body) = outcome(|host| host.register(activity_fn("charge", decline)), &task("a", "charge")).await;
    assert_eq!(said, "failure");
    assert_eq!(body, json!({ "reason": "card-declined", "details": 4200, "nonRetryable": true }));

    let busy = async |_: Context, (): ()| Err::<(), _>(Failure::new("busy").retry_after(Duration::from_secs(90)));
    let (said, body) = outcome(|host| host.register(activity_fn("ship", busy)), &task("a", "ship")).await;
    assert_eq!((said.as_str(), body), ("failure", json!({ "reason": "busy", "retryAfter": "PT1M30S" })));

    let read = async |_: Context, (): ()| Ok::<u64, Failure>("seven".parse::<u64>()?);
    let (said, body) = outcome(|host| host.register(activity_fn("read", read)), &task("a", "read")).await;
    assert_eq!((said.as_str(), &body["reason"]), ("failure", &json!("error")));
    assert_eq!(body["details"], "invalid digit found in string");
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_activity_and_not_the_host() {
    let burst = async |_: Context, number: u64| {
        assert!(number > 1, "{number} is too few");
        Ok::<_, Failure>(number)
    };
    let mut running = Running::start(|host| host.register(activity_fn("burst", burst))).await;
    running.poll().await.answer(200, &with(task("a", "burst"), json!({ "input": 1 }))).await;
    let failure = running.about("a", "failure").await;
    assert_eq!((&failure.body["reason"], &failure.body["details"]), (&json!("panic"), &json!("1 is too few")));
    assert_eq!(failure.body.get("nonRetryable"), None, "another try may help");
    failure.record(with(task("b", "burst"), json!({ "input": 2 }))).await;
    assert_eq!(running.about("b", "success").await.body["result"], 2);
}

#[tokio::test(start_paused = true)]
async fn what_no_other_try_can_mend_is_said_not_to_be_tried_again() {
    let register = |host: Host| host.register(activity_fn("double", double));
    let (said, body) = outcome(register, &task("a", "triple")).await;
    let details = json!("no activity `triple` on this runner of `PCI`");
    let unknown = json!({ "reason": "unknown-activity-type", "details": details, "nonRetryable": true });
    assert_eq!((said.as_str(), body), ("failure", unknown));
    for input in [json!({}), json!({ "input": "four" })] {
        let (said, body) = outcome(register, &with(task("a", "double"), input)).await;
        assert_eq!(
            (said.as_str(), &body["reason"], &body["nonRetryable"]),
            ("failure", &json!("bad-input"), &json!(true))
        );
    }
    let bad = async |_: Context, (): ()| Ok::<_, Failure>(std::collections::BTreeMap::from([((1, 2), 3)]));
    let (said, body) = outcome(|host| host.register(activity_fn("bad", bad)), &task("a", "bad")).await;
    assert_eq!(
        (said.as_str(), &body["reason"], &body["nonRetryable"]),
        ("failure", &json!("bad-output"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn life_is_shown_every_third_of_the_heartbeat_timeout_with_the_newest_details() {
    let (go_on, may) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = Arc::clone(&may);
    let said = Arc::clone(&go_on);
    let work = move |context: Context, (): ()| {
        let (waits, said) = (Arc::clone(&waits), Arc::clone(&said));
        async move {
            waits.notified().await;
            context.heartbeat(&"a quarter");
            context.heartbeat(&"half");
            said.notify_one();
            waits.notified().await;
            Ok::<_, Failure>(())
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("work", work))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT30S" }, "heartbeatDetails": "what the last try said" });
    running.poll().await.answer(200, &with(task("a", "work"), given)).await;
    let begun = Instant::now();
    // Whatever comes first comes after a third.
    while !running.double.is_asked() {
        running.double.step(Duration::from_secs(1)).await;
    }
    let beat = running.about("a", "heartbeat").await;
    assert!(beat.at - begun >= Duration::from_secs(10), "{:?}", beat.at - begun);
    assert_eq!(beat.body, json!({ "details": "what the last try said" }), "so that the next one has it, too");
    may.notify_one();
    go_on.notified().await;
    // An answer that is lost is no reason to stop.
    beat.lose().await;
    for details in ["half", "half"] {
        let beat = beats(&mut running).await;
        assert_eq!(beat.body, json!({ "details": details }));
        beat.answer(200, &json!({ "cancelRequested": false })).await;
    }
    may.notify_one();
    running.about("a", "success").await;
}

/// The next heartbeat, with as much time as it takes.
async fn beats(running: &mut Running) -> Asked {
    while !running.double.is_asked() {
        running.double.step(Duration::from_millis(100)).await;
    }
    running.about("a", "heartbeat").await
}

#[tokio::test(start_paused = true)]
async fn an_activity_without_a_heartbeat_timeout_shows_life_when_it_has_something_to_say() {
    let say = Arc::new(Notify::new());
    let says = Arc::clone(&say);
    let work = move |context: Context, (): ()| {
        let says = Arc::clone(&says);
        async move {
            says.notified().await;
            context.heartbeat(&1);
            context.canceled().await;
            Ok::<_, Failure>("stopped")
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("work", work))).await;
    running.poll().await.answer(200, &task("a", "work")).await;
    for _ in 0..60 {
        running.double.step(Duration::from_secs(1)).await;
    }
    assert!(!running.double.is_asked(), "it has said nothing");
    say.notify_one();
    let beat = running.about("a", "heartbeat").await;
    assert_eq!(beat.body, json!({ "details": 1 }));
    beat.answer(200, &json!({ "cancelRequested": true })).await;
    assert_eq!(running.about("a", "success").await.body["result"], "stopped", "it may well be done all the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_keeps_a_thread_to_itself_shows_life_all_the_same() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let hold = move |_: Context, (): ()| {
        assert!(held.lock().unwrap().recv().is_ok(), "the test lets it go");
        std::future::ready(Ok::<_, Failure>("held"))
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold))).await;
    let timeouts = json!({ "timeouts": { "heartbeat": "PT0.3S" } });
    running.poll().await.answer(200, &with(task("a", "hold"), timeouts)).await;
    let beat = tokio::time::timeout(Duration::from_secs(30), running.about("a", "heartbeat")).await;
    beat.expect("it shows life while it holds its thread").answer(200, &json!({ "cancelRequested": false })).await;
    let_go.send(()).unwrap();
    assert_eq!(running.about("a", "success").await.body["result"], "held");
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_is_asked_to_stop_is_recorded_as_canceled() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT3S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    let beat = beats(&mut running).await;
    assert_eq!(beat.body, json!({}), "it has nothing to say");
    beat.answer(200, &json!({ "cancelRequested": true })).await;
    let canceled = running.about("a", "canceled").await;
    assert_eq!(canceled.body["details"], "stopped half-way");
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_stops_unasked_has_failed() {
    let stop = async |_: Context, (): ()| Err::<(), _>(Failure::canceled());
    let (said, body) = outcome(|host| host.register(activity_fn("stop", stop)), &task("a", "stop")).await;
    assert_eq!((said.as_str(), body), ("failure", json!({ "reason": "canceled" })));
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_nobody_waits_for_any_more_is_told_so_and_the_host_goes_on() {
    let mut running = Running::start(|host| host.register(activity_fn("wait", wait))).await;
    let given = json!({ "timeouts": { "heartbeat": "PT3S" } });
    running.poll().await.answer(200, &with(task("a", "wait"), given)).await;
    beats(&mut running).await.refuse(409, "activity-closed", false).await;
    running.about("a", "canceled").await.refuse(409, "activity-closed", false).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_refused_fails_the_activity_with_why() {
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
async fn an_answer_whose_answer_is_lost_is_given_again_and_so_is_the_poll_that_it_brought() {
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
    assert_eq!(next["attempt"], 2, "an activity may have come with what was lost");
    // The first try was recorded: nothing is said of it in its place.
    again.refuse(409, "activity-closed", false).await;
    let poll = running.poll().await;
    assert!(poll.body["pollId"] != poll_id && poll.body.get("attempt").is_none(), "{}", poll.body);
}

#[tokio::test(start_paused = true)]
async fn while_the_service_is_away_polls_and_answers_are_repeated_with_growing_waits() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    let first = running.poll().await;
    let (poll_id, mut last, mut waits) = (first.body["pollId"].clone(), first.at, Vec::new());
    first.refuse(503, "overloaded", true).await;
    for _ in 0..12 {
        let again = running.double.later().await;
        assert_eq!((&again.body["pollId"], again.body.get("attempt")), (&poll_id, None), "it left no trace");
        waits.push(again.at - last);
        last = again.at;
        again.refuse(503, "overloaded", true).await;
    }
    // Each half as long again as the one before, more or less by half.
    assert!(waits[0] < Duration::from_secs(1) && waits[11] > Duration::from_secs(3), "{waits:?}");
    running.double.later().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    running.about("a", "success").await.refuse(503, "overloaded", true).await;
    let again = running.double.later().await;
    assert_eq!(again.body["result"], 2);
    again.record(Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_not_allowed_is_made_again_every_ten_seconds() {
    let mut running = Running::start(|host| host).await;
    let first = running.poll().await;
    let at = first.at;
    first.refuse(403, "forbidden", false).await;
    let again = running.double.later().await;
    assert!(again.at - at >= Duration::from_secs(10), "{:?}", again.at - at);
}

#[tokio::test(start_paused = true)]
async fn no_more_activities_run_at_once_than_wanted() {
    let (free, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (frees, holds) = (Arc::clone(&free), Arc::clone(&held));
    let hold = move |_: Context, (): ()| {
        let (frees, holds) = (Arc::clone(&frees), Arc::clone(&holds));
        async move {
            holds.notify_one();
            frees.notified().await;
            Ok::<_, Failure>(())
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold)).concurrency(3)).await;
    for token in ["a", "b", "c"] {
        running.poll().await.answer(200, &task(token, "hold")).await;
        held.notified().await;
    }
    free.notify_one();
    // All three are busy: the next request is an answer, and brings the next poll.
    let answer = running.double.next("/success").await;
    assert!(answer.body["poll"].is_object());
}

#[tokio::test(start_paused = true)]
async fn activities_are_taken_no_faster_than_the_rate_limit_says() {
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
        assert_eq!(answer.body.get("poll"), None, "the next one must wait for its turn");
        answer.record(Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_finishes_what_it_holds_and_takes_nothing_more() {
    stops_while_it_holds_an_activity().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_stops_finishes_what_it_holds_where_its_runtime_has_several_threads() {
    stops_while_it_holds_an_activity().await;
}

async fn stops_while_it_holds_an_activity() {
    let (free, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (frees, holds) = (Arc::clone(&free), Arc::clone(&held));
    let hold = move |_: Context, (): ()| {
        let (frees, holds) = (Arc::clone(&frees), Arc::clone(&holds));
        async move {
            holds.notify_one();
            frees.notified().await;
            Ok::<_, Failure>("done")
        }
    };
    let mut running = Running::start(|host| host.register(activity_fn("hold", hold)).concurrency(2)).await;
    running.poll().await.answer(200, &task("a", "hold")).await;
    held.notified().await;
    // The other slot waits, and is dropped.
    let waiting = running.poll().await;
    running.stop().await;
    waiting.until_let_go().await;
    free.notify_one();
    let answer = running.about("a", "success").await;
    assert_eq!(answer.body, json!({ "result": "done" }), "and nothing more is asked for");
    answer.record(Value::Null).await;
    running.ended.await.unwrap();
    assert!(!running.double.is_asked());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_dropped_stops_at_once_where_its_runtime_has_several_threads() {
    let (hang, mut begun) = hanging();
    let register = |host: Host| host.register(hang).drain_wait(Duration::from_hours(1));
    let mut running = Running::start(|host| register(host).concurrency(2)).await;
    running.poll().await.answer(200, &task("a", "hang")).await;
    let gone = begun.recv().await.unwrap();
    let waiting = running.poll().await;
    running.ended.abort();
    let gone = tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it does not wait for what it holds");
    assert!(gone.is_err(), "that is dropped");
    waiting.until_let_go().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_waits_for_an_activity_as_long_as_it_was_told_to() {
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
        assert!(!running.double.is_asked(), "it is left to its timeouts");
        assert!(gone.await.is_err(), "it is stopped where it waits");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_lets_go_of_the_next_activity_once_its_answer_is_recorded() {
    let mut running = Running::start(|host| host.register(activity_fn("double", double))).await;
    running.poll().await.answer(200, &with(task("a", "double"), json!({ "input": 1 }))).await;
    let held = running.about("a", "success").await;
    assert!(held.body["poll"].is_object());
    // The answer is under way, and waits for the next activity.
    running.stop().await;
    while !running.ended.is_finished() {
        running.double.step(Duration::from_millis(500)).await;
    }
    drop(held);
}
