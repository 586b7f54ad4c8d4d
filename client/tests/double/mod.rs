//! A test double of the service, shared by the tests of both kits. The double passes each request of a host to the
//! test, which chooses the response. The clock stands still unless the test advances it.

#![allow(dead_code, unreachable_pub, reason = "each kit's tests use their part")]

use std::collections::VecDeque;
use std::time::Duration;

use baton_client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The test double. It listens for connections and queues the requests of hosts.
pub struct Double {
    url: String,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Requests that arrived while the test was waiting for a different request. Independent requests of a host may
    /// arrive in any order.
    passed_over: VecDeque<Request>,
    /// Keeps a blocking task running until it is dropped. The task prevents a paused clock from advancing
    /// automatically.
    _clock: std::sync::mpsc::Sender<()>,
}

/// A request that waits for its response. An exchange with one answer is represented as that answer, with its poll in
/// `poll`. An exchange without answers is represented as a poll.
pub struct Request {
    pub path: String,
    pub body: Value,
    /// The request's `Prefer` header, such as `wait=10`.
    pub prefer: Option<String>,
    /// Time of arrival.
    pub at: Instant,
    stream: TcpStream,
    exchange: Option<Exchange>,
}

/// The parts of an exchange that determine the form of its response.
struct Exchange {
    has_answer: bool,
    slot: Option<u64>,
}

impl Double {
    pub async fn open() -> Self {
        let (clock, held) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            let _ = held.recv();
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    // A host that stops closes its connection. It may not have sent a request on this connection.
                    if let Some(request) = read(stream).await {
                        drop(sender.send(request));
                    }
                });
            }
        });
        Self { url, requests, passed_over: VecDeque::new(), _clock: clock }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url).unwrap()
    }

    /// Returns the next request whose path ends with `path`.
    pub async fn next(&mut self, path: &str) -> Request {
        if let Some(at) = self.passed_over.iter().position(|request| request.path.ends_with(path)) {
            return self.passed_over.remove(at).unwrap();
        }
        loop {
            let request = tokio::time::timeout(Duration::from_secs(3_600), self.requests.recv());
            let request = request.await.unwrap_or_else(|_| panic!("no request to {path}")).expect("it listens");
            if request.path.ends_with(path) {
                return request;
            }
            self.passed_over.push_back(request);
        }
    }

    /// Returns true if there is a request that the test has not taken.
    pub fn has_request(&mut self) -> bool {
        !self.requests.is_empty() || !self.passed_over.is_empty()
    }

    /// Advances the clock, and waits until data in transit has arrived.
    pub async fn step(&self, by: Duration) {
        tokio::time::advance(by).await;
        let arrives = || std::thread::sleep(Duration::from_millis(1));
        tokio::task::spawn_blocking(arrives).await.unwrap();
    }

    /// Advances the clock until there is a request, and returns it.
    pub async fn later(&mut self) -> Request {
        while !self.has_request() {
            self.step(Duration::from_millis(50)).await;
        }
        self.next("").await
    }
}

/// A host that runs against a test double until it is stopped.
pub struct Running {
    pub double: Double,
    stop: Option<oneshot::Sender<()>>,
    pub ended: JoinHandle<()>,
}

impl Running {
    /// Starts a host with a client for the test double and a stop signal.
    pub async fn begin<F: Future<Output = ()> + Send + 'static>(
        host: impl FnOnce(Client, oneshot::Receiver<()>) -> F,
    ) -> Self {
        let double = Double::open().await;
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(host(double.client(), stopped));
        Self { double, stop: Some(stop), ended }
    }

    /// Stops the host, and lets it process the stop signal.
    pub async fn stop(&mut self) {
        drop(self.stop.take());
        tokio::task::yield_now().await;
    }
}

impl Request {
    pub async fn answer(self, status: u16, body: &Value) {
        let body = match &self.exchange {
            // The body is that of a response to a poll. In the response to the exchange, it becomes a task in a slot.
            Some(Exchange { has_answer: false, slot }) if status == 200 => lines(None, *slot, body),
            Some(_) if status == 204 => lines(None, None, &Value::Null),
            _ if body.is_null() => String::new(),
            _ => body.to_string(),
        };
        let status = if self.exchange.is_some() && status == 204 { 200 } else { status };
        let head = "content-type: application/json\r\nconnection: close";
        let answer = format!("HTTP/1.1 {status} -\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.write(&answer).await;
    }

    /// Responds that the answer in the request was recorded. The response also contains the next task.
    pub async fn record(self, next: Value) {
        let slot = self.exchange.as_ref().and_then(|exchange| exchange.slot);
        self.send_lines(&lines(Some(json!({})), slot, &next)).await;
    }

    /// Responds that the request is refused with this code and that nothing was recorded. In the response to an
    /// exchange with an answer, the refusal is the answer's receipt. With the status of a server error, the whole
    /// request is refused instead.
    pub async fn refuse(self, status: u16, code: &str, retryable: bool) {
        let problem = json!({
            "type": "about:blank", "title": code, "status": status, "detail": format!("no: {code}"), "code": code,
            "retryable": retryable, "recorded": false, "advice": "",
        });
        match &self.exchange {
            Some(Exchange { has_answer: true, .. }) if status < 500 => {
                self.send_lines(&lines(Some(json!({ "problem": problem })), None, &Value::Null)).await;
            }
            _ => Self { exchange: None, ..self }.answer(status, &problem).await,
        }
    }

    /// Waits until the client closes the connection.
    pub async fn until_closed(mut self) {
        assert!(self.stream.read_u8().await.is_err(), "the client sends nothing more");
    }

    /// Closes the connection in the middle of the response.
    pub async fn lose(self) {
        self.write("HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{").await;
    }

    async fn send_lines(self, lines: &str) {
        self.write(&format!("HTTP/1.1 200 -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{lines}", lines.len()))
            .await;
    }

    async fn write(mut self, answer: &str) {
        // A host that stops closes its connection.
        drop(self.stream.write_all(answer.as_bytes()).await);
        drop(self.stream.shutdown().await);
    }
}

/// Returns the lines of the response to an exchange.
fn lines(receipt: Option<Value>, slot: Option<u64>, task: &Value) -> String {
    let receipts = receipt.map(|receipt| json!({ "receipts": [receipt], "tasks": [] }));
    let task = slot.filter(|_| !task.is_null()).map(|slot| json!({ "tasks": [{ "slot": slot, "task": task }] }));
    receipts.into_iter().chain(task).flat_map(|line| [line.to_string(), "\n".to_owned()]).collect()
}

/// Returns the path and the body of the single request that an exchange corresponds to. This is the exchange's answer,
/// or its poll if it has no answer.
fn shown(path: &str, body: &Value) -> (String, Value, Exchange) {
    let (list, side) = path.strip_suffix("/exchange").unwrap().rsplit_once('/').unwrap();
    let slots = body["slots"].as_array().cloned().unwrap_or_default();
    let slot = slots.first().and_then(Value::as_u64).or_else(|| (body["maxTasks"].as_u64() > Some(0)).then_some(0));
    let poll = |of: &[&str]| -> Value {
        of.iter().filter_map(|name| Some(((*name).to_owned(), body.get(name)?.clone()))).collect()
    };
    let answers = body["answers"].as_array().cloned().unwrap_or_default();
    assert!(answers.len() < 2, "tests answer one at a time");
    let Some(Value::Object(answer)) = answers.into_iter().next() else {
        let poll = poll(&["identity", "pollId", "attempt", "queries", "updates", "workflowId"]);
        return (format!("{list}/{side}/poll"), poll, Exchange { has_answer: false, slot });
    };
    let token = answer["token"].as_str().unwrap().to_owned();
    let (verb, mut said) = answer.into_iter().find(|(name, _)| name != "token").unwrap();
    if slot.is_some() {
        said["poll"] = poll(&["identity", "pollId", "attempt", "queries", "updates", "workflowId"]);
    }
    (format!("/v1/{side}-tasks/{token}/{verb}"), said, Exchange { has_answer: true, slot })
}

async fn read(mut stream: TcpStream) -> Option<Request> {
    let mut request = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
            });
            break (head.to_owned(), length.unwrap_or(0));
        }
    };
    let begin = head.len() + 4;
    while request.len() < begin + length {
        stream.read_buf(&mut request).await.ok()?;
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let body = serde_json::from_slice(&request[begin..]).unwrap_or_default();
    let at = Instant::now();
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let prefer =
        headers.filter(|(name, _)| name.eq_ignore_ascii_case("prefer")).map(|(_, value)| value.to_owned()).next();
    if path.ends_with("/exchange") {
        let (path, body, exchange) = shown(&path, &body);
        return Some(Request { path, body, prefer, at, stream, exchange: Some(exchange) });
    }
    Some(Request { path, body, prefer, at, stream, exchange: None })
}
