//! Texts that may be empty: what was sent comes back, and what was not sent does not.

use std::sync::Arc;

use engine::{Engine, Settings, SystemClock};
use serde_json::{Map, Value, json};
use service::lambda::Function;
use simulation::stores::fresh;

use crate::support::{Swf, execution, kind, register};

/// An event, and its members that may be empty.
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

/// Events of the parent that come at any time.
const LAST: [&str; 4] = [
    "ChildWorkflowExecutionCompleted",
    "ChildWorkflowExecutionFailed",
    "ChildWorkflowExecutionCanceled",
    "LambdaFunctionCompleted",
];

/// A program that sends each such text, or none of them.
struct Program {
    swf: Swf,
    sends: bool,
    /// All events of all runs that have closed.
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

    /// A request, with these texts.
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

    /// Has the next turn decide this.
    async fn decide(&self, decisions: &[Value]) {
        let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
        let turn = self.swf.ask("PollForDecisionTask", &self.with(poll, &["identity"])).await.json();
        let answer = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
        self.swf.ask("RespondDecisionTaskCompleted", &self.with(answer, &["executionContext"])).await.nothing();
    }

    /// Answers the next activity.
    async fn answer(&self, operation: &str, texts: &[&str]) {
        let poll = json!({ "domain": "default", "taskList": { "name": "runners" } });
        let task = self.swf.ask("PollForActivityTask", &self.with(poll, &["identity"])).await.json();
        let beat = self.with(json!({ "taskToken": task["taskToken"] }), &["details"]);
        self.swf.ask("RecordActivityTaskHeartbeat", &beat).await.json();
        assert_eq!(task.get("input"), self.sends.then_some(&json!("")));
        let answer = json!({ "taskToken": task["taskToken"] });
        self.swf.ask(operation, &self.with(answer, texts)).await.nothing();
    }

    async fn hears(&mut self, id: &str, run_id: &str) {
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
            self.hears(list, run_id).await;
        }
        let signal = json!({ "domain": "default", "workflowId": "parent", "signalName": "s" });
        self.swf.ask("SignalWorkflowExecution", &self.with(signal, &["input", "runId"])).await.nothing();
        // What becomes of children and functions is told a moment later.
        loop {
            self.hears("parent", &parent).await;
            if LAST.iter().all(|event| !self.says(event, "").is_empty()) {
                break;
            }
            tokio::task::yield_now().await;
        }
        let terminate = json!({ "domain": "default", "workflowId": "parent" });
        let terminate = self.with(terminate, &["reason", "details", "runId"]);
        self.swf.ask("TerminateWorkflowExecution", &terminate).await.nothing();
        self.hears("parent", &parent).await;
        let first = self.start("continues").await;
        self.decide(&[self.decision("ContinueAsNewWorkflowExecution", json!({}), &["input"])]).await;
        self.hears("continues", &first).await;
    }

    /// What events of this type say of this member, each once.
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
async fn an_empty_text_comes_back_and_one_that_was_not_sent_does_not() {
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
async fn an_empty_description_or_context_comes_back_too() {
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
