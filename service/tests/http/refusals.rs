//! Every refusal: its status, code and problem document, and that nothing was recorded.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use engine::Clock;
use futures_util::{StreamExt, stream};
use history::limits::{CONTEXT_BYTES_MAX, NAME_CHARS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX, TYPE_CHARS_MAX};
use serde_json::{Value, json};
use store::Store;
use store::memory::Memory;

use crate::support::{Api, Ask, COUNT, DECIDERS, WORKFLOWS, activity_path, schedule, turn_path};

const UNKNOWN_RUN: &str = "00000000-0000-7000-8000-000000000000";

fn signal(id: &str) -> String {
    format!("{WORKFLOWS}/{id}/signals/s")
}

/// A JSON string of this many bytes.
fn text_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

fn field_of(problem: &Value) -> &str {
    problem["field"].as_str().unwrap_or_else(|| panic!("no field in {problem}"))
}

#[tokio::test]
async fn every_call_refuses_an_unknown_domain() {
    let api = Api::open().await;
    api.start("w").await;
    let domain = "/v1/domains/nowhere";
    for path in ["", "/workflows", "/workflow-count", "/workflows/w", "/workflows/w/history", "/workflows/w/result"] {
        api.refused(Ask::get(&format!("{domain}{path}")), 404, "unknown-domain").await;
    }
    let start = json!({ "workflowId": "w", "workflowType": "t" });
    api.refused(Ask::post(&format!("{domain}/workflows"), &start), 404, "unknown-domain").await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "retention": 1 });
    api.refused(Ask::post(&format!("{domain}/workflows"), &start), 404, "unknown-domain").await;
    for path in [
        "workflows/w/signals/s",
        "workflows/w/cancel",
        "workflows/w/terminate",
        "task-lists/l/decider/poll",
        "task-lists/l/activity/poll",
    ] {
        let problem = api.refused(Ask::post(&format!("{domain}/{path}"), &json!({})), 404, "unknown-domain").await;
        assert!(problem["detail"].as_str().unwrap().contains("nowhere"));
    }
}

#[tokio::test]
async fn unknown_workflows_and_unknown_runs_have_separate_codes() {
    let api = Api::open().await;
    api.start("w").await;
    let run = format!("?runId={UNKNOWN_RUN}");
    for path in ["", "/history", "/result"] {
        api.refused(Ask::get(&format!("{WORKFLOWS}/nobody{path}")), 404, "unknown-workflow").await;
        api.refused(Ask::get(&format!("{WORKFLOWS}/nobody{path}{run}")), 404, "unknown-workflow").await;
        api.refused(Ask::get(&format!("{WORKFLOWS}/w{path}{run}")), 404, "unknown-run").await;
    }
    for path in ["/signals/s", "/cancel", "/terminate"] {
        let post = |tail: String| Ask::post(&format!("{WORKFLOWS}/{tail}"), &json!({}));
        api.refused(post(format!("nobody{path}")), 404, "unknown-workflow").await;
        api.refused(post(format!("nobody{path}{run}")), 404, "unknown-workflow").await;
        api.refused(post(format!("w{path}{run}")), 404, "unknown-run").await;
    }
    api.refused(Ask::get(&format!("{WORKFLOWS}/w?runId=7")), 400, "bad-query").await;
}

#[tokio::test]
async fn a_domain_is_created_once_and_its_fields_are_checked() {
    let api = Api::open().await;
    let create = |body: Value| Ask::post("/v1/domains", &body);
    api.refused(create(json!({ "name": "default" })), 409, "domain-exists").await;
    assert_eq!(field_of(&api.refused(create(json!({ "name": "" })), 400, "invalid-field").await), "name");
    api.refused(create(json!({ "name": "a\nb" })), 400, "invalid-field").await;
    let long = json!({ "name": "x".repeat(NAME_CHARS_MAX + 1) });
    let problem = api.refused(create(long), 413, "too-large").await;
    assert_eq!((&problem["field"], &problem["found"], &problem["max"]), (&json!("name"), &json!(257), &json!(256)));
    api.post("/v1/domains", &json!({ "name": "wordy", "description": "x".repeat(4_096) })).await.json(201);
    let wordy = json!({ "name": "a", "description": "x".repeat(4_097) });
    assert_eq!(field_of(&api.refused(create(wordy), 413, "too-large").await), "description");
    let long = json!({ "name": "a", "retention": "P4000D" });
    assert_eq!(field_of(&api.refused(create(long), 400, "invalid-field").await), "retention");
    for retention in [json!("soon"), json!(-1), json!(true), json!("")] {
        api.refused(create(json!({ "name": "a", "retention": retention })), 400, "bad-json").await;
    }
}

#[tokio::test]
async fn invalid_json_is_refused_with_the_error() {
    let api = Api::open().await;
    api.start("w").await;
    let cases = [
        ("{", "EOF"),
        ("", "missing field `workflowId`"),
        ("null", "expected an object"),
        (r#"["a", "t"]"#, "expected an object"),
        ("{} {}", "missing field"),
        (r#"{"workflowId":"a","workflowType":"t"} x"#, "trailing characters"),
        (r#"{"workflowId":"a"}"#, "missing field `workflowType`"),
        (r#"{"workflowId":"a","workflowType":"t","workflowID":"b"}"#, "unknown field `workflowID`"),
        (r#"{"workflowId":"a","workflowType":"t","workflowId":"b"}"#, "duplicate field `workflowId`"),
        (r#"{"workflowId":7,"workflowType":"t"}"#, "invalid type: integer `7`"),
        (r#"{"workflowId":"a","workflowType":"t","input":}"#, "expected value"),
        (r#"{"workflowId":"a","workflowType":"t","input":1,"input":2}"#, "duplicate field `input`"),
        (r#"{"workflowId":"a","workflowType":"t","tags":"x"}"#, "invalid type"),
        (r#"{"workflowId":"a","workflowType":"t","executionTimeout":"a day"}"#, ""),
        (r#"{"workflowId":"a","workflowType":"t","executionTimeout":1e400}"#, ""),
        (r#"{"workflowId":"a","workflowType":"t","reusePolicy":"maybe"}"#, "unknown variant `maybe`"),
    ];
    for (body, expected) in cases {
        let problem = api.refused(Ask::text(WORKFLOWS, body), 400, "bad-json").await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{body}: {detail}");
    }
    let deep = format!(r#"{{"identity":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    api.refused(Ask::text(&signal("w"), &deep), 400, "bad-json").await;
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    for bytes in
        [&b"{\"input\":\"\xff\"}"[..], b"{\"input\":\"\xc0\xaf\"}", b"{\"input\":\"\xed\xa0\x80\"}", b"\xff\xfe{\0}\0"]
    {
        let ask = Ask::text(&signal("w"), "").body(bytes.to_vec());
        api.refused(ask, 400, "bad-json").await;
    }
    for path in [format!("{WORKFLOWS}/%FF/signals/s"), format!("{WORKFLOWS}/w/signals/%C0%AF")] {
        api.refused(Ask::post(&path, &json!({})), 400, "bad-path").await;
    }
    let nul = api.refused(Ask::post(&format!("{WORKFLOWS}/w/signals/%00"), &json!({})), 400, "invalid-field").await;
    assert!(field_of(&nul).contains("ame"), "{nul}");
}

#[tokio::test]
async fn an_encoded_body_is_refused_with_its_encoding() {
    let api = Api::open().await;
    api.start("w").await;
    let before = api.everything().await;
    for encodings in
        [&["gzip"][..], &["GZIP"], &["br"], &["identity, deflate"], &["identity", "zstd"], &["gzip, br"], &["amz-1.0"]]
    {
        let named = encodings.last().unwrap().rsplit(", ").last().unwrap().replace("identity", "deflate");
        for path in [signal("w"), DECIDERS.to_owned(), format!("{WORKFLOWS}/w/cancel")] {
            let ask = Ask::text(&path, "\u{1f}\u{8b}");
            let ask = encodings.iter().fold(ask, |ask, encoding| ask.header("content-encoding", encoding));
            let problem = api.refused(ask, 415, "unsupported-media-type").await;
            assert!(problem["detail"].as_str().unwrap().contains(&named), "{encodings:?}: {problem}");
        }
    }
    assert_eq!(api.everything().await, before);
    for plain in ["identity", "Identity", "identity, IDENTITY", "", ","] {
        api.ask(Ask::post(&signal("w"), &json!({})).header("content-encoding", plain)).await.json(202);
    }
}

#[tokio::test]
async fn a_body_of_another_media_type_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    for found in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/", ";"] {
        let ask = Ask::new("POST", &signal("w")).header("content-type", found).body("{}");
        let problem = api.refused(ask, 415, "unsupported-media-type").await;
        assert!(problem["detail"].as_str().unwrap().contains(found));
    }
    api.refused(Ask::new("POST", &signal("w")).body("{}"), 415, "unsupported-media-type").await;
    for taken in ["application/json; charset=utf-8", "Application/JSON"] {
        let ask = Ask::new("POST", &signal("w")).header("content-type", taken).body("{}");
        api.ask(ask).await.json(202);
    }
}

#[tokio::test]
async fn a_payload_over_its_limit_is_refused() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    let (fits, over) = (text_of(PAYLOAD_BYTES_MAX), text_of(PAYLOAD_BYTES_MAX + 1));
    let activity = activity_path(&task);
    let cases = [
        (WORKFLOWS.to_owned(), r#""workflowId":"new","workflowType":"t","input":"#, "input"),
        (signal("w"), r#""input":"#, "input"),
        (format!("{activity}/heartbeat"), r#""details":"#, "details"),
        (format!("{activity}/failure"), r#""reason":"r","details":"#, "details"),
        (format!("{activity}/success"), r#""result":"#, "result"),
        (format!("{WORKFLOWS}/new/terminate"), r#""details":"#, "details"),
    ];
    for (path, before, field) in &cases {
        let problem = api.refused(Ask::text(path, &format!("{{{before}{over}}}")), 413, "too-large").await;
        assert_eq!((&problem["field"], &problem["found"]), (&json!(field), &json!(PAYLOAD_BYTES_MAX + 1)));
        assert_eq!(problem["max"], PAYLOAD_BYTES_MAX);
        if !path.ends_with("/failure") {
            let answer = api.ask(Ask::text(path, &format!("{{{before}{fits}}}"))).await;
            assert!(answer.status.is_success(), "{path}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn payloads_and_context_of_a_turn_are_limited() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    let over = text_of(PAYLOAD_BYTES_MAX + 1);
    let decision = |head: &str| format!(r#"{{"decisions":[{{"type":"RecordMarker","name":"n"}},{{{head}:{over}}}]}}"#);
    for (head, field) in [
        (r#""type":"ScheduleActivity","activityId":"a","activityType":"t","input""#, "decisions[1].input"),
        (r#""type":"RecordMarker","name":"n","details""#, "decisions[1].details"),
        (r#""type":"SucceedWorkflow","result""#, "decisions[1].result"),
        (r#""type":"FailWorkflow","reason":"r","details""#, "decisions[1].details"),
        (r#""type":"CancelWorkflow","details""#, "decisions[1].details"),
    ] {
        assert_eq!(field_of(&api.refused(Ask::text(&path, &decision(head)), 413, "too-large").await), field);
    }
    let context = |bytes| format!(r#"{{"context":{}}}"#, text_of(bytes));
    let problem = api.refused(Ask::text(&path, &context(CONTEXT_BYTES_MAX + 1)), 413, "too-large").await;
    assert_eq!((field_of(&problem), &problem["max"]), ("context", &json!(CONTEXT_BYTES_MAX)));
    api.ask(Ask::text(&path, &context(CONTEXT_BYTES_MAX))).await.json(200);
}

#[tokio::test]
async fn a_payload_nested_beyond_64_levels_is_refused() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let (fits, over) = (nested(PAYLOAD_DEPTH_MAX), nested(PAYLOAD_DEPTH_MAX + 1));
    let (activity, signal) = (activity_path(&task), signal("w"));
    let cases = [
        (WORKFLOWS.to_owned(), r#"{"workflowId":"new","workflowType":"t","input":"#, "}"),
        (signal, r#"{"input":"#, "}"),
        (format!("{activity}/heartbeat"), r#"{"details":"#, "}"),
        (format!("{activity}/failure"), r#"{"reason":"r","details":"#, "}"),
        (format!("{activity}/success"), r#"{"result":"#, "}"),
    ];
    let check = async |path: &str, before: &str, after: &str| {
        let problem = api.refused(Ask::text(path, &format!("{before}{over}{after}")), 400, "bad-json").await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("nested 65 levels deep, at most 64 are allowed"), "{path}: {detail}");
        if !path.ends_with("/failure") {
            let answer = api.ask(Ask::text(path, &format!("{before}{fits}{after}"))).await;
            assert!(answer.status.is_success(), "{path}: {}", answer.text);
        }
    };
    for (path, before, after) in &cases {
        check(path, before, after).await;
    }
    // The response is read by an ordinary parser, which has its own limit of depth.
    let turn = api.turn().await;
    assert_eq!(turn["events"].as_array().unwrap().last().unwrap()["type"], "DeciderStarted", "{turn}");
    let complete = format!("{}/complete", turn_path(&turn));
    let context = "[".repeat(PAYLOAD_DEPTH_MAX + 1) + &"]".repeat(PAYLOAD_DEPTH_MAX + 1);
    api.refused(Ask::text(&complete, &format!(r#"{{"context":{context}}}"#)), 400, "bad-json").await;
    check(&complete, r#"{"decisions":[{"type":"RecordMarker","name":"n","details":"#, "}]}").await;
}

#[tokio::test]
async fn a_body_over_1_mib_or_without_end_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let max = 1024 * 1024;
    let fits = format!(r#"{{"input":1{}}}"#, " ".repeat(max - 11));
    assert_eq!(fits.len(), max);
    api.ask(Ask::text(&signal("w"), &fits)).await.json(202);
    let problem = api.refused(Ask::text(&signal("w"), &format!("{fits} ")), 413, "too-large").await;
    assert_eq!(problem["max"], max);
    let endless = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b' '; 4096])));
    let ask = Ask::text(&signal("w"), "").body(Body::from_stream(endless));
    api.refused(ask, 413, "too-large").await;
}

#[tokio::test]
async fn the_answer_to_a_turn_may_have_8_mib() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    let max = 8 * 1024 * 1024;
    let fits = format!(r#"{{"decisions":[]{}}}"#, " ".repeat(max - 16));
    assert_eq!(fits.len(), max);
    let problem = api.refused(Ask::text(&path, &format!("{fits} ")), 413, "too-large").await;
    assert_eq!(problem["max"], max);
    api.ask(Ask::text(&path, &fits)).await.json(200);
}

#[tokio::test]
async fn a_poll_body_over_64_kib_is_refused() {
    let api = Api::open().await;
    let max = 64 * 1024;
    let fits = format!("{{}}{}", " ".repeat(max - 2));
    let poll = |body: &str| Ask::text(DECIDERS, body).header("prefer", "wait=0");
    assert_eq!(api.ask(poll(&fits)).await.status.as_u16(), 204);
    let problem = api.refused(poll(&format!("{fits} ")), 413, "too-large").await;
    assert_eq!(problem["max"], max);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"{\"inp")) });
    let ask = Ask::text(&signal("w"), "").body(Body::from_stream(first.chain(stream::pending())));
    // The full time limit has to pass, and `refused` waits for less.
    let before = api.everything().await;
    let problem = api.ask_for(ask, std::time::Duration::from_secs(60)).await.problem(408, "request-timeout");
    assert_eq!(problem["retryable"], true);
    assert_eq!(api.everything().await, before);
}

#[tokio::test]
async fn an_incomplete_body_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let broken = stream::iter([Ok(Bytes::from_static(b"{}")), Err(std::io::Error::other("gone"))]);
    api.refused(Ask::text(&signal("w"), "").body(Body::from_stream(broken)), 400, "bad-json").await;
}

#[tokio::test]
async fn unknown_paths_are_refused() {
    let api = Api::open().await;
    for path in ["/v1", "/v2/domains", "/v1/domains/", "/v1/decider-tasks/t", "/favicon.ico"] {
        api.refused(Ask::get(path), 404, "unknown-path").await;
        api.refused(Ask::post(path, &json!({})), 404, "unknown-path").await;
    }
}

#[tokio::test]
async fn names_are_checked_in_every_place() {
    let api = Api::open().await;
    api.start("w").await;
    let long = "x".repeat(NAME_CHARS_MAX + 1);
    let start = |field: &str, value: Value| {
        let mut body = json!({ "workflowId": "new", "workflowType": "t" });
        body[field] = value;
        Ask::post(WORKFLOWS, &body)
    };
    for field in ["workflowId", "workflowType", "taskList", "identity"] {
        let long = if field == "workflowType" { "x".repeat(TYPE_CHARS_MAX + 1) } else { long.clone() };
        assert_eq!(field_of(&api.refused(start(field, json!("")), 400, "invalid-field").await), field);
        assert_eq!(field_of(&api.refused(start(field, json!("a\u{7}")), 400, "invalid-field").await), field);
        assert_eq!(field_of(&api.refused(start(field, json!(long)), 413, "too-large").await), field);
    }
    let six = json!(["1", "2", "3", "4", "5", "6"]);
    assert_eq!(field_of(&api.refused(start("tags", six), 400, "invalid-field").await), "tags");
    assert_eq!(field_of(&api.refused(start("tags", json!(["1", ""])), 400, "invalid-field").await), "tags[1]");
    for field in ["executionTimeout", "deciderStartToClose", "deciderScheduleToStart", "retention"] {
        assert_eq!(field_of(&api.refused(start(field, json!("P4000D")), 400, "invalid-field").await), field);
    }
    api.refused(start("executionTimeout", json!(0)), 400, "invalid-field").await;
    api.refused(Ask::post(&format!("{WORKFLOWS}/w/signals/{long}"), &json!({})), 413, "too-large").await;
    let reason = json!({ "reason": long });
    api.refused(Ask::post(&format!("{WORKFLOWS}/w/cancel"), &reason), 413, "too-large").await;
    api.refused(Ask::post(&format!("{WORKFLOWS}/w/terminate"), &reason), 413, "too-large").await;
    let list = |name: &str| Ask::post(&format!("/v1/domains/default/task-lists/{name}/activity/poll"), &json!({}));
    api.refused(list(&long), 413, "too-large").await;
    api.refused(list("%0A"), 400, "invalid-field").await;
    api.refused(Ask::post(DECIDERS, &json!({ "identity": "" })), 400, "invalid-field").await;
}

#[tokio::test]
async fn a_foreign_or_changed_token_is_refused() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&signal("w"), &json!({})).await.json(202);
    let turn = api.turn().await;
    let (turn_token, activity_token) = (turn["token"].as_str().unwrap(), task["token"].as_str().unwrap());
    let mut changed = turn_token.to_owned();
    let last = if changed.pop() == Some('A') { 'Q' } else { 'A' };
    changed.push(last);
    for token in ["x", "%FF", &"A".repeat(3_000), &changed, activity_token] {
        let code = if token == "%FF" { "bad-path" } else { "bad-token" };
        api.refused(Ask::get(&format!("/v1/decider-tasks/{token}/history")), 400, code).await;
        api.refused(Ask::post(&format!("/v1/decider-tasks/{token}/complete"), &json!({})), 400, code).await;
        api.refused(Ask::post(&format!("/v1/decider-tasks/{token}/fail"), &json!({})), 400, code).await;
    }
    // Each kind of task has separate tokens: a turn's token completes no activity.
    for token in ["x", turn_token] {
        for (answer, body) in [
            ("success", json!({})),
            ("failure", json!({ "reason": "r" })),
            ("canceled", json!({})),
            ("heartbeat", json!({})),
        ] {
            api.refused(Ask::post(&format!("/v1/activity-tasks/{token}/{answer}"), &body), 400, "bad-token").await;
        }
    }
}

#[tokio::test]
async fn a_turn_is_completed_once() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let complete = format!("{}/complete", turn_path(&turn));
    let answer = json!({ "decisions": [schedule("a", "acts")] });
    api.post(&complete, &answer).await.json(200);
    api.refused(Ask::post(&complete, &answer), 409, "turn-completed").await;
    // Only polls and exchanges take tasks.
    api.refused(Ask::post(&complete, &json!({ "next": { "wait": 0 } })), 400, "bad-json").await;
    api.refused(Ask::post(&format!("{}/fail", turn_path(&turn)), &json!({})), 409, "turn-completed").await;
}

#[tokio::test]
async fn a_repeated_last_answer_is_known_after_the_next_start() {
    let api = Api::open().await;
    api.start("w").await;
    let complete = format!("{}/complete", turn_path(&api.turn().await));
    let answer = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
    api.post(&complete, &answer).await.json(200);
    api.refused(Ask::post(&complete, &answer), 409, "turn-completed").await;
    let again = json!({ "workflowId": "w", "workflowType": "t", "reusePolicy": "allow-duplicate" });
    api.post(WORKFLOWS, &again).await.json(201);
    api.refused(Ask::post(&complete, &answer), 409, "turn-completed").await;
}

#[tokio::test]
async fn tokens_of_an_expired_run_are_lost_tasks() {
    let store = Arc::new(Memory::new());
    let api = Api::over(Arc::clone(&store) as _).await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "retention": 1 });
    let mut forgotten = Vec::new();
    for _ in 0..2 {
        api.post(WORKFLOWS, &start).await.json(201);
        api.decide(json!([schedule("a", "acts")])).await;
        let activity = activity_path(&api.take_activity("acts").await);
        api.post(&signal("w"), &json!({})).await.json(202);
        let complete = format!("{}/complete", turn_path(&api.turn().await));
        forgotten.push((complete, activity));
        api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    }
    api.clock.advance(history::Duration::from_secs(2));
    store.expire(api.clock.now().as_millis(), 100).await.unwrap();
    api.get(&format!("{WORKFLOWS}/w")).await.problem(404, "unknown-workflow");
    for (complete, activity) in forgotten {
        api.refused(Ask::post(&complete, &json!({})), 409, "turn-lost").await;
        api.refused(Ask::post(&format!("{activity}/success"), &json!({})), 409, "activity-closed").await;
        api.refused(Ask::post(&format!("{activity}/heartbeat"), &json!({})), 409, "activity-closed").await;
    }
}

#[tokio::test]
async fn an_answer_repeated_after_a_later_turn_is_lost() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let complete = format!("{}/complete", turn_path(&turn));
    api.post(&complete, &json!({})).await.json(200);
    api.post(&signal("w"), &json!({})).await.json(202);
    api.decide(json!([])).await;
    let problem = api.refused(Ask::post(&complete, &json!({})), 409, "turn-lost").await;
    assert_eq!((&problem["cause"], &problem["after"]), (&json!("completed"), &json!("PT0S")));
    // The history shows whether the answer was recorded.
    let history = api.get(&format!("{WORKFLOWS}/w/history")).await.json(200);
    let is_it =
        |event: &&Value| event["type"] == "DeciderCompleted" && event["startedEventId"] == turn["startedEventId"];
    assert_eq!(history["events"].as_array().unwrap().iter().filter(is_it).count(), 1);
}

#[tokio::test]
async fn a_lost_turn_cannot_be_completed() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    api.clock.advance(history::Duration::from_secs(31));
    let again = api.turn().await;
    assert_eq!(again["attempt"], 2);
    for answer in ["complete", "fail"] {
        let ask = Ask::post(&format!("{}/{answer}", turn_path(&turn)), &json!({}));
        let problem = api.refused(ask, 409, "turn-lost").await;
        assert_eq!((&problem["cause"], &problem["after"]), (&json!("timed-out"), &json!("PT31S")));
        assert_eq!(problem["detail"], "you no longer hold this turn: it timed out after 31s");
        assert!(problem["advice"].as_str().unwrap().contains("deciderStartToClose"), "{problem}");
    }
    api.post(&format!("{}/fail", turn_path(&again)), &json!({ "reason": "no-disk" })).await.json(200);
    let path = format!("{}/complete", turn_path(&again));
    let problem = api.refused(Ask::post(&path, &json!({})), 409, "turn-lost").await;
    assert_eq!((&problem["cause"], &problem["after"]), (&json!("failed"), &json!("PT0S")));
    assert_eq!(problem["detail"], "you no longer hold this turn: it failed after 0s: no-disk");
}

#[tokio::test]
async fn an_activity_is_completed_once() {
    let api = Api::open().await;
    let activity = activity_path(&api.activity("w").await);
    let asks = || {
        [
            ("success", json!({})),
            ("failure", json!({ "reason": "r" })),
            ("canceled", json!({})),
            ("heartbeat", json!({})),
        ]
        .map(|(answer, body)| Ask::post(&format!("{activity}/{answer}"), &body))
    };
    api.refused(Ask::post(&format!("{activity}/canceled"), &json!({})), 409, "cancel-not-requested").await;
    api.refused(Ask::post(&format!("{activity}/failure"), &json!({ "reason": "" })), 400, "invalid-field").await;
    api.refused(Ask::post(&format!("{activity}/failure"), &json!({})), 400, "bad-json").await;
    api.post(&format!("{activity}/success"), &json!({})).await.json(200);
    for ask in asks() {
        api.refused(ask, 409, "activity-closed").await;
    }
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    for (ask, code) in asks().into_iter().zip(["run-closed"; 4]) {
        api.refused(ask, 409, code).await;
    }
}

#[tokio::test]
async fn nothing_is_recorded_in_a_closed_run() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&signal("w"), &json!({})).await.json(202);
    let turn = api.turn().await;
    let run_id = api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200)["runId"].clone();
    let closed = [
        signal("w"),
        format!("{}?runId={}", signal("w"), run_id.as_str().unwrap()),
        format!("{WORKFLOWS}/w/cancel"),
        format!("{WORKFLOWS}/w/terminate"),
        format!("{}/complete", turn_path(&turn)),
        format!("{}/fail", turn_path(&turn)),
        format!("{}/success", activity_path(&task)),
        format!("{}/heartbeat", activity_path(&task)),
    ];
    for path in &closed {
        let problem = api.refused(Ask::post(path, &json!({})), 409, "run-closed").await;
        assert_eq!(problem["runStatus"], "terminated");
    }
    // The next run has no effect on tokens of this one.
    api.start("w").await;
    for path in closed.iter().skip(4) {
        let problem = api.refused(Ask::post(path, &json!({})), 409, "run-closed").await;
        assert_eq!(problem["runStatus"], "terminated");
    }
    let path = format!("{}?runId={}", signal("w"), run_id.as_str().unwrap());
    let problem = api.refused(Ask::post(&path, &json!({})), 409, "run-not-current").await;
    let current = api.get(&format!("{WORKFLOWS}/w")).await.json(200)["runId"].clone();
    assert_eq!(problem["currentRunId"], current);
}

#[tokio::test]
async fn a_workflow_id_is_open_once_and_reused_by_policy() {
    let api = Api::open().await;
    let start = |policy: Option<&str>| {
        let mut body = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
        if let Some(policy) = policy {
            body["reusePolicy"] = json!(policy);
        }
        Ask::post(WORKFLOWS, &body)
    };
    let mut run_id = api.succeeded("w").await;
    for (policy, refused_after_success) in
        [(None, true), (Some("allow-duplicate-failed-only"), true), (Some("reject-duplicate"), true)]
    {
        assert!(refused_after_success);
        let problem = api.refused(start(policy), 409, "workflow-id-reuse-refused").await;
        assert_eq!((&problem["runId"], &problem["runStatus"]), (&json!(run_id), &json!("success")));
    }
    let again = api.ask(start(Some("allow-duplicate"))).await.json(201)["runId"].clone();
    assert_ne!(again, json!(run_id));
    let problem = api.refused(start(Some("allow-duplicate")), 409, "workflow-already-open").await;
    assert_eq!(problem["runId"], again);
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    api.refused(start(Some("reject-duplicate")), 409, "workflow-id-reuse-refused").await;
    run_id = api.ask(start(None)).await.json(201)["runId"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("{WORKFLOWS}/w")).await.json(200)["runId"], json!(run_id));
    assert_eq!(api.get(COUNT).await.json(200)["count"], 3);
}

#[tokio::test]
async fn a_request_repeated_with_its_key_gets_the_first_response() {
    let api = Api::open().await;
    let start = |key: &str| {
        Ask::post(WORKFLOWS, &json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" }))
            .header("idempotency-key", key)
    };
    let first = api.ask(start("start-1")).await.json(201);
    let history = api.everything().await;
    assert_eq!(api.ask(start("start-1")).await.json(200), first);
    assert_eq!(api.everything().await, history);
    api.refused(start("start-2"), 409, "workflow-already-open").await;
    for (path, status) in [("signals/s", 202), ("cancel", 202), ("terminate", 200)] {
        let ask = || Ask::post(&format!("{WORKFLOWS}/w/{path}"), &json!({})).header("idempotency-key", path);
        let told = api.ask(ask()).await.json(status);
        let history = api.everything().await;
        assert_eq!(api.ask(ask()).await.json(status), told, "{path}");
        assert_eq!(api.everything().await, history, "{path}");
    }
    assert_eq!(api.ask(start("start-1")).await.json(200), first, "also after the run has closed");
}

#[tokio::test]
async fn an_empty_overlong_or_invisible_key_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let ask = |key: &str| Ask::post(&signal("w"), &json!({})).header("idempotency-key", key);
    for key in ["", &"k".repeat(256), "a b", "é"] {
        api.refused(ask(key), 400, "bad-header").await;
    }
    api.ask(ask(&"k".repeat(255))).await.json(202);
    let start = Ask::post(WORKFLOWS, &json!({ "workflowId": "x", "workflowType": "t" })).header("idempotency-key", "");
    api.refused(start, 400, "bad-header").await;
}

#[tokio::test]
async fn if_match_accepts_a_signal_only_at_its_version() {
    let api = Api::open().await;
    api.start("w").await;
    let etag = api.get(&format!("{WORKFLOWS}/w")).await.header("etag").to_owned();
    let ask = |etag: &str| Ask::post(&signal("w"), &json!({})).header("if-match", etag);
    api.ask(ask(&etag)).await.json(202);
    let problem = api.refused(ask(&etag), 412, "version-mismatch").await;
    assert!(problem["expected"].as_u64() < problem["found"].as_u64(), "{problem}");
    api.ask(ask("*")).await.json(202);
    let etag = api.get(&format!("{WORKFLOWS}/w")).await.header("etag").to_owned();
    api.ask(ask(&etag)).await.json(202);
    for malformed in ["1", "\"1\"", "\"x-1\"", &etag.replace('"', ""), &format!("W/{etag}"), "\"\"", "", "é"] {
        api.refused(ask(malformed), 400, "bad-header").await;
    }
    let other = format!("\"{UNKNOWN_RUN}-1\"");
    let problem = api.refused(ask(&other), 412, "version-mismatch").await;
    assert!(problem["detail"].as_str().unwrap().contains(UNKNOWN_RUN));
    api.refused(Ask::post(&signal("nobody"), &json!({})).header("if-match", &etag), 404, "unknown-workflow").await;
}

#[tokio::test]
async fn an_invalid_wait_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    for wait in ["wait=-1", "wait=soon", "wait=", "wait=NaN", "respond-async, wait=x", "é"] {
        for path in [format!("{WORKFLOWS}/w/history"), format!("{WORKFLOWS}/w/result")] {
            api.refused(Ask::get(&path).header("prefer", wait), 400, "bad-header").await;
        }
        api.refused(Ask::post(DECIDERS, &json!({})).header("prefer", wait), 400, "bad-header").await;
    }
    api.ask(Ask::get(&format!("{WORKFLOWS}/w/history")).header("prefer", "return=minimal, wait=1e9")).await.json(200);
}

#[tokio::test]
async fn an_invalid_query_parameter_is_refused() {
    let api = Api::open().await;
    for query in [
        "status=done",
        "state=open",
        "limit=x",
        "limit=-1",
        "startedFrom=yesterday",
        "page=%21",
        "runId=1",
        "limit=1&limit=2",
    ] {
        api.refused(Ask::get(&format!("{WORKFLOWS}?{query}")), 400, "bad-query").await;
    }
    api.refused(Ask::get(&format!("{WORKFLOWS}?page=AAAA")), 400, "bad-page").await;
    api.start("w").await;
    for query in ["after=x", "after=-1", "reverse=yes", "limit=1.5", "from=1", "runId=w"] {
        api.refused(Ask::get(&format!("{WORKFLOWS}/w/history?{query}")), 400, "bad-query").await;
    }
    for query in ["a=1", "runid=x"] {
        api.refused(Ask::post(&format!("{}?{query}", signal("w")), &json!({})), 400, "bad-query").await;
    }
}
