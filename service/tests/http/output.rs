//! Output of activities: appending, reading by page and as a stream, bounds, and what is no longer kept.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use engine::admission::{Limit, QuotaLimits};
use engine::{Engine, OUTPUT_ACTIVITY_BYTES_MAX, Settings};
use history::limits::{OUTPUT_CHUNK_BYTES_MAX, OUTPUT_CHUNKS_MAX};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use service::front::Front;
use service::http::ServerLimits;
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use store::Store;
use store::memory::Memory;

use crate::holders::{credential, one};
use crate::sockets::Socket;
use crate::support::{Answer, Api, Ask, PATIENCE, WORKFLOWS, activity_path, schedule};

const OUTPUT: &str = "/v1/domains/default/workflows/w/activities/a/output";

/// A service with run `w`, and the path to which its activity appends.
async fn open() -> (Api, String) {
    let api = Api::open().await;
    let path = format!("{}/output", activity_path(&api.activity("w").await));
    (api, path)
}

/// A service whose output may take this many bytes.
async fn with_room(bytes: usize) -> Api {
    let clock = ManualClock::new();
    let settings = Settings { seed: Some(7), output_bytes: bytes, ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::clone(&clock) as _, settings).await.unwrap();
    Api::of(Front::from(engine), clock)
}

async fn append(api: &Api, path: &str, chunks: Value) -> Value {
    api.post(path, &json!({ "chunks": chunks })).await.json(200)
}

fn stream(path: &str) -> Ask {
    Ask::get(path).header("accept", "text/event-stream")
}

fn data(page: &Value) -> Vec<Value> {
    page["chunks"].as_array().unwrap().iter().map(|chunk| chunk["data"].clone()).collect()
}

fn offsets(page: &Value) -> Vec<u64> {
    page["chunks"].as_array().unwrap().iter().map(|chunk| chunk["offset"].as_u64().unwrap()).collect()
}

/// A message of a stream: its id, name and data.
type Message = (Option<String>, String, Value);

/// A stream whose messages are read one by one.
struct Messages {
    body: axum::body::Body,
    text: String,
}

impl Messages {
    fn of(response: Response) -> Self {
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next message; `None` at the end of the stream. Comments are skipped.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let found = field("event: ")
                    .map(|event| (field("id: "), event, serde_json::from_str(&field("data: ").unwrap()).unwrap()));
                let rest = rest.to_owned();
                self.text = rest;
                match found {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a message or the end")?;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    async fn rest(mut self) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

fn names(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|(_, name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn chunks_are_read_in_order_from_any_offset() {
    let (api, path) = open().await;
    let empty = api.get(OUTPUT).await.json(200);
    assert_eq!((data(&empty), &empty["next"], empty.get("stream"), empty.get("end")), (vec![], &json!(0), None, None));
    let appended = append(&api, &path, json!(["one\n", { "percent": 2 }])).await;
    assert_eq!((&appended["next"], &appended["cancelRequested"]), (&json!(2), &json!(false)));
    assert_eq!(append(&api, &path, json!([null])).await["next"], 3);
    let page = api.get(OUTPUT).await.json(200);
    assert_eq!(data(&page), [json!("one\n"), json!({ "percent": 2 }), json!(null)]);
    assert_eq!((offsets(&page), &page["first"], &page["next"]), (vec![0, 1, 2], &json!(0), &json!(3)));
    assert_eq!((&page["stream"], &page["chunks"][0]["attempt"]), (&appended["stream"], &json!(1)));
    assert_eq!(page["scheduledEventId"], 5);
    let page = api.get(&format!("{OUTPUT}?from=2")).await.json(200);
    assert_eq!((offsets(&page), page.get("end")), (vec![2], None));
    // Output is no part of the history.
    assert_eq!(api.names("w").await.last().unwrap(), "ActivityStarted");
}

#[tokio::test]
async fn a_page_waits_for_the_next_chunk() {
    let (api, path) = open().await;
    let reading = api.ask(Ask::get(OUTPUT).header("prefer", "wait=60"));
    let appending = async {
        until_watched(&api).await;
        append(&api, &path, json!(["x"])).await
    };
    let (page, _) = tokio::join!(reading, appending);
    assert_eq!(data(&page.json(200)), [json!("x")]);
    assert_eq!(page.header("preference-applied"), "wait=60");
}

async fn until_watched(api: &Api) {
    let wait = async {
        while !api.engine.render_metrics().contains("baton_watched_runs 1\n") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("a waiting reader");
}

#[tokio::test]
async fn a_stream_follows_the_output_until_the_activity_ends() {
    let (api, path) = open().await;
    let first = append(&api, &path, json!(["a\r\nb"])).await;
    let mut messages = Messages::of(api.call(stream(OUTPUT)).await);
    let (id, name, chunk) = messages.next().await.unwrap();
    assert_eq!((id.unwrap(), name.as_str()), (format!("{}-0", first["stream"].as_str().unwrap()), "chunk"));
    assert_eq!((&chunk["offset"], &chunk["data"]), (&json!(0), &json!("a\r\nb")));
    append(&api, &path, json!([{ "n": 1 }])).await;
    assert_eq!(messages.next().await.unwrap().2["data"], json!({ "n": 1 }));
    append(&api, &path, json!(["last"])).await;
    api.post(&path.replace("output", "success"), &json!({})).await.json(200);
    let rest = messages.rest().await;
    assert_eq!(names(&rest), ["chunk", "end"]);
    assert_eq!(rest[1].2, json!({ "eventId": 7, "event": "ActivitySuccess" }));
}

#[tokio::test]
async fn a_stream_without_output_ends_with_its_activity() {
    let (api, path) = open().await;
    let messages = Messages::of(api.call(stream(OUTPUT)).await);
    let fail = api.ask(Ask::post(&path.replace("output", "failure"), &json!({ "reason": "r" })));
    let (messages, _) = tokio::join!(messages.rest(), fail);
    assert_eq!(names(&messages), ["end"]);
    assert_eq!(messages[0].2["event"], "ActivityFailed");
    api.refused(Ask::get(OUTPUT), 404, "output-not-kept").await;
}

#[tokio::test]
async fn a_closed_run_ends_the_output_of_its_activities() {
    let (api, path) = open().await;
    append(&api, &path, json!(["x"])).await;
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    let page = api.get(OUTPUT).await.json(200);
    assert_eq!((data(&page), &page["end"]["event"]), (vec![json!("x")], &json!("WorkflowTerminated")));
    api.refused(Ask::post(&path, &json!({ "chunks": ["y"] })), 409, "run-closed").await;
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_id() {
    let (api, path) = open().await;
    append(&api, &path, json!([0, 1, 2])).await;
    let mut messages = Messages::of(api.call(stream(OUTPUT)).await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(messages.next().await.unwrap().0.unwrap());
    }
    api.post(&path.replace("output", "success"), &json!({})).await.json(200);
    let again = |id: &str| stream(OUTPUT).header("last-event-id", id);
    let missed = Messages::of(api.call(again(&ids[1])).await).rest().await;
    assert_eq!((names(&missed), &missed[0].2["offset"]), (vec!["chunk", "end"], &json!(2)));
    // An `EventSource` stops to reconnect only after a 204.
    let answer = api.ask(again(&ids[2])).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    for bad in ["1", "x-1", "0000000000000000-", "+000000000000000-1"] {
        api.refused(again(bad), 400, "bad-header").await;
    }
    let other = again("0000000000000000-1");
    api.refused(other, 404, "output-not-kept").await;
    api.refused(Ask::get(&format!("{OUTPUT}?stream=zz")), 400, "bad-query").await;
    api.refused(Ask::get(&format!("{OUTPUT}?from=4")), 404, "output-not-kept").await;
}

#[tokio::test(start_paused = true)]
async fn output_is_kept_for_an_hour_after_the_activity() {
    let (api, path) = open().await;
    append(&api, &path, json!(["x"])).await;
    // An open activity keeps its output longer.
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert_eq!(data(&api.get(OUTPUT).await.json(200)), [json!("x")]);
    api.post(&path.replace("output", "success"), &json!({})).await.json(200);
    tokio::time::sleep(Duration::from_mins(59)).await;
    assert_eq!(data(&api.get(OUTPUT).await.json(200)), [json!("x")]);
    assert!(api.engine.render_metrics().contains("baton_activity_outputs 1\n"));
    tokio::time::sleep(Duration::from_mins(3)).await;
    api.refused(Ask::get(OUTPUT), 404, "output-not-kept").await;
    let metrics = api.engine.render_metrics();
    for line in [
        "baton_activity_outputs 0\n",
        "baton_activity_output_bytes 0\n",
        "baton_activity_output_chunks_dropped_total 0\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_chunk_over_64_kib_is_refused() {
    let (api, path) = open().await;
    // Two bytes are the quotes.
    let text = |bytes: usize| "x".repeat(bytes - 2);
    append(&api, &path, json!([text(OUTPUT_CHUNK_BYTES_MAX)])).await;
    let body = json!({ "chunks": ["fits", text(OUTPUT_CHUNK_BYTES_MAX + 1)] });
    let problem = api.refused(Ask::post(&path, &body), 413, "too-large").await;
    assert_eq!((&problem["field"], &problem["max"]), (&json!("chunks[1]"), &json!(OUTPUT_CHUNK_BYTES_MAX)));
    assert_eq!(api.get(OUTPUT).await.json(200)["next"], 1);
}

#[tokio::test]
async fn more_than_1000_chunks_in_a_request_are_refused() {
    let (api, path) = open().await;
    let chunks = |count: usize| json!({ "chunks": vec![1; count] });
    assert_eq!(api.post(&path, &chunks(OUTPUT_CHUNKS_MAX)).await.json(200)["next"], OUTPUT_CHUNKS_MAX);
    let problem = api.refused(Ask::post(&path, &chunks(OUTPUT_CHUNKS_MAX + 1)), 400, "invalid-field").await;
    assert_eq!(problem["field"], "chunks");
}

#[tokio::test]
async fn an_activity_keeps_its_newest_mib_and_readers_learn_the_gap() {
    let (api, path) = open().await;
    let half = "x".repeat(OUTPUT_CHUNK_BYTES_MAX / 2);
    let messages = Messages::of(api.call(stream(OUTPUT)).await);
    let many = 2 * OUTPUT_ACTIVITY_BYTES_MAX / half.len();
    for _ in 0..many {
        append(&api, &path, json!([half])).await;
    }
    let page = api.get(OUTPUT).await.json(200);
    let first = usize::try_from(page["first"].as_u64().unwrap()).unwrap();
    assert!(first > many / 2 && first < many / 2 + 3, "{first}");
    assert_eq!(offsets(&page)[0], page["first"].as_u64().unwrap());
    assert!(api.engine.render_metrics().contains(&format!("baton_activity_output_chunks_dropped_total {first}\n")));
    api.post(&path.replace("output", "success"), &json!({})).await.json(200);
    let messages = messages.rest().await;
    assert_eq!((messages[0].1.as_str(), &messages[0].2), ("gap", &json!({ "from": 0, "first": first })));
    assert_eq!(messages.len(), many - first + 2);
}

#[tokio::test]
async fn a_domain_fills_half_and_drops_ended_output_first() {
    let api = with_room(2 * 40_000).await;
    let chunk = |fill: &str| json!([fill.repeat(9_000)]);
    let mut paths = Vec::new();
    for id in ["u", "v", "w"] {
        paths.push(format!("{}/output", activity_path(&api.activity(id).await)));
    }
    append(&api, &paths[0], json!(["a".repeat(9_000), "b".repeat(9_000)])).await;
    append(&api, &paths[1], chunk("v")).await;
    api.post(&paths[1].replace("output", "success"), &json!({})).await.json(200);
    let of = |id: &str| OUTPUT.replace("/w/", &format!("/{id}/"));
    assert!(api.get(&of("v")).await.json(200)["end"].is_object());
    append(&api, &paths[2], chunk("w")).await;
    // The domain is full. The ended output is dropped, and then the oldest chunks of the activity that appends.
    append(&api, &paths[2], chunk("x")).await;
    api.refused(Ask::get(&of("v")), 404, "output-not-kept").await;
    append(&api, &paths[2], chunk("y")).await;
    assert_eq!(api.get(&of("u")).await.json(200)["first"], 0);
    assert_eq!(api.get(&of("w")).await.json(200)["first"], 1);
}

#[tokio::test]
async fn output_without_room_is_refused() {
    let api = with_room(2 * 10_000).await;
    let first = format!("{}/output", activity_path(&api.activity("v").await));
    let second = format!("{}/output", activity_path(&api.activity("w").await));
    append(&api, &first, json!(["x".repeat(8_000)])).await;
    let problem = api.refused(Ask::post(&second, &json!({ "chunks": ["y"] })), 429, "output-limit-exceeded").await;
    assert_eq!(problem["retryable"], true);
    api.post(&first.replace("output", "success"), &json!({})).await.json(200);
    api.get(&OUTPUT.replace("/w/", "/v/")).await.json(200);
    append(&api, &second, json!(["y"])).await;
}

#[tokio::test]
async fn a_lost_attempt_and_an_ended_activity_append_nothing() {
    let api = Api::open().await;
    api.start("w").await;
    let mut decision = schedule("a", "acts");
    decision["retry"] = json!({ "initialInterval": "PT10S" });
    api.decide(json!([decision])).await;
    let first = format!("{}/output", activity_path(&api.take_activity("acts").await));
    append(&api, &first, json!(["first"])).await;
    api.post(&first.replace("output", "failure"), &json!({ "reason": "r" })).await.json(200);
    api.refused(Ask::post(&first, &json!({ "chunks": ["late"] })), 409, "activity-closed").await;
    api.clock.advance(history::Duration::from_secs(11));
    let second = format!("{}/output", activity_path(&api.take_activity("acts").await));
    append(&api, &second, json!(["second"])).await;
    let page = api.get(OUTPUT).await.json(200);
    let attempts: Vec<_> = page["chunks"].as_array().unwrap().iter().map(|chunk| &chunk["attempt"]).collect();
    assert_eq!((data(&page), attempts), (vec![json!("first"), json!("second")], vec![&json!(1), &json!(2)]));
    api.post(&second.replace("output", "success"), &json!({})).await.json(200);
    api.refused(Ask::post(&second, &json!({ "chunks": ["late"] })), 409, "activity-closed").await;
    api.refused(Ask::post("/v1/activity-tasks/x/output", &json!({})), 400, "bad-token").await;
}

#[tokio::test]
async fn a_repeated_sequence_appends_nothing_twice() {
    let (api, path) = open().await;
    let send = async |sequence: u32, chunks: Value| {
        api.post(&path, &json!({ "chunks": chunks, "sequence": sequence })).await.json(200)["next"].clone()
    };
    assert_eq!(send(0, json!(["a", "b"])).await, 2);
    assert_eq!(send(0, json!(["a", "b"])).await, 2);
    assert_eq!(send(1, json!(["b", "c"])).await, 3);
    // Chunks 3 and 4 never arrived.
    assert_eq!(send(5, json!(["f"])).await, 6);
    let page = api.get(OUTPUT).await.json(200);
    assert_eq!((data(&page), offsets(&page)), (vec![json!("a"), json!("b"), json!("c"), json!("f")], vec![0, 1, 2, 5]));
    api.post(&path.replace("output", "success"), &json!({})).await.json(200);
    let messages = Messages::of(api.call(stream(OUTPUT)).await).rest().await;
    assert_eq!(names(&messages), ["chunk", "chunk", "chunk", "gap", "chunk", "end"]);
    assert_eq!(messages[3].2, json!({ "from": 3, "first": 5 }));
}

#[tokio::test]
async fn an_activity_id_that_is_used_again_has_other_output() {
    let (api, path) = open().await;
    append(&api, &path, json!(["old"])).await;
    // After a failure, the service does not warn that the activity is repeated.
    api.post(&path.replace("output", "failure"), &json!({ "reason": "r" })).await.json(200);
    api.decide(json!([schedule("a", "acts")])).await;
    let page = api.get(OUTPUT).await.json(200);
    assert_eq!((data(&page), page.get("end")), (vec![], None), "the open activity has no output yet");
    let page = api.get(&format!("{OUTPUT}?scheduledEventId=5")).await.json(200);
    assert_eq!((data(&page), &page["end"]["event"]), (vec![json!("old")], &json!("ActivityFailed")));
    api.refused(Ask::get(&OUTPUT.replace("/a/", "/b/")), 404, "output-not-kept").await;
    let other = format!("{}?scheduledEventId=5", OUTPUT.replace("/a/", "/b/"));
    api.refused(Ask::get(&other), 404, "output-not-kept").await;
    api.refused(Ask::get(&OUTPUT.replace("/w/", "/x/")), 404, "unknown-workflow").await;
}

#[tokio::test]
async fn a_response_reports_a_cancel_request() {
    let (api, path) = open().await;
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    api.decide(json!([{ "type": "CancelActivity", "activityId": "a" }])).await;
    assert_eq!(append(&api, &path, json!([])).await["cancelRequested"], true);
}

#[tokio::test]
async fn output_needs_the_permissions_of_runners_and_readers() {
    let (open, path) = open().await;
    let credentials = vec![
        Credential { runners: vec!["default/acts".to_owned()], ..credential("runner") },
        Credential { runners: vec!["default/other".to_owned()], ..credential("other") },
        Credential { readers: one("default"), ..credential("reader") },
        Credential { readers_without_payloads: one("default"), ..credential("bare") },
    ];
    let api = open.with(router_for(Arc::clone(&open.engine), Credentials::new(credentials).unwrap()));
    let ask = async |ask: Ask, who: &str| api.ask(ask.header("authorization", &format!("Bearer {who}"))).await;
    for who in ["other", "reader", "bare"] {
        ask(Ask::post(&path, &json!({ "chunks": ["x"] })), who).await.problem(403, "forbidden");
    }
    ask(Ask::post(&path, &json!({ "chunks": ["x"] })), "runner").await.json(200);
    for who in ["other", "runner"] {
        ask(Ask::get(OUTPUT), who).await.problem(403, "forbidden");
    }
    assert_eq!(data(&ask(Ask::get(OUTPUT), "reader").await.json(200)), [json!("x")]);
    let bare = ask(Ask::get(OUTPUT), "bare").await.json(200);
    assert_eq!((offsets(&bare), bare["chunks"][0].get("data")), (vec![0], None));
    let bare = api.call(stream(OUTPUT).header("authorization", "Bearer bare")).await;
    let message = Messages::of(bare).next().await.unwrap();
    assert_eq!((message.1.as_str(), message.2.get("data")), ("chunk", None));
}

#[tokio::test]
async fn a_restart_loses_output_and_says_so() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let api = Api::over(Arc::clone(&store)).await;
    let path = format!("{}/output", activity_path(&api.activity("w").await));
    let before = api.post(&path, &json!({ "chunks": [0, 1], "sequence": 0 })).await.json(200);
    let stream_id = before["stream"].as_str().unwrap().to_owned();
    api.engine.begin_shutdown();
    let settings = Settings { seed: Some(8), ..Settings::default() };
    let engine = Engine::open(store, Arc::clone(&api.clock) as _, settings).await.unwrap();
    let api = Api::of(Front::from(engine), Arc::clone(&api.clock));
    let known = format!("{OUTPUT}?from=2&stream={stream_id}");
    api.refused(Ask::get(&known), 404, "output-not-kept").await;
    api.refused(stream(OUTPUT).header("last-event-id", &format!("{stream_id}-1")), 404, "output-not-kept").await;
    // The runner counts its chunks, so that readers of the new stream see how many are missing.
    api.post(&path, &json!({ "chunks": [2], "sequence": 2 })).await.json(200);
    let page = api.get(OUTPUT).await.json(200);
    assert_eq!((offsets(&page), &page["first"]), (vec![2], &json!(2)));
    assert_ne!(page["stream"], stream_id.as_str());
    api.refused(Ask::get(&known), 404, "output-not-kept").await;
}

#[tokio::test]
async fn waiting_readers_are_counted_as_waiting_requests() {
    let (api, _) = open().await;
    let limit = Limit { domain: Some("default".to_owned()), watchers: Some(1), ..Limit::default() };
    api.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    let _messages = Messages::of(api.call(stream(OUTPUT)).await);
    let answer = Answer::read(api.call(stream(OUTPUT)).await).await;
    answer.problem(429, "quota-exceeded");
    api.ask(Ask::get(OUTPUT).header("prefer", "wait=5")).await.problem(429, "quota-exceeded");
}

#[tokio::test]
async fn a_reader_that_disconnects_no_longer_waits() {
    let (api, _) = open().await;
    let socket = Socket::of(api, ServerLimits::default()).await;
    let peer = socket.call("GET", OUTPUT, "accept: text/event-stream\r\n", "").await;
    until_watched(&socket.api).await;
    drop(peer);
    let gone = async {
        while !socket.api.engine.render_metrics().contains("baton_watched_runs 0\n") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the reader no longer waits");
}

#[tokio::test]
async fn a_shutdown_ends_a_stream() {
    let (api, path) = open().await;
    append(&api, &path, json!(["x"])).await;
    let messages = Messages::of(api.call(stream(OUTPUT)).await);
    let (messages, ()) = tokio::join!(messages.rest(), async { api.engine.begin_shutdown() });
    assert_eq!(names(&messages), ["chunk"]);
}
