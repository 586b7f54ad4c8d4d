//! The way to the database, and what goes wrong on it: requests that are refused for their number, that arrive late, that
//! are carried out although their answer is lost.

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

/// How long a storm lasts, in milliseconds, and a calm between two.
const STORM_MS: std::ops::Range<u64> = 300..1_500;
const CALM_MS: std::ops::Range<u64> = 1_500..4_000;

/// How long a request or an answer is held: up to well beyond what a node waits for one try.
const HELD_MS: std::ops::Range<u64> = 200..3_000;

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// Refused, and nothing is done: DynamoDB has two ways of saying so.
    Throttled(&'static str),
    /// A broken service: whether anything was done cannot be known; here it was not.
    Broken,
    /// It arrives late, perhaps when its sender has given up or died.
    Stalled,
    /// Its answer comes late.
    AnswerStalled,
    /// It is carried out, and its answer is lost with the connection.
    AnswerLost,
}

/// Which storm goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Weather {
    Over,
    Fair,
    Throttling,
    Stalling,
    Cutting,
}

/// How often each trouble was made.
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

/// The way to the database.
pub(super) struct Troubles {
    pub(super) url: String,
    upstream: String,
    http: reqwest::Client,
    weather: AtomicU8,
    random: Mutex<Rng>,
    counts: [AtomicU64; 6],
}

/// The connection is cut without an answer.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Cut {}

impl Troubles {
    /// Between `upstream` and whoever calls its own URL, with fair weather.
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
                    // A task of its own: a request that has arrived is carried out, whether its sender waits or not.
                    async move { tokio::spawn(troubles.answer(request)).await.unwrap_or(Err(Cut)) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(troubles)
    }

    /// Storms, one after the other, until the task is aborted.
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

    /// No more troubles.
    pub(super) fn end(&self) {
        self.weather.store(Weather::Over as u8, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        let [requests, throttled, broken, stalled, answers_stalled, answers_lost] =
            self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts { requests, throttled, broken, stalled, answers_stalled, answers_lost }
    }

    /// What happens to the next request, and for how long.
    fn draw(&self) -> (Trouble, Duration) {
        let mut random = self.random.lock().expect("no code panics while it holds this lock");
        // In percent, as troubles stand below; what is left goes well.
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
        // Of this connection, not of the next one.
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

/// What DynamoDB says when it does not do something.
fn said(status: u16, kind: &str) -> Result<Response<Full<Bytes>>, Cut> {
    let body = format!(r#"{{"__type":"{kind}","message":"this is a drill"}}"#);
    Response::builder()
        .status(status)
        .header("content-type", "application/x-amz-json-1.0")
        .body(Full::new(body.into()))
        .map_err(|_| Cut)
}
