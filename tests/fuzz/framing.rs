//! Fuzz target for the bytes of one connection. The service and plain hyper must read the same requests with the same
//! bodies from the bytes, and respond with the same statuses. Differences between hyper and a proxy in front of the
//! service are out of scope.

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

/// Byte at which the client pauses.
const PAUSE: u8 = 0x1f;

/// Byte at which the client closes its sending side. It then only waits for responses.
const HALF_CLOSE: u8 = 0x1e;

/// Duration of a pause. Our choice: between the shortest and the longest wait of a handler, so that handlers end before
/// and after a pause.
const PAUSE_TIME: Duration = Duration::from_millis(20);

/// Time for which a handler waits for a body that does not arrive.
const BODY_WAIT: Duration = Duration::from_secs(1);

/// Maximum wait of a handler, in milliseconds. Our choice: longer than the time after which the service begins to watch
/// a call's connection.
const HANDLER_WAIT_MAX: u64 = 60;

/// Time for which the client reads. Our choice: longer than any connection stays open without requests.
const CLIENT_WAIT: Duration = Duration::from_secs(120);

/// Number of times that a difference must be seen before it counts as a failure. Our choice: more than once, because
/// the paused clock advances when nothing is ready, and on a loaded machine the kernel may deliver bytes slightly later
/// than they were sent.
const TIMES_SEEN: usize = 3;

/// Maximum number of headers and of buffered bytes, as configured in the service.
const HEADERS_MAX: usize = 64;
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Fragments of byte streams: whole requests, and pieces of heads and bodies on which parsers disagree.
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

/// Maximum number of fragments in a generated stream.
const FRAGMENTS_MAX: usize = 10;

/// Number of fragments at the beginning of [`FRAGMENTS`] that are whole requests.
const WHOLE: usize = 10;

/// Returns the input generated from a seed: up to ten fragments, of which more than half are whole requests.
pub fn framing_of(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut input = vec![OF_FRAGMENTS];
    for _ in 0..random.usize(1..=FRAGMENTS_MAX) {
        let among = if random.bool() { WHOLE } else { FRAGMENTS.len() };
        input.push(u8::try_from(random.usize(..among)).unwrap_or_default());
    }
    input
}

/// A request as the handler received it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReachedRequest {
    target: String,
    /// Body, or `None` if it was broken off or did not arrive in time.
    body: Option<Vec<u8>>,
}

/// Outcome of a connection: the requests that reached the handler, and the statuses that the client received.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reached: Vec<ReachedRequest>,
    statuses: Vec<String>,
}

/// Requests that have reached the handler of one server.
#[derive(Clone, Default)]
struct Reached(Arc<Mutex<Vec<ReachedRequest>>>);

impl Reached {
    /// Returns a router that records every request and responds without a body, so that a response consists only of its
    /// head.
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

/// Sends these bytes as a client, and returns the bytes received until the connection ends.
async fn converse(listener_address: std::net::SocketAddr, stream_bytes: &[u8]) -> Vec<u8> {
    let Ok(stream) = TcpStream::connect(listener_address).await else { return Vec::new() };
    // Closed connections would otherwise keep their ports for a while, and a fuzzer would run out of ports.
    stream.set_zero_linger().expect("an option of TCP");
    let (mut reading, mut writing) = stream.into_split();
    let write = async move {
        for part in stream_bytes.split_inclusive(|byte| matches!(*byte, PAUSE | HALF_CLOSE)) {
            let (bytes, control) = match part.split_last() {
                Some((last @ (&PAUSE | &HALF_CLOSE), bytes)) => (bytes, Some(*last)),
                _ => (part, None),
            };
            // The server may already have closed the connection.
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

/// Returns the statuses of responses without bodies.
fn statuses(came: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(came);
    let lines = text.lines().filter(|line| line.starts_with("HTTP/1."));
    lines.map(|line| line.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
}

async fn outcome(reached: Reached, came: Vec<u8>) -> Outcome {
    // Handlers whose client has disconnected may still record a body that broke off.
    tokio::time::sleep(BODY_WAIT * 2).await;
    Outcome { reached: reached.take(), statuses: statuses(&came) }
}

/// Sends the bytes to the service and returns the outcome.
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

/// Sends the bytes to plain hyper with the limits of the service, and returns the outcome.
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

/// Target `framing`: the input is the bytes of a client, or the numbers of fragments (see `OF_FRAGMENTS`).
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
            // After a half-close the server may respond or close the connection. Both are correct.
            if stream_bytes.contains(&HALF_CLOSE) && found == by_hyper(&stream_bytes, true).await {
                return;
            }
            differ = format!("{found:#?}\nis not\n{alone:#?}");
        }
        panic!("{}\n{differ}", stream_bytes.escape_ascii());
    });
}
