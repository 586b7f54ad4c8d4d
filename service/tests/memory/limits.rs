//! Limits of lists and maps: one of maximum length is accepted, a longer one is refused with the name of its limit.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::Measured;

const START: &str = "/v1/domains/default/workflows";
const SCHEDULES: &str = "/v1/domains/default/schedules";
const DECIDERS: &str = "/v1/domains/default/task-lists/deciders/decider";
const RUNNERS: &str = "/v1/domains/default/task-lists/runners/activity";

fn start(with: &Value) -> Value {
    let mut start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    start.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    start
}

impl Measured {
    fn said(&self, path: &str, body: &Value) -> (u16, Value) {
        let found = self.call("POST", path, &Bytes::from(body.to_string()));
        (found.status, serde_json::from_str(&found.text).unwrap_or(Value::Null))
    }

    /// Whether `body` is refused because the list of a field has more than `max` entries.
    fn is_too_long(&self, path: &str, body: &Value, field: &str, max: usize) -> bool {
        let (_, answer) = self.said(path, body);
        assert_ne!(answer["code"], "bad-json", "{answer}");
        let detail = answer["detail"].as_str().unwrap_or_default();
        // Limits of a domain have a separate text.
        let names_limit = detail.contains(&format!("at most {max} are allowed")) || answer["code"] == "limit-exceeded";
        if names_limit && answer["code"] == "invalid-field" {
            assert_eq!(answer["field"], field, "{answer}");
        }
        names_limit
    }

    /// Checks a list, which `body` makes with the given number of entries, against its limit.
    fn hold(&self, path: &str, field: &str, max: usize, body: impl Fn(usize) -> Value) {
        for more in [max + 1, max + 2, 3 * max] {
            assert!(self.is_too_long(path, &body(more), field, max), "{field} with {more} of {max}");
        }
        // The accepted request comes last, because it completes the turn.
        assert!(!self.is_too_long(path, &body(max), field, max), "{field} with {max}");
    }

    /// Path that completes a turn of a new run.
    fn turn(&self) -> String {
        assert_eq!(self.said(START, &start(&json!({}))).0, 201);
        let (_, turn) = self.said(&format!("{DECIDERS}/poll"), &json!({}));
        format!("/v1/decider-tasks/{}/complete", turn["token"].as_str().unwrap())
    }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("n{at}")).collect()
}

fn tags(count: usize) -> Map<String, Value> {
    texts(count).into_iter().map(|name| (name, json!(""))).collect()
}

#[test]
fn lists_of_a_start_are_limited() {
    let service = Measured::open();
    service.hold(START, "tags", 5, |count| start(&json!({ "tags": texts(count) })));
    let retry = |count| start(&json!({ "retry": { "nonRetryableReasons": texts(count) } }));
    service.hold(START, "retry.nonRetryableReasons", 32, retry);
}

#[test]
fn tags_of_a_domain_are_limited() {
    let service = Measured::open();
    service.hold("/v1/domains", "tags", 50, |count| json!({ "name": "d", "tags": tags(count) }));
    service.hold("/v1/domains/default/tags", "add", 50, |count| json!({ "add": tags(count) }));
    service.hold("/v1/domains/default/tags", "remove", 50, |count| json!({ "remove": texts(count) }));
    // A removal in the same request must not hide that too many tags are added.
    let both = |count| json!({ "add": tags(count), "remove": texts(20) });
    service.hold("/v1/domains/default/tags", "add", 50, both);
}

#[test]
fn lists_of_a_schedule_are_limited() {
    let service = Measured::open();
    let schedule =
        |spec: Value| json!({ "scheduleId": "s", "schedule": { "spec": spec, "action": start(&json!({})) } });
    service.hold(SCHEDULES, "spec", 100, |count| schedule(json!({ "cron": vec!["0 9 * * *"; count] })));
    service.hold(SCHEDULES, "spec", 100, |count| schedule(json!({ "calendars": vec![json!({}); count] })));
    let intervals = |count| schedule(json!({ "intervals": vec![json!({ "every": 60 }); count] }));
    service.hold(SCHEDULES, "spec", 100, intervals);
    let exclude = |count| schedule(json!({ "cron": ["0 9 * * *"], "exclude": vec![json!({ "hour": "9" }); count] }));
    service.hold(SCHEDULES, "spec", 100, exclude);
}

#[test]
fn lists_of_an_exchange_are_limited() {
    let service = Measured::open();
    for list in [DECIDERS, RUNNERS] {
        let path = format!("{list}/exchange");
        service.hold(&path, "answers", 256, |count| json!({ "answers": vec![json!({ "token": "t" }); count] }));
        let slots = |count| json!({ "slots": (0..count).collect::<Vec<_>>(), "pollId": "p", "attempt": 2 });
        service.hold(&path, "slots", 256, slots);
    }
}

#[test]
fn lists_of_a_turns_answer_are_limited() {
    type Body = fn(usize) -> Value;
    let markers: Body = |count| json!({ "decisions": vec![json!({ "type": "RecordMarker", "name": "m" }); count] });
    let awaiting: Body = |count| json!({ "awaiting": texts(count) });
    let queries: Body = |count| json!({ "queryResults": vec![json!({ "id": "q" }); count] });
    let updates: Body = |count| json!({ "updateResults": vec![json!({ "id": "u", "later": true }); count] });
    let child: Body = |count| {
        let child = json!({ "type": "StartChild", "workflowId": "c", "workflowType": "t", "tags": texts(count) });
        json!({ "decisions": [child] })
    };
    let successor: Body = |count| json!({ "decisions": [{ "type": "ContinueAsNew", "tags": texts(count) }] });
    let reasons: Body = |count| {
        let retry = json!({ "nonRetryableReasons": texts(count) });
        let activity = json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "A", "retry": retry });
        json!({ "decisions": [activity] })
    };
    let cases: [(&str, usize, Body); 7] = [
        ("decisions", 2_500, markers),
        ("awaiting", 32, awaiting),
        ("queryResults", 1_000, queries),
        ("updateResults", 1_064, updates),
        ("decisions[0].tags", 5, child),
        ("decisions[0].tags", 5, successor),
        ("decisions[0].retry.nonRetryableReasons", 32, reasons),
    ];
    for (field, max, body) in cases {
        let service = Measured::open();
        service.hold(&service.turn(), field, max, body);
    }
}
