//! Permissions over the SWF protocol: every operation with every kind of credential.

use std::sync::Arc;

use engine::{Engine, Settings, SystemClock};
use history::Permissions;
use serde_json::{Value, json};
use service::access::{CallAccess, Level, Wire};
use service::access::{Credential, Credentials};
use service::api::table;
use service::api::{router, router_for};
use simulation::stores::fresh;

use crate::holders::{credential, one};
use crate::support::{Answer, SWF, Swf, kind, register, start};

/// Text that every payload contains, and no other part of a request.
pub(crate) const NEEDLE: &str = "sesame-in-a-payload";

/// Every kind of credential and the levels that it has in domain `default`. The name of a credential is also its
/// secret.
fn kinds() -> Vec<(Credential, &'static [Level])> {
    use Level as L;
    let reads: &[L] = &[L::Known, L::Related, L::Reader];
    let all = &[L::Known, L::Related, L::Reader, L::Application, L::DomainOperator, L::Decider, L::Runner, L::Operator];
    vec![
        (Credential { operator: true, ..credential("operator") }, all),
        (
            Credential { operators: one("default"), ..credential("domain operator") },
            &[L::Known, L::Related, L::Reader, L::DomainOperator],
        ),
        (
            Credential { applications: one("default"), ..credential("application") },
            &[L::Known, L::Related, L::Reader, L::Application],
        ),
        (Credential { readers: one("default"), ..credential("reader") }, reads),
        (Credential { readers_without_payloads: one("*"), ..credential("bare reader") }, reads),
        (
            Credential { deciders: one("default/deciders"), ..credential("decider") },
            &[L::Known, L::Related, L::Decider],
        ),
        (Credential { runners: one("default/runners"), ..credential("runner") }, &[L::Known, L::Related, L::Runner]),
        (Credential { metrics: true, ..credential("metrics") }, &[L::Known]),
        (
            Credential {
                readers: one("other"),
                applications: one("other"),
                operators: one("other"),
                deciders: vec!["default/others".to_owned(), "other/*".to_owned()],
                ..credential("stranger")
            },
            &[L::Known, L::Related],
        ),
    ]
}

pub(crate) struct Both {
    pub(crate) engine: Arc<Engine>,
    pub(crate) open: Swf,
    pub(crate) guarded: Swf,
}

pub(crate) async fn both() -> Both {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), settings).await.unwrap();
    let open = Swf { router: router(Arc::clone(&engine)) };
    let credentials: Vec<_> = kinds().into_iter().map(|(credential, _)| credential).collect();
    let guarded = Swf { router: router_for(Arc::clone(&engine), Credentials::new(credentials).unwrap()) };
    Both { engine, open, guarded }
}

pub(crate) async fn as_of(swf: &Swf, who: &str, operation: &str, body: &Value) -> Answer {
    let target = format!("SimpleWorkflowService.{operation}");
    let bearer = format!("Bearer {who}");
    let headers = [
        ("x-amz-target", target.as_str()),
        ("content-type", "application/x-amz-json-1.0"),
        ("authorization", bearer.as_str()),
    ];
    swf.send(&headers, body.to_string()).await
}

/// Completes a turn of list `deciders` that schedules an activity on `runners`. Returns the token of the activity and
/// of the next turn.
pub(crate) async fn tasks(swf: &Swf) -> (String, String) {
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let token = |task: Value| task["taskToken"].as_str().unwrap().to_owned();
    let turn = token(swf.ask("PollForDecisionTask", &poll).await.json());
    let attributes = json!({ "activityType": { "name": "charge", "version": "1" }, "activityId": "a", "input": NEEDLE,
        "control": NEEDLE });
    let decision =
        json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": attributes });
    let answer = json!({ "taskToken": turn, "decisions": [decision], "executionContext": NEEDLE });
    swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
    let runners = json!({ "domain": "default", "taskList": { "name": "runners" } });
    let activity = token(swf.ask("PollForActivityTask", &runners).await.json());
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "s", "input": NEEDLE });
    swf.ask("SignalWorkflowExecution", &signal).await.nothing();
    (token(swf.ask("PollForDecisionTask", &poll).await.json()), activity)
}

/// An input with members for every operation.
pub(crate) fn input(call: CallAccess, run_id: &str, (turn, activity): &(String, String)) -> Value {
    let list = if call.level == Level::Decider { "deciders" } else { "runners" };
    let mut input = json!({
        "workflowId": "w", "version": "1", "signalName": "s", "workflowType": kind(),
        "activityType": { "name": "charge", "version": "1" }, "registrationStatus": "REGISTERED",
        "execution": { "workflowId": "w", "runId": run_id }, "tags": [], "tagKeys": [],
        "startTimeFilter": { "oldestDate": 0 }, "workflowExecutionRetentionPeriodInDays": "1",
    });
    let members = input.as_object_mut().unwrap();
    let is_of_domain = call.name.ends_with("Domain");
    members.insert("name".to_owned(), json!(if is_of_domain { "default" } else { "order" }));
    match call.name {
        name if name.starts_with("Respond") || name.starts_with("Record") => {
            let token = if call.level == Level::Decider { turn } else { activity };
            members.insert("taskToken".to_owned(), json!(token));
        }
        name if name.contains("Resource") => {
            let arn = "arn:aws:swf:us-east-1:123456789012:/domain/default";
            members.insert("resourceArn".to_owned(), json!(arn));
        }
        _ if is_of_domain || call.name == "ListDomains" => {}
        _ => {
            members.insert("domain".to_owned(), json!("default"));
            members.insert("taskList".to_owned(), json!({ "name": list }));
        }
    }
    input
}

#[tokio::test]
async fn each_operation_is_allowed_to_its_levels_only() {
    let Both { engine, open, guarded } = both().await;
    register(&open).await;
    let run_id = start(&open, "w").await;
    let tasks = tasks(&open).await;
    // Authorized polls return at once.
    engine.begin_shutdown();
    let calls: Vec<CallAccess> = table().into_iter().filter(|call| call.wire == Wire::Swf).collect();
    assert_eq!(calls.len(), 39);
    for allowed in [false, true] {
        for call in &calls {
            let input = input(*call, &run_id, &tasks);
            for (credential, levels) in kinds() {
                if levels.contains(&call.level) != allowed {
                    continue;
                }
                let answer = as_of(&guarded, &credential.name, call.name, &input).await;
                let refused = answer.text.contains("OperationNotPermittedFault");
                let what = format!("{} {}: {} {}", credential.name, call.name, answer.status, answer.text);
                assert_eq!(refused, !allowed, "{what}");
                assert!(!answer.text.contains("ValidationException") || allowed, "{what}");
            }
            let nobody = guarded.ask(call.name, &input).await;
            assert!(nobody.text.contains("MissingAuthenticationTokenException"), "{}: {}", call.name, nobody.text);
        }
    }
}

#[tokio::test]
async fn domains_without_permission_are_not_listed() {
    let Both { open, guarded, .. } = both().await;
    let other = json!({ "name": "other", "workflowExecutionRetentionPeriodInDays": "1" });
    open.ask("RegisterDomain", &other).await.nothing();
    let list = json!({ "registrationStatus": "REGISTERED" });
    for (who, hears) in [("operator", 2), ("application", 1), ("stranger", 2), ("metrics", 0)] {
        let listed = as_of(&guarded, who, "ListDomains", &list).await.json();
        assert_eq!(listed["domainInfos"].as_array().unwrap().len(), hears, "{who}: {listed}");
    }
    let describe = json!({ "name": "other" });
    let refused = as_of(&guarded, "application", "DescribeDomain", &describe).await;
    refused
        .fault(&format!("{SWF}OperationNotPermittedFault"), "The credential has no permission to read domain `other`");
}

#[tokio::test]
async fn a_reader_without_payloads_sees_events_without_payloads() {
    let Both { open, guarded, .. } = both().await;
    register(&open).await;
    let run_id = start(&open, "w").await;
    tasks(&open).await;
    let execution = json!({ "domain": "default", "execution": { "workflowId": "w", "runId": run_id } });
    for (who, sees) in [("reader", true), ("bare reader", false)] {
        for operation in ["GetWorkflowExecutionHistory", "DescribeWorkflowExecution"] {
            let answer = as_of(&guarded, who, operation, &execution).await;
            answer.json();
            assert_eq!(answer.text.contains(NEEDLE), sees, "{who} {operation}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_decision_without_permission_is_recorded_as_not_permitted() {
    let Both { engine, open, .. } = both().await;
    register(&open).await;
    let run_id = start(&open, "w").await;
    let may_decide = Some(Permissions { decisions: Some(Vec::new()), ..Permissions::default() });
    let limited = Credential { deciders: one("default/deciders"), may_decide, ..credential("limited") };
    let router = router_for(Arc::clone(&engine), Credentials::new(vec![limited]).unwrap());
    let guarded = Swf { router };
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let turn = as_of(&guarded, "limited", "PollForDecisionTask", &poll).await.json();
    let activity = json!({ "name": "charge", "version": "1" });
    let decisions = [
        ("ScheduleActivityTask", json!({ "activityType": activity, "activityId": "a" }), "ScheduleActivityTaskFailed"),
        ("RequestCancelActivityTask", json!({ "activityId": "a" }), "RequestCancelActivityTaskFailed"),
        ("StartTimer", json!({ "timerId": "t", "startToFireTimeout": "1" }), "StartTimerFailed"),
        ("CancelTimer", json!({ "timerId": "t" }), "CancelTimerFailed"),
        ("RecordMarker", json!({ "markerName": "m" }), "RecordMarkerFailed"),
        (
            "StartChildWorkflowExecution",
            json!({ "workflowType": kind(), "workflowId": "c" }),
            "StartChildWorkflowExecutionFailed",
        ),
        (
            "SignalExternalWorkflowExecution",
            json!({ "workflowId": "o", "signalName": "s" }),
            "SignalExternalWorkflowExecutionFailed",
        ),
        (
            "RequestCancelExternalWorkflowExecution",
            json!({ "workflowId": "o" }),
            "RequestCancelExternalWorkflowExecutionFailed",
        ),
        ("ScheduleLambdaFunction", json!({ "id": "l", "name": "f" }), "ScheduleLambdaFunctionFailed"),
        ("CompleteWorkflowExecution", json!({}), "CompleteWorkflowExecutionFailed"),
    ];
    let decided: Vec<Value> = decisions
        .iter()
        .map(|(kind, attributes, _)| {
            let (first, rest) = kind.split_at(1);
            let member = format!("{}{rest}DecisionAttributes", first.to_lowercase());
            json!({ "decisionType": kind, member: attributes })
        })
        .collect();
    let answer = json!({ "taskToken": turn["taskToken"], "decisions": decided });
    as_of(&guarded, "limited", "RespondDecisionTaskCompleted", &answer).await.nothing();
    let read = json!({ "domain": "default", "execution": { "workflowId": "w", "runId": run_id } });
    let history = open.ask("GetWorkflowExecutionHistory", &read).await.json();
    let events = history["events"].as_array().unwrap();
    for (_, _, failed) in &decisions {
        let event = events.iter().find(|event| event["eventType"] == *failed);
        let event = event.unwrap_or_else(|| panic!("no {failed} in {history}")).to_string();
        assert!(event.contains(r#""cause":"OPERATION_NOT_PERMITTED""#), "{event}");
    }
    let moved = as_of(&guarded, "limited", "PollForDecisionTask", &poll).await.json();
    assert!(moved["taskToken"].is_string(), "its decider gets the event");
}

#[tokio::test]
async fn rest_shows_the_author_of_an_event_and_swf_does_not() {
    let Both { engine, open, guarded } = both().await;
    register(&open).await;
    let start = |id: &str| json!({ "domain": "default", "workflowId": id, "workflowType": kind() });
    let started = as_of(&guarded, "application", "StartWorkflowExecution", &start("w")).await.json();
    let run_id = started["runId"].as_str().unwrap().to_owned();
    let poll = |list: &str| json!({ "domain": "default", "taskList": { "name": list }, "identity": "ops@corp" });
    let respond = |turn: &Value, decisions: Value| json!({ "taskToken": turn["taskToken"], "decisions": decisions });
    let schedule = |id: &str| {
        let activity = json!({ "name": "charge", "version": "1" });
        let attributes = json!({ "activityType": activity, "activityId": id });
        json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": attributes })
    };
    let turn = as_of(&guarded, "decider", "PollForDecisionTask", &poll("deciders")).await.json();
    let decisions = json!([schedule("a"), schedule("b"), schedule("c")]);
    as_of(&guarded, "decider", "RespondDecisionTaskCompleted", &respond(&turn, decisions)).await.nothing();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(as_of(&guarded, "runner", "PollForActivityTask", &poll("runners")).await.json());
    }
    let of = |task: &Value| json!({ "taskToken": task["taskToken"] });
    as_of(&guarded, "runner", "RespondActivityTaskCompleted", &of(&tasks[0])).await.nothing();
    as_of(&guarded, "runner", "RespondActivityTaskFailed", &of(&tasks[1])).await.nothing();
    as_of(&guarded, "runner", "RespondActivityTaskCanceled", &of(&tasks[2])).await.nothing();
    let named = |more: Value| {
        let mut body = json!({ "domain": "default", "workflowId": "w" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    as_of(&guarded, "application", "SignalWorkflowExecution", &named(json!({ "signalName": "s" }))).await.nothing();
    as_of(&guarded, "application", "RequestCancelWorkflowExecution", &named(json!({}))).await.nothing();
    as_of(&guarded, "application", "TerminateWorkflowExecution", &named(json!({}))).await.nothing();
    let at = engine::RunRef { domain: "default".into(), workflow_id: "w".into(), run_id: None };
    let events = engine.views().history(&at, &engine::EventRange::default()).await.unwrap().events;
    let told: Vec<_> = events.iter().map(|event| (event.kind.name(), event.by.as_ref().unwrap().as_str())).collect();
    let (application, decider, runner) = ("application", "decider", "runner");
    let expected = [
        ("WorkflowStarted", application),
        ("DeciderScheduled", application),
        ("DeciderStarted", decider),
        ("DeciderCompleted", decider),
        ("ActivityScheduled", decider),
        ("ActivityScheduled", decider),
        ("ActivityScheduled", decider),
        ("ActivityStarted", runner),
        ("ActivityStarted", runner),
        ("ActivityStarted", runner),
        ("ActivitySuccess", runner),
        ("DeciderScheduled", runner),
        ("ActivityFailed", runner),
        ("ActivityCanceled", runner),
        ("Signal", application),
        ("WorkflowCancelRequested", application),
        ("WorkflowTerminated", application),
    ];
    assert_eq!(told, expected);
    let read = json!({ "domain": "default", "execution": { "workflowId": "w", "runId": run_id } });
    let history = as_of(&guarded, "reader", "GetWorkflowExecutionHistory", &read).await;
    history.json();
    assert!(!history.text.contains("\"by\"") && history.text.contains("ops@corp"), "{}", history.text);
}
