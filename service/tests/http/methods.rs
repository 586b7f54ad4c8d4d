//! Methods and paths: every path names its methods and responds to `HEAD` and `OPTIONS`; a nearly right path names the
//! path that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use engine::{Engine, Node, Settings};
use futures_util::stream;
use serde_json::{Value, json};
use service::access::{CallAccess, Credentials, Level, Wire};
use service::api::{router_at, table};
use service::front::Front;
use service::http::{Console, Hosts, ServerLimits};
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;

use crate::access::{bearer, guarded, kinds, request};
use crate::sockets::Socket;
use crate::support::{Answer, Api, Ask, PATIENCE, WORKFLOWS, activity_path, is_page, turn_path};

/// Methods that no path accepts.
const STRANGE: [&str; 9] = ["TRACE", "CONNECT", "PROPFIND", "QUERY", "LINK", "get", "Post", "delete", "X-MADE-UP"];

/// Methods that some path accepts.
const KNOWN: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// Methods of each path of the service, from the table of its calls.
fn paths() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut paths: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for call in table() {
        let path = if call.wire == Wire::Swf { "/" } else { call.name };
        let methods = paths.entry(path).or_default();
        methods.extend([call.method, "OPTIONS"]);
        if call.method == "GET" {
            methods.insert("HEAD");
        }
    }
    paths
}

/// The lowest level of the calls of a path.
fn level(path: &str) -> Level {
    let own = table().into_iter().filter(|call| call.wire != Wire::Swf && call.name == path);
    own.map(|call| call.level).min().unwrap()
}

/// A service that shares its store with other nodes, which therefore has every path.
pub(crate) async fn node() -> Api {
    let clock = ManualClock::new();
    let node = Some(Node { address: "http://127.0.0.1:1".to_owned() });
    let settings = Settings { seed: Some(7), node, ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::clone(&clock) as _, settings).await.unwrap();
    Api::of(Front::from(engine), clock)
}

/// A service with an entity at each path: a run with a turn and an activity, types and a schedule.
struct Filled {
    api: Api,
    turn: String,
    activity: String,
}

impl Filled {
    async fn open() -> Self {
        let api = node().await;
        let activity = activity_path(&api.activity("w").await);
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
        let turn = turn_path(&api.turn().await);
        for kind in ["workflow-types", "activity-types"] {
            api.post(&format!("/v1/domains/default/{kind}"), &json!({ "name": "t" })).await.json(201);
        }
        let action = json!({ "workflowId": "n", "workflowType": "t" });
        let schedule = json!({ "spec": { "cron": ["0 8 * * *"] }, "action": action });
        let schedule = json!({ "scheduleId": "w", "schedule": schedule });
        api.post("/v1/domains/default/schedules", &schedule).await.json(201);
        Self { api, turn, activity }
    }

    /// A request to a path of the table.
    fn ask(&self, method: &'static str, path: &'static str) -> Ask {
        let call = CallAccess { method, name: path, ..table()[0] };
        request(CallAccess { level: level_of_lists(path), ..call }, &self.turn, &self.activity)
    }

    fn path(&self, path: &'static str) -> String {
        self.ask("GET", path).path()
    }
}

/// `request` chooses the task list by the level.
fn level_of_lists(path: &str) -> Level {
    if path.contains("/decider/") { Level::Decider } else { Level::Runner }
}

fn allowed(answer: &Answer) -> BTreeSet<&str> {
    answer.header("allow").split(',').map(str::trim).collect()
}

#[tokio::test]
async fn every_path_refuses_other_methods_and_names_its_own() {
    let it = Filled::open().await;
    for (path, methods) in paths() {
        for method in STRANGE.into_iter().chain(KNOWN.into_iter().filter(|method| !methods.contains(method))) {
            let answer = Answer::read(it.api.call(it.ask(method, path)).await).await;
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
            assert_eq!(allowed(&answer), methods, "{method} {path}");
            if method == "HEAD" {
                assert_eq!(answer.text, "", "{path}");
                continue;
            }
            let problem = answer.problem(405, "method-not-allowed");
            let detail = problem["detail"].as_str().unwrap();
            for name in methods.iter().copied().chain([path, method]) {
                assert!(detail.contains(name), "{method} {path}: no `{name}` in {detail}");
            }
            let is_lower = methods.iter().any(|known| known.eq_ignore_ascii_case(method));
            assert_eq!(detail.contains("case-sensitive"), is_lower, "{method} {path}: {detail}");
        }
    }
}

#[tokio::test]
async fn options_names_the_methods_of_every_path() {
    let it = Filled::open().await;
    let guarded = guarded(&it.api);
    // A browser's preflight request for a page of another site: the response must not authorize that page.
    let preflight = |ask: Ask| {
        let ask = ask.header("origin", "https://evil.example").header("access-control-request-method", "DELETE");
        ask.header("access-control-request-headers", "authorization")
    };
    let unknown = Answer::read(guarded.call(Ask::new("OPTIONS", "/v1/nothing")).await).await;
    unknown.problem(401, "unauthorized");
    for (path, methods) in paths() {
        for ask in [it.ask("OPTIONS", path), preflight(it.ask("OPTIONS", path))] {
            let answer = Answer::read(it.api.call(ask).await).await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""), "{path}");
            assert_eq!(allowed(&answer), methods, "{path}");
            assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{path}");
        }
        let without = Answer::read(guarded.call(it.ask("OPTIONS", path)).await).await;
        if level(path) == Level::Nothing {
            assert_eq!(without.status, 204, "{path}");
        } else {
            assert_eq!(without.text, unknown.text, "{path}: without a credential it looks like an unknown path");
        }
        for (credential, _) in kinds() {
            let answer = guarded.call(bearer(it.ask("OPTIONS", path), &credential.name)).await;
            assert_eq!(answer.status(), 204, "{path} {}", credential.name);
        }
    }
    Answer::read(it.api.call(Ask::new("OPTIONS", "/v1/nothing")).await).await.problem(404, "unknown-path");
}

#[tokio::test]
async fn options_is_checked_for_host_names() {
    let api = Api::open().await;
    let hosts = Hosts::loopback_and(Vec::new());
    let guarded = api.with(router_at(Arc::clone(&api.engine), Credentials::default(), hosts, Console::Off));
    let ask = |path: &str| Ask::new("OPTIONS", path).header("host", "evil.example");
    for path in ["/v1/domains", "/healthz", "/nothing"] {
        guarded.ask(ask(path)).await.problem(421, "misdirected-request");
    }
    guarded.ask(Ask::new("OPTIONS", "/console/").header("host", "localhost")).await.problem(404, "unknown-path");
    guarded.ask(Ask::new("OPTIONS", "/nodes/offer").header("host", "localhost")).await.problem(404, "unknown-path");
}

#[tokio::test]
async fn targets_that_are_no_paths_get_a_response() {
    let socket = Socket::of(node().await, ServerLimits::default()).await;
    let all: BTreeSet<&str> = paths().values().flatten().copied().collect();
    for (line, status) in [
        ("OPTIONS *", "204"),
        ("CONNECT example.com:443", "405"),
        ("CONNECT /v1/domains", "405"),
        ("get /healthz", "405"),
        ("PROPFIND /v1/domains", "405"),
        ("TRACE /healthz", "405"),
        ("GET *", "404"),
        ("GET http://h/v1/domains/", "404"),
    ] {
        let mut peer = socket.connect().await;
        peer.send(&format!("{line} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")).await;
        let answer = peer.read_all().await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let allow = head.lines().find_map(|line| line.strip_prefix("allow: "));
        assert_eq!(allow.is_some(), status != "404", "{line}: {answer}");
        if line == "OPTIONS *" || line.starts_with("CONNECT e") {
            assert_eq!(allow.unwrap().split(", ").collect::<BTreeSet<_>>(), all, "{line}");
        }
        assert_eq!(body.is_empty(), status == "204", "{line}: {answer}");
        assert_eq!(head.contains("application/problem+json"), status != "204", "{line}: {answer}");
    }
    socket.answers_others().await;
}

/// Status line and headers of a response, without the headers that vary and without the framing of a body of unknown
/// length.
fn comparable(head: &str, path: &str) -> Vec<String> {
    let lines = head.lines().filter(|line| !line.is_empty()).map(str::to_lowercase);
    let lines = lines.filter(|line| !line.starts_with("date:") && !line.starts_with("transfer-encoding:"));
    // Numbers in `/metrics` change with each request.
    let lines = lines.map(|line| match line.split_once("content-length: ") {
        Some(("", _)) if path == "/metrics" => "content-length: n".to_owned(),
        _ => line,
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn head_responds_as_get_without_the_body() {
    let it = Filled::open().await;
    let gets: Vec<_> = paths().into_iter().filter(|(_, methods)| methods.contains("GET")).collect();
    let targets: Vec<_> = gets.iter().map(|(path, _)| (*path, it.path(path))).collect();
    let socket = Socket::of(it.api, ServerLimits::default()).await;
    let (mut succeeded, mut with_length) = (0, 0);
    for (path, target) in targets {
        for (more, headers) in [
            ("", "accept: */*\r\n"),
            ("", "accept: text/html\r\naccept-encoding: gzip\r\n"),
            ("", "accept: text/event-stream\r\n"),
            ("", "prefer: wait=0\r\n"),
            ("?no-such=1", "accept: */*\r\n"),
            ("/", "accept: */*\r\n"),
        ] {
            let target = format!("{target}{more}");
            let get = socket.call("GET", &target, headers, "").await.head().await;
            let mut peer = socket.call("HEAD", &target, headers, "").await;
            let head = peer.head().await;
            assert_eq!(comparable(&head, path), comparable(&get, path), "{target} {headers}");
            peer.call("GET", "/healthz", "", "").await;
            assert!(peer.head().await.starts_with("HTTP/1.1 200 "), "{target}: no byte of a body in between");
            succeeded += usize::from(get.starts_with("HTTP/1.1 200 "));
            with_length += usize::from(head.contains("content-length: "));
        }
    }
    assert!(succeeded > 100 && with_length > 100, "{succeeded} {with_length}");
}

#[tokio::test]
async fn head_never_waits() {
    let it = Filled::open().await;
    let document = service::api::document();
    let mut targets = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let parameters = operations["get"]["parameters"].as_array().into_iter().flatten();
        if parameters.into_iter().any(|parameter| parameter["name"] == "Prefer") {
            targets.push(path.replace("{domain}", "default").replace("{id}", "w").replace("{activity}", "a"));
        }
    }
    assert!(targets.len() >= 3, "{targets:?}");
    let tag = it.api.get(&format!("{WORKFLOWS}/w")).await.header("etag").to_owned();
    let length = it.api.get(&format!("{WORKFLOWS}/w")).await.json(200)["historyLength"].as_u64().unwrap();
    let socket = Socket::of(it.api, ServerLimits::default()).await;
    for target in targets {
        let more = if target.ends_with("/history") { format!("?after={length}") } else { String::new() };
        for headers in [String::new(), format!("if-none-match: {tag}\r\n")] {
            let mut peer =
                socket.call("HEAD", &format!("{target}{more}"), &format!("{headers}prefer: wait=60\r\n"), "").await;
            // Half of the requested wait.
            let head = tokio::time::timeout(Duration::from_secs(30), peer.head()).await.expect("an answer at once");
            assert!(head.contains("preference-applied: wait=0\r\n"), "{target}: {head}");
        }
    }
}

/// Requests for a target with each method of its path, and a body that the call accepts.
fn with_each_method(methods: &BTreeSet<&'static str>, target: &str) -> Vec<Ask> {
    let methods = methods.iter().filter(|method| **method != "HEAD");
    let ask = |method: &&str| Ask::new(method, target).header("content-type", "application/json").body("{}");
    methods.map(ask).collect()
}

#[tokio::test]
async fn a_nearly_right_path_names_the_existing_one() {
    let it = Filled::open().await;
    let before = it.api.everything().await;
    let mut named = 0;
    // Every path below these roots is a view of the console, or has a page that names no other path.
    for (path, methods) in paths().into_iter().filter(|(path, _)| *path != "/" && !is_page(path)) {
        let target = it.path(path);
        let mut near = vec![format!("{target}/"), format!("{target}//"), format!("/{target}")];
        near.extend(target.match_indices('/').map(|(at, _)| format!("{}/{}", &target[..=at], &target[at + 1..])));
        near.extend(target.strip_prefix("/v1").map(str::to_owned));
        for missed in near {
            for ask in with_each_method(&methods, &missed) {
                let answer = Answer::read(it.api.call(ask).await).await;
                assert!(!answer.headers.contains_key("location"), "{missed}");
                let problem = answer.problem(404, "unknown-path");
                let detail = problem["detail"].as_str().unwrap();
                assert!(
                    detail.contains(&format!("did you mean `{target}`?")) || target.len() > 200,
                    "{missed}: {detail}"
                );
                named += 1;
            }
        }
    }
    assert!(named > 1_000, "{named}");
    assert_eq!(it.api.everything().await, before, "no nearly right path is executed");
}

#[tokio::test]
async fn a_path_with_an_empty_name_reaches_no_other_call() {
    let it = Filled::open().await;
    let before = it.api.everything().await;
    for (path, methods) in paths().into_iter().filter(|(path, _)| !is_page(path)) {
        let target = it.path(path);
        let segments: Vec<&str> = target.split('/').collect();
        for (at, word) in path.split('/').enumerate().filter(|(_, word)| word.starts_with('{')) {
            let mut segments = segments.clone();
            segments[at] = "";
            for ask in with_each_method(&methods, &segments.join("/")) {
                let problem = Answer::read(it.api.call(ask).await).await.problem(404, "unknown-path");
                let detail = problem["detail"].as_str().unwrap();
                let is_last = at + 1 == segments.len();
                assert!(is_last || detail.contains("is empty"), "{path} without {word}: {detail}");
            }
        }
    }
    assert_eq!(it.api.everything().await, before);
}

/// Returns whether a suitable name could turn a path of this template into a path of the other template. This is so if
/// this template has a name in a segment where the other has a fixed word, and all other segments can be equal.
fn may_be_taken_for(template: &str, other: &str) -> bool {
    let (own, others): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), other.split('/').collect());
    let is_name = |word: &str| word.starts_with('{');
    own.len() == others.len()
        && own.iter().zip(&others).all(|(own, other)| own == other || is_name(own) || is_name(other))
        && own.iter().zip(&others).any(|(own, other)| is_name(own) && !is_name(other))
}

#[test]
fn no_name_in_a_path_makes_it_another_path() {
    assert!(may_be_taken_for("/workflows/{id}", "/workflows/count"));
    let paths: Vec<_> = paths().into_keys().filter(|path| !path.contains("{*")).collect();
    for template in &paths {
        for other in &paths {
            assert!(!may_be_taken_for(template, other), "a name in {template} could turn it into {other}");
        }
    }
}

/// Calls with a body, each with the size limit that its 413 names.
async fn bodies(api: &Api) -> Vec<(CallAccess, u64)> {
    let document = service::api::document();
    let mut found = Vec::new();
    for call in table().into_iter().filter(|call| call.wire == Wire::Rest) {
        if document["paths"][call.name][call.method.to_lowercase()]["requestBody"].is_null() {
            continue;
        }
        let ask =
            request(call, "/v1/decider-tasks/t", "/v1/activity-tasks/t").header("content-type", "application/json");
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b' '; 4_096])));
        let answer = api.ask(ask.body(Body::from_stream(endless))).await;
        found.push((call, answer.problem(413, "too-large")["max"].as_u64().unwrap()));
    }
    found
}

/// Longest body that the service reads to its end after refusing it: the limit of a turn's answer, plus one byte.
const DRAINED_MAX: u64 = 8 * 1024 * 1024 + 1;

#[tokio::test]
async fn every_call_with_a_body_delivers_its_413() {
    let api = Api::open().await;
    let bodies = bodies(&api).await;
    assert!(bodies.len() > 35, "{}", bodies.len());
    let socket = Socket::of(api, ServerLimits::default()).await;
    for (call, max) in bodies {
        let target = request(call, "/v1/decider-tasks/t", "/v1/activity-tasks/t").path();
        let mut peer = socket.connect().await;
        let length = max + 1;
        let head = format!("host: h\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        let sent = async {
            peer.send(&format!("{} {target} HTTP/1.1\r\n{head}", call.method)).await;
            // Many clients send the whole body before they read. The service does not read larger bodies to their end,
            // so their senders must read the response first.
            if length <= DRAINED_MAX {
                peer.send(&" ".repeat(usize::try_from(length).unwrap())).await;
            }
        };
        tokio::time::timeout(PATIENCE, sent).await.expect("the body is read");
        let (head, text) = peer.answer().await;
        assert!(head.starts_with("HTTP/1.1 413 "), "{} {}: {head}", call.method, call.name);
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(problem["max"], max, "{} {}", call.method, call.name);
    }
}
