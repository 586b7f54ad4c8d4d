//! A proxy of the database that injects failures. It throttles requests, delays them, and drops responses of requests
//! that are carried out.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Duration of failures in milliseconds, and of the time between them.
const STORM_MS: std::ops::Range<u64> = 300..1_500;
const CALM_MS: std::ops::Range<u64> = 1_500..4_000;

/// Delay of a request or response. Our choice: up to well beyond a node's timeout of one attempt.
const HELD_MS: std::ops::Range<u64> = 200..3_000;

/// The failure of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// Refused without effect. DynamoDB has two errors for this.
    Throttled(&'static str),
    /// A server error. The client cannot know whether the request had an effect. In this drill it had none.
    Broken,
    /// The request is delayed, possibly until its sender has given up or was killed.
    Stalled,
    /// The response is delayed.
    AnswerStalled,
    /// The request is carried out, and its response is lost with the connection.
    AnswerLost,
}

/// The current kind of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Weather {
    Over,
    Fair,
    Throttling,
    Stalling,
    Cutting,
}

/// Number of failures of each kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) throttled: u64,
    pub(super) broken: u64,
    pub(super) stalled: u64,
    pub(super) answers_stalled: u64,
    pub(super) answers_lost: u64,
}

/// Proxy between the nodes and the database.
pub(super) struct Troubles {
    pub(super) url: String,
    upstream: String,
    http: reqwest::Client,
    weather: AtomicU8,
    random: Mutex<Rng>,
    counts: [AtomicU64; 6],
}

/// The connection is cut without a response.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response was lost")
    }
}

impl std::error::Error for Cut {}

impl Troubles {
    /// Starts a proxy of `upstream`, without failures at first.
    pub(super) async fn start(upstream: &str, seed: u64) -> std::io::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().map_err(std::io::Error::other)?;
        let troubles = Arc::new(Self {
            url,
            upstream: upstream.trim_end_matches('/').to_owned(),
            http,
            weather: AtomicU8::new(Weather::Over as u8),
            random: Mutex::new(Rng::with_seed(seed)),
            counts: Default::default(),
        });
        let serving = Arc::clone(&troubles);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream.set_nodelay(true));
                let troubles = Arc::clone(&serving);
                let service = service_fn(move |request| {
                    let troubles = Arc::clone(&troubles);
                    // A request that has arrived is carried out in a separate task, even if its sender no longer waits.
                    async move { tokio::spawn(troubles.answer(request)).await.unwrap_or(Err(Cut)) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(troubles)
    }

    /// Injects failures, one kind after the other, until the task is aborted.
    pub(super) async fn storms(self: Arc<Self>, seed: u64) -> Infallible {
        let mut random = Rng::with_seed(seed);
        let mut kinds = [Weather::Throttling, Weather::Stalling, Weather::Cutting];
        loop {
            random.shuffle(&mut kinds);
            for kind in kinds {
                self.weather.store(Weather::Fair as u8, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(random.u64(CALM_MS))).await;
                self.weather.store(kind as u8, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(random.u64(STORM_MS))).await;
            }
        }
    }

    /// Ends all failures.
    pub(super) fn end(&self) {
        self.weather.store(Weather::Over as u8, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        let [requests, throttled, broken, stalled, answers_stalled, answers_lost] =
            self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts { requests, throttled, broken, stalled, answers_stalled, answers_lost }
    }

    /// Returns the failure of the next request, and its delay.
    fn draw(&self) -> (Trouble, Duration) {
        let mut random = self.random.lock().expect("no code panics while it holds this lock");
        // Percentages of the failures, in the order of the branches below. All other requests succeed.
        let chances: [u32; 5] = match self.weather.load(Ordering::Relaxed) {
            it if it == Weather::Over as u8 => [0; 5],
            it if it == Weather::Throttling as u8 => [60, 0, 0, 0, 0],
            it if it == Weather::Stalling as u8 => [0, 0, 30, 30, 0],
            it if it == Weather::Cutting as u8 => [0, 10, 0, 0, 30],
            _ => [1, 1, 1, 1, 1],
        };
        let throttled = if random.bool() {
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
        } else {
            "com.amazon.coral.availability#ThrottlingException"
        };
        let kinds = [
            Trouble::Throttled(throttled),
            Trouble::Broken,
            Trouble::Stalled,
            Trouble::AnswerStalled,
            Trouble::AnswerLost,
        ];
        let mut roll = random.u32(..100);
        let held = Duration::from_millis(random.u64(HELD_MS));
        for (kind, chance) in kinds.into_iter().zip(chances) {
            if roll < chance {
                return (kind, held);
            }
            roll -= chance;
        }
        (Trouble::None, held)
    }

    fn count(&self, trouble: Trouble) {
        let [requests, throttled, broken, stalled, answers_stalled, answers_lost] = &self.counts;
        requests.fetch_add(1, Ordering::Relaxed);
        let counter = match trouble {
            Trouble::None => return,
            Trouble::Throttled(_) => throttled,
            Trouble::Broken => broken,
            Trouble::Stalled => stalled,
            Trouble::AnswerStalled => answers_stalled,
            Trouble::AnswerLost => answers_lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (trouble, held) = self.draw();
        self.count(trouble);
        match trouble {
            Trouble::Throttled(kind) => return said(400, kind),
            Trouble::Broken => return said(500, "com.amazonaws.dynamodb.v20120810#InternalServerError"),
            Trouble::Stalled => tokio::time::sleep(held).await,
            Trouble::None | Trouble::AnswerStalled | Trouble::AnswerLost => {}
        }
        let answer = self.pass_on(request).await?;
        match trouble {
            Trouble::AnswerLost => return Err(Cut),
            Trouble::AnswerStalled => tokio::time::sleep(held).await,
            Trouble::None | Trouble::Throttled(_) | Trouble::Broken | Trouble::Stalled => {}
        }
        Ok(answer)
    }

    async fn pass_on(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = parts.headers;
        // These headers apply only to the connection on which they were received.
        for name in ["host", "content-length", "connection"] {
            headers.remove(name);
        }
        let sent = self.http.request(parts.method, format!("{}{path}", self.upstream)).headers(headers).body(body);
        let answer = sent.send().await.map_err(|_| Cut)?;
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for name in ["content-length", "connection", "transfer-encoding"] {
            headers.remove(name);
        }
        let mut response = Response::new(Full::new(answer.bytes().await.map_err(|_| Cut)?));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Returns an error response of DynamoDB.
fn said(status: u16, kind: &str) -> Result<Response<Full<Bytes>>, Cut> {
    let body = format!(r#"{{"__type":"{kind}","message":"this is a drill"}}"#);
    Response::builder()
        .status(status)
        .header("content-type", "application/x-amz-json-1.0")
        .body(Full::new(body.into()))
        .map_err(|_| Cut)
}
