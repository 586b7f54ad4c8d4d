//! A service that is the test itself: each request of a host comes to the test, which answers it as it likes. Time stands
//! still unless the test moves it. Shared by the tests of both kits.

#![allow(dead_code, unreachable_pub, reason = "each kit's tests use their part")]

use std::time::Duration;

use baton_client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Where requests come in.
pub struct Double {
    url: String,
    asked: mpsc::UnboundedReceiver<Asked>,
    /// While it is there a blocking task runs, beside which a paused clock does not go on by itself.
    _clock: std::sync::mpsc::Sender<()>,
}

/// A request that waits for its answer.
pub struct Asked {
    pub path: String,
    pub body: Value,
    /// When it came.
    pub at: Instant,
    stream: TcpStream,
}

impl Double {
    pub async fn open() -> Self {
        let (clock, held) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            let _ = held.recv();
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    // A host that stops hangs up, perhaps before it has asked.
                    if let Some(asked) = read(stream).await {
                        drop(sender.send(asked));
                    }
                });
            }
        });
        Self { url, asked, _clock: clock }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url).unwrap()
    }

    /// The next request, whose path ends like this.
    pub async fn next(&mut self, path: &str) -> Asked {
        let asked = self.asked.recv().await.expect("it listens");
        assert!(asked.path.ends_with(path), "{} {} where {path} was expected", asked.path, asked.body);
        asked
    }

    /// Whether a request has come that nobody looked at.
    pub fn is_asked(&mut self) -> bool {
        !self.asked.is_empty()
    }

    /// Lets the clock go on by a step, and what is on its way between the two arrive.
    pub async fn step(&self, by: Duration) {
        tokio::time::advance(by).await;
        let arrives = || std::thread::sleep(Duration::from_millis(1));
        tokio::task::spawn_blocking(arrives).await.unwrap();
    }

    /// The next request, with as much time as it takes.
    pub async fn later(&mut self) -> Asked {
        while !self.is_asked() {
            self.step(Duration::from_millis(50)).await;
        }
        self.next("").await
    }
}

/// A host that runs against a double until it is told to stop.
pub struct Running {
    pub double: Double,
    stop: Option<oneshot::Sender<()>>,
    pub ended: JoinHandle<()>,
}

impl Running {
    /// Runs what is made with a client of the double and the sign to stop.
    pub async fn begin<F: Future<Output = ()> + Send + 'static>(
        host: impl FnOnce(Client, oneshot::Receiver<()>) -> F,
    ) -> Self {
        let double = Double::open().await;
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(host(double.client(), stopped));
        Self { double, stop: Some(stop), ended }
    }

    /// Has the host stop, and know of it.
    pub async fn stop(&mut self) {
        drop(self.stop.take());
        tokio::task::yield_now().await;
    }
}

impl Asked {
    pub async fn answer(self, status: u16, body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = "content-type: application/json\r\nconnection: close";
        let answer = format!("HTTP/1.1 {status} -\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.write(&answer).await;
    }

    /// Answers as the service does when it did what was asked, with the next task for the asking.
    pub async fn record(self, next: Value) {
        let answer = if next.is_null() { json!({}) } else { json!({ "next": next }) };
        self.answer(200, &answer).await;
    }

    /// Refuses with a code; nothing was recorded.
    pub async fn refuse(self, status: u16, code: &str, retryable: bool) {
        let problem = json!({
            "type": "about:blank", "title": code, "status": status, "detail": format!("no: {code}"), "code": code,
            "retryable": retryable, "recorded": false, "advice": "",
        });
        self.answer(status, &problem).await;
    }

    /// The connection breaks in the middle of the answer.
    pub async fn lose(self) {
        self.write("HTTP/1.1 200 -\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{").await;
    }

    async fn write(mut self, answer: &str) {
        // A host that stops hangs up.
        drop(self.stream.write_all(answer.as_bytes()).await);
        drop(self.stream.shutdown().await);
    }
}

async fn read(mut stream: TcpStream) -> Option<Asked> {
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
    Some(Asked { path, body, at: Instant::now(), stream })
}
