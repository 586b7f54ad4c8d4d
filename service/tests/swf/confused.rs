//! Confused requests: valid ones with additional members of other operations, query parameters, headers of other
//! protocols, and second targets, generated from a seed. Each gets the response of the valid request, or is refused
//! without an effect.

use axum::body::Body;
use axum::http::Request;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::{Answer, Swf};
use crate::unknown_members::{World, calls, credentials, is_refused, strangers};

/// Seed of the requests. A failure prints it with the number of the request.
const SEED: u64 = 20_120_125;

/// Number of confused requests for each operation and kind of credential.
const EACH: usize = 4;

/// Maximum number of additions to one request.
const ADDITIONS_MAX: usize = 4;

/// Headers that have a meaning in REST, between nodes, for proxies or for other AWS services.
const HEADERS: [(&str, &str); 14] = [
    ("x-amz-security-token", "there"),
    ("x-amz-user-agent", "there"),
    ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ("x-amzn-target", "SimpleWorkflowService.DeprecateDomain"),
    ("baton-domain", "there"),
    ("baton-nodes", "1"),
    ("baton-csrf", "there"),
    ("cookie", "there=there"),
    ("idempotency-key", "there"),
    ("prefer", "wait=1"),
    ("if-match", "\"there\""),
    ("accept", "text/event-stream"),
    ("x-http-method-override", "DELETE"),
    ("x-original-url", "/v1/domains/there"),
];

/// Query strings that have a meaning in REST or in AWS's query protocol.
const QUERIES: [&str; 8] = [
    "domain=there",
    "name=there",
    "runId=there",
    "Action=DeprecateDomain&Version=2012-01-25",
    "X-Amz-Target=SimpleWorkflowService.DeprecateDomain",
    "X-Amz-Credential=there&X-Amz-Signature=there",
    "access_token=operator",
    "_method=DELETE",
];

/// A request that can be sent repeatedly.
#[derive(Debug, Clone)]
struct Sent {
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

impl Sent {
    fn plain(who: &str, operation: &str, body: Value) -> Self {
        let headers = vec![
            ("x-amz-target", format!("SimpleWorkflowService.{operation}")),
            ("content-type", "application/x-amz-json-1.0".to_owned()),
            ("authorization", format!("Bearer {who}")),
        ];
        Self { target: "/".to_owned(), headers, body }
    }

    async fn to(&self, swf: &Swf) -> Answer {
        let mut request = Request::post(&self.target);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        swf.request(request.body(Body::from(self.body.to_string())).unwrap()).await
    }
}

fn summary(answer: &Answer) -> (u16, &str) {
    (answer.status, &answer.text)
}

fn any<'a, T>(random: &mut Rng, among: &'a [T]) -> &'a T {
    &among[random.usize(..among.len())]
}

#[tokio::test]
async fn a_confused_request_acts_like_the_valid_one_or_is_refused() {
    let (one, two) = (World::new().await, World::new().await);
    let mut random = Rng::with_seed(SEED);
    let (mut answered, mut refused) = (0, 0);
    for credential in credentials() {
        let who = credential.name.as_str();
        for call in calls() {
            for number in 0..EACH {
                let plain = Sent::plain(who, call.name, one.here.input(call));
                let mut confused = plain.clone();
                let mut is_doubled = false;
                for _ in 0..random.usize(1..=ADDITIONS_MAX) {
                    match random.usize(..8) {
                        0..=2 => {
                            let member = *any(&mut random, &strangers(call));
                            confused.body[member] = any(&mut random, &one.there.values(member)).clone();
                        }
                        3 | 4 => {
                            let (name, value) = *any(&mut random, &HEADERS);
                            confused.headers.push((name, value.to_owned()));
                        }
                        5 | 6 => {
                            let mark = if confused.target.contains('?') { '&' } else { '?' };
                            confused.target = format!("{}{mark}{}", confused.target, any(&mut random, &QUERIES));
                        }
                        _ => {
                            let other = any(&mut random, &calls()).name;
                            let target = ("x-amz-target", format!("SimpleWorkflowService.{other}"));
                            let at = random.usize(..=confused.headers.len());
                            confused.headers.insert(at, target);
                            is_doubled = true;
                        }
                    }
                }
                let what = format!("seed {SEED}, {who}: {} {number}: {confused:?}", call.name);
                let (expected, found) = (plain.to(&one.guarded).await, confused.to(&two.guarded).await);
                if is_doubled {
                    assert!(found.status == 400 && found.text.contains("UnknownOperation"), "{what}: {found:?}");
                    let after = plain.to(&two.guarded).await;
                    assert_eq!(summary(&after), summary(&expected), "the refusal changed something: {what}");
                    refused += 1;
                } else {
                    assert_eq!(summary(&found), summary(&expected), "{what}");
                    answered += 1;
                }
                assert!(!is_refused(&expected) || found.status == 400, "{what}: {found:?}");
            }
        }
    }
    assert!(answered > 1_000 && refused > 200, "{answered} answered, {refused} refused");
    for (domain, run_id) in [("here", &one.here.run_id), ("there", &one.there.run_id)] {
        let open = json!({ "domain": domain, "startTimeFilter": { "oldestDate": 0 } });
        let execution = json!({ "workflowId": domain, "runId": run_id });
        let history = json!({ "domain": domain, "execution": execution });
        for (operation, input) in [("ListOpenWorkflowExecutions", open), ("GetWorkflowExecutionHistory", history)] {
            let (one, two) = (one.open.ask(operation, &input).await, two.open.ask(operation, &input).await);
            assert_eq!(summary(&one), summary(&two), "seed {SEED}, {operation} of {domain}");
        }
    }
}

#[tokio::test]
async fn every_operation_refuses_a_second_target() {
    let world = World::new().await;
    for call in calls() {
        for other in [call.name, "ListDomains"] {
            let mut sent = Sent::plain("operator", call.name, world.here.input(call));
            sent.headers.push(("x-amz-target", format!("SimpleWorkflowService.{other}")));
            let answer = sent.to(&world.guarded).await;
            answer
                .fault("com.amazon.coral.service#UnknownOperationException", "X-Amz-Target must be sent exactly once");
        }
    }
}
