//! Texts that may be empty: an empty text is returned, and an absent one stays absent.

use std::sync::Arc;

use engine::{Engine, Settings, SystemClock};
use serde_json::{Map, Value, json};
use service::lambda::Function;
use simulation::stores::fresh;

use crate::support::{Swf, execution, kind, register};

/// Events with their members that may be empty.
const TOLD: &[(&str, &[&str])] = &[
    ("WorkflowExecutionStarted", &["input"]),
    ("WorkflowExecutionSignaled", &["input"]),
    ("WorkflowExecutionCompleted", &["result"]),
    ("WorkflowExecutionFailed", &["reason", "details"]),
    ("WorkflowExecutionCanceled", &["details"]),
    ("WorkflowExecutionContinuedAsNew", &["input"]),
    ("WorkflowExecutionTerminated", &["reason", "details"]),
    ("DecisionTaskStarted", &["identity"]),
    ("DecisionTaskCompleted", &["executionContext"]),
    ("ActivityTaskScheduled", &["input", "control"]),
    ("ActivityTaskStarted", &["identity"]),
    ("ActivityTaskCompleted", &["result"]),
    ("ActivityTaskFailed", &["reason", "details"]),
    ("ActivityTaskCanceled", &["details"]),
    ("MarkerRecorded", &["details"]),
    ("TimerStarted", &["control"]),
    ("SignalExternalWorkflowExecutionInitiated", &["input", "control"]),
    ("SignalExternalWorkflowExecutionFailed", &["control"]),
    ("RequestCancelExternalWorkflowExecutionInitiated", &["control"]),
    ("RequestCancelExternalWorkflowExecutionFailed", &["control"]),
    ("StartChildWorkflowExecutionInitiated", &["input", "control"]),
    ("StartChildWorkflowExecutionFailed", &["control"]),
    ("ChildWorkflowExecutionCompleted", &["result"]),
    ("ChildWorkflowExecutionFailed", &["reason", "details"]),
    ("ChildWorkflowExecutionCanceled", &["details"]),
    ("LambdaFunctionScheduled", &["input", "control"]),
];

/// Events of the parent that arrive at any time.
const LAST: [&str; 4] = [
    "ChildWorkflowExecutionCompleted",
    "ChildWorkflowExecutionFailed",
    "ChildWorkflowExecutionCanceled",
    "LambdaFunctionCompleted",
];

/// A program that sends all of these texts, or none.
struct Program {
    swf: Swf,
    sends: bool,
    /// All events of all closed runs.
    told: Vec<Value>,
}

impl Program {
    async fn new(sends: bool) -> Self {
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(fresh().await, Arc::new(SystemClock), settings).await.unwrap();
        let swf = Swf { router: service::api::router(Arc::clone(&engine)) };
        register(&swf).await;
        let cat: Function = serde_json::from_value(json!("cat")).unwrap();
        service::lambda::serve(&engine, [("cat".to_owned(), cat)].into());
        Self { swf, sends, told: Vec::new() }
    }

    /// The request with these texts.
    fn with(&self, mut request: Value, texts: &[&str]) -> Value {
        for text in texts.iter().filter(|_| self.sends) {
            request[text] = json!("");
        }
        request
    }

    fn decision(&self, kind: &str, attributes: Value, texts: &[&str]) -> Value {
        let (first, rest) = kind.split_at(1);
        let member = format!("{}{rest}DecisionAttributes", first.to_lowercase());
        json!({ "decisionType": kind, member: self.with(attributes, texts) })
    }

    async fn start(&self, id: &str) -> String {
        let start = json!({ "domain": "default", "workflowId": id, "workflowType": kind(), "lambdaRole": "role" });
        let started = self.swf.ask("StartWorkflowExecution", &self.with(start, &["input"])).await.json();
        started["runId"].as_str().unwrap().to_owned()
    }

    /// Completes the next turn with these decisions.
    async fn decide(&self, decisions: &[Value]) {
        let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
        let turn = self.swf.ask("PollForDecisionTask", &self.with(poll, &["identity"])).await.json();
        let answer = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
        self.swf.ask("RespondDecisionTaskCompleted", &self.with(answer, &["executionContext"])).await.nothing();
    }

    /// Completes the next activity.
    async fn answer(&self, operation: &str, texts: &[&str]) {
        let poll = json!({ "domain": "default", "taskList": { "name": "runners" } });
        let task = self.swf.ask("PollForActivityTask", &self.with(poll, &["identity"])).await.json();
        let beat = self.with(json!({ "taskToken": task["taskToken"] }), &["details"]);
        self.swf.ask("RecordActivityTaskHeartbeat", &beat).await.json();
        assert_eq!(task.get("input"), self.sends.then_some(&json!("")));
        let answer = json!({ "taskToken": task["taskToken"] });
        self.swf.ask(operation, &self.with(answer, texts)).await.nothing();
    }

    /// Adds the events of the history to those seen.
    async fn add_events(&mut self, id: &str, run_id: &str) {
        let history = self.swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
        self.told.extend(history["events"].as_array().unwrap().iter().cloned());
    }

    async fn runs(&mut self) {
        let child = |id: &str, version: &str| {
            let kind = json!({ "name": "order", "version": version });
            self.decision(
                "StartChildWorkflowExecution",
                json!({ "workflowId": id, "workflowType": kind, "taskList": { "name": id } }),
                &["input", "control"],
            )
        };
        let activity = |id: &str| {
            let attributes = json!({ "activityId": id, "activityType": { "name": "charge", "version": "1" } });
            self.decision("ScheduleActivityTask", attributes, &["input", "control"])
        };
        let parent = self.start("parent").await;
        let first = [
            activity("a"),
            activity("b"),
            activity("c"),
            self.decision("RecordMarker", json!({ "markerName": "m" }), &["details"]),
            self.decision("StartTimer", json!({ "timerId": "t", "startToFireTimeout": "900" }), &["control"]),
            self.decision(
                "SignalExternalWorkflowExecution",
                json!({ "workflowId": "nobody", "signalName": "s" }),
                &["input", "control", "runId"],
            ),
            self.decision(
                "RequestCancelExternalWorkflowExecution",
                json!({ "workflowId": "nobody" }),
                &["control", "runId"],
            ),
            self.decision("ScheduleLambdaFunction", json!({ "id": "l", "name": "cat" }), &["input", "control"]),
            child("fails", "1"),
            child("completes", "1"),
            child("cancels", "1"),
            child("is unknown", "2"),
        ];
        self.decide(&first).await;
        self.answer("RespondActivityTaskFailed", &["reason", "details"]).await;
        self.answer("RespondActivityTaskCompleted", &["result"]).await;
        self.answer("RespondActivityTaskCanceled", &["details"]).await;
        for (list, kind, texts) in [
            ("fails", "FailWorkflowExecution", ["reason", "details"].as_slice()),
            ("completes", "CompleteWorkflowExecution", &["result"]),
            ("cancels", "CancelWorkflowExecution", &["details"]),
        ] {
            let poll = json!({ "domain": "default", "taskList": { "name": list } });
            let turn = self.swf.ask("PollForDecisionTask", &self.with(poll, &["identity"])).await.json();
            let decisions = [self.decision(kind, json!({}), texts)];
            let answer = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
            let answer = self.with(answer, &["executionContext"]);
            self.swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
            let run_id = turn["workflowExecution"]["runId"].as_str().unwrap();
            self.add_events(list, run_id).await;
        }
        let signal = json!({ "domain": "default", "workflowId": "parent", "signalName": "s" });
        self.swf.ask("SignalWorkflowExecution", &self.with(signal, &["input", "runId"])).await.nothing();
        // Events of children and functions arrive a moment later.
        loop {
            self.add_events("parent", &parent).await;
            if LAST.iter().all(|event| !self.says(event, "").is_empty()) {
                break;
            }
            tokio::task::yield_now().await;
        }
        let terminate = json!({ "domain": "default", "workflowId": "parent" });
        let terminate = self.with(terminate, &["reason", "details", "runId"]);
        self.swf.ask("TerminateWorkflowExecution", &terminate).await.nothing();
        self.add_events("parent", &parent).await;
        let first = self.start("continues").await;
        self.decide(&[self.decision("ContinueAsNewWorkflowExecution", json!({}), &["input"])]).await;
        self.add_events("continues", &first).await;
    }

    /// Values of this member in events of this type, each once.
    fn says(&self, event: &str, member: &str) -> Vec<Option<&Value>> {
        let of_type = self.told.iter().filter(|told| told["eventType"] == event);
        let attributes = of_type.map(|told| {
            let attributes = told.as_object().unwrap().iter().find(|(name, _)| name.ends_with("EventAttributes"));
            attributes.unwrap().1.as_object().map(|attributes: &Map<_, _>| attributes.get(member)).unwrap()
        });
        attributes.collect()
    }
}

#[tokio::test]
async fn an_empty_text_is_returned_and_an_absent_one_stays_absent() {
    let mut differ = Vec::new();
    for sends in [true, false] {
        let mut program = Program::new(sends).await;
        program.runs().await;
        let expected = json!("");
        let expected = sends.then_some(&expected);
        for (event, member) in TOLD.iter().flat_map(|(event, members)| members.iter().map(move |it| (event, it))) {
            let said = program.says(event, member);
            if said.is_empty() || said.iter().any(|said| *said != expected) {
                differ.push(format!("{event}.{member}, sent: {sends}: {said:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[tokio::test]
async fn an_empty_description_or_context_is_returned() {
    for sends in [true, false] {
        let program = Program::new(sends).await;
        let run_id = program.start("w").await;
        program.decide(&[]).await;
        let swf = &program.swf;
        let described = swf.ask("DescribeWorkflowExecution", &execution("w", &run_id)).await.json();
        let domain = json!({ "name": "d", "workflowExecutionRetentionPeriodInDays": "1" });
        swf.ask("RegisterDomain", &program.with(domain, &["description"])).await.nothing();
        let domain = swf.ask("DescribeDomain", &json!({ "name": "d" })).await.json();
        let named = json!({ "domain": "d", "name": "t", "version": "1" });
        let (registered, kind) = (program.with(named, &["description"]), json!({ "name": "t", "version": "1" }));
        swf.ask("RegisterWorkflowType", &registered).await.nothing();
        swf.ask("RegisterActivityType", &registered).await.nothing();
        let workflow = json!({ "domain": "d", "workflowType": kind });
        let workflow = swf.ask("DescribeWorkflowType", &workflow).await.json();
        let activity = json!({ "domain": "d", "activityType": kind });
        let activity = swf.ask("DescribeActivityType", &activity).await.json();
        for text in [
            &described["latestExecutionContext"],
            &domain["domainInfo"]["description"],
            &workflow["typeInfo"]["description"],
            &activity["typeInfo"]["description"],
        ] {
            assert_eq!(text, &if sends { json!("") } else { Value::Null });
        }
    }
}
