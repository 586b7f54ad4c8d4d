//! Fuzz targets for requests of a caller: the REST API, the SWF protocol and its signatures, and tokens that the
//! service has not issued.

use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::{Engine, Settings};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use service::access::{ClaimRule, Credential, Credentials, Issuer, Stanzas};
use service::api::{router, router_for};
use simulation::manual_clock::ManualClock;
use store::memory::Memory;
use tower::ServiceExt as _;

/// Creates a new engine for one input. Its seed is fixed, so that a failure can be reproduced from the input alone.
async fn engine() -> Arc<Engine> {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    Engine::open(Arc::new(Memory::new()), ManualClock::new(), settings).await.expect("an empty store opens")
}

/// Runs a target on a paused clock, which skips waits.
pub(super) fn at_once(target: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(target);
}

/// Values from earlier responses (tokens, ids, page tokens), each under the placeholder that stands for it in later
/// requests.
#[derive(Default)]
struct Named(Vec<(&'static str, String)>);

impl Named {
    const MEMBERS: [(&'static str, &'static str); 7] = [
        ("token", "$TOKEN"),
        ("taskToken", "$TOKEN"),
        ("nextPage", "$PAGE"),
        ("nextPageToken", "$PAGE"),
        ("runId", "$RUN"),
        ("etag", "$TAG"),
        ("updateId", "$UPDATE"),
    ];

    fn note(&mut self, answer: &Value) {
        match answer {
            Value::Object(members) => {
                for (name, value) in members {
                    if let (Some((_, word)), Value::String(text)) =
                        (Self::MEMBERS.iter().find(|(member, _)| member == name), value)
                    {
                        self.0.retain(|(known, _)| known != word);
                        self.0.push((word, text.clone()));
                    }
                    self.note(value);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.note(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn put_into(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }
}

/// Maximum number of requests in one input.
const REQUESTS_MAX: usize = 12;

/// One request of an input. Its text form is `METHOD path`, headers, an empty line, and a body. A line `---` separates
/// requests.
struct Written<'a> {
    head: &'a str,
    body: &'a str,
}

impl<'a> Written<'a> {
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        text.split("\n---\n").take(REQUESTS_MAX).map(|text| {
            let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
            Self { head, body }
        })
    }

    /// Returns the request, or `None` if the text cannot be a valid HTTP request.
    fn request(&self, named: &Named) -> Option<Request<Body>> {
        let head = named.put_into(self.head);
        let mut lines = head.lines();
        let (method, path) = lines.next()?.split_once(' ')?;
        let mut request = Request::builder()
            .method(method.parse::<Method>().ok()?)
            .uri(path.parse::<Uri>().ok().filter(|uri| uri.path().starts_with('/'))?);
        for line in lines {
            let (name, value) = line.split_once(": ")?;
            request = request.header(name, value);
        }
        if !self.body.is_empty() && !head.to_ascii_lowercase().contains("content-type") {
            request = request.header("content-type", "application/json");
        }
        request.body(named.put_into(self.body).into()).ok()
    }
}

/// Sends a request to the router. Panics if the service responds with a server error other than a timeout, or, for
/// REST, with an error that has no code.
async fn ask(router: &Router, request: Request<Body>) -> (StatusCode, Value) {
    let what = format!("{} {}", request.method(), request.uri());
    let answer = router.clone().oneshot(request).await.expect("a router refuses in answers alone");
    let status = answer.status();
    let is_stream = answer.headers().get("content-type").is_some_and(|it| it == "text/event-stream");
    // A gateway timeout is allowed: no decider answers queries and updates here.
    assert!(!status.is_server_error() || status == StatusCode::GATEWAY_TIMEOUT, "{what}: {status}");
    if is_stream {
        return (status, Value::Null);
    }
    let etag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let bytes = answer.into_body().collect().await.expect("a body from memory").to_bytes();
    let mut said = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if let (Some(members), Some(etag)) = (said.as_object_mut(), etag) {
        members.insert("etag".to_owned(), etag.into());
    }
    if status.is_client_error() && what.contains("/v1/") && !what.starts_with("HEAD") {
        assert!(said.get("code").is_some_and(Value::is_string), "{what}: {status} without a code: {said}");
    }
    (status, said)
}

/// Target `rest`: sends the requests of the input to the REST API, in order.
pub(super) fn rest(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    at_once(async {
        let router = router(engine().await);
        let mut named = Named::default();
        for written in Written::all(text) {
            if let Some(request) = written.request(&named) {
                named.note(&ask(&router, request).await.1);
            }
        }
    });
}

/// Target `swf`: sends one SWF operation per line of the input, in the form `Operation {body}`.
pub(super) fn swf(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    at_once(async {
        let router = router(engine().await);
        let mut named = Named::default();
        for line in text.lines().take(REQUESTS_MAX) {
            let (operation, body) = line.split_once(' ').unwrap_or((line, ""));
            let request = Request::post("/")
                .header("x-amz-target", format!("SimpleWorkflowService.{operation}"))
                .header("content-type", "application/x-amz-json-1.0")
                .body(named.put_into(body).into());
            let Ok(request) = request else { continue };
            let (status, said) = ask(&router, request).await;
            let is_fault = said.get("__type").is_some_and(Value::is_string);
            assert_eq!(status.is_client_error(), is_fault, "{line}: {status} {said}");
            named.note(&said);
        }
    });
}

/// Target `signature`: sends header lines and a body to a service that requires signed requests. The input's author
/// does not know the secret, so the request must be rejected.
pub(super) fn signature(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    at_once(async {
        let credential = Credential {
            name: "robot".to_owned(),
            access_key_id: Some("AKIDEXAMPLE".to_owned()),
            secret_access_key: Some("nobody knows it at all".to_owned()),
            operator: true,
            ..Credential::default()
        };
        let credentials = Credentials::new(vec![credential]).expect("a credential");
        let router = router_for(engine().await, credentials);
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut request = Request::post("/");
        for line in head.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            request = request.header(name, value);
        }
        let Ok(request) = request.body(Body::from(body.to_owned())) else { return };
        let (status, said) = ask(&router, request).await;
        assert!(status.is_client_error(), "let in: {said}");
    });
}

/// File with the keys of an issuer: one public key for which no private key is known.
static KEYS: LazyLock<tempfile::NamedTempFile> = LazyLock::new(|| {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": URL_SAFE_NO_PAD.encode([9; 32]) });
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(json!({ "keys": [key] }).to_string().as_bytes()).expect("it is written");
    file
});

/// Target `jwt`: sends the input as a bearer token, first unchanged and then as a JWT whose parts are the encoded lines
/// of the input. No issuer has signed either token, so the service must reject both.
pub(super) fn jwt(input: &[u8]) {
    at_once(async {
        let one = |text: &str| vec![text.to_owned()];
        let (claim, has) = ("groups".to_owned(), "ops".to_owned());
        let issuer = Issuer {
            name: "corp".to_owned(),
            issuer: "https://id.example".to_owned(),
            audiences: one("baton"),
            jwks_file: Some(KEYS.path().to_owned()),
            rules: vec![ClaimRule { claim, has, operator: true, ..ClaimRule::default() }],
            ..Issuer::default()
        };
        let stanzas = Stanzas { issuers: vec![issuer], ..Stanzas::default() };
        let router = router_for(engine().await, Credentials::new(stanzas).expect("an issuer"));
        let parts: Vec<String> = input.split(|byte| *byte == b'\n').map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
        for token in [input, parts.join(".").as_bytes()] {
            let Ok(value) = HeaderValue::from_bytes(&[b"Bearer ", token].concat()) else { continue };
            let request = Request::get("/v1/domains").header(AUTHORIZATION, value).body(Body::empty());
            let (status, said) = ask(&router, request.expect("a request")).await;
            assert!(status.is_client_error(), "let in: {said}");
        }
    });
}

/// Target `token`: sends the input in every parameter that takes a token. The service has not issued it.
pub(super) fn token(input: &[u8]) {
    at_once(async {
        let engine = engine().await;
        let text = String::from_utf8_lossy(input);
        assert!(engine.tasks().decider_token(&text).is_err(), "a turn of {text}");
        assert!(engine.tasks().activity_token(&text).is_err(), "an activity of {text}");
        let router = router(engine);
        let escaped = input.iter().fold(String::new(), |escaped, byte| format!("{escaped}%{byte:02X}"));
        for path in ["workflows", "schedules", "workflow-types", "activity-types"] {
            let request = Request::get(format!("/v1/domains/default/{path}?page={escaped}")).body(Body::empty());
            if let Ok(request) = request {
                ask(&router, request).await;
            }
        }
        let operations = [
            ("ListOpenWorkflowExecutions", json!({ "domain": "default", "startTimeFilter": { "oldestDate": 0 } })),
            ("ListDomains", json!({ "registrationStatus": "REGISTERED" })),
            ("PollForDecisionTask", json!({ "domain": "default", "taskList": { "name": "l" } })),
        ];
        for (operation, mut body) in operations {
            if let Some(members) = body.as_object_mut() {
                members.insert("nextPageToken".to_owned(), text.clone().into());
            }
            let request = Request::post("/")
                .header("x-amz-target", format!("SimpleWorkflowService.{operation}"))
                .body(body.to_string().into());
            if let Ok(request) = request {
                ask(&router, request).await;
            }
        }
    });
}
