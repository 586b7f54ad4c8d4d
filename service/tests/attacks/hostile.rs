//! A hostile client that generates requests from a seed: valid, nearly valid and invalid ones. The service must treat
//! every failure as the client's and continue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::hash::sha256_hex;
use crate::line::{Line, Outcome};
use crate::support::{Scratch, Service, baton};
use crate::valid_requests;

/// Number of requests to a service without credentials, and to one with credentials.
const OPEN: usize = 16_000;
const GUARDED: usize = 4_000;

/// Number of concurrent clients.
const CLIENTS: usize = 8;

/// Time after which a missing response is a failure. Valid responses take less here, even under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time after which a client abandons a call that may wait.
const LEAVES_AFTER: Duration = Duration::from_millis(50);

/// Values from responses, to be sent in wrong places.
type Heard = Arc<Mutex<VecDeque<(String, String)>>>;

/// Number of remembered values.
const HEARD_MAX: usize = 300;

struct Hostile {
    rng: Rng,
    document: Value,
    /// Every method of every path.
    calls: Vec<(String, String)>,
    heard: Heard,
    /// Secrets for `authorization`; one of them is sent.
    secrets: Vec<&'static str>,
    host: String,
}

/// One request.
struct Request {
    what: String,
    bytes: Vec<u8>,
    /// Whether it may get a response after a wait, or none.
    waits: bool,
    /// Whether it is not a valid HTTP request; it then gets a separate connection.
    is_broken: bool,
}

impl Hostile {
    fn new(seed: u64, host: &str, heard: Heard, secrets: Vec<&'static str>) -> Self {
        let document = service::api::document();
        let methods = |(path, methods): (&String, &Value)| -> Vec<_> {
            methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect()
        };
        let calls = document["paths"].as_object().unwrap().iter().flat_map(methods).collect();
        Self { rng: Rng::with_seed(seed), document, calls, heard, secrets, host: host.to_owned() }
    }

    /// Whether a random choice of this probability hits: one in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.rng.usize(..times) == 0
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.rng.usize(..of.len())]
    }

    /// A text that is likely to cause failures.
    fn nasty_text(&mut self) -> String {
        let texts: [&str; 34] = [
            "",
            " ",
            "\0",
            "..",
            "../../etc/passwd",
            "%2e%2e%2f",
            "a/b",
            "a:b|c",
            "*",
            "null",
            "-1",
            "0",
            "1e400",
            "NaN",
            "'; DROP TABLE runs; --",
            "{{7*7}}",
            "<script>alert(1)</script>",
            "\u{1b}[2J",
            "\u{9b}31m",
            "\u{202e}",
            "\u{feff}",
            "\u{ffff}",
            "\u{10ffff}",
            "漢字",
            "é\u{301}",
            "\r\nx-evil: 1",
            "P999999999999Y",
            "PT-1S",
            "9999-12-31T23:59:59Z",
            "2026-02-30T25:61:61Z",
            "00000000-0000-0000-0000-000000000000",
            "18446744073709551616",
            "c.fffffffffff.",
            "t.fffffffffff.x.1.0.0.1",
        ];
        match self.rng.usize(..12) {
            0 => self.one(&["a", "漢", "\u{1f980}", "\u{0}"]).repeat(self.rng.usize(..2_000)),
            1 => (0..self.rng.usize(..20)).map(|_| self.rng.char(..)).collect(),
            2 => self.heard(""),
            _ => self.one(&texts).to_owned(),
        }
    }

    fn nasty_value(&mut self) -> Value {
        match self.rng.usize(..14) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(u64::MAX),
            4 => json!(i64::MIN),
            5 => json!(1.5),
            6 => json!(1e300),
            7 => json!([]),
            8 => json!({}),
            9 => json!([{}, [], 1, "x"]),
            10 => (0..100).fold(json!(1), |inner, _| json!([inner])),
            11 => json!({ "type": self.nasty_text() }),
            _ => json!(self.nasty_text()),
        }
    }

    /// A value from an earlier response with this name, or with any name.
    fn heard(&mut self, name: &str) -> String {
        let heard = self.heard.lock().unwrap();
        let fitting: Vec<_> = heard.iter().filter(|(of, _)| name.is_empty() || of == name).collect();
        if fitting.is_empty() { "none".to_owned() } else { fitting[self.rng.usize(..fitting.len())].1.clone() }
    }

    /// A valid value for a name, so that some requests get far.
    fn fitting_text(&mut self, name: &str) -> Option<String> {
        let number = self.rng.usize(..6);
        Some(match name {
            "domain" => "default".to_owned(),
            "workflowId" | "id" => format!("w{number}"),
            "workflowType" | "activityType" | "type" => "order/1".to_owned(),
            "taskList" | "list" => "deciders".to_owned(),
            "activityId" | "activity" | "timerId" | "childId" => format!("a{}", number % 3),
            "scheduleId" => format!("s{number}"),
            "updateId" | "pollId" => format!("u{number}"),
            "name" | "signalName" | "markerName" => "total".to_owned(),
            "cron" => "0 8 * * *".to_owned(),
            "token" | "taskToken" => self.heard("token"),
            "runId" | "page" => self.heard(name),
            _ => return None,
        })
    }

    fn text(&mut self, name: &str) -> String {
        match self.fitting_text(name) {
            Some(fitting) if !self.once_in(12) => fitting,
            _ => self.nasty_text(),
        }
    }

    /// A value that a schema allows, with exceptions.
    fn value(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        if self.once_in(40) {
            return self.nasty_value();
        }
        if depth > 8 {
            return Value::Null;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.document.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default();
            return self.value(name, &schema, depth + 1);
        }
        for either in ["oneOf", "anyOf"] {
            if let Some(schemas) = schema[either].as_array().filter(|schemas| !schemas.is_empty()) {
                let schema = schemas[self.rng.usize(..schemas.len())].clone();
                return self.value(name, &schema, depth + 1);
            }
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
            return values[self.rng.usize(..values.len())].clone();
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) => kinds[self.rng.usize(..kinds.len())].as_str().unwrap_or_default(),
            _ => "",
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => (0..self.rng.usize(..4)).map(|_| self.value(name, &schema["items"], depth + 1)).collect(),
            "integer" | "number" => {
                let edges =
                    [json!(0), json!(1), json!(2), json!(1_000), json!(100_000), json!(i64::MAX), json!(u64::MAX)];
                edges[self.rng.usize(..edges.len())].clone()
            }
            "boolean" => json!(self.rng.bool()),
            "null" => Value::Null,
            "string" => match schema["format"].as_str() {
                Some("date-time") => {
                    json!(self.one(&["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]))
                }
                Some("duration") => json!(self.one(&["PT1S", "PT0S", "P30D", "PT1H"])),
                Some("uuid") => json!(self.heard("runId")),
                _ => json!(self.text(name)),
            },
            // A payload may be any value.
            _ => self.nasty_value(),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_there = if required.contains(&&**name) { !self.once_in(60) } else { self.once_in(3) };
            if is_there {
                object.insert(name.clone(), self.value(name, schema, depth + 1));
            }
        }
        if self.once_in(60) {
            object.insert(self.nasty_text(), self.nasty_value());
        }
        Value::Object(object)
    }

    /// The bytes of a body, sometimes with an error.
    fn body(&mut self, value: &Value) -> Vec<u8> {
        let mut bytes = value.to_string().into_bytes();
        if !self.once_in(15) {
            return bytes;
        }
        match self.rng.usize(..8) {
            0 => bytes.truncate(self.rng.usize(..=bytes.len())),
            1 => {
                let at = self.rng.usize(..bytes.len());
                bytes[at] = self.rng.u8(..);
            }
            2 => bytes.extend_from_slice(b"{}"),
            3 => bytes.insert(0, 0xff),
            4 => bytes = vec![b'['; 100_000],
            5 => bytes = Vec::new(),
            6 => bytes = format!("{{\"a\":1,\"a\":{}}}", "9".repeat(400)).into_bytes(),
            _ => bytes.resize(3_000_000, b' '),
        }
        bytes
    }

    fn headers(&mut self, headers: &mut Vec<(String, String)>) {
        let host = if self.once_in(40) { "evil.example".to_owned() } else { self.host.clone() };
        headers.push(("host".to_owned(), host));
        if !self.secrets.is_empty() && !self.once_in(10) {
            headers.push(("authorization".to_owned(), format!("Bearer {}", self.one(&self.secrets.clone()))));
        }
        if self.once_in(20) {
            let (name, value) = self.one(&[
                &("authorization", "Bearer "),
                &("authorization", "Basic Og=="),
                &("authorization", "AWS4-HMAC-SHA256 Credential=/////, SignedHeaders=, Signature="),
                &("origin", "https://evil.example"),
                &("sec-fetch-site", "cross-site"),
                &("content-encoding", "gzip"),
                &("expect", "100-continue"),
                &("range", "bytes=0-18446744073709551615"),
                &("if-match", "\"-1\""),
                &("if-none-match", "W/\"x\", *"),
                &("accept", "text/event-stream"),
                &("last-event-id", "18446744073709551616"),
                &("idempotency-key", ""),
                &("baton-node-pass", "0"),
                &("traceparent", "00-0-0-0"),
                &("connection", "close, upgrade"),
                &("upgrade", "h2c"),
            ]);
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        if self.once_in(10) {
            headers.push(("idempotency-key".to_owned(), format!("k{}", self.rng.usize(..50))));
        }
    }

    fn assemble(&mut self, method: &str, target: &str, mut headers: Vec<(String, String)>, body: &[u8]) -> Vec<u8> {
        self.headers(&mut headers);
        headers.push(("content-length".to_owned(), body.len().to_string()));
        let mut bytes = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }

    fn rest(&mut self) -> Request {
        let (method, path) = self.calls[self.rng.usize(..self.calls.len())].clone();
        let operation = self.document["paths"][&path][method.to_lowercase()].clone();
        // Requests that would delete or deprecate the domain are sent for another domain.
        let ends_domain = path.starts_with("/v1/domains/{domain}")
            && (method == "DELETE" && path.ends_with("{domain}") || path.ends_with("domain}/deprecate"));
        let mut target = String::new();
        for segment in path.split('/').skip(1) {
            target.push('/');
            let Some(name) = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else {
                target.push_str(segment);
                continue;
            };
            let text = if ends_domain { self.one(&["d1", "d2", "nobody"]).to_owned() } else { self.text(name) };
            if self.once_in(100) {
                target.push_str(self.one(&["%", "%zz", "%00", "%ff", "%c3%28", "a b", "\u{e9}"]));
            } else {
                target.push_str(&utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string());
            }
        }
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        let mut waits = operation["responses"].get("504").is_some();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            if name == "Prefer" {
                // Without a preference, a poll waits for long.
                let prefer = if self.once_in(30) { self.nasty_text() } else { "wait=0".to_owned() };
                waits |= prefer != "wait=0";
                let prefer: String = prefer.chars().filter(char::is_ascii_graphic).take(100).collect();
                headers.push(("prefer".to_owned(), prefer));
            } else if parameter["in"] == "query" && self.once_in(3) {
                let value = match self.value(name, &parameter["schema"], 0) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                query.push(format!("{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC)));
            }
        }
        if self.once_in(60) {
            query.push(self.one(&["limit=-1", "limit=1&limit=2", "=", "%", "after=%00", "x=1"]).to_owned());
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let content = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = if content.is_null() {
            if self.once_in(20) { b"{}".to_vec() } else { Vec::new() }
        } else {
            let content = content.clone();
            let value = self.value("", &content, 0);
            self.body(&value)
        };
        if !body.is_empty() || self.once_in(10) {
            let kind = if self.once_in(30) { "text/plain" } else { "application/json" };
            headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        let sent_as =
            if self.once_in(50) { self.one(&["PUT", "HEAD", "OPTIONS", "TRACE", "PATCH", "QUERY"]) } else { &method };
        let bytes = self.assemble(sent_as, &target, headers, &body);
        Request { what: format!("{sent_as} {path}"), bytes, waits, is_broken: false }
    }

    fn swf(&mut self) -> Request {
        let mut requests = valid_requests::requests(&self.heard("runId"));
        let (operation, mut body) = requests.swap_remove(self.rng.usize(..requests.len()));
        let members: Vec<String> = body.as_object().unwrap().keys().cloned().collect();
        for member in members {
            if member == "taskToken" {
                body[&member] = json!(self.heard("token"));
            }
            if member == "nextPageToken" && self.once_in(2) {
                body[&member] = json!(self.heard("nextPageToken"));
            }
            if member == "workflowId" {
                body[&member] = json!(self.text("workflowId"));
            }
            match self.rng.usize(..40) {
                0 => body[&member] = self.nasty_value(),
                1 => drop(body.as_object_mut().unwrap().remove(&member)),
                _ => {}
            }
        }
        let body = self.body(&body);
        let target = format!("SimpleWorkflowService.{}", if self.once_in(50) { "Nothing" } else { operation });
        let headers = vec![
            ("x-amz-target".to_owned(), target),
            ("content-type".to_owned(), "application/x-amz-json-1.0".to_owned()),
        ];
        let bytes = self.assemble("POST", "/", headers, &body);
        Request { what: operation.to_owned(), bytes, waits: operation.starts_with("Poll"), is_broken: false }
    }

    /// Bytes that are no request, several requests, or ambiguous.
    fn broken(&mut self) -> Request {
        let post = format!("POST /v1/domains/default/workflows HTTP/1.1\r\nhost: {}\r\n", self.host);
        let get = format!("GET /v1/domains/default/workflows HTTP/1.1\r\nhost: {}\r\n", self.host);
        let at = self.rng.usize(..24);
        let bytes = match at {
            0 => {
                format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            }
            1 => format!("{post}content-length: -1\r\n\r\n"),
            2 => format!("{post}content-length: 1\r\ncontent-length: 2\r\n\r\n{{}}"),
            3 => format!("{post}content-length: 18446744073709551616\r\n\r\n{{}}"),
            4 => format!("{post}content-length: 18446744073709551615\r\n\r\n{{}}"),
            5 => format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{{}}"),
            6 => format!("{post}transfer-encoding: chunked\r\n\r\n2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(20_000)),
            7 => format!("{post}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            8 => format!("{post}transfer-encoding: chunked\r\n\r\n0\r\n{}\r\n", "t: 1\r\n".repeat(5_000)),
            9 => format!("{get}no colon\r\n\r\n"),
            10 => format!("{get}x: \0\r\n\r\n"),
            11 => format!("{get}x: {}\r\n\r\n", "y".repeat(200_000)),
            12 => format!("{get}{}\r\n", "x: y\r\n".repeat(2_000)),
            13 => format!("{get} folded: 1\r\n\r\n"),
            14 => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            15 => "GET /\r\n".to_owned(),
            16 => format!("GET http://evil.example/metrics HTTP/1.1\r\nhost: {}\r\n\r\n", self.host),
            17 => format!("GET /{} HTTP/1.1\r\nhost: {}\r\n\r\n", "a".repeat(200_000), self.host),
            18 => "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n".to_owned(),
            19 => "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".to_owned(),
            20 => format!("{get}\r\n").repeat(50),
            21 => format!("{post}content-length: 100000\r\n\r\n{{\"workflowId\":"),
            22 => format!("{get}host: other\r\n\r\n"),
            _ => {
                let bytes: Vec<u8> = (0..self.rng.usize(..500)).map(|_| self.rng.u8(..)).collect();
                return Request { what: "noise".to_owned(), bytes, waits: false, is_broken: true };
            }
        };
        Request { what: format!("broken {at}"), bytes: bytes.into_bytes(), waits: false, is_broken: true }
    }

    fn request(&mut self) -> Request {
        match self.rng.usize(..100) {
            0..65 => self.rest(),
            65..92 => self.swf(),
            _ => self.broken(),
        }
    }

    /// Remembers values from a response (ids, tokens) for use in later requests.
    fn remember(&self, name: &str, answer: &Value) {
        match answer {
            Value::Object(members) => members.iter().for_each(|(name, value)| self.remember(name, value)),
            Value::Array(entries) => entries.iter().take(20).for_each(|entry| self.remember(name, entry)),
            Value::String(text) if text.len() < 4_096 => {
                let name = match name {
                    "token" | "taskToken" => "token",
                    "runId" => "runId",
                    "next" | "nextPage" | "page" => "page",
                    "nextPageToken" => "nextPageToken",
                    _ => return,
                };
                let mut heard = self.heard.lock().unwrap();
                heard.push_back((name.to_owned(), text.clone()));
                if heard.len() > HEARD_MAX {
                    heard.pop_front();
                }
            }
            _ => {}
        }
    }
}

/// Number of responses by status.
type Tally = BTreeMap<String, usize>;

async fn attack(seed: u64, requests: usize, address: String, heard: Heard, secrets: Vec<&'static str>) -> Tally {
    let mut hostile = Hostile::new(seed, &address, heard, secrets);
    let (mut line, mut tally) = (Line::to(&address), Tally::new());
    for _ in 0..requests {
        let request = hostile.request();
        let patience = if request.waits { LEAVES_AFTER } else { PATIENCE };
        let outcome = if request.is_broken {
            Line::throw(&address, &request.bytes, PATIENCE).await
        } else {
            line.ask(&request.bytes, patience).await
        };
        let told = || String::from_utf8_lossy(&request.bytes[..request.bytes.len().min(2_000)]).into_owned();
        let came = match outcome {
            Outcome::Answered(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                // An unanswered query is not a failure of the service.
                let nobody_decides = answer.status == 504 && request.what.contains("/{id}/");
                assert!(answer.status < 500 || nobody_decides, "{} {body}\nfor\n{}", answer.status, told());
                if let Ok(answer) = serde_json::from_slice(&answer.body) {
                    hostile.remember("", &answer);
                }
                answer.status.to_string()
            }
            // Only invalid or too long requests may get no response.
            Outcome::Closed if request.is_broken || request.bytes.len() > 1_000_000 => "closed".to_owned(),
            Outcome::Silent if request.waits => "left".to_owned(),
            other => panic!("{other:?} for\n{}", told()),
        };
        *tally.entry(came).or_default() += 1;
    }
    tally
}

async fn attack_with_all(seed: u64, requests: usize, service: &Service, secrets: &[&'static str]) -> Tally {
    let (address, heard) = (service.url.trim_start_matches("http://").to_owned(), Heard::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (seed, each) = (seed + client as u64, requests / CLIENTS);
            tokio::spawn(attack(seed, each, address.clone(), Arc::clone(&heard), secrets.to_vec()))
        })
        .collect();
    let mut all = Tally::new();
    for client in clients {
        for (came, count) in client.await.unwrap() {
            *all.entry(came).or_default() += count;
        }
    }
    println!("{all:?}");
    all
}

/// Checks that the service continues, shuts down on request, and has stored valid histories.
async fn check_service(mut service: Service, scratch: &Scratch, secret: Option<&str>) {
    let client = match secret {
        Some(secret) => client::Client::with_secret(&service.url, secret).unwrap(),
        None => service.client(),
    };
    client.ready().await.unwrap();
    let start: client::body::StartWorkflow =
        serde_json::from_value(json!({ "workflowId": "afterwards", "workflowType": "order/1" })).unwrap();
    client.start(&start, None).await.unwrap();
    client.describe("afterwards", None).await.unwrap();
    assert!(service.child.try_wait().unwrap().is_none());
    service.kill();
    let data = scratch.0.join("data");
    let checked = baton(&["fsck", "--data-dir", data.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_cause_no_failure_of_the_service() {
    let scratch = Scratch::new("hostile");
    let service = Service::start(&scratch.0, &[]);
    let tally = attack_with_all(1, OPEN, &service, &[]).await;
    // A tenth must succeed, or the requests would only reach the first checks of each call.
    let done = |status: &str| tally.get(status).copied().unwrap_or_default();
    assert!(done("200") + done("201") + done("204") > OPEN / 10, "{tally:?}");
    check_service(service, &scratch, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_with_credentials_cause_no_failure() {
    let scratch = Scratch::new("hostile-guarded");
    let config = scratch.0.join("baton.toml");
    let levels = [
        ("ops", "operator = true"),
        ("eyes", "readers-without-payloads = ['default']"),
        ("shop", "applications = ['default']"),
        ("order", "deciders = ['default/deciders']"),
        ("pci", "runners = ['default/PCI']"),
        ("prometheus", "metrics = true"),
    ];
    let text = levels.map(|(secret, level)| {
        format!("[[credentials]]\nname = '{secret}'\nsecret-sha256 = '{}'\n{level}\n", sha256_hex(secret))
    });
    std::fs::write(&config, text.concat()).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let secrets = ["ops", "ops", "ops", "eyes", "shop", "order", "pci", "prometheus", "guess"];
    let tally = attack_with_all(1_000, GUARDED, &service, &secrets).await;
    let count = |status: &str| tally.get(status).copied().unwrap_or_default();
    assert!(count("401") > 0 && count("403") > 0, "{tally:?}");
    check_service(service, &scratch, Some("ops")).await;
}
