//! Shared helpers: the service in process, requests, and checked responses.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use client::body;
use engine::{Engine, Settings};
use history::check;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use service::front::Front;
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use store::Store;
use tower::ServiceExt;

use crate::contract;

/// Longest wait of a test for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Response of `/readyz` of a service without warnings.
pub(crate) const READY: &str = r#"{"ready":true,"warnings":[]}"#;

/// Paths of the default domain.
pub(crate) const COUNT: &str = "/v1/domains/default/workflow-count";
pub(crate) const WORKFLOWS: &str = "/v1/domains/default/workflows";

/// Path of the decider's polls in most tests.
pub(crate) const DECIDERS: &str = "/v1/domains/default/task-lists/deciders/decider/poll";

/// A request, and its body if it is text.
pub(crate) struct Ask(Request<Body>, Option<String>);

impl Ask {
    /// A request without a body.
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self(Request::builder().method(method).uri(path).body(Body::empty()).unwrap(), None)
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// A request with a JSON body.
    pub(crate) fn post(path: &str, body: &Value) -> Self {
        Self::text(path, &body.to_string())
    }

    /// A `PUT` request with a JSON body.
    pub(crate) fn put(path: &str, body: &Value) -> Self {
        Self::with_text("PUT", path, &body.to_string())
    }

    /// A request with `content-type: application/json`, whatever its body.
    pub(crate) fn text(path: &str, body: &str) -> Self {
        Self::with_text("POST", path, body)
    }

    fn with_text(method: &str, path: &str, body: &str) -> Self {
        let mut ask = Self::new(method, path).header("content-type", "application/json").body(body.to_owned());
        ask.1 = Some(body.to_owned());
        ask
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.0.headers_mut().append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn path(&self) -> String {
        self.0.uri().path().to_owned()
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the body ends").unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    /// Returns the body of a response with this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Checks that the response is a complete problem document, and returns it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json(status);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], format!("https://baton.invalid/problems/{code}"));
        assert_eq!(problem["status"], status);
        assert_eq!(problem["recorded"], false, "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        for member in ["title", "detail", "advice"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "`{member}` in {problem}");
        }
        problem
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no `{name}` in {:?}", self.headers));
        value.to_str().unwrap()
    }
}

/// The service in process, with a memory store and a clock that the test advances.
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) front: Front,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) router: Router,
}

impl Api {
    pub(crate) async fn open() -> Self {
        Self::over(fresh().await).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(store, Arc::clone(&clock) as _, settings).await.unwrap();
        Self::of(Front::from(engine), clock)
    }

    pub(crate) fn of(front: Front, clock: Arc<ManualClock>) -> Self {
        let router = service::api::router(front.clone());
        Self { engine: Arc::clone(front.engine()), front, clock, router }
    }

    /// The same service behind another router.
    pub(crate) fn with(&self, router: Router) -> Self {
        Self { engine: Arc::clone(&self.engine), front: self.front.clone(), clock: Arc::clone(&self.clock), router }
    }

    /// Returns the response before its body has been read.
    pub(crate) async fn call(&self, ask: Ask) -> Response {
        let answer = self.router.clone().oneshot(ask.0);
        tokio::time::timeout(PATIENCE, answer).await.expect("a response").unwrap()
    }

    /// Returns the response after checking it against the `OpenAPI` document.
    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        self.ask_for(ask, PATIENCE).await
    }

    /// Like [`ask`](Self::ask), but waits this long for the response.
    pub(crate) async fn ask_for(&self, ask: Ask, patience: Duration) -> Answer {
        let (method, uri) = (ask.0.method().to_string(), ask.0.uri().to_string());
        let answer = self.router.clone().oneshot(ask.0);
        let answer = Answer::read(tokio::time::timeout(patience, answer).await.expect("a response").unwrap()).await;
        contract::hold(&method, &uri, ask.1.as_deref(), &answer);
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Ask::get(path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Ask::post(path, body)).await
    }

    /// Starts a run and returns its run id.
    pub(crate) async fn start(&self, id: &str) -> String {
        let start = json!({ "workflowId": id, "workflowType": "test", "taskList": "deciders" });
        let started = self.post(WORKFLOWS, &start).await.json(201);
        started["runId"].as_str().unwrap().to_owned()
    }

    /// Polls a turn.
    pub(crate) async fn turn(&self) -> Value {
        self.ask(Ask::post(DECIDERS, &json!({ "identity": "decider" })).header("prefer", "wait=20")).await.json(200)
    }

    /// Polls and completes a turn.
    pub(crate) async fn decide(&self, decisions: Value) -> Value {
        let turn = self.turn().await;
        let path = format!("{}/complete", turn_path(&turn));
        assert_eq!(self.post(&path, &json!({ "decisions": decisions })).await.json(200), json!({}));
        turn
    }

    /// Starts a run with one activity, and polls the activity.
    pub(crate) async fn activity(&self, id: &str) -> Value {
        self.start(id).await;
        self.decide(json!([schedule("a", "acts")])).await;
        self.take_activity("acts").await
    }

    pub(crate) async fn take_activity(&self, list: &str) -> Value {
        let path = format!("/v1/domains/default/task-lists/{list}/activity/poll");
        self.ask(Ask::post(&path, &json!({ "identity": "runner" })).header("prefer", "wait=20")).await.json(200)
    }

    /// Starts a run that succeeds.
    pub(crate) async fn succeeded(&self, id: &str) -> String {
        let run_id = self.start(id).await;
        self.decide(json!([{ "type": "SucceedWorkflow", "result": { "n": 1 } }])).await;
        run_id
    }

    /// Types of a run's events.
    pub(crate) async fn names(&self, id: &str) -> Vec<String> {
        let history = self.get(&format!("{WORKFLOWS}/{id}/history")).await.json(200);
        let events = history["events"].as_array().unwrap();
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// Everything that can be read: domains, runs, histories and descriptions, byte for byte.
    pub(crate) async fn everything(&self) -> String {
        let domains = self.get("/v1/domains").await;
        let mut text = domains.text.clone();
        for domain in domains.json(200)["domains"].as_array().unwrap() {
            let workflows = format!("/v1/domains/{}/workflows", segment(domain["name"].as_str().unwrap()));
            let listed = self.get(&format!("{workflows}?limit=1000")).await;
            text.push_str(&listed.text);
            for run in listed.json(200)["workflows"].as_array().unwrap() {
                let workflow = format!("{workflows}/{}", segment(run["workflowId"].as_str().unwrap()));
                let run_id = run["runId"].as_str().unwrap();
                let history = self.get(&format!("{workflow}/history?runId={run_id}&limit=10000")).await;
                history.json(200);
                let events: body::History = serde_json::from_str(&history.text).unwrap();
                check::history(&events.events).unwrap();
                text.push_str(&history.text);
                text.push_str(&self.get(&format!("{workflow}?runId={run_id}")).await.text);
            }
        }
        text
    }

    /// Checks that the request is refused and that nothing has changed.
    pub(crate) async fn refused(&self, ask: Ask, status: u16, code: &str) -> Value {
        let what = format!("{} {}", ask.0.method(), ask.0.uri());
        let before = self.everything().await;
        let answer = self.ask(ask).await;
        println!("{what}: {}", answer.text);
        let problem = answer.problem(status, code);
        assert_eq!(self.everything().await, before, "{what} changed something");
        problem
    }

    /// Waits until this many pollers wait on the lists whose metric labels contain this text.
    pub(crate) async fn until_pollers(&self, label: &str, count: u64) {
        let wait = async {
            loop {
                let metrics = self.engine.render_metrics();
                let lines = metrics.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
                let counts = lines.filter(|line| line.contains(label)).filter_map(|line| line.rsplit_once(' '));
                if counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum::<u64>() == count {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the number of pollers");
    }
}

/// Whether tests write the generated documentation, instead of comparing it.
pub(crate) fn writes_docs() -> bool {
    std::env::var_os("BATON_DOCS").is_some_and(|value| value == "write")
}

/// Whether a path is one of the pages for browsers: the console and the documentation.
pub(crate) fn is_page(path: &str) -> bool {
    path.starts_with("/console") || path.starts_with("/docs")
}

/// Path of a turn.
pub(crate) fn turn_path(turn: &Value) -> String {
    format!("/v1/decider-tasks/{}", turn["token"].as_str().unwrap())
}

/// Path of an activity task.
pub(crate) fn activity_path(task: &Value) -> String {
    format!("/v1/activity-tasks/{}", task["token"].as_str().unwrap())
}

/// A decision that schedules an activity.
pub(crate) fn schedule(id: &str, list: &str) -> Value {
    json!({ "type": "ScheduleActivity", "activityId": id, "activityType": "do", "taskList": list })
}

/// A name as one escaped segment of a path.
pub(crate) fn segment(name: &str) -> String {
    name.bytes().fold(String::new(), |text, byte| {
        if byte.is_ascii_alphanumeric() { format!("{text}{}", byte as char) } else { format!("{text}%{byte:02X}") }
    })
}

/// Ids of the events of a page.
pub(crate) fn ids(page: &Value) -> Vec<u64> {
    page["events"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect()
}
