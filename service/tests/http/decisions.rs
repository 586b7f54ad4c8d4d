//! Invalid decisions: the problem names the field, and nothing of the turn is recorded.

use std::collections::{BTreeMap, BTreeSet};

use history::limits::{
    CONTROL_BYTES_MAX, NAME_CHARS_MAX, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX, TAGS_MAX, TYPE_CHARS_MAX,
};
use serde_json::{Value, json};

use crate::support::{Api, Ask, WORKFLOWS, schedule, turn_path};

fn field_of(problem: &Value) -> &str {
    problem["field"].as_str().unwrap_or_else(|| panic!("no field in {problem}"))
}

/// Type of a field, from which invalid values follow.
#[derive(Clone, Copy)]
enum Holds {
    /// Text of 1 to this many characters.
    Name(usize),
    /// Text of at most this many bytes.
    Note(usize),
    /// Any JSON of at most 256 KiB.
    Payload,
    /// Duration of at most ten years, zero allowed.
    Span,
    /// Positive duration of at most ten years.
    Timeout,
    /// At most five names.
    Tags,
    /// A run id.
    RunId,
    /// One of a fixed set of words.
    Word,
    /// A retry policy.
    Retry,
    /// True or false.
    Flag,
    /// A whole number.
    Number,
}
use Holds::{Flag, Name, Note, Number, Payload, Retry, RunId, Span, Tags, Timeout, Word};

impl Holds {
    /// Invalid values of such a field, each with the suffix of the field name in the problem, the status and the code.
    fn wrong(self) -> Vec<(Value, &'static str, u16, &'static str)> {
        let text = |bytes: usize| json!("x".repeat(bytes));
        let bad_json = |value: Value| (value, "", 400, "bad-json");
        let invalid = |value: Value, place: &'static str| (value, place, 400, "invalid-field");
        let large = |value: Value, place: &'static str| (value, place, 413, "too-large");
        match self {
            Name(max) => {
                vec![bad_json(json!(7)), invalid(json!(""), ""), invalid(json!("a\u{7}"), ""), large(text(max + 1), "")]
            }
            Note(max) => vec![bad_json(json!(7)), large(text(max + 1), "")],
            // One byte too long with its quotes.
            Payload => vec![large(text(PAYLOAD_BYTES_MAX - 1), "")],
            Span => vec![bad_json(json!("soon")), bad_json(json!(-1)), invalid(json!("P3654D"), "")],
            Timeout => vec![bad_json(json!("soon")), invalid(json!(0), ""), invalid(json!("P3654D"), "")],
            Tags => vec![
                bad_json(json!("tag")),
                invalid(json!(vec!["t"; TAGS_MAX + 1]), ""),
                invalid(json!(["t", ""]), "[1]"),
                large(json!([text(NAME_CHARS_MAX + 1)]), "[0]"),
            ],
            RunId => vec![bad_json(json!("newest"))],
            Word => vec![bad_json(json!("whatever"))],
            Retry => vec![
                bad_json(json!({ "tries": 3 })),
                invalid(json!({ "maximumAttempts": 0 }), ".maximumAttempts"),
                invalid(json!({ "backoffCoefficient": 0.5 }), ".backoffCoefficient"),
                invalid(json!({ "jitter": 1.5 }), ".jitter"),
            ],
            Flag => vec![bad_json(json!("yes"))],
            Number => vec![bad_json(json!("high")), bad_json(json!(0.5)), bad_json(json!(i64::from(i32::MAX) + 1))],
        }
    }
}

type Fields = Vec<(&'static str, Holds)>;

/// Every decision: a valid example, the number of its required fields, and all fields, the required ones first.
fn decisions() -> Vec<(Value, usize, Fields)> {
    let (name, kind, control) = (Name(NAME_CHARS_MAX), Name(TYPE_CHARS_MAX), Note(CONTROL_BYTES_MAX));
    let reason = Name(REASON_CHARS_MAX);
    vec![
        (
            json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "A" }),
            2,
            vec![
                ("activityId", name),
                ("activityType", kind),
                ("taskList", name),
                ("input", Payload),
                ("timeouts.scheduleToStart", Timeout),
                ("timeouts.startToClose", Timeout),
                ("timeouts.scheduleToClose", Timeout),
                ("timeouts.heartbeat", Timeout),
                ("retry", Retry),
                ("control", control),
                ("taskPriority", Number),
                ("concurrencyKey", name),
            ],
        ),
        (json!({ "type": "CancelActivity", "activityId": "a" }), 1, vec![("activityId", name)]),
        (
            json!({ "type": "StartTimer", "timerId": "t", "after": 1 }),
            2,
            vec![("timerId", name), ("after", Span), ("control", control)],
        ),
        (json!({ "type": "CancelTimer", "timerId": "t" }), 1, vec![("timerId", name)]),
        (json!({ "type": "RecordMarker", "name": "m" }), 1, vec![("name", name), ("details", Payload)]),
        (
            json!({ "type": "StartChild", "workflowId": "c", "workflowType": "C" }),
            2,
            vec![
                ("workflowId", name),
                ("workflowType", kind),
                ("taskList", name),
                ("input", Payload),
                ("executionTimeout", Timeout),
                ("runTimeout", Timeout),
                ("deciderStartToClose", Timeout),
                ("deciderScheduleToStart", Timeout),
                ("activityTimeouts.scheduleToStart", Timeout),
                ("activityTimeouts.startToClose", Timeout),
                ("activityTimeouts.scheduleToClose", Timeout),
                ("activityTimeouts.heartbeat", Timeout),
                ("tags", Tags),
                ("retention", Span),
                ("reusePolicy", Word),
                ("concurrencyKey", name),
                ("childPolicy", Word),
                ("retry", Retry),
                ("control", control),
            ],
        ),
        (
            json!({ "type": "SignalExternal", "workflowId": "o", "name": "s" }),
            2,
            vec![("workflowId", name), ("name", name), ("runId", RunId), ("input", Payload), ("control", control)],
        ),
        (
            json!({ "type": "CancelExternal", "workflowId": "o" }),
            1,
            vec![("workflowId", name), ("runId", RunId), ("reason", reason), ("control", control)],
        ),
        (json!({ "type": "SucceedWorkflow" }), 0, vec![("result", Payload), ("force", Flag)]),
        (
            json!({ "type": "FailWorkflow", "reason": "r" }),
            1,
            vec![("reason", reason), ("details", Payload), ("force", Flag)],
        ),
        (json!({ "type": "CancelWorkflow" }), 0, vec![("details", Payload), ("force", Flag)]),
        (
            json!({ "type": "ContinueAsNew" }),
            0,
            vec![("workflowType", kind), ("taskList", name), ("tags", Tags), ("input", Payload), ("force", Flag)],
        ),
    ]
}

fn with(decision: &Value, field: &str, value: Value) -> Value {
    let mut decision = decision.clone();
    match field.split_once('.') {
        Some((outer, inner)) => decision[outer][inner] = value,
        None => decision[field] = value,
    }
    decision
}

#[tokio::test]
async fn each_field_of_each_decision_is_checked_and_named() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    for (decision, required, fields) in decisions() {
        let refused = async |wrong: Value, status: u16, code: &str| {
            let decisions = json!([{ "type": "RecordMarker", "name": "m" }, wrong]);
            api.refused(Ask::post(&path, &json!({ "decisions": decisions })), status, code).await
        };
        let unknown = refused(with(&decision, "color", json!("red")), 400, "bad-json").await;
        assert!(unknown["detail"].as_str().unwrap().contains("`color`"), "{unknown}");
        for (index, (field, holds)) in fields.into_iter().enumerate() {
            if index < required {
                let mut without = decision.clone();
                without.as_object_mut().unwrap().remove(field);
                let problem = refused(without, 400, "bad-json").await;
                assert!(problem["detail"].as_str().unwrap().contains(&format!("missing field `{field}`")), "{problem}");
            }
            for (value, place, status, code) in holds.wrong() {
                let problem = refused(with(&decision, field, value), status, code).await;
                if code != "bad-json" {
                    assert_eq!(field_of(&problem), format!("decisions[1].{field}{place}"));
                }
            }
        }
    }
    api.post(&path, &json!({})).await.json(200);
}

#[tokio::test]
async fn the_examples_of_decisions_are_valid() {
    for (decision, _, _) in decisions() {
        let api = Api::open().await;
        api.start("w").await;
        api.decide(json!([decision])).await;
    }
}

#[tokio::test]
async fn every_decision_and_field_is_tested_here() {
    let api = Api::open().await;
    let document = api.get("/openapi.json").await.json(200);
    let names = |decision: &Value| decision.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let documented = document["components"]["schemas"]["Decision"]["oneOf"].as_array().unwrap().iter().map(|it| {
        let variant = it["$ref"].as_str().unwrap().trim_start_matches('#');
        let fields = &document.pointer(variant).unwrap()["properties"];
        (fields["type"]["const"].as_str().unwrap().to_owned(), names(fields))
    });
    let here = decisions().into_iter().map(|(decision, _, fields)| {
        let outer = |(field, _): (&'static str, Holds)| field.split('.').next().unwrap_or_default().to_owned();
        let fields = fields.into_iter().map(outer).chain(["type".to_owned()]).collect();
        (decision["type"].as_str().unwrap().to_owned(), fields)
    });
    assert_eq!(here.collect::<BTreeMap<_, BTreeSet<_>>>(), documented.collect());
}

#[tokio::test]
async fn a_decision_of_unknown_type_or_with_wrong_fields_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    for (decisions, expected) in [
        (json!([{ "type": "ShipIt" }]), "unknown decision type `ShipIt`"),
        (json!([{ "timerId": "t" }]), "missing field `type`"),
        (json!([{ "type": "StartTimer", "timerId": "t" }]), "missing field `after`"),
        (json!([{ "type": "StartTimer", "timerId": "t", "after": 1, "at": 2 }]), "unknown field `at`"),
        (json!([{ "type": "SucceedWorkflow" }, { "type": "ShipIt" }]), "`decisions[1]`: "),
        (json!([7]), ""),
        (json!({}), ""),
    ] {
        let problem = api.refused(Ask::post(&path, &json!({ "decisions": decisions })), 400, "bad-json").await;
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
    }
    let twice = r#"{"decisions":[{"type":"StartTimer","timerId":"t","after":1,"after":2}]}"#;
    api.refused(Ask::text(&path, twice), 400, "bad-json").await;
    let empty = json!({ "decisions": [{ "type": "StartTimer", "timerId": "", "after": 1 }] });
    assert_eq!(field_of(&api.refused(Ask::post(&path, &empty), 400, "invalid-field").await), "decisions[0].timerId");
    let many: Vec<Value> = (0..2_501).map(|_| json!({ "type": "RecordMarker", "name": "m" })).collect();
    let problem = api.refused(Ask::post(&path, &json!({ "decisions": many })), 400, "invalid-field").await;
    assert_eq!(field_of(&problem), "decisions");
    api.post(&path, &json!({})).await.json(200);
}

#[tokio::test]
async fn a_closing_decision_that_is_not_last_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    for close in [
        json!({ "type": "SucceedWorkflow" }),
        json!({ "type": "FailWorkflow", "reason": "r" }),
        json!({ "type": "CancelWorkflow" }),
    ] {
        let decisions = json!({ "decisions": [schedule("a", "acts"), close, schedule("b", "acts")] });
        let problem = api.refused(Ask::post(&path, &decisions), 400, "invalid-field").await;
        assert_eq!(field_of(&problem), "decisions[1]");
    }
    api.post(&path, &json!({})).await.json(200);
}

#[tokio::test]
async fn an_activity_id_in_use_is_recorded_as_failed_to_schedule() {
    let api = Api::open().await;
    api.start("w").await;
    api.decide(json!([schedule("a", "acts"), schedule("a", "acts"), schedule("b", "acts")])).await;
    let names = api.names("w").await;
    let expected =
        ["DeciderCompleted", "ActivityScheduled", "ActivityScheduleFailed", "ActivityScheduled", "DeciderScheduled"];
    assert_eq!(names.iter().skip(3).collect::<Vec<_>>(), expected);
    let history = api.get(&format!("{WORKFLOWS}/w/history?after=5&limit=1")).await.json(200);
    assert_eq!(history["events"][0]["cause"], "ActivityIdAlreadyInUse", "{history}");
}
