//! Recorded stories: sequences of requests over REST and the SWF protocol, with a clock that does not advance. Each
//! response must equal, byte for byte, the one in `recorded/*.json`. See `recorded/README.md`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use engine::{Engine, Settings};
use serde_json::{Map, Value, json};
use service::access::Wire;
use service::api::table;
use simulation::corpus;
use store::memory::Memory;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::support::{Answer, is_page};
use simulation::manual_clock::ManualClock;

/// Names of the stories.
const STORIES: [&str; 12] = [
    "domains-and-types",
    "runs",
    "tasks",
    "list-limits",
    "manual",
    "queries-and-updates",
    "schedules",
    "single-activity",
    "batches",
    "swf",
    "swf-decisions",
    "moved",
];

/// Headers that are recorded.
const HEADERS: [&str; 8] = [
    "content-type",
    "etag",
    "location",
    "retry-after",
    "preference-applied",
    "baton-no-pollers",
    "idempotent-replayed",
    "x-amzn-requestid",
];

/// Replacement of `./` in a path.
const DOMAIN: &str = "/v1/domains/default/";

/// Time in which background work becomes idle between steps.
const SETTLED: Duration = Duration::from_millis(20);

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

/// Random values, numbered in the order in which they occur.
#[derive(Default)]
struct Drawn {
    runs: Vec<String>,
    secrets: Vec<String>,
}

/// Members whose text is random or signed.
const SECRETS: [&str; 8] = ["token", "taskToken", "nextPage", "nextPageToken", "updateId", "id", "requestId", "stream"];

fn place(of: &mut Vec<String>, text: &str) -> usize {
    let known = of.iter().position(|known| known == text);
    1 + known.unwrap_or_else(|| {
        of.push(text.to_owned());
        of.len() - 1
    })
}

/// Whether a text was chosen by the story, and is not random.
fn is_chosen(text: &str) -> bool {
    text.len() < 16 || text.contains(' ')
}

impl Drawn {
    /// Returns the text with UUIDs replaced by `run-1`, `run-2`, …
    fn text(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let mut told = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match rest.get(..LENGTH).filter(|it| it.len() == LENGTH && uuid::Uuid::try_parse(it).is_ok()) {
                Some(id) => {
                    let run = format!("run-{}", place(&mut self.runs, id));
                    told.push_str(&run);
                    rest = &rest[LENGTH..];
                }
                None => {
                    told.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        told
    }

    /// Returns an entity tag whose keyed hash of a query's result is numbered.
    fn tag(&mut self, tag: String) -> String {
        match tag.trim_end_matches('"').rsplit_once('-') {
            Some((start, sealed)) if sealed.len() == 16 => {
                format!("{start}-result-{}\"", place(&mut self.secrets, sealed))
            }
            _ => tag,
        }
    }

    fn value(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::String(text) if SECRETS.contains(&name) && !is_chosen(text) => {
                json!(format!("{name}-{}", place(&mut self.secrets, text)))
            }
            Value::String(text) => json!(self.text(text)),
            Value::Array(values) => values.iter().map(|value| self.value(name, value)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), self.value(name, value)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// One step of a story, between lines of `---`: a request, `wait PT5S`, or `join`.
struct Step<'a> {
    head: Vec<&'a str>,
    body: &'a str,
    /// Whether the story continues before the response arrives.
    is_beside: bool,
    /// Members of the response whose values later steps name.
    keeps: Vec<(&'a str, &'a str)>,
}

impl<'a> Step<'a> {
    fn read(text: &'a str) -> Self {
        let (head, body) = text.trim().split_once("\n\n").unwrap_or((text.trim(), ""));
        let lines = head.lines().filter(|line| !line.starts_with('#'));
        let keeps = lines.clone().filter_map(|line| line.strip_prefix('@')?.split_once(" = "));
        let mut head: Vec<_> = lines.filter(|line| !line.starts_with('@')).collect();
        let first = head.first_mut().expect("a step says something");
        let is_beside = first.starts_with("& ");
        *first = first.trim_start_matches("& ");
        Self { head, body: body.trim(), is_beside, keeps: keeps.collect() }
    }
}

/// A concurrent request and its response.
type Beside = (String, JoinHandle<Answer>);

struct Player {
    router: axum::Router,
    clock: Arc<ManualClock>,
    named: Vec<(String, String)>,
    drawn: Drawn,
    recorded: Vec<Value>,
    beside: Vec<Beside>,
}

impl Player {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let store = Arc::new(Memory::new());
        let engine = Engine::open(store, Arc::clone(&clock) as _, settings).await.unwrap();
        let (router, named, recorded, beside) = (service::api::router(engine), Vec::new(), Vec::new(), Vec::new());
        Self { router, clock, named, drawn: Drawn::default(), recorded, beside }
    }

    fn put(&self, text: &str) -> String {
        self.named.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    fn request(&self, step: &Step<'_>) -> Request<Body> {
        let (method, path) = step.head[0].split_once(' ').unwrap();
        let (method, path, target) = match method {
            "SWF" => ("POST", "/".to_owned(), Some(format!("SimpleWorkflowService.{path}"))),
            _ => (method, self.put(&path.replacen("./", DOMAIN, 1)), None),
        };
        let mut request = Request::builder().method(method).uri(path);
        for line in &step.head[1..] {
            let (name, value) = line.split_once(": ").unwrap();
            request = request.header(name, self.put(value));
        }
        match target {
            Some(target) => {
                request = request.header("x-amz-target", target).header("content-type", "application/x-amz-json-1.0");
            }
            None if !step.body.is_empty() => request = request.header("content-type", "application/json"),
            None => {}
        }
        request.body(self.put(step.body).into()).unwrap()
    }

    async fn step(&mut self, step: &Step<'_>) {
        let first = step.head[0];
        if let Some(span) = first.strip_prefix("wait ") {
            let span: history::Duration = serde_json::from_value(json!(span)).unwrap();
            self.clock.advance(span);
            return tokio::time::sleep(SETTLED).await;
        }
        if first == "join" {
            for (what, answer) in std::mem::take(&mut self.beside) {
                let answer = answer.await.unwrap();
                self.record(&what, &answer, &step.keeps);
            }
            return;
        }
        let (router, request) = (self.router.clone(), self.request(step));
        let answer = tokio::spawn(async move { Answer::read(router.oneshot(request).await.unwrap()).await });
        if step.is_beside {
            self.beside.push((first.to_owned(), answer));
            return tokio::time::sleep(SETTLED).await;
        }
        let answer = answer.await.unwrap();
        self.record(first, &answer, &step.keeps);
    }

    fn record(&mut self, what: &str, answer: &Answer, keeps: &[(&str, &str)]) {
        let body: Value = serde_json::from_str(&answer.text).unwrap_or_else(|_| json!(answer.text));
        for (name, member) in keeps {
            let found = match member.strip_prefix("header ") {
                Some(header) => Some(answer.header(header).to_owned()),
                None => find(&body, member),
            };
            let found = found.unwrap_or_else(|| panic!("{what}: no `{member}` in {}", answer.text));
            self.named.retain(|(known, _)| known != name);
            self.named.push(((*name).to_owned(), found));
        }
        let mut headers = Map::new();
        for header in HEADERS.iter().filter(|header| answer.headers.contains_key(**header)) {
            let text = self.drawn.text(answer.header(header));
            let text = if *header == "etag" { self.drawn.tag(text) } else { text };
            headers.insert((*header).to_owned(), json!(text));
        }
        let body = match (what, &body) {
            ("GET /", _) => json!("a page"),
            ("GET /openapi.json", _) => json!("docs/openapi.json"),
            ("GET /metrics", _) => json!("docs/metrics.md"),
            (_, body) => self.drawn.value("", body),
        };
        let status = answer.status.as_u16();
        self.recorded.push(json!({ "request": what, "status": status, "headers": headers, "answer": body }));
    }
}

/// The text of the first member of this name, at any depth.
fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(members) => match members.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => members.values().find_map(|value| find(value, name)),
        },
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A request over REST of a recorded story, and its response.
pub(crate) struct RecordedCall {
    pub(crate) method: String,
    /// Path and query, with kept values replaced by their names.
    pub(crate) path: String,
    /// Headers of the request, each `Name: value`.
    pub(crate) headers: Vec<String>,
    /// Body of the request; empty if it has none.
    pub(crate) body: String,
    pub(crate) status: u64,
    pub(crate) answer_headers: Value,
    pub(crate) answer: Value,
}

/// Returns the calls over REST of all stories, in their order.
pub(crate) fn recorded_calls() -> Vec<RecordedCall> {
    let mut calls = Vec::new();
    for name in STORIES {
        let story = std::fs::read_to_string(directory().join(format!("{name}.story"))).unwrap();
        let mut steps: Vec<Step<'_>> = story.split("\n---\n").map(Step::read).collect();
        let recorded = std::fs::read_to_string(directory().join(format!("{name}.json"))).unwrap();
        let recorded: Vec<Value> = serde_json::from_str(&recorded).unwrap();
        for recorded in recorded {
            // A response that the story joins later is recorded at the join, but the steps are in the order of the
            // requests.
            let at = steps.iter().position(|step| recorded["request"] == step.head[0]).expect("a request has a step");
            let step = steps.remove(at);
            let (method, path) = step.head[0].split_once(' ').unwrap();
            if method == "SWF" {
                continue;
            }
            calls.push(RecordedCall {
                method: method.to_owned(),
                path: path.replacen("./", DOMAIN, 1),
                headers: step.head[1..].iter().map(|line| (*line).to_owned()).collect(),
                body: step.body.to_owned(),
                status: recorded["status"].as_u64().unwrap(),
                answer_headers: recorded["headers"].clone(),
                answer: recorded["answer"].clone(),
            });
        }
    }
    calls
}

/// Plays a story and returns its responses in order.
async fn step(name: &str) -> Vec<Value> {
    let story = std::fs::read_to_string(directory().join(format!("{name}.story"))).unwrap();
    let mut teller = Player::new().await;
    for text in story.split("\n---\n") {
        teller.step(&Step::read(text)).await;
    }
    assert!(teller.beside.is_empty(), "{name}: a request is still running; join it");
    teller.recorded
}

/// Formats responses as an array with one of them in each line, so that a change of a response is a change of a line.
fn one_per_line(responses: &[Value]) -> String {
    let lines: Vec<String> = responses.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

#[tokio::test(start_paused = true)]
async fn responses_equal_the_recorded_ones() {
    let mut changed = Vec::new();
    for name in STORIES {
        let told = step(name).await;
        let path = directory().join(format!("{name}.json"));
        if corpus::is_written() {
            std::fs::write(&path, one_per_line(&told)).unwrap();
            continue;
        }
        let recorded: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let longest = told.len().max(recorded.len());
        let (mut is, mut was) = (told.iter(), recorded.iter());
        changed.extend(
            (0..longest).map(|_| (is.next(), was.next())).enumerate().filter(|(_, (is, was))| is != was).map(
                |(index, (is, was))| {
                    let (number, none) = (index + 1, Value::Null);
                    let (is, was) = (is.unwrap_or(&none), was.unwrap_or(&none));
                    format!("answer {number} of recorded/{name}.json\nrecorded: {was}\nnow:      {is}")
                },
            ),
        );
    }
    let (count, how) = (changed.len(), corpus::HOW);
    assert!(
        changed.is_empty(),
        "{count} responses differ from the recorded ones.\n{}\n{how}",
        changed[..count.min(5)].join("\n")
    );
}

/// Requests with a recorded success: `METHOD path`, or the name of an SWF operation.
fn succeeded() -> BTreeSet<String> {
    let answers = STORIES.iter().flat_map(|name| {
        let text = std::fs::read_to_string(directory().join(format!("{name}.json"))).unwrap();
        serde_json::from_str::<Vec<Value>>(&text).unwrap()
    });
    let good = answers.filter(|answer| answer["status"].as_u64().unwrap() < 300);
    good.map(|answer| answer["request"].as_str().unwrap().to_owned()).collect()
}

/// Calls without a recorded response. They need a log, a credential or a doubtful clock, or they are streams, which
/// `changes.rs` tests.
const NOT_RECORDED: [&str; 7] = [
    "/v1/changes",
    "/v1/domains/{domain}/changes",
    "/v1/audit",
    "/v1/clock/confirm",
    "/v1/domains/{domain}/late-runs",
    "/v1/domains/{domain}/workflows/{id}/repair-deadlines",
    "/v1/secret/rotate",
];

#[test]
fn every_call_has_a_recorded_success() {
    let told = succeeded();
    let fits = |call: &service::access::CallAccess| {
        told.iter().any(|request| match call.wire {
            Wire::Swf => request == &format!("SWF {}", call.name),
            Wire::Nodes => true,
            Wire::Rest => {
                let (method, asked) = request.split_once(' ').unwrap();
                let asked = asked.split('?').next().unwrap().replacen("./", DOMAIN, 1);
                let (wanted, found) = (call.name.split('/'), asked.split('/'));
                method == call.method
                    && wanted.clone().count() == found.clone().count()
                    && wanted.zip(found).all(|(wanted, found)| wanted == found || wanted.starts_with('{'))
            }
        })
    };
    let calls = table();
    let is_to_be_told = |call: &service::access::CallAccess| !NOT_RECORDED.contains(&call.name) && !is_page(call.name);
    let missing = calls.iter().filter(|call| is_to_be_told(call) && !fits(call));
    let missing: Vec<_> = missing.map(|call| format!("{} {}", call.method, call.name)).collect();
    assert!(missing.is_empty(), "recorded in no story:\n{}", missing.join("\n"));
}
