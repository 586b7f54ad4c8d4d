//! Bytes on one connection: the service reads the same requests from them as plain hyper does, with the same bodies,
//! and answers with the same statuses. Differences between hyper and a proxy in front of the service are out of scope.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use service::http::{Server, ServerLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::calls::at_once;

/// First byte of an input whose other bytes each stand for one of [`FRAGMENTS`]. Any other input is sent unchanged.
const OF_FRAGMENTS: u8 = 0x1d;

/// Byte that stands for a pause of the client.
const PAUSE: u8 = 0x1f;

/// Byte at which the client sends nothing more and waits for answers.
const HALF_CLOSE: u8 = 0x1e;

/// How long a pause is: shorter and longer waits of handlers end before and after it.
const PAUSE_TIME: Duration = Duration::from_millis(20);

/// How long a handler waits for a body that does not come.
const BODY_WAIT: Duration = Duration::from_secs(1);

/// Longest wait of a handler, in milliseconds. Our choice: more than the service leaves a call alone before it looks at
/// its connection.
const HANDLER_WAIT_MAX: u64 = 60;

/// How long the client reads: longer than any connection stays open without requests.
const CLIENT_WAIT: Duration = Duration::from_secs(120);

/// Times that a difference must be seen. Time leaps when nothing is ready, and on a loaded machine the kernel may hand
/// over bytes a moment later than they were sent.
const TIMES_SEEN: usize = 3;

/// Most headers and most bytes of buffer, as the service has them.
const HEADERS_MAX: usize = 64;
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Parts of byte streams: whole requests and pieces of heads and bodies that parsers disagree on.
const FRAGMENTS: [&[u8]; 46] = [
    b"GET /whole HTTP/1.1\r\nhost: h\r\n\r\n",
    b"POST /whole HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello",
    b"POST /chunked HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST /both HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /wait/60 HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    b"GET /wait/60 HTTP/1.1\r\nhost: h\r\n\r\n",
    b"POST /wait/10 HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello",
    b"HEAD /whole HTTP/1.1\r\nhost: h\r\n\r\n",
    b"POST /old HTTP/1.0\r\ncontent-length: 5\r\n\r\nhello",
    b"GET /last HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
    b"GET /a HTTP/1.1\r\n",
    b"POST /b HTTP/1.1\r\n",
    b"POST /wait/30 HTTP/1.1\r\n",
    b"PUT /wait/55 HTTP/1.0\r\n",
    b"GET http://h/absolute HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"host: h\r\n",
    b"content-length: 0\r\n",
    b"content-length: 5\r\n",
    b"content-length: 10\r\n",
    b"content-length: 5, 5\r\n",
    b"content-length: +5\r\n",
    b"content-length: 0x5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"transfer-encoding: chunked, identity\r\n",
    b"transfer-encoding:\x0bchunked\r\n",
    b"transfer-encoding : chunked\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive, upgrade\r\nupgrade: h2c\r\n",
    b"expect: 100-continue\r\n",
    b" folded: x\r\n",
    b"x: y\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"hello",
    b"5\r\nhello\r\n",
    b"5;extension=1\r\nhello\r\n",
    b"5;extension=\"\r\n\"\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\ncontent-length: 5\r\n\r\n",
    b"fffffffffffffffff\r\n",
    b"5\nhello\n",
    &[PAUSE],
    &[HALF_CLOSE],
];

/// Fragments of a generated stream at most.
const FRAGMENTS_MAX: usize = 10;

/// Fragments that are whole requests.
const WHOLE: usize = 10;

/// Returns the input that a seed stands for: fragments, of which about half are whole requests.
pub fn framing_of(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut input = vec![OF_FRAGMENTS];
    for _ in 0..random.usize(1..=FRAGMENTS_MAX) {
        let among = if random.bool() { WHOLE } else { FRAGMENTS.len() };
        input.push(u8::try_from(random.usize(..among)).unwrap_or_default());
    }
    input
}

/// One request as its handler saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReachedRequest {
    target: String,
    /// `None` if the body broke off or did not come.
    body: Option<Vec<u8>>,
}

/// Outcome of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reached: Vec<ReachedRequest>,
    statuses: Vec<String>,
}

/// Requests that have reached the handler of one server.
#[derive(Clone, Default)]
struct Reached(Arc<Mutex<Vec<ReachedRequest>>>);

impl Reached {
    /// A router that notes every request, and answers it without a body, so that each answer is its head.
    fn router(&self) -> Router {
        let reached = self.clone();
        Router::new().fallback(move |request: Request| reached.clone().note(request))
    }

    async fn note(self, request: Request<Body>) -> StatusCode {
        let target = format!("{} {}", request.method(), request.uri());
        let wait = request.uri().path().strip_prefix("/wait/").and_then(|wait| wait.parse().ok());
        let collected = tokio::time::timeout(BODY_WAIT, request.into_body().collect()).await;
        let body = collected.ok().and_then(Result::ok).map(|body| body.to_bytes().to_vec());
        let status = if body.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ReachedRequest { target, body });
        if let Some(wait) = wait {
            tokio::time::sleep(Duration::from_millis(HANDLER_WAIT_MAX.min(wait))).await;
        }
        status
    }

    fn take(&self) -> Vec<ReachedRequest> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends these bytes as a client does, and returns what comes back until the connection ends.
async fn converse(listener_address: std::net::SocketAddr, stream_bytes: &[u8]) -> Vec<u8> {
    let Ok(stream) = TcpStream::connect(listener_address).await else { return Vec::new() };
    // Without this the ports of a fuzzer run out.
    stream.set_zero_linger().expect("an option of TCP");
    let (mut reading, mut writing) = stream.into_split();
    let write = async move {
        for part in stream_bytes.split_inclusive(|byte| matches!(*byte, PAUSE | HALF_CLOSE)) {
            let (bytes, control) = match part.split_last() {
                Some((last @ (&PAUSE | &HALF_CLOSE), bytes)) => (bytes, Some(*last)),
                _ => (part, None),
            };
            // The server may have had enough.
            drop(writing.write_all(bytes).await);
            match control {
                Some(PAUSE) => tokio::time::sleep(PAUSE_TIME).await,
                Some(_) => {
                    drop(writing.shutdown().await);
                    return writing;
                }
                None => {}
            }
        }
        writing
    };
    let read = async move {
        let mut came = Vec::new();
        drop(tokio::time::timeout(CLIENT_WAIT, reading.read_to_end(&mut came)).await);
        came
    };
    let (_writing, came) = tokio::join!(write, read);
    came
}

/// The status lines of answers without bodies.
fn statuses(came: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(came);
    let lines = text.lines().filter(|line| line.starts_with("HTTP/1."));
    lines.map(|line| line.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
}

async fn outcome(reached: Reached, came: Vec<u8>) -> Outcome {
    // Handlers whose client has left may still note a body that broke off.
    tokio::time::sleep(BODY_WAIT * 2).await;
    Outcome { reached: reached.take(), statuses: statuses(&came) }
}

/// The outcome at the service.
async fn by_the_service(stream_bytes: &[u8]) -> Outcome {
    let reached = Reached::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let server = Server { listener, router: reached.router(), limits: ServerLimits::default(), tls: None };
    let serving = tokio::spawn(server.run_until(std::future::pending()));
    let came = converse(address, stream_bytes).await;
    let outcome = outcome(reached, came).await;
    serving.abort();
    outcome
}

/// The outcome at hyper by itself, with the limits of the service.
async fn by_hyper(stream_bytes: &[u8], answers_half_closed: bool) -> Outcome {
    let reached = Reached::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let router = reached.router();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(ServerLimits::default().header_wait)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .half_close(answers_half_closed);
        drop(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await);
    });
    let came = converse(address, stream_bytes).await;
    let outcome = outcome(reached, came).await;
    serving.abort();
    outcome
}

/// Bytes of a client, or fragments of such.
pub(super) fn framing(input: &[u8]) {
    let stream_bytes = match input.split_first() {
        Some((&OF_FRAGMENTS, chosen)) => {
            let fragments = chosen.iter().filter_map(|byte| FRAGMENTS.get(usize::from(*byte) % FRAGMENTS.len()));
            fragments.take(FRAGMENTS_MAX).copied().collect::<Vec<_>>().concat()
        }
        _ => input.to_vec(),
    };
    at_once(async {
        let mut differ = String::new();
        for _ in 0..TIMES_SEEN {
            let (found, alone) = (by_the_service(&stream_bytes).await, by_hyper(&stream_bytes, false).await);
            if found == alone {
                return;
            }
            // Whether a client that sends nothing more still wants its answers is a choice.
            if stream_bytes.contains(&HALF_CLOSE) && found == by_hyper(&stream_bytes, true).await {
                return;
            }
            differ = format!("{found:#?}\nis not\n{alone:#?}");
        }
        panic!("{}\n{differ}", stream_bytes.escape_ascii());
    });
}
