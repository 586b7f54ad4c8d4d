//! Confused requests: valid requests with additional query parameters, members, headers and path segments of other
//! calls, generated from a seed. Each either gets the response of the valid request, or is refused with 4xx and without
//! an effect.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use engine::admission::{Limit, QuotaLimits};
use fastrand::Rng;
use serde_json::{Map, Value, json};
use service::access::{CallAccess, Credentials, Level, Wire};
use service::api::{router_for, table};
use tower::ServiceExt as _;

use crate::access::{guarded, kinds, request};
use crate::audit::body;
use crate::methods::node;
use crate::support::{Answer, Api, WORKFLOWS, activity_path, is_page, turn_path};
use crate::unknown_fields::Documented;

/// Seed of the requests. A failure prints it with the number of the request.
const SEED: u64 = 20_261_128;

/// Number of confused requests for each call and kind of credential.
const EACH: usize = 3;

/// Maximum number of additions to one request.
const ADDITIONS_MAX: usize = 4;

/// Names of members, parameters and headers that have a meaning in other protocols or servers.
const FOREIGN_NAMES: [&str; 12] =
    ["domain", "list", "taskList", "token", "taskToken", "id", "workflowId", "runId", "name", "activity", "by", "may"];
const FOREIGN_HEADERS: [(&str, &str); 12] = [
    ("x-amz-target", "SimpleWorkflowService.TerminateWorkflowExecution"),
    ("x-amz-target", "SimpleWorkflowService.DeprecateDomain"),
    ("x-amz-security-token", "other"),
    ("x-http-method-override", "DELETE"),
    ("x-original-url", "/v1/domains/other"),
    ("x-rewrite-url", "/v1/domains/other"),
    ("x-forwarded-prefix", "/v1/domains/other"),
    ("x-forwarded-host", "other"),
    ("baton-domain", "other"),
    ("baton-nodes", "1"),
    ("baton-csrf", "other"),
    ("cookie", "other=other"),
];

/// A request that can be sent repeatedly.
#[derive(Debug, Clone)]
struct Sent {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Value>,
}

impl Sent {
    async fn to(&self, router: &Router) -> Answer {
        let mut request = Request::builder().method(self.method).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        let answer = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        if answer.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            // Streams do not end; their status is enough.
            let (parts, _) = answer.into_parts();
            return Answer { status: parts.status, headers: parts.headers, text: String::new() };
        }
        Answer::read(answer).await
    }
}

/// Calls whose responses differ between repetitions.
const VARYING: [&str; 3] = ["/metrics", "/v1/session", "/v1/secret/rotate"];

/// Status and text of a response. The text is empty if it differs between two equal services.
fn summary<'a>(sent: &Sent, answer: &'a Answer) -> (u16, &'a str) {
    let varies = answer.status.is_success() && VARYING.iter().any(|path| sent.target.starts_with(path));
    (answer.status.as_u16(), if varies { "" } else { &answer.text })
}

/// Names of parameters, headers and members of all calls.
#[derive(Default)]
struct Known {
    query: BTreeSet<String>,
    headers: BTreeSet<String>,
    members: BTreeSet<String>,
    segments: BTreeSet<&'static str>,
}

impl Known {
    fn new() -> Self {
        let mut known = Self::default();
        for call in table().into_iter().filter(|call| call.wire == Wire::Rest) {
            let of = Documented::of(call);
            known.query.extend(of.query);
            known.headers.extend(of.headers.into_iter().map(|name| name.to_ascii_lowercase()));
            known.members.extend(of.members.into_iter().flatten());
            known.segments.extend(call.name.split('/').filter(|word| !word.is_empty() && !word.starts_with('{')));
        }
        known.query.extend(FOREIGN_NAMES.map(str::to_owned));
        known.members.extend(FOREIGN_NAMES.map(str::to_owned));
        known
    }
}

fn any<'a, T>(random: &mut Rng, among: &'a [T]) -> &'a T {
    &among[random.usize(..among.len())]
}

/// Adds parameters, headers or members of other calls to a request. `own` has the names that its call accepts.
fn confuse(random: &mut Rng, known: &Known, own: &Documented, plain: &Sent) -> Sent {
    let mut sent = plain.clone();
    for _ in 0..random.usize(1..=ADDITIONS_MAX) {
        let value = (*any(random, &["other", "default", "w"])).to_owned();
        match random.usize(..5) {
            0 => {
                let names: Vec<_> = known.query.difference(&own.query).collect();
                let mark = if sent.target.contains('?') { '&' } else { '?' };
                sent.target = format!("{}{mark}{}={value}", sent.target, any(random, &names));
            }
            1 | 2 => {
                let own = own.members.clone().unwrap_or_default();
                let names: Vec<_> = known.members.difference(&own).collect();
                let body = sent.body.get_or_insert_with(|| json!({}));
                let value = any(random, &[json!(value), json!({ "name": value }), json!([value]), Value::Null]).clone();
                body.as_object_mut().unwrap().insert((*any(random, &names)).clone(), value);
                if !sent.headers.iter().any(|(name, _)| name == "content-type") {
                    sent.headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
            }
            3 => {
                let own: BTreeSet<_> = own.headers.iter().map(|name| name.to_ascii_lowercase()).collect();
                let names: Vec<_> = known.headers.difference(&own).collect();
                if !names.is_empty() {
                    sent.headers.push(((*any(random, &names)).clone(), value));
                }
            }
            _ => {
                let (name, value) = *any(random, &FOREIGN_HEADERS);
                sent.headers.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    sent
}

/// A service with a run in each of the domains `default` and `other`, whose turn and activity are started. Every such
/// world is equal.
struct World {
    open: Api,
    guarded: Api,
    turn: String,
    activity: String,
}

impl World {
    async fn open() -> Self {
        let open = Api::open().await;
        open.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
        let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
        open.post("/v1/domains/other/workflows", &start).await.json(201);
        let activity = activity_path(&open.activity("w").await);
        open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
        let turn = turn_path(&open.turn().await);
        let guarded = guarded(&open);
        // The clock does not advance: the limit refuses any further request that counts for the other domain.
        let limit = Limit { domain: Some("other".to_owned()), requests_per_second: Some(1), ..Limit::default() };
        open.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
        open.get("/v1/domains/other").await.json(200);
        open.get("/v1/domains/other").await.problem(429, "quota-exceeded");
        Self { open, guarded, turn, activity }
    }

    /// The valid request to a call, with this secret.
    fn plain(&self, call: CallAccess, secret: &str) -> Sent {
        let target = request(call, &self.turn, &self.activity).path();
        let takes_body = Documented::of(call).members.is_some();
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {secret}"))];
        // Polls return at once.
        headers.push(("prefer".to_owned(), "wait=0".to_owned()));
        if takes_body {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Sent { method: call.method, target, headers, body: takes_body.then(|| body(call)) }
    }

    /// Everything that is stored.
    async fn everything(&self) -> String {
        self.open.engine.quotas().replace(QuotaLimits::read(Vec::new()).unwrap());
        self.open.everything().await
    }
}

/// Sends a confused request to one of two equal services, and the valid request to the other. If the confused request
/// is refused, the valid one is then sent to that service too and must get the same response: the refusal had no
/// effect. Returns whether it was refused.
async fn must_agree(routers: (&Router, &Router), plain: &Sent, confused: &Sent, what: &str) -> bool {
    let (expected, found) = (plain.to(routers.0).await, confused.to(routers.1).await);
    if summary(plain, &found) == summary(plain, &expected) {
        return false;
    }
    let what = format!("{what}: {confused:?}\n{found:?}, not\n{expected:?}");
    assert!(found.status.is_client_error(), "{what}");
    assert_ne!(found.status, 429, "it counted for another domain: {what}");
    let is_denied = |answer: &Answer| [401, 403].contains(&answer.status.as_u16());
    // The permission for a batch depends on its operation, which is in the body. An unreadable body is refused before.
    let is_unreadable = plain.target.ends_with("/batches") && found.status == 400;
    assert!(is_unreadable || is_denied(&found) == is_denied(&expected), "another authorization: {what}");
    let after = plain.to(routers.1).await;
    assert_eq!(summary(plain, &after), summary(plain, &expected), "the refusal left something behind: {what}");
    true
}

#[tokio::test]
async fn a_confused_request_acts_like_the_valid_one_or_is_refused() {
    let (known, mut random) = (Known::new(), Rng::with_seed(SEED));
    let (mut refused, mut answered) = (0, 0);
    for (credential, _) in kinds() {
        let (one, two) = (World::open().await, World::open().await);
        assert_eq!((&one.turn, &one.activity), (&two.turn, &two.activity));
        for call in table().into_iter().filter(|call| call.wire == Wire::Rest) {
            for number in 0..EACH {
                let plain = one.plain(call, &credential.name);
                let confused = confuse(&mut random, &known, &Documented::of(call), &plain);
                let what = format!("seed {SEED}, {} {} {}, {number}", credential.name, call.method, call.name);
                let routers = (&one.guarded.router, &two.guarded.router);
                let is_refused = must_agree(routers, &plain, &confused, &what).await;
                refused += usize::from(is_refused);
                answered += usize::from(!is_refused);
            }
        }
        assert_eq!(one.everything().await, two.everything().await, "seed {SEED}, {}", credential.name);
    }
    assert!(refused > 200 && answered > 1_000, "{refused} refused, {answered} answered");
}

/// Additional words in a path lead to another path: to an unknown path, or to one that refuses the method.
#[tokio::test]
async fn additional_words_in_a_path_reach_no_other_call() {
    let (world, known) = (World::open().await, Known::new());
    let before = world.everything().await;
    let existing: Vec<_> = table().into_iter().filter(|call| call.wire == Wire::Rest).collect();
    let fits = |template: &str, target: &str| {
        let (words, found): (Vec<_>, Vec<_>) = (template.split('/').collect(), target.split('/').collect());
        words.len() == found.len()
            && words.iter().zip(&found).all(|(word, found)| word.starts_with('{') || word == found)
    };
    let mut tried = 0;
    for call in existing.iter().filter(|call| !is_page(call.name) && call.name != "/") {
        let plain = world.plain(*call, "operator");
        for segment in &known.segments {
            let mut targets = vec![format!("{}/{segment}", plain.target), format!("/{segment}{}", plain.target)];
            targets.extend(plain.target.strip_prefix("/v1").map(|rest| format!("/v1/{segment}{rest}")));
            for target in targets {
                let is_call = |other: &&CallAccess| other.method == call.method && fits(other.name, &target);
                if existing.iter().any(|other| is_call(&other)) || is_page(&target) {
                    continue;
                }
                let confused = Sent { target, ..plain.clone() };
                let status = confused.to(&world.guarded.router).await.status.as_u16();
                assert!([404, 405].contains(&status), "{status}: {confused:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 2_000, "{tried}");
    assert_eq!(world.everything().await, before);
}

/// Calls between nodes, each with a valid message.
fn messages(run_id: &str, token: &str) -> Vec<(&'static str, Value)> {
    let list = json!({ "domain": "default", "isDecider": true, "name": "deciders" });
    let offer = json!({ "list": list, "workflowId": "w", "runId": run_id, "scheduledEventId": 2 });
    let run = json!({ "domain": "default", "workflowId": "w", "runId": run_id });
    let with = |more: Value| {
        let mut message = run.clone();
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    let wait = json!({ "secs": 0, "nanos": 0 });
    vec![
        ("/nodes/waiting", json!({ "at": "http://127.0.0.1:1", "list": list })),
        ("/nodes/offer", json!({ "by": "http://127.0.0.1:1", "offer": offer })),
        ("/nodes/query", with(json!({ "name": "q", "wait": wait }))),
        ("/nodes/validate-update", with(json!({ "asked": { "updateId": "u", "name": "n" }, "wait": wait }))),
        (
            "/nodes/record",
            json!({ "token": token, "what": { "failed": { "reason": "r" } }, "results": [], "updates": [] }),
        ),
        ("/nodes/withdraw-update", with(json!({ "updateId": "u" }))),
        (
            "/nodes/query-results",
            with(json!({
                "scheduledEventId": 2, "startedEventId": 3, "queryOnly": true, "version": 3, "outcomes": [],
            })),
        ),
        ("/nodes/lost", json!({ "polls": [1] })),
        ("/nodes/forward", json!({ "tasks": [offer] })),
        (
            "/nodes/slots",
            json!({
                "domain": "default",
                "reports": [{
                    "list": list, "workflowId": "w", "runId": run_id, "scheduledEventId": 2, "news": "started",
                }],
            }),
        ),
        ("/nodes/limits", json!({ "lists": [{ "list": list }], "withTasks": true })),
        ("/nodes/append-output", json!({ "token": token, "chunks": ["x"] })),
        ("/nodes/read-output", with(json!({ "activityId": "a", "from": 0, "wait": wait }))),
    ]
}

/// A node with a run in each of two domains.
struct NodeWorld {
    open: Api,
    guarded: Router,
    run_id: String,
    token: String,
}

impl NodeWorld {
    async fn open() -> Self {
        let open = node().await;
        open.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
        let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
        open.post("/v1/domains/other/workflows", &start).await.json(201);
        let run_id = open.start("w").await;
        let token = open.turn().await["token"].as_str().unwrap().to_owned();
        let credentials = kinds().into_iter().map(|(credential, _)| credential).collect::<Vec<_>>();
        let guarded = router_for(open.front.clone(), Credentials::new(credentials).unwrap());
        Self { open, guarded, run_id, token }
    }

    /// A message with this `authorization` header.
    fn plain(target: &str, message: &Value, authorization: &str) -> Sent {
        let headers = [("authorization", authorization), ("content-type", "application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Sent { method: "POST", target: target.to_owned(), headers, body: Some(message.clone()) }
    }

    fn pass(&self) -> String {
        format!("Baton-Node {}", self.open.engine.node_pass())
    }
}

/// Members that only messages of other calls have, with their values there, but in another domain.
fn foreign_members(own: &Value, all: &[(&str, Value)]) -> Vec<(String, Value)> {
    let own = own.as_object().unwrap();
    let others = all.iter().flat_map(|(_, message)| message.as_object().unwrap().clone());
    let others: Map<String, Value> = others.filter(|(name, _)| !own.contains_key(name)).collect();
    let elsewhere = |value: Value| serde_json::from_str(&value.to_string().replace("default", "other")).unwrap();
    others.into_iter().map(|(name, value)| (name, elsewhere(value))).collect()
}

#[tokio::test]
async fn a_confused_node_message_acts_like_the_valid_one_or_fails() {
    let (known, mut random) = (Known::new(), Rng::with_seed(SEED));
    let (one, two) = (NodeWorld::open().await, NodeWorld::open().await);
    assert_eq!((&one.run_id, &one.token), (&two.run_id, &two.token));
    let all = messages(&one.run_id, &one.token);
    let calls: BTreeSet<_> =
        table().into_iter().filter(|call| call.wire == Wire::Nodes).map(|call| call.name).collect();
    assert_eq!(all.iter().map(|(target, _)| *target).collect::<BTreeSet<_>>(), calls, "a message for each call");
    // Members of other messages are never valid here. Members of this message may also be members of REST bodies.
    let nothing = || Documented { query: BTreeSet::new(), headers: BTreeSet::new(), members: None };
    for (target, message) in &all {
        let plain = NodeWorld::plain(target, message, &one.pass());
        let expected = plain.to(&one.guarded).await;
        assert!(expected.status.is_success(), "{target}: {expected:?}");
        assert_eq!(summary(&plain, &plain.to(&two.guarded).await), summary(&plain, &expected), "{target}");
        let own: BTreeSet<String> = message.as_object().unwrap().keys().cloned().collect();
        // Optional members, which the message lacks.
        let optional = ["by", "may", "seen", "input", "reason", "details", "otherwise"].map(str::to_owned);
        for number in 0..EACH * 20 {
            let own = Documented { members: Some(own.iter().chain(&optional).cloned().collect()), ..nothing() };
            let mut confused = confuse(&mut random, &known, &own, &plain);
            // A node refuses a message form that it does not know, and `confused` must be accepted.
            confused.headers.retain(|(name, _)| name != "baton-nodes" && name != "prefer");
            for (name, value) in foreign_members(message, &all).into_iter().filter(|(name, _)| !optional.contains(name))
            {
                if random.bool() {
                    confused.body.as_mut().unwrap()[name] = value;
                }
            }
            let what = format!("seed {SEED}, {target}, {number}");
            must_agree((&one.guarded, &two.guarded), &plain, &confused, &what).await;
            // Additions do not turn another caller into a node.
            for (credential, _) in kinds() {
                let mut stranger = confused.clone();
                stranger.headers[0].1 = format!("Bearer {}", credential.name);
                let answer = stranger.to(&two.guarded).await;
                assert_eq!(answer.status, 401, "{what}: {stranger:?}: {}", answer.text);
            }
        }
    }
    assert_eq!(one.open.everything().await, two.open.everything().await, "seed {SEED}");
}

#[tokio::test]
async fn a_node_pass_opens_no_other_calls() {
    let world = NodeWorld::open().await;
    let before = world.open.everything().await;
    for call in table().into_iter().filter(|call| call.wire == Wire::Rest) {
        if call.level == Level::Nothing {
            continue;
        }
        let target = request(call, "/v1/decider-tasks/t", "/v1/activity-tasks/t").path();
        let sent = Sent { method: call.method, ..NodeWorld::plain(&target, &json!({}), &world.pass()) };
        let status = sent.to(&world.guarded).await.status.as_u16();
        // The service throttles further requests after many with a wrong secret.
        assert!([401, 429].contains(&status), "{} {}: {status}", call.method, call.name);
    }
    for call in table().into_iter().filter(|call| call.wire == Wire::Swf) {
        let mut sent = NodeWorld::plain("/", &json!({ "domain": "default" }), &world.pass());
        sent.headers.push(("x-amz-target".to_owned(), format!("SimpleWorkflowService.{}", call.name)));
        let answer = sent.to(&world.guarded).await;
        let is_let_in = answer.text.contains("Validation") || answer.text.contains("UnknownResource");
        assert!(answer.status.is_client_error() && !is_let_in, "{}: {answer:?}", call.name);
    }
    // Two `authorization` headers are refused.
    let mut sent = NodeWorld::plain("/nodes/lost", &json!({ "polls": [] }), &world.pass());
    sent.headers.push(("authorization".to_owned(), "Bearer operator".to_owned()));
    sent.to(&world.guarded).await.problem(400, "bad-header");
    assert_eq!(world.open.everything().await, before);
}
