//! Behavior of connections: floods, slow clients, pollers that disconnect, and shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Settings};
use serde_json::{Value, json};
use service::front::{Front, FrontSettings};
use service::http::{Server, ServerLimits};
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Api, PATIENCE, WORKFLOWS, schedule, turn_path};

/// The service on a socket.
pub(crate) struct Socket {
    pub(crate) api: Api,
    pub(crate) address: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) served: JoinHandle<()>,
}

impl Socket {
    async fn open() -> Self {
        Self::with(ServerLimits::default()).await
    }

    pub(crate) async fn with(limits: ServerLimits) -> Self {
        Self::of(Api::open().await, limits).await
    }

    pub(crate) async fn of(api: Api, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Server { listener, router: api.router.clone(), limits, tls: None };
        let served = tokio::spawn(server.run_until(async {
            stopped.await.ok();
        }));
        Self { api, address, stop, served }
    }

    pub(crate) async fn connect(&self) -> Peer {
        Peer::at(self.address).await
    }

    /// A connection with a sent request.
    pub(crate) async fn call(&self, method: &str, path: &str, headers: &str, body: &str) -> Peer {
        let mut peer = self.connect().await;
        peer.call(method, path, headers, body).await;
        peer
    }

    /// Checks that the service responds to other clients.
    pub(crate) async fn answers_others(&self) {
        let mut peer = self.call("GET", "/healthz", "connection: close\r\n", "").await;
        let answer = peer.read_all().await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

impl Socket {
    /// Checks that waiting polls of list `idle` return 204 at a shutdown, and that their connections end.
    pub(crate) async fn stops_with_204(self, peers: Vec<Peer>) {
        self.api.until_pollers("list=\"idle\"", peers.len() as u64).await;
        self.api.engine.begin_shutdown();
        self.stop.send(()).unwrap();
        for mut peer in peers {
            let answer = peer.read_all().await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        }
        tokio::time::timeout(PATIENCE, self.served).await.expect("the server ends").unwrap();
    }
}

/// Client end of a connection.
pub(crate) struct Peer(TcpStream);

impl Peer {
    pub(crate) async fn at(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn close_sending_half(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    pub(crate) async fn call(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let length = body.len();
        let kind = "content-type: application/json\r\n";
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: h\r\n{kind}content-length: {length}\r\n{headers}\r\n{body}"
        ))
        .await;
    }

    /// Everything until the end of the connection.
    pub(crate) async fn read_all(&mut self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        let read = self.0.read_to_end(&mut bytes);
        tokio::time::timeout(PATIENCE, read).await.expect("the connection ends")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The head of a response.
    pub(crate) async fn head(&mut self) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(PATIENCE, self.0.read_u8());
            bytes.push(read.await.expect("an answer comes").expect("the connection is open"));
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Head and body of a response with a `content-length`.
    pub(crate) async fn answer(&mut self) -> (String, String) {
        let head = self.head().await;
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        let read = self.0.read_exact(&mut body);
        tokio::time::timeout(PATIENCE, read).await.expect("the body comes").unwrap();
        (head, String::from_utf8(body).unwrap())
    }
}

pub(crate) const POLL: &str = "/v1/domains/default/task-lists/deciders/decider/poll";

#[tokio::test]
async fn a_connection_carries_several_requests() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let mut peer = socket.connect().await;
    for _ in 0..3 {
        peer.call("HEAD", &format!("{WORKFLOWS}/w"), "", "").await;
        let head = peer.head().await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_off_at_1_mib() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let before = socket.api.everything().await;
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n")).await;
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..16 {
        peer.send(&chunk).await;
    }
    peer.send("1\r\n \r\n").await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\"code\":\"too-large\""), "{answer}");
    assert_eq!(socket.api.everything().await, before);
    socket.answers_others().await;
}

#[tokio::test]
async fn a_too_large_content_length_is_refused_before_the_body() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ncontent-length: 1048577\r\nexpect: 100-continue\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n")).await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_sends_its_whole_body_first() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let body = " ".repeat(6 * 1024 * 1024);
    let head = "content-type: application/json\r\n";
    let (signals, unknown) = (format!("{WORKFLOWS}/w/signals/s"), "/v1/nothing".to_owned());
    for (path, headers, framed, status) in [
        (&signals, head, false, 413),
        (&signals, head, true, 413),
        (&signals, "content-type: text/plain\r\n", false, 413),
        (&signals, "content-type: application/json\r\ncontent-encoding: gzip\r\n", false, 415),
        (&unknown, head, false, 404),
    ] {
        for _ in 0..4 {
            let mut peer = socket.connect().await;
            let length = body.len();
            let framing =
                if framed { "transfer-encoding: chunked".to_owned() } else { format!("content-length: {length}") };
            peer.send(&format!("POST {path} HTTP/1.1\r\nhost: h\r\n{headers}{framing}\r\n\r\n")).await;
            // Like Python's client: it sends everything before it reads.
            peer.send(&if framed { format!("{length:x}\r\n{body}\r\n0\r\n\r\n") } else { body.clone() }).await;
            let (head, _) = peer.answer().await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {head}");
            peer.call("GET", "/healthz", "", "").await;
            assert!(peer.head().await.starts_with("HTTP/1.1 200 "), "the connection carries the next request");
        }
    }
}

#[tokio::test]
async fn a_refused_body_without_end_is_read_up_to_a_limit() {
    let socket = Socket::open().await;
    let begun = tokio::time::Instant::now();
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ncontent-length: 100000000000\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n")).await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let mut peer = socket.connect().await;
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n")).await;
    let chunk = vec![b' '; 1024 * 1024];
    let mut sent = 0;
    while sent < 64 && peer.0.write_all(&chunk).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 64, "the connection ends before all is read");
    socket.answers_others().await;
}

#[tokio::test]
async fn a_client_that_disconnects_in_its_body_changes_nothing() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let before = socket.api.everything().await;
    let mut peer = socket.connect().await;
    let head = "content-type: application/json\r\ncontent-length: 100\r\n";
    peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n{{\"input\"")).await;
    peer.0.shutdown().await.unwrap();
    let answer = peer.read_all().await.unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(socket.api.everything().await, before);
}

#[tokio::test]
async fn a_flood_of_headers_closes_the_connection() {
    let socket = Socket::open().await;
    let many = "x: 1\r\n".repeat(100);
    let mut peer = socket.call("GET", "/healthz", &many, "").await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let mut peer = socket.connect().await;
    peer.send("GET /healthz HTTP/1.1\r\nhost: h\r\n").await;
    let line = format!("x: {}\r\n", "y".repeat(1_000));
    let flood = async {
        // Until the service closes the connection, which makes writing fail.
        while peer.0.write_all(line.as_bytes()).await.is_ok() {}
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("the connection is closed");
    socket.answers_others().await;
}

#[tokio::test]
async fn input_that_is_not_http_closes_the_connection() {
    let socket = Socket::open().await;
    for junk in ["\x16\x03\x01 hello\r\n\r\n", "GET /healthz\r\n\r\n", "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n"] {
        let mut peer = socket.connect().await;
        peer.send(junk).await;
        let answer = peer.read_all().await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{junk:?}: {answer}");
    }
    socket.answers_others().await;
}

/// hyper sends these responses itself, before there is a request, and cannot add headers to them. They have no body
/// that a cache could store or a browser could display, so they do not need the headers of other responses.
#[tokio::test]
async fn responses_of_the_http_parser_have_no_body() {
    let socket = Socket::open().await;
    let many = format!("GET /healthz HTTP/1.1\r\nhost: h\r\n{}\r\n", "x: 1\r\n".repeat(100));
    let long = format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", "x".repeat(66_000));
    let large = format!("GET /healthz HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "y".repeat(300_000));
    for (request, status) in [
        ("GET /healthz\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nhost : h\r\n\r\n", 400),
        (&many, 431),
        (&long, 431),
        (&large, 431),
    ] {
        let mut peer = socket.connect().await;
        // The service may close the connection before it has read everything.
        drop(peer.0.write_all(request.as_bytes()).await);
        let (head, body) = peer.answer().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        let lines: Vec<_> =
            head.lines().filter(|line| !line.is_empty() && !line.starts_with("date: ")).skip(1).collect();
        assert_eq!((lines, body.as_str()), (vec!["connection: close", "content-length: 0"], ""), "{head}");
    }
    socket.answers_others().await;
}

#[tokio::test]
async fn slow_headers_end_the_connection() {
    let limits = ServerLimits { header_wait: Duration::from_millis(200), ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    for start in ["", "GET /hea", "GET /healthz HTTP/1.1\r\nhost: h\r\nx: "] {
        let mut peer = socket.connect().await;
        peer.send(start).await;
        let answer = peer.read_all().await.unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    // A poll may wait longer than that.
    let mut peer = socket.call("POST", POLL, "prefer: wait=60\r\n", "").await;
    let mut slow = socket.connect().await;
    slow.read_all().await.unwrap();
    socket.api.start("w").await;
    assert!(peer.head().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_disconnected_poller_takes_no_task() {
    let socket = Socket::open().await;
    let api = &socket.api;
    let swf = r#"{"domain":"default","taskList":{"name":"deciders"}}"#;
    for (id, path, headers, body) in [
        ("w", POLL, "prefer: wait=60\r\n", "{}"),
        ("v", "/", "x-amz-target: SimpleWorkflowService.PollForDecisionTask\r\n", swf),
    ] {
        let peer = socket.call("POST", path, headers, body).await;
        api.until_pollers("list=\"deciders\"", 1).await;
        drop(peer);
        api.until_pollers("list=\"deciders\"", 0).await;
        api.start(id).await;
        let turn = api.turn().await;
        assert_eq!((&turn["startedEventId"], &turn["attempt"]), (&json!(3), &json!(1)), "{path}");
    }
}

#[tokio::test]
async fn a_task_whose_response_is_dropped_is_returned_at_once() {
    let api = Api::open().await;
    api.start("w").await;
    drop(api.call(crate::support::Ask::post(POLL, &json!({}))).await);
    let turn = api.turn().await;
    assert_eq!((&turn["workflowId"], &turn["attempt"]), (&json!("w"), &json!(1)));
    let answer = json!({ "decisions": [schedule("a", "acts")] });
    api.post(&format!("{}/complete", turn_path(&turn)), &answer).await.json(200);
    let path = "/v1/domains/default/task-lists/acts/activity/poll";
    drop(api.call(crate::support::Ask::post(path, &json!({}))).await);
    // The service never repeats an activity by itself: the decider gets the event at once and decides.
    let turn = api.turn().await;
    let events = turn["events"].as_array().unwrap();
    let timed_out = events.iter().find(|event| event["type"] == "ActivityTimedOut").unwrap();
    assert_eq!(timed_out["cause"], "DeliveryFailed");
}

#[tokio::test]
async fn a_start_stays_recorded_if_its_waiting_caller_disconnects() {
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    let api = &socket.api;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    let headers = "prefer: wait=60\r\nidempotency-key: k\r\n";
    let peer = socket.call("POST", WORKFLOWS, headers, &start.to_string()).await;
    let began = async { while api.get(&format!("{WORKFLOWS}/w")).await.status != 200 {} };
    tokio::time::timeout(PATIENCE, began).await.expect("the run begins");
    drop(peer);
    // The only connection was that caller's, so the service has noticed the disconnect.
    socket.answers_others().await;
    api.decide(json!([{ "type": "SucceedWorkflow", "result": 1 }])).await;
    let again = crate::support::Ask::post(WORKFLOWS, &start).header("idempotency-key", "k").header("prefer", "wait=5");
    assert_eq!(api.ask(again).await.json(200)["closed"]["result"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_polls_return_204_at_a_shutdown() {
    let socket = Socket::open().await;
    let address = socket.address;
    let mut peers = Vec::new();
    for number in 0..200 {
        let mut peer = Peer(TcpStream::connect(address).await.unwrap());
        let side = if number % 2 == 0 { "decider" } else { "activity" };
        let path = format!("/v1/domains/default/task-lists/idle/{side}/poll");
        peer.call("POST", &path, "prefer: wait=60\r\n", "{}").await;
        peers.push(peer);
    }
    socket.stops_with_204(peers).await;
    assert!(TcpStream::connect(address).await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn a_request_in_progress_at_a_shutdown_is_recorded() {
    let Socket { api, address, stop, served } = Socket::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    let mut peer = Peer(TcpStream::connect(address).await.unwrap());
    let body = "{\"decisions\":[{\"type\":\"SucceedWorkflow\"}]}";
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    peer.send(&format!("POST {path} HTTP/1.1\r\nhost: h\r\n{head}\r\n{}", &body[..20])).await;
    // The response to a later request shows that the server has accepted this connection.
    let mut other = Peer(TcpStream::connect(address).await.unwrap());
    other.call("GET", "/healthz", "connection: close\r\n", "").await;
    other.read_all().await.unwrap();
    api.engine.begin_shutdown();
    stop.send(()).unwrap();
    peer.send(&body[20..]).await;
    let answer = peer.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(api.names("w").await.last().unwrap(), "WorkflowSuccess");
    tokio::time::timeout(PATIENCE, served).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn a_stalled_reader_blocks_no_one_and_frees_its_connection() {
    let socket = Socket::with(ServerLimits { max_connections: 2, ..ServerLimits::default() }).await;
    let api = &socket.api;
    api.start("w").await;
    let input = "x".repeat(250 * 1024);
    for _ in 0..40 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let path = format!("{WORKFLOWS}/w/history");
    let mut slow = socket.call("GET", &path, "accept: text/event-stream\r\n", "").await;
    assert!(slow.head().await.starts_with("HTTP/1.1 200 "));
    for _ in 0..3 {
        socket.answers_others().await;
    }
    // The stalled reader has one of two connections and this poll the other. The third client waits to be accepted.
    let poll =
        socket.call("POST", "/v1/domains/default/task-lists/idle/decider/poll", "prefer: wait=60\r\n", "{}").await;
    api.until_pollers("list=\"idle\"", 1).await;
    let mut third = socket.call("GET", "/healthz", "connection: close\r\n", "").await;
    drop(slow);
    assert!(third.read_all().await.unwrap().starts_with("HTTP/1.1 200 "));
    drop(poll);
}

#[tokio::test]
async fn a_reader_that_never_reads_loses_its_connection() {
    let limits = ServerLimits { max_connections: 1, write_wait: Duration::from_millis(200), ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    let api = &socket.api;
    api.start("w").await;
    let input = "x".repeat(250 * 1024);
    for _ in 0..40 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let stalled = socket.call("GET", &format!("{WORKFLOWS}/w/history"), "accept: text/event-stream\r\n", "").await;
    // The only connection is the stalled reader's until the service closes it.
    socket.answers_others().await;
    drop(stalled);
}

#[tokio::test]
async fn the_oldest_unfinished_request_is_closed_to_free_memory() {
    let limits = ServerLimits { unfinished_bytes_max: 20_000, ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    let begin = format!("GET /healthz HTTP/1.1\r\nhost: h\r\na: {}", "x".repeat(6_000));
    let mut unfinished = Vec::new();
    for _ in 0..4 {
        let mut peer = socket.connect().await;
        peer.send(&begin).await;
        // The service has read this request once it has responded to a later one.
        socket.answers_others().await;
        unfinished.push(peer);
    }
    assert_eq!(unfinished[0].read_all().await.unwrap_or_default(), "", "the oldest is closed without a response");
    for mut peer in unfinished.into_iter().skip(1) {
        peer.send("\r\nconnection: close\r\n\r\n").await;
        assert!(peer.read_all().await.unwrap().starts_with("HTTP/1.1 200 "));
    }
    // A finished request does not count.
    let mut peers = Vec::new();
    for _ in 0..10 {
        peers.push(socket.call("GET", "/healthz", &format!("a: {}\r\n", "x".repeat(6_000)), "").await);
    }
    for mut peer in peers {
        assert!(peer.answer().await.0.starts_with("HTTP/1.1 200 "));
    }
}

#[tokio::test]
async fn large_bodies_are_not_unfinished_requests() {
    let limits = ServerLimits { unfinished_bytes_max: 20_000, ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    socket.api.start("w").await;
    let body = format!("{{\"input\":\"{}\"}}", "x".repeat(100_000));
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = socket.connect().await;
        peer.send(&format!("POST {WORKFLOWS}/w/signals/s HTTP/1.1\r\nhost: h\r\n{head}\r\n{}", &body[..90_000])).await;
        socket.answers_others().await;
        peers.push(peer);
    }
    for mut peer in peers {
        peer.send(&body[90_000..]).await;
        let (head, _) = peer.answer().await;
        assert!(head.starts_with("HTTP/1.1 202 "), "{head}");
    }
}

#[tokio::test]
async fn a_head_over_16_kib_is_refused() {
    let socket = Socket::open().await;
    let begin = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n";
    for (bytes, status) in [(16_384, 200), (16_385, 431), (20_000, 431), (90_000, 431)] {
        let rest = bytes - begin.len() - "a: \r\n\r\n".len();
        let mut peer = socket.connect().await;
        peer.send(&format!("{begin}a: {}\r\n\r\n", "x".repeat(rest))).await;
        let head = peer.head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes} bytes: {head}");
        if bytes == 16_385 {
            let rest = peer.read_all().await.unwrap();
            assert!(rest.contains("\"code\":\"headers-too-large\"") && rest.contains("\"max\":16384"), "{rest}");
        }
    }
    socket.answers_others().await;
}

#[tokio::test]
async fn more_than_64_headers_are_refused() {
    let socket = Socket::open().await;
    let begin = "GET /healthz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n";
    for (headers, status) in [(64, 200), (65, 431)] {
        let mut peer = socket.connect().await;
        peer.send(&format!("{begin}{}\r\n", "x: 1\r\n".repeat(headers - 2))).await;
        let head = peer.head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{headers} headers: {head}");
    }
    socket.answers_others().await;
}

#[tokio::test]
async fn a_shutdown_takes_at_most_the_shutdown_wait() {
    let limits = ServerLimits { shutdown_wait: Duration::from_millis(100), ..ServerLimits::default() };
    let socket = Socket::with(limits).await;
    let poll = socket.call("POST", POLL, "prefer: wait=60\r\n", "{}").await;
    socket.api.until_pollers("list=\"deciders\"", 1).await;
    // The engine is not shut down, so the poll would wait for its whole minute.
    socket.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(30), socket.served).await.expect("the server ends").unwrap();
    socket.api.until_pollers("list=\"deciders\"", 1).await;
    drop(poll);
}

#[tokio::test]
async fn every_api_response_is_kept_out_of_caches() {
    let socket = Socket::open().await;
    socket.api.start("w").await;
    let swf = "x-amz-target: SimpleWorkflowService.DescribeDomain\r\n";
    for (method, path, headers, body) in [
        ("GET", &*format!("{WORKFLOWS}/w"), "", ""),
        ("GET", "/healthz", "", ""),
        ("GET", "/v1/nothing", "", ""),
        ("POST", &format!("{WORKFLOWS}/w/signals/s"), "", "{}"),
        ("POST", &format!("{WORKFLOWS}/w/signals/s"), "", "!"),
        ("POST", "/", swf, r#"{"name":"default"}"#),
        ("POST", "/", swf, "!"),
        ("PATCH", "/", "", ""),
    ] {
        let head = socket.call(method, path, headers, body).await.head().await;
        assert!(head.contains("\r\ncache-control: no-store\r\n"), "{method} {path}: {head}");
        assert!(!head.contains("strict-transport-security"), "the connection has no TLS: {head}");
    }
    let head = socket.call("GET", "/console/console.js", "", "").await.head().await;
    assert!(head.contains("\r\ncache-control: no-cache\r\n"), "assets are revalidated: {head}");
    let history = format!("{WORKFLOWS}/w/history");
    let head = socket.call("GET", &history, "accept: text/event-stream\r\n", "").await.head().await;
    assert_eq!(head.matches("cache-control").count(), 1, "{head}");
}

#[tokio::test]
async fn every_response_forbids_content_sniffing() {
    let socket = Socket::open().await;
    let calls = [
        ("GET", "/"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("PUT", "/healthz"),
        ("POST", "/"),
    ];
    for (method, path) in calls {
        let mut peer = socket.call(method, path, "connection: close\r\n", "").await;
        let head = peer.head().await.to_lowercase();
        assert_eq!(head.matches("x-content-type-options: nosniff\r\n").count(), 1, "{method} {path}: {head}");
    }
}

/// The service on a socket, with a limit of bytes in flight.
async fn socket_with(bytes_in_flight_max: usize) -> Socket {
    let (store, clock) = (fresh().await, ManualClock::new());
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = Engine::open(store, Arc::clone(&clock) as _, settings).await.unwrap();
    let front = Front::of(engine, &FrontSettings { bytes_in_flight_max, ..FrontSettings::default() });
    Socket::of(Api::of(front, clock), ServerLimits::default()).await
}

#[tokio::test]
async fn a_body_is_refused_while_too_many_bytes_are_in_flight() {
    // Room for one body of 64 KiB.
    let socket = socket_with(100_000).await;
    let front = &socket.api.front;
    let body = format!("{{\"input\":\"{}\"}}", "x".repeat(64_000));
    let path = format!("{WORKFLOWS}/w/signals/s");
    socket.api.start("w").await;
    assert_eq!(front.budget().taken(), 0);
    let mut first = socket.connect().await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    first.send(&head).await;
    first.send(&body[..60_000]).await;
    while front.budget().taken() < 60_000 {
        tokio::task::yield_now().await;
    }
    let mut second = socket.call("POST", &path, "connection: close\r\n", &body).await;
    let head = second.head().await.to_lowercase();
    assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 1\r\n"), "{head}");
    let problem: Value = serde_json::from_str(&second.read_all().await.unwrap()).unwrap();
    assert_eq!(
        (&problem["code"], &problem["retryable"], &problem["recorded"]),
        (&json!("overloaded"), &json!(true), &json!(false))
    );
    // The SWF protocol has its own fault.
    let target = "connection: close\r\nx-amz-target: SimpleWorkflowService.StartWorkflowExecution\r\n";
    let mut swf = socket.call("POST", "/", target, &body).await;
    let answer = swf.read_all().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("#ServiceUnavailableException"), "{answer}");
    // Small requests pass, and the first request completes.
    socket.answers_others().await;
    first.send(&body[60_000..]).await;
    assert!(first.head().await.starts_with("HTTP/1.1 202 "));
    let mut again = socket.call("POST", &path, "connection: close\r\n", &body).await;
    assert!(again.read_all().await.unwrap().starts_with("HTTP/1.1 202 "));
    while front.budget().taken() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(front.budget().put_off(), 2);
    let metrics = front.render_metrics();
    assert!(metrics.contains("\nbaton_requests_overloaded_total 2\n"), "{metrics}");
}

#[tokio::test]
async fn a_response_counts_as_in_flight_until_it_is_read() {
    let socket = socket_with(7 << 20).await;
    let api = &socket.api;
    api.start("w").await;
    let input = "x".repeat(250 * 1024);
    for _ in 0..17 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let path = format!("{WORKFLOWS}/w/history?limit=10000");
    let mut slow = socket.call("GET", &path, "connection: close\r\n", "").await;
    assert!(slow.head().await.starts_with("HTTP/1.1 200 "));
    assert!(api.front.budget().taken() > 3 << 20, "{}", api.front.budget().taken());
    let mut other = socket.call("GET", &path, "connection: close\r\n", "").await;
    let head = other.head().await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    slow.read_all().await.unwrap();
    while api.front.budget().taken() > 0 {
        tokio::task::yield_now().await;
    }
    let mut other = socket.call("GET", &path, "connection: close\r\n", "").await;
    assert!(other.head().await.starts_with("HTTP/1.1 200 "));
    drop(other);
    while api.front.budget().taken() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handler_that_panics_returns_500_and_keeps_its_connection() {
    let api = Api::open().await;
    let broken = axum::routing::get(async || -> () { panic!("a defect") });
    #[expect(clippy::disallowed_methods, reason = "a call that breaks, which is none of the service's")]
    let router = api.router.clone().route("/broken", broken);
    let socket = Socket::of(Api { router, ..api }, ServerLimits::default()).await;
    let mut peer = socket.connect().await;
    peer.call("GET", "/broken", "", "").await;
    let head = peer.head().await;
    assert!(head.starts_with("HTTP/1.1 500 ") && head.contains("application/problem+json"), "{head}");
    peer.call("GET", "/healthz", "connection: close\r\n", "").await;
    let rest = peer.read_all().await.unwrap();
    assert!(rest.contains("\"code\":\"internal\"") && rest.contains("\"recorded\":\"unknown\""), "{rest}");
    assert!(rest.contains("HTTP/1.1 200 "), "{rest}");
}

#[tokio::test]
async fn a_slow_reader_gets_the_whole_page() {
    let socket = Socket::open().await;
    let api = &socket.api;
    api.start("w").await;
    let input = "x".repeat(250 * 1024);
    for _ in 0..8 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let mut slow = socket.call("GET", &format!("{WORKFLOWS}/w/history"), "connection: close\r\n", "").await;
    slow.head().await;
    socket.answers_others().await;
    let page: Value = serde_json::from_str(&slow.read_all().await.unwrap()).unwrap();
    assert_eq!(page["events"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn a_poller_that_disconnects_during_dispatch_takes_no_task() {
    let socket = Socket::open().await;
    let api = &socket.api;
    for number in 0..40 {
        let peer = socket.call("POST", POLL, "prefer: wait=60\r\n", "{}").await;
        api.until_pollers("list=\"deciders\"", 1).await;
        let (id, other) = (format!("w{number}"), api.turn());
        let hang_up = async {
            drop(peer);
            api.start(&id).await;
        };
        let (turn, ()) = tokio::join!(other, hang_up);
        assert_eq!(turn["workflowId"], id);
        api.post(&format!("{}/complete", turn_path(&turn)), &json!({})).await.json(200);
    }
}
