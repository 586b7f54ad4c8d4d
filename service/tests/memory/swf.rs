//! Memory of requests over the SWF protocol.

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{Found, Measured, PER_BYTE_MAX, per_byte};

#[path = "../swf/valid_requests.rs"]
mod valid_requests;

/// Largest request of the SWF protocol.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// Smallest values of each type.
const SMALL: [&str; 6] = ["0", "null", "{}", "[]", r#""""#, r#"{"":0}"#];

fn ask(service: &Measured, operation: &str, body: &Bytes) -> Found {
    let request = Request::post("/").header("content-type", "application/x-amz-json-1.0");
    let request = request.header("x-amz-target", format!("SimpleWorkflowService.{operation}"));
    service.ask(request.body(Body::from(body.clone())).unwrap())
}

/// Checks the memory of a request and returns the response.
fn hold(service: &Measured, operation: &str, body: String, what: &str) -> Found {
    let body = Bytes::from(body);
    let found = ask(service, operation, &body);
    println!("{:6.2} {} {operation} {what}", per_byte(found.peak, body.len()), found.status);
    assert!(found.peak < PER_BYTE_MAX * body.len(), "{operation} {what}: {} for {}", found.peak, body.len());
    found
}

/// As many entries as fit, with commas.
fn many(entry: &str, room: usize) -> String {
    vec![entry; room / (entry.len() + 1)].join(",")
}

/// Largest request of this operation.
fn room(operation: &str) -> usize {
    let max = if operation.starts_with("Poll") { 64 * 1024 } else { REQUEST_BYTES_MAX };
    max - 4 * 1024
}

#[test]
fn a_request_of_smallest_members_takes_under_8_times_its_bytes() {
    let service = Measured::open();
    for (operation, request) in valid_requests::requests("r") {
        let room = room(operation);
        // An unknown domain, because a valid poll would wait.
        let full = request.to_string().replace(r#""domain":"default""#, r#""domain":"nope""#);
        let request: Value = serde_json::from_str(&full).unwrap();
        let members = (0..).map(|at: u32| format!(r#","{at:x}":0"#)).scan(0, |bytes, member| {
            *bytes += member.len();
            (*bytes < room - full.len()).then_some(member)
        });
        let unknown = format!("{}{}}}", &full[..full.len() - 1], members.collect::<String>());
        hold(&service, operation, unknown, "unknown members");
        for (name, value) in request.as_object().unwrap() {
            for small in SMALL {
                let mut others = request.clone();
                others.as_object_mut().unwrap().remove(name);
                let others = others.to_string();
                let others = &others[1..];
                let comma = if others == "}" { "" } else { "," };
                let list = many(small, room - others.len());
                hold(
                    &service,
                    operation,
                    format!(r#"{{"{name}":[{list}]{comma}{others}"#),
                    &format!("{name} [{small}]"),
                );
            }
            if value.is_object() {
                let inner = many(r#""":0"#, room);
                hold(&service, operation, format!(r#"{{"{name}":{{{inner}}}}}"#), &format!("{name} {{}}"));
            }
        }
    }
}

#[test]
fn decisions_of_all_types_take_under_8_times_their_bytes() {
    let service = Measured::open();
    let types = ["activityType", "workflowType"].map(|name| (name, json!({ "name": "a", "version": "1" })));
    let mut attributes = json!({
        "activityId": "a", "timerId": "a", "workflowId": "a", "signalName": "a", "markerName": "a", "id": "a", "name": "a",
        "startToFireTimeout": "1", "taskList": { "name": "a" }, "tagList": [""],
    });
    for (name, value) in types {
        attributes[name] = value;
    }
    for kind in [
        "ScheduleActivityTask",
        "RequestCancelActivityTask",
        "CompleteWorkflowExecution",
        "FailWorkflowExecution",
        "CancelWorkflowExecution",
        "ContinueAsNewWorkflowExecution",
        "RecordMarker",
        "StartTimer",
        "CancelTimer",
        "SignalExternalWorkflowExecution",
        "RequestCancelExternalWorkflowExecution",
        "StartChildWorkflowExecution",
        "ScheduleLambdaFunction",
    ] {
        let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
        for attributes in [&json!({}), &attributes] {
            let decision = json!({ "decisionType": kind, member.clone(): attributes });
            let list = many(&decision.to_string(), room("RespondDecisionTaskCompleted"));
            let request = format!(r#"{{"taskToken":"t","decisions":[{list}]}}"#);
            hold(&service, "RespondDecisionTaskCompleted", request, &decision.to_string());
        }
    }
}

#[test]
fn a_decision_keeps_only_attributes_of_its_type() {
    let service = Measured::open();
    let names = ["startTimer", "cancelTimer", "recordMarker", "scheduleActivityTask", "startChildWorkflowExecution"];
    let attributes = names.map(|name| format!(r#""{name}DecisionAttributes":{{"control":""}}"#)).join(",");
    let list = many(&format!("{{{attributes}}}"), room("RespondDecisionTaskCompleted"));
    let request = format!(r#"{{"taskToken":"t","decisions":[{list}]}}"#);
    hold(&service, "RespondDecisionTaskCompleted", request, "of every type");
}

#[test]
fn a_fault_counts_all_problems_and_names_a_hundred() {
    let service = Measured::open();
    let request = json!({ "taskToken": "t", "decisions": vec![json!({}); 2_000] }).to_string();
    let found = ask(&service, "RespondDecisionTaskCompleted", &Bytes::from(request));
    let fault: Value = serde_json::from_str(&found.text).unwrap();
    let message = fault["message"].as_str().unwrap();
    assert!(message.starts_with("2000 validation errors detected: Value null at 'decisions.1.member.decisionType'"));
    assert_eq!(message.matches("Member must not be null").count(), 100);
    assert!(message.ends_with("; ..."), "{message}");
}
