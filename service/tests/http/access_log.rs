//! The access log: one line per request, with caller and call, and without payloads, secrets and tokens.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use service::access::{CallAccess, Level, Wire};
use service::access::{Credential, Credentials};
use service::access_log::AccessLog;
use service::api::router_for;
use service::api::table;
use service::http::{Server, ServerLimits, with_request_log};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::hash::sha256_hex;
use crate::support::{Answer, Api, Ask, WORKFLOWS, activity_path, turn_path};

/// Text that every payload contains, and secret of the caller.
const NEEDLE: &str = "sesame-in-a-payload";

/// A service with an access log, and one over the same engine without.
struct Logged {
    open: Api,
    asks: Api,
    log: Arc<AccessLog>,
    path: PathBuf,
    _directory: TempDir,
}

impl Logged {
    async fn open() -> Self {
        let open = Api::open().await;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.jsonl");
        let lost = |lines| panic!("{lines} lines are lost");
        let log = AccessLog::open(path.to_str().unwrap().parse().unwrap(), lost).unwrap();
        let secret_sha256 = sha256_hex(NEEDLE);
        let operator = Credential { name: "ops".to_owned(), secret_sha256, operator: true, ..Credential::default() };
        let router = router_for(Arc::clone(&open.engine), Credentials::new(vec![operator]).unwrap());
        let router = with_request_log(router, &open.engine, Some(Arc::clone(&log)));
        let asks = open.with(router);
        Self { open, asks, log, path, _directory: directory }
    }

    async fn ask(&self, ask: Ask) -> Answer {
        let ask = ask.header("authorization", &format!("Bearer {NEEDLE}"));
        Answer::read(self.asks.call(ask).await).await
    }

    /// Returns and removes the lines written since the last call.
    async fn lines(&self) -> Vec<Value> {
        self.log.flush().await;
        let text = std::fs::read_to_string(&self.path).unwrap();
        std::fs::write(&self.path, "").unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn line(&self) -> Value {
        let lines = self.lines().await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.into_iter().next().unwrap()
    }
}

#[tokio::test]
async fn each_call_logs_one_line_without_payload_secret_or_token() {
    let it = Logged::open().await;
    let task = activity_path(&it.open.activity("w").await);
    it.open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": NEEDLE })).await.json(202);
    let turn = turn_path(&it.open.turn().await);
    it.open.engine.begin_shutdown();
    let calls: Vec<CallAccess> = table().into_iter().filter(|call| call.wire == Wire::Rest).collect();
    let body = json!({ "input": NEEDLE, "result": NEEDLE, "details": NEEDLE, "reason": NEEDLE, "identity": NEEDLE,
        "context": NEEDLE });
    for call in calls {
        let list = if call.level == Level::Decider { "deciders" } else { "acts" };
        let path = call.name.replace("/v1/decider-tasks/{token}", &turn).replace("/v1/activity-tasks/{token}", &task);
        let path = path.replace("{domain}", "default").replace("{list}", list).replace("{id}", "w");
        let path = path.replace("{name}", "s").replace("{activity}", "a").replace("{type}", "t");
        let path = path.replace("{*page}", "install");
        let path =
            format!("{path}?identity={NEEDLE}&page={NEEDLE}&tag={NEEDLE}&reason={NEEDLE}&limit=7&status={NEEDLE}%20");
        let ask = Ask::new(call.method, &path).header("content-type", "application/json").body(body.to_string());
        let answer = it.ask(ask).await;
        let line = it.line().await;
        let text = line.to_string();
        assert_eq!((&line["method"], &line["route"]), (&json!(call.method), &json!(call.name)), "{text}");
        assert_eq!(line["status"], answer.status.as_u16(), "{text}");
        assert!(line["milliseconds"].as_f64().is_some_and(|long| long > 0.0), "{text}");
        assert_eq!((&line["query"], &line["bytesOut"]), (&json!("limit=7"), &json!(answer.text.len())), "{text}");
        let who = if call.level == Level::Nothing { Value::Null } else { json!("ops") };
        assert_eq!(line["by"], who, "{text}");
        let is_of_one = call.name.contains("{domain}") || call.name.contains("{token}");
        assert_eq!(line["domain"].as_str(), is_of_one.then_some("default"), "{text}");
        if !answer.status.is_success() {
            let problem: Value = serde_json::from_str(&answer.text).unwrap();
            assert_eq!(line["code"], problem["code"], "{text}");
        }
        let request_id = answer.headers.get("x-request-id").unwrap().to_str().unwrap();
        assert_eq!(line["requestId"], request_id, "{text}");
        let token = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        for secret in [NEEDLE, &token(&turn), &token(&task)] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test]
async fn an_swf_operation_logs_its_name_and_fault() {
    let it = Logged::open().await;
    let calls: Vec<CallAccess> = table().into_iter().filter(|call| call.wire == Wire::Swf).collect();
    it.open.engine.begin_shutdown();
    for call in calls {
        let target = format!("SimpleWorkflowService.{}", call.name);
        let ask = Ask::text("/", &json!({ "domain": "elsewhere", "workflowId": NEEDLE }).to_string());
        let ask = ask.header("x-amz-target", &target);
        let answer = it.ask(ask).await;
        let line = it.line().await;
        let text = line.to_string();
        assert_eq!((&line["operation"], &line["route"]), (&json!(call.name), &json!("/")), "{text}");
        assert_eq!((&line["by"], &line["status"]), (&json!("ops"), &json!(answer.status.as_u16())), "{text}");
        let fault: Value = serde_json::from_str(&answer.text).unwrap();
        assert!(fault["__type"].as_str().unwrap().ends_with(line["code"].as_str().unwrap()), "{text}");
        assert_eq!(line["requestId"], answer.headers["x-amzn-requestid"].to_str().unwrap());
        assert!(!text.contains(NEEDLE), "{text}");
    }
}

#[tokio::test]
async fn unauthorized_and_unknown_requests_are_logged() {
    let it = Logged::open().await;
    let nobody = Answer::read(it.asks.call(Ask::get(WORKFLOWS)).await).await;
    assert_eq!(nobody.status.as_u16(), 401);
    let line = it.line().await;
    assert_eq!((&line["status"], &line["code"], line.get("by")), (&json!(401), &json!("unauthorized"), None));
    it.ask(Ask::get(&format!("/v1/{NEEDLE}"))).await.problem(404, "unknown-path");
    let line = it.line().await;
    assert_eq!((line.get("route"), line.get("path"), &line["status"]), (None, None, &json!(404)), "{line}");
    // A response whose caller has disconnected.
    let asked = it.asks.call(Ask::get("/healthz")).await;
    drop(asked);
    let line = it.line().await;
    assert_eq!((&line["route"], &line["bytesOut"]), (&json!("/healthz"), &json!(0)), "{line}");
}

#[tokio::test]
async fn a_line_has_the_client_address_and_byte_counts() {
    let it = Logged::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server { listener, router: it.asks.router.clone(), limits: ServerLimits::default(), tls: None };
    tokio::spawn(server.run_until(std::future::pending()));
    let start = json!({ "workflowId": "w", "workflowType": "t" }).to_string();
    let request = reqwest::Client::new().post(format!("http://{address}{WORKFLOWS}")).bearer_auth(NEEDLE);
    let request = request.header("content-type", "application/json").body(start.clone());
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201);
    answer.bytes().await.unwrap();
    let line = loop {
        let mut lines = it.lines().await;
        if let Some(line) = lines.pop() {
            break line;
        }
        tokio::task::yield_now().await;
    };
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert_eq!(line["bytesIn"], start.len(), "{line}");
}

/// Lines that a service without an access log writes to its own log, at this level, while `asks` runs.
async fn traced(level: tracing::Level, asks: impl AsyncFnOnce(&Api)) -> Vec<Value> {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(level).with_writer(written.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, `tracing` consults only the thread that reaches a line first, which may belong to
    // another test.
    let _second =
        tracing::Dispatch::new(tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::sink).finish());
    let open = Api::open().await;
    let secret_sha256 = sha256_hex(NEEDLE);
    let operator = Credential { name: "ops".to_owned(), secret_sha256, operator: true, ..Credential::default() };
    let router = router_for(Arc::clone(&open.engine), Credentials::new(vec![operator]).unwrap());
    asks(&open.with(with_request_log(router, &open.engine, None))).await;
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["target"] == "baton::requests").collect()
}

/// Output of a subscriber.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Sends a start with a payload and a request with a token as `ops`, and returns their request ids.
async fn two_requests(api: &Api) -> Vec<Option<String>> {
    let start = json!({ "workflowId": "w", "workflowType": "t", "input": NEEDLE });
    let asks = [
        Ask::post(&format!("{WORKFLOWS}?page={NEEDLE}"), &start),
        Ask::post(&format!("/v1/decider-tasks/{NEEDLE}/fail"), &json!({ "reason": NEEDLE })),
    ];
    let mut ids = Vec::new();
    for ask in asks {
        let answer = Answer::read(api.call(ask.header("authorization", &format!("Bearer {NEEDLE}"))).await).await;
        ids.push(answer.headers.get("x-request-id").map(|id| id.to_str().unwrap().to_owned()));
    }
    ids
}

#[tokio::test]
async fn each_request_is_one_line_at_debug_without_an_access_log() {
    let mut ids = Vec::new();
    let lines = traced(tracing::Level::DEBUG, async |api| ids = two_requests(api).await).await;
    let found: Vec<&Value> = lines.iter().map(|line| &line["fields"]).collect();
    assert_eq!(found.len(), 2, "{lines:?}");
    assert_eq!((&found[0]["method"], &found[0]["path"]), (&json!("POST"), &json!(WORKFLOWS)));
    assert_eq!(found[1]["path"], "/v1/decider-tasks/{token}/fail");
    for (line, id) in found.iter().zip(ids) {
        assert_eq!((&line["message"], &line["by"]), (&json!("request"), &json!("ops")), "{line}");
        assert_eq!(line["request_id"].as_str(), id.as_deref(), "{line}");
        assert!(line["status"].as_u64().is_some_and(|status| status == 400), "{line}");
        assert!(line["code"].is_string() && line["milliseconds"].as_f64().is_some_and(|took| took > 0.0), "{line}");
        assert!(line["bytes_in"].is_u64() && line["bytes_out"].as_u64().is_some_and(|bytes| bytes > 0), "{line}");
        assert!(!line.to_string().contains(NEEDLE), "{line}");
    }
}

#[tokio::test]
async fn above_debug_requests_leave_no_line_and_no_header() {
    let mut ids = Vec::new();
    let lines = traced(tracing::Level::INFO, async |api| ids = two_requests(api).await).await;
    assert_eq!((lines, ids), (vec![], vec![None, None]));
}
