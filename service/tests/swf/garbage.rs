//! Requests with one wrong member: whatever its value, the response is a success or a fault, never a failure of the
//! service.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Swf, ready, start};
use crate::valid_requests::requests;

/// Time after which a poll is assumed to wait.
const PATIENCE: Duration = Duration::from_millis(3);

/// Values for a member.
fn nasty() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let mut nasty = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(-1e300),
        json!(""),
        json!(" "),
        json!("arn"),
        json!("a:b/c|d"),
        json!("\u{0}\u{7f}\u{9f}"),
        json!("NONE"),
        json!("0"),
        json!("99999999"),
        json!("999999999999999999999"),
        json!("-2147483649"),
        json!("\u{10ffff}\u{feff}\u{202e}"),
        json!("c.fffffffffff."),
        json!("t.fffffffffff.x.1.0.0.1"),
        json!("h.fffffffffff.18446744073709551615"),
        json!("o.fffffffffff.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        json!([]),
        json!([null]),
        json!({}),
        json!({ "name": null }),
        json!([{}, [], 1, "x"]),
        deep,
    ];
    nasty.push(json!("x".repeat(257)));
    nasty.push(json!("漢".repeat(2_049)));
    nasty
}

/// Paths of all members of a value, including nested ones.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (format!("{here}/{name}"), value)).collect(),
        Value::Array(entries) => {
            entries.iter().enumerate().map(|(at, value)| (format!("{here}/{at}"), value)).collect()
        }
        _ => Vec::new(),
    };
    for (place, value) in inner {
        places(value, &place, found);
        found.push(place);
    }
}

/// Whether this is a success or a client fault with type and message.
fn is_answer(status: u16, text: &str) -> bool {
    let fault =
        || serde_json::from_str::<Value>(text).is_ok_and(|it| it["__type"].is_string() && it["message"].is_string());
    status == 200 || (status == 400 && fault())
}

/// Token of a turn of a new run.
async fn turn(swf: &Swf, id: &str) -> Value {
    start(swf, id).await;
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    swf.ask("PollForDecisionTask", &poll).await.json()["taskToken"].clone()
}

#[tokio::test]
async fn a_wrong_value_in_any_member_causes_no_failure() {
    let nasty = nasty();
    for at in 0..requests("").len() {
        let swf = ready().await;
        let run_id = start(&swf, "w").await;
        let (operation, request) = requests(&run_id).swap_remove(at);
        let (mut found, mut turns, mut token) = (Vec::new(), 0, None);
        places(&request, "", &mut found);
        for (place, value) in found.iter().flat_map(|place| nasty.iter().map(move |value| (place, value))) {
            let mut changed = request.clone();
            *changed.pointer_mut(place).unwrap() = value.clone();
            if operation == "RespondDecisionTaskCompleted" && place != "/taskToken" {
                if token.is_none() {
                    turns += 1;
                    token = Some(turn(&swf, &format!("turn {turns}")).await);
                }
                changed["taskToken"] = token.clone().unwrap();
            }
            let asked = swf.ask(operation, &changed);
            let answer = if operation.starts_with("Poll") {
                let Ok(answer) = tokio::time::timeout(PATIENCE, asked).await else { continue };
                answer
            } else {
                asked.await
            };
            assert!(is_answer(answer.status, &answer.text), "{operation} {changed}: {} {}", answer.status, answer.text);
            if answer.status == 200 {
                token = None;
            }
        }
    }
}

#[tokio::test]
async fn invalid_utf_8_and_invalid_json_are_faults() {
    let swf = ready().await;
    let bodies: [&[u8]; 9] = [
        b"\xff\xfe",
        b"{\"name\":\"\xc3\x28\"}",
        br#"{"name":"\ud800"}"#,
        br#"{"name":1e999}"#,
        b"{\"name\":\"d\"}{}",
        b"[[[[",
        b"{\"name\":",
        b"\0",
        b"\xef\xbb\xbf{}",
    ];
    for body in bodies {
        let headers = [("x-amz-target", "SimpleWorkflowService.DescribeDomain")];
        let answer = swf.send(&headers, body.to_vec()).await;
        let fault: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(fault["__type"], "com.amazon.coral.service#SerializationException", "{body:?}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let headers = [("x-amz-target", "SimpleWorkflowService.DescribeDomain")];
    assert_eq!(swf.send(&headers, format!(r#"{{"name":{deep}}}"#)).await.status, 400);
}
