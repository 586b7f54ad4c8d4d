//! What is said over one connection; and connections whose call waits for long, as polls do. Such a connection is parked: what
//! reads and writes HTTP, with its buffers of some kilobytes, is dropped, and there is left the stream, the call's work, and what
//! the next request has begun with. When there is an answer, or more to read, HTTP is taken up again: it is shown a request that
//! stands for the one that waited, and what it asks is answered with what is there.
//!
//! Owns when that is, and that nobody sees it. What is not certain to look the same afterwards is not parked: a call whose body
//! has not come in full, another version than HTTP/1.1, an answer before it that is not written yet.

mod stream;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::header::{CONNECTION, EXPECT, UPGRADE};
use axum::http::{HeaderMap, Method, Version};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep};

use super::again::PolledAgain;
use super::call::{Encryption, answer};
use super::record::PeerAddress;
use crate::tls::Peer;
use stream::Resumed;

/// Bytes that are read at once of what a peer sends while it waits. Ours: enough to see that it is there.
const READ_AHEAD: usize = 64;

/// The work of a call.
type Work = BoxFuture<'static, Response>;

/// What an answer depends on, of the request.
#[derive(Debug, Clone)]
struct AskedOfCall {
    method: Method,
    /// Whether the connection ends with the answer.
    closes: bool,
}

impl AskedOfCall {
    /// Of a request that another can stand for.
    fn of<B>(request: &Request<B>) -> Option<Self> {
        let (method, headers) = (request.method(), request.headers());
        let is_plain = matches!(*method, Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::DELETE);
        let is_whole = request.version() == Version::HTTP_11 && is_plain;
        let is_simple = !headers.contains_key(EXPECT) && !headers.contains_key(UPGRADE);
        (is_whole && is_simple).then(|| Self { method: method.clone(), closes: closes(headers) })
    }

    /// What stands for the request.
    fn head(&self) -> String {
        let closes = if self.closes { "connection: close\r\n" } else { "" };
        format!("{} / HTTP/1.1\r\n{closes}\r\n", self.method)
    }
}

/// Whether a request says that its connection ends with the answer.
fn closes(headers: &HeaderMap) -> bool {
    let said = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("close"))
}

/// A call under way.
struct CallUnderWay {
    work: Work,
    since: Instant,
    number: u64,
    asked: Option<AskedOfCall>,
}

/// How a connection stands.
enum CallStanding {
    /// No call is under way.
    Idle,
    Works(CallUnderWay),
    /// A call that waited has its answer.
    Answered(Response),
}

/// What the parts of a connection know of each other.
struct SharedOfConnection {
    standing: Mutex<CallStanding>,
    /// The number of the newest call.
    calls: AtomicU64,
    /// The newest call whose body has come in full.
    heard: AtomicU64,
    /// Something is to be written that was not yet.
    writes: Arc<AtomicBool>,
}

impl SharedOfConnection {
    fn lock(&self) -> MutexGuard<'_, CallStanding> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when a call waits that could be parked.
    fn waits_since(&self) -> Option<Instant> {
        match &*self.lock() {
            CallStanding::Works(call) if call.asked.is_some() && call.number == self.heard.load(Ordering::Relaxed) => {
                Some(call.since)
            }
            CallStanding::Works(_) | CallStanding::Idle | CallStanding::Answered(_) => None,
        }
    }

    /// Takes the call that waits.
    fn take(&self) -> Option<(Work, AskedOfCall)> {
        match std::mem::replace(&mut *self.lock(), CallStanding::Idle) {
            CallStanding::Works(CallUnderWay { work, asked: Some(asked), .. }) => Some((work, asked)),
            CallStanding::Works(_) | CallStanding::Idle | CallStanding::Answered(_) => None,
        }
    }
}

/// The calls of a connection.
#[derive(Clone)]
struct Calls {
    router: Router,
    remote: PeerAddress,
    encryption: Encryption,
    peer: Option<Arc<Peer>>,
    shared: Arc<SharedOfConnection>,
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response;
    type Error = Infallible;
    type Future = CallAnswer;

    fn call(&self, mut request: Request<Incoming>) -> CallAnswer {
        let shared = Arc::clone(&self.shared);
        let mut standing = shared.lock();
        // What is asked now stands for what was asked then.
        if !matches!(*standing, CallStanding::Answered(_)) {
            request.extensions_mut().insert(self.remote);
            if let Some(peer) = &self.peer {
                request.extensions_mut().insert(Arc::clone(peer));
            }
            let number = shared.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let asked = AskedOfCall::of(&request);
            let request = request.map(|body| HeardBody::new(body, number, Arc::clone(&self.shared)));
            let work = answer(self.router.clone(), self.encryption, request);
            *standing = CallStanding::Works(CallUnderWay { work, since: Instant::now(), number, asked });
        }
        drop(standing);
        CallAnswer(shared)
    }
}

/// The answer to a call.
struct CallAnswer(Arc<SharedOfConnection>);

impl Future for CallAnswer {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut standing = self.0.lock();
        let answer = match std::mem::replace(&mut *standing, CallStanding::Idle) {
            CallStanding::Answered(answer) => answer,
            CallStanding::Idle => return Poll::Pending,
            CallStanding::Works(mut call) => match call.work.as_mut().poll(context) {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    *standing = CallStanding::Works(call);
                    return Poll::Pending;
                }
            },
        };
        Poll::Ready(Ok(answer))
    }
}

/// A body that says when it has come in full.
struct HeardBody {
    body: Incoming,
    number: u64,
    shared: Arc<SharedOfConnection>,
}

impl HeardBody {
    fn new(body: Incoming, number: u64, shared: Arc<SharedOfConnection>) -> Self {
        let body = Self { body, number, shared };
        if body.body.is_end_stream() {
            body.is_heard();
        }
        body
    }

    fn is_heard(&self) {
        self.shared.heard.fetch_max(self.number, Ordering::Relaxed);
    }
}

impl Body for HeardBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.is_heard();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Tells when a call has waited for long. One timer for all calls of a connection: it is set again when it has run out.
struct ParkingPatience {
    long: Duration,
    timer: Pin<Box<Sleep>>,
    is_set: bool,
}

impl ParkingPatience {
    fn new(long: Duration) -> Self {
        Self { long, timer: Box::pin(tokio::time::sleep(long)), is_set: false }
    }

    fn set(&mut self, from: Instant) {
        self.timer.as_mut().reset(from + self.long);
        self.is_set = true;
    }

    /// To be asked again whenever something has happened.
    fn poll(&mut self, context: &mut Context<'_>, shared: &SharedOfConnection) -> Poll<()> {
        loop {
            if !self.is_set {
                let Some(since) = shared.waits_since() else { return Poll::Pending };
                self.set(since);
            }
            ready!(self.timer.as_mut().poll(context));
            self.is_set = false;
            match shared.waits_since() {
                Some(since) if since.elapsed() < self.long => {}
                // What is written still is not to be lost; when it is, this is asked again.
                Some(_) if shared.writes.load(Ordering::Relaxed) => return Poll::Pending,
                Some(_) => return Poll::Ready(()),
                None => return Poll::Pending,
            }
        }
    }
}

/// One end of a connection, with what is not to be lost of it while it is parked.
struct ParkedCall<S> {
    stream: S,
    /// What has come since, of the next request.
    ahead: Vec<u8>,
    work: Work,
    asked: AskedOfCall,
}

impl<S: AsyncRead + Unpin> ParkedCall<S> {
    /// Waits for the answer, and has it be what is said next: the stream, and what is read before; `None` where the peer has left.
    async fn answer(mut self: Box<Self>, inner: &Speaking) -> Option<(S, Bytes)> {
        let answer = poll_fn(|context| {
            // First of all, so that no task goes to somebody who is gone.
            if self.ahead.is_empty() && self.read(context) == Poll::Ready(false) {
                return Poll::Ready(None);
            }
            self.work.as_mut().poll(context).map(Some)
        });
        let Some(answer) = answer.await else {
            tracing::debug!("a connection ended early: its peer left while a call waited");
            return None;
        };
        *inner.calls.shared.lock() = CallStanding::Answered(answer);
        let Self { stream, ahead, mut asked, .. } = *self;
        asked.closes |= *inner.stopped.borrow();
        Some((stream, [asked.head().into_bytes(), ahead].concat().into()))
    }

    /// Reads something of what the peer sends; false where it has left.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let mut bytes = [0; READ_AHEAD];
        let mut read = ReadBuf::new(&mut bytes);
        let is_there = ready!(Pin::new(&mut self.stream).poll_read(context, &mut read)).is_ok();
        self.ahead.extend_from_slice(read.filled());
        Poll::Ready(is_there && !self.ahead.is_empty())
    }
}

/// What is needed to speak over a connection. In a box, as what speaks has room for it more than once.
pub(super) struct Speaker(Box<Speaking>);

struct Speaking {
    http: Arc<http1::Builder>,
    calls: Calls,
    park_after: Duration,
    stopped: watch::Receiver<bool>,
    /// Held until the connection is over.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Speaker {
    /// For calls of this router by the peer at this address, who has shown this certificate; until it says that the service stops.
    pub(super) fn new(
        (http, router): (Arc<http1::Builder>, Router),
        (remote, encryption, peer): (PeerAddress, Encryption, Option<Arc<Peer>>),
        park_after: Duration,
        (stopped, permit): (watch::Receiver<bool>, Option<OwnedSemaphorePermit>),
    ) -> Self {
        let (calls, heard, writes) = (AtomicU64::new(0), AtomicU64::new(0), Arc::default());
        let shared = Arc::new(SharedOfConnection { standing: Mutex::new(CallStanding::Idle), calls, heard, writes });
        let calls = Calls { router, remote, encryption, peer, shared };
        Self(Box::new(Speaking { http, calls, park_after, stopped, _permit: permit }))
    }

    /// Answers what comes over a connection until it ends.
    pub(super) fn speak<S>(self, stream: S) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Each step in a box, of which nothing is left when the next begins.
        let mut step: Step<S> = Box::pin(self.0.speak_until_parked(stream, Bytes::new()));
        PolledAgain::new(async move {
            while let Some((inner, parked)) = step.await {
                step = match parked.answer(&inner).await {
                    Some((stream, before)) => Box::pin(inner.speak_until_parked(stream, before)),
                    None => return,
                };
            }
        })
    }
}

/// What is said until a call is parked; nothing when the connection has ended.
type Step<S> = Pin<Box<dyn Future<Output = Option<(Box<Speaking>, Box<ParkedCall<S>>)>> + Send>>;

impl Speaking {
    /// Answers what comes over a connection until it ends, or a call has waited for long.
    async fn speak_until_parked<S>(
        mut self: Box<Self>,
        stream: S,
        before: Bytes,
    ) -> Option<(Box<Self>, Box<ParkedCall<S>>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shared = Arc::clone(&self.calls.shared);
        let stream = TokioIo::new(Resumed::new(stream, before, Arc::clone(&shared.writes)));
        let mut connection = self.http.serve_connection(stream, self.calls.clone());
        let (mut patience, mut is_stopping) = (ParkingPatience::new(self.park_after), false);
        loop {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    return None;
                }
                _ = self.stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                    is_stopping = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
                () = poll_fn(|context| patience.poll(context, &shared)) => break,
            }
        }
        let (work, asked) = shared.take()?;
        let parts = connection.into_parts();
        let (stream, ahead) = parts.io.into_inner().into_parts();
        let ahead = [parts.read_buf, ahead].concat();
        Some((self, Box::new(ParkedCall { stream, ahead, work, asked })))
    }
}
