//! Connections: how many, how slow, how large their headers may be; and how they end.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;

use super::handshake::{Begun, shake_hands};
use super::problem::Refused;
use super::record::PeerAddress;
use super::stall::Stalling;
use crate::tls::{Peer, Tls};

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long a connection may take until it is encrypted, where it is to be.
    pub handshake_wait: Duration,
    /// How long the headers of a request may take to come, and how long a connection may have none under way. Callers
    /// keep connections for less than this, so that none is closed under a request: ten seconds in `client`.
    pub header_wait: Duration,
    /// How long a peer may take nothing of what is written to it.
    pub write_wait: Duration,
    /// How long to wait for requests under way when the service stops.
    pub shutdown_wait: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            handshake_wait: Duration::from_secs(10),
            header_wait: Duration::from_secs(15),
            write_wait: Duration::from_secs(60),
            shutdown_wait: Duration::from_secs(10),
        }
    }
}

/// Most headers of a request. Ours; browsers send about 20.
const HEADERS_MAX: usize = 64;

/// Bytes of the request line and all headers, each line with its end and without needless spaces. Ours: a session cookie or
/// two beside what browsers send. What is larger is refused with 431, by the reader where it does not fit its buffer.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of buffer a connection may take; bounds what a slow reader holds back.
const BUFFER_BYTES_MAX: usize = HEADER_BYTES_MAX;

/// The wait before a connection is accepted where the one before could not be. Ours: short against any caller's patience.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Serves a router on a listener.
pub struct Server {
    /// The listener.
    pub listener: TcpListener,
    /// What to serve.
    pub router: Router,
    /// The limits.
    pub limits: ServerLimits,
    /// What encrypts; without it nothing does.
    pub tls: Option<Arc<Tls>>,
}

impl Server {
    /// Serves until `stop` resolves; then accepts no more, and waits for what is under way.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let Self { listener, router, limits, tls } = self;
        let connections = Arc::new(Semaphore::new(limits.connections_max));
        let graceful = GracefulShutdown::new();
        let (stopping, stopped) = watch::channel(false);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.header_wait)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX);
        tokio::pin!(stop);
        let mut is_refused = false;
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&connections).acquire_owned() => permit.ok(),
                () = &mut stop => break,
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely too many open files: let some go before the next try. Said once, not at each.
                    if !std::mem::replace(&mut is_refused, true) {
                        tracing::warn!(%error, "a connection could not be accepted; it is tried again");
                    }
                    tokio::time::sleep(ACCEPT_WAIT).await;
                    continue;
                }
            };
            is_refused = false;
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection without TCP_NODELAY");
            }
            let connection = Connection {
                remote: PeerAddress(remote),
                http: http.clone(),
                router: router.clone(),
                limits,
                watcher: graceful.watcher(),
                stopped: stopped.clone(),
                permit,
            };
            tokio::spawn(connection.serve(stream, tls.clone()));
        }
        drop(listener);
        // What has not begun to speak HTTP has nothing under way.
        stopping.send_replace(true);
        tokio::select! {
            () = graceful.shutdown() => {}
            () = tokio::time::sleep(limits.shutdown_wait) => {
                tracing::warn!("some requests were still under way when the wait for them was over");
            }
        }
    }
}

/// A connection, before anything came over it.
struct Connection {
    remote: PeerAddress,
    http: http1::Builder,
    router: Router,
    limits: ServerLimits,
    watcher: Watcher,
    stopped: watch::Receiver<bool>,
    /// Held until the connection is over.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        let Some(tls) = tls else {
            let stream = Stalling::new(stream, self.limits.write_wait);
            return self.speak(stream, None).await;
        };
        let mut stopped = self.stopped.clone();
        let begun = tokio::select! {
            begun = shake_hands(stream, &tls, (self.limits.handshake_wait, self.limits.write_wait)) => begun,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match begun {
            Begun::Encrypted(stream, peer) => self.speak(stream, peer).await,
            Begun::Plain(stream) => self.refuse(stream).await,
            Begun::Failed => {}
        }
    }

    /// Answers what comes over it until it ends.
    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, peer: Option<Arc<Peer>>) {
        let Self { http, router, watcher, permit, remote, .. } = self;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(remote);
            if let Some(peer) = &peer {
                request.extensions_mut().insert(Arc::clone(peer));
            }
            answer(router.clone(), request)
        });
        if let Err(error) = watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(permit);
    }

    /// Tells whoever does not encrypt that it is to be.
    async fn refuse(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let service = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(with_own_headers(Refused::NotEncrypted.into_response()))
        });
        let connection = self.http.keep_alive(false).serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(%error, "a connection that was not encrypted ended early");
        }
        drop(self.permit);
    }
}

/// One call. A handler that panics, which none should, is answered for.
async fn answer(router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    let answer = if head_bytes(&request) > HEADER_BYTES_MAX {
        Refused::HeadersTooLarge { max: HEADER_BYTES_MAX }.into_response()
    } else {
        match AssertUnwindSafe(router.oneshot(request)).catch_unwind().await {
            Ok(Ok(answer)) => answer,
            Err(panic) => {
                tracing::error!(panic = words(panic.as_ref()), "a handler panicked; this is a defect of the service");
                Refused::Panicked.into_response()
            }
        }
    };
    Ok(with_own_headers(answer))
}

fn with_own_headers(mut answer: Response) -> Response {
    // Nothing here is what it does not say that it is.
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The bytes of a request's head, each line with its end.
fn head_bytes(request: &Request<Incoming>) -> usize {
    const LINE_END: usize = "\r\n".len();
    let uri = request.uri();
    let host = uri.authority().map_or(0, |it| it.as_str().len() + uri.scheme_str().map_or(0, str::len) + "://".len());
    let target = host + uri.path_and_query().map_or(0, |it| it.as_str().len());
    let line = request.method().as_str().len() + target + "  HTTP/1.1".len() + LINE_END;
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + ": ".len() + value.len() + LINE_END);
    line + headers.sum::<usize>() + LINE_END
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&'static str>().copied()).unwrap_or("no words")
}
