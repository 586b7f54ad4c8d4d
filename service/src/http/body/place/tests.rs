use client::body::{CompleteTurn, CreateSchedule, ImportRun};
use history::StartWorkflow;
use proptest::prelude::*;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::*;

const START: &str = r#"{
  "workflowId": "a", "workflowType": "t", "input": {"deep": [1, {"a b": "c\"}"}], "\u00fc": [[]]},
  "executionTimeout": "P1D", "activityTimeouts": {"startToClose": 5, "heartbeat": "PT1S"}, "tags": ["x", "y"],
  "signal": {"name": "s", "input": [2]}, "reusePolicy": "allow-duplicate",
  "retry": {"initialInterval": 1, "backoffCoefficient": 1.5, "nonRetryableReasons": ["a"]}, "taskPriority": 3
}"#;

const TURN: &str = r#"{"decisions":[
  {"type":"ScheduleActivity","activityId":"a","activityType":"A","input":{"a":[1,2]},"timeouts":{"startToClose":"PT5S"},
   "retry":{"maximumAttempts":3,"backoffCoefficient":2}},
  {"type":"StartTimer","timerId":"t","after":30},{"timerId":"u","after":"PT1S","type":"StartTimer"},
  {"type":"CancelExternal","workflowId":"w","runId":"018f2d4e-0000-7000-8000-000000000000"}]}"#;

const SCHEDULE: &str = r#"{"scheduleId":"s","schedule":{"spec":{"cron":["0 9 * * *"],"timeZone":"UTC",
  "startAt":"2027-01-31T00:00:00Z","calendars":[{"second":"1"},{"second":"2"}]},
  "action":{"workflowId":"a","workflowType":"t"},"overlap":"skip"},"paused":true}"#;

/// Texts by which each scalar and each member name in a valid text is replaced.
const WRONG: [&str; 9] =
    ["null", "true", "-7", "1e300", r#""?""#, r#""wrong""#, "[7]", r#"{"a": 1}"#, r#""a": 1, "b""#];

/// Returns all variants of the text in which one scalar or one member name is replaced or removed.
fn spoiled(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, vec![]);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => end_of_string(bytes, at),
            byte if byte.is_ascii_alphanumeric() => {
                at + bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count()
            }
            _ => at + 1,
        };
        if end > at + 1 || bytes[at].is_ascii_digit() {
            found.extend(WRONG.map(|wrong| format!("{}{wrong}{}", &text[..at], &text[end..])));
            // In this variant, the scalar or name is removed.
            found.push(format!("{}{}", &text[..at], &text[end..]));
        }
        at = end;
    }
    found
}

/// Parses all variants of the text. Checks that `place` finds the same position of an error as a parser that tracks its
/// position.
fn agree<T: DeserializeOwned>(text: &str) {
    serde_json::from_str::<T>(text).unwrap();
    for text in spoiled(text) {
        let Err(error) = serde_json::from_str::<T>(&text) else { continue };
        let mut reader = serde_json::Deserializer::from_str(&text);
        let tracked = serde_path_to_error::deserialize::<_, T>(&mut reader).err().unwrap().path().to_string();
        let found = place(text.as_bytes(), &error);
        let no_json = serde_json::from_str::<IgnoredAny>(&text).err();
        let is_json = no_json.is_none_or(|no| (no.line(), no.column()) != (error.line(), error.column()));
        let is_more = |more: &str, less: &str| {
            more.strip_prefix(less).is_some_and(|rest| less.is_empty() || rest.starts_with(['.', '[']))
        };
        let tracked =
            tracked.strip_suffix(".?").unwrap_or(if tracked == "." || tracked == "?" { "" } else { &tracked });
        let agree = tracked == found
            // If the error is an unknown type or variant, the position from `place` also includes the name of the
            // member with the unknown value.
            || is_json && error.to_string().contains("unknown") && is_more(&found, tracked)
            // If the variant is not valid JSON, the position from `place` may be inside a payload, which the parser
            // reads as a whole.
            || !is_json && (is_more(&found, tracked) || is_more(tracked, &found));
        assert!(agree, "{error}: tracked {tracked:?}, found {found:?}: {text}");
    }
}

#[test]
fn a_place_equals_the_path_of_a_tracking_parser() {
    agree::<StartWorkflow>(START);
    agree::<CompleteTurn>(TURN);
    agree::<CreateSchedule>(SCHEDULE);
}

#[test]
fn a_place_is_cut_at_the_maximum_depth() {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    for (text, expected) in [
        (format!(r#"{{"events":[{open}1{close},2],"nope":7}}"#), "nope".to_owned()),
        (format!(r#"{{"events":[{open}x"#), format!("events{}", "[0]".repeat(DEPTH_MAX - 1))),
    ] {
        let error = serde_json::from_str::<ImportRun>(&text).unwrap_err();
        assert_eq!(place(text.as_bytes(), &error), expected);
    }
}

proptest! {
    #[test]
    fn any_text_has_a_place(text in r#"[\[\]{}:,"\\a1 \nü]{0,40}"#) {
        let other = serde_json::from_str::<u8>("\n\n\n   x").unwrap_err();
        drop(place(text.as_bytes(), &other));
        if let Err(error) = serde_json::from_str::<CompleteTurn>(&text) {
            drop(place(text.as_bytes(), &error));
        }
    }
}
