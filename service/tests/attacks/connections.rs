//! Clients that disconnect or send ambiguous framing while a call of their connection waits.

use std::time::Duration;

use client::Client;
use client::body::{PollDecider, StartWorkflow};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::start;
use crate::support::{Scratch, Service};

/// Longest wait of a test. A lost turn would be dispatched again after 30 seconds at the earliest.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time in which the service begins to wait with a poll.
const SETTLED: Duration = Duration::from_millis(300);

const LIST: &str = "deciders";

/// Body of a poll, plain and as one chunk.
const POLL_BODY: &str = "{}";
const POLL_CHUNKS: &str = "2\r\n{}\r\n0\r\n\r\n";

/// A service, and a connection that sends raw bytes.
struct Attack {
    service: Service,
    client: Client,
    stream: TcpStream,
    _scratch: Scratch,
}

impl Attack {
    async fn begin(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let service = Service::start(&scratch.0, &[]);
        let client = service.client();
        let stream = TcpStream::connect(service.url.trim_start_matches("http://")).await.unwrap();
        Self { service, client, stream, _scratch: scratch }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a poll with a wait of a minute and these body headers, and waits until it is registered.
    async fn poll(&mut self, headers: &str, body: &str) {
        let head = "host: 127.0.0.1\r\ncontent-type: application/json\r\nprefer: wait=60\r\n";
        let path = format!("/v1/domains/default/task-lists/{LIST}/decider/poll");
        self.send(&format!("POST {path} HTTP/1.1\r\n{head}{headers}\r\n{body}")).await;
        self.until_pollers(1).await;
        tokio::time::sleep(SETTLED).await;
    }

    async fn until_pollers(&self, count: u64) {
        let list = format!("list=\"{LIST}\"");
        let wait = async {
            loop {
                let metrics = self.client.metrics().await.unwrap();
                let line = metrics.lines().find(|line| {
                    line.starts_with("baton_pollers_waiting{") && line.contains(&list) && line.contains("decider")
                });
                let waiting = line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap());
                if waiting == count {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{count} pollers wait"));
    }

    async fn start(&self, id: &str) {
        let start = StartWorkflow { task_list: Some(LIST.to_owned()), ..start(id) };
        self.client.start(&start, None).await.unwrap();
    }

    /// Everything that arrives until the connection ends.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        // A reset ends the connection, too.
        drop(tokio::time::timeout(PATIENCE, read).await.expect("the connection ends"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Polls the turn as another decider and returns its workflow id.
    async fn poll_by_another(&self) -> String {
        let poll = PollDecider::default();
        let task = self.client.poll_decider(LIST, &poll, PATIENCE).await.unwrap();
        task.expect("the turn was not lost").workflow_id
    }
}

/// A request to start a run, hidden behind another request.
fn hidden(id: &str) -> String {
    let body = format!(r#"{{"workflowId":"{id}","workflowType":"t"}}"#);
    let head = format!("host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    format!("POST /v1/domains/default/workflows HTTP/1.1\r\n{head}\r\n{body}")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_smuggled_behind_a_poll_with_two_lengths() {
    let both =
        ["content-length: 2\r\ntransfer-encoding: chunked\r\n", "transfer-encoding: chunked\r\ncontent-length: 2\r\n"];
    for (number, headers) in both.into_iter().enumerate() {
        for is_late in [false, true] {
            let mut attack = Attack::begin(&format!("smuggled-{number}-{is_late}")).await;
            let at_once = if is_late { String::new() } else { hidden("smuggled") };
            attack.poll(headers, &format!("{POLL_CHUNKS}{at_once}")).await;
            if is_late {
                attack.send(&hidden("smuggled")).await;
            }
            attack.start("w").await;
            let answer = attack.rest().await;
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "one response, then the end: {answer}");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"workflowId\":\"w\""), "{answer}");
            let smuggled = attack.client.describe("smuggled", None).await.unwrap_err();
            assert_eq!(smuggled.code(), Some("unknown-workflow"), "{headers} late: {is_late}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poller_that_sends_a_byte_and_disconnects_loses_no_task() {
    let mut attack = Attack::begin("one-byte").await;
    attack.poll("content-length: 2\r\n", POLL_BODY).await;
    attack.send("G").await;
    tokio::time::sleep(SETTLED).await;
    attack.stream = TcpStream::connect(attack.service.url.trim_start_matches("http://")).await.unwrap();
    tokio::time::sleep(SETTLED).await;
    attack.start("w").await;
    assert_eq!(attack.poll_by_another().await, "w");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_sending_half_gets_its_response() {
    let mut attack = Attack::begin("half-closed").await;
    attack.send("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await;
    attack.stream.shutdown().await.unwrap();
    let answer = attack.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    // For a poll, such a client looks like a disconnected one: it gets a response, and no task.
    let mut attack = Attack::begin("half-closed-poll").await;
    attack.poll("content-length: 2\r\n", POLL_BODY).await;
    attack.stream.shutdown().await.unwrap();
    let answer = attack.rest().await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
}
