//! Connections: how many, how slow, how large their headers may be; and how they end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::call::{Encryption, HEADER_BYTES_MAX, with_own_headers};
use super::handshake::{Begun, Encrypted, shake_hands};
use super::parked::Speaker;
use super::problem::Refused;
use super::record::PeerAddress;
use super::stall::{LooksAtPeer, MayAnswer, Stalling};
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
    /// How long a call may wait before its connection lays down what it needs to read and write only. Whoever waits does not see it.
    pub park_after: Duration,
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
            // What is answered sooner costs nothing more, and taking HTTP up again takes microseconds.
            park_after: Duration::from_millis(50),
            write_wait: Duration::from_secs(60),
            shutdown_wait: Duration::from_secs(10),
        }
    }
}

/// Most headers of a request. Ours; browsers send about 20.
const HEADERS_MAX: usize = 64;

/// Bytes of buffer a connection may take; bounds what a slow reader holds back.
const BUFFER_BYTES_MAX: usize = HEADER_BYTES_MAX;

/// The wait before a connection is accepted where the one before could not be. Ours: short against any caller's patience.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Connections that may wait to be accepted, where the system lets as many. Ours, as Linux has it: what polls comes back all at once
/// after a restart.
const BACKLOG: u32 = 4_096;

/// Listens on an address.
///
/// # Errors
///
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As tokio's own listeners have it: a restart finds the address free.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

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
        self.run_while(MayAnswer::default(), stop).await;
    }

    /// The same, and nothing is written to any connection once it may not answer any more.
    pub async fn run_while(self, may_answer: MayAnswer, stop: impl Future<Output = ()>) {
        let Self { listener, router, limits, tls } = self;
        let connections = Arc::new(Semaphore::new(limits.connections_max));
        let stopping = watch::Sender::new(false);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.header_wait)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX);
        let http = Arc::new(http);
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
                http: Arc::clone(&http),
                router: router.clone(),
                limits,
                stopped: stopping.subscribe(),
                permit,
            };
            connection.begin(stream, tls.clone(), may_answer.clone());
        }
        drop(listener);
        // What has not begun to speak HTTP has nothing under way; what has ends when that is answered.
        stopping.send_replace(true);
        tokio::select! {
            () = stopping.closed() => {}
            () = tokio::time::sleep(limits.shutdown_wait) => {
                tracing::warn!("some requests were still under way when the wait for them was over");
            }
        }
    }
}

/// A connection, before anything came over it.
struct Connection {
    remote: PeerAddress,
    http: Arc<http1::Builder>,
    router: Router,
    limits: ServerLimits,
    stopped: watch::Receiver<bool>,
    /// Held until the connection is over.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Serves it in a task of its own, which is small as long as it may be: there are very many that wait.
    fn begin(self, stream: TcpStream, tls: Option<Arc<Tls>>, may_answer: MayAnswer) {
        let looks = LooksAtPeer::default();
        let stream = Stalling::new(stream, self.limits.write_wait, looks.clone(), may_answer);
        match tls {
            None => {
                tokio::spawn(looks.around(self.speaker(Encryption::Plain, None).speak(stream)));
            }
            Some(tls) => {
                tokio::spawn(looks.around(async move {
                    // In boxes, of which one is there at a time.
                    let encrypted = Box::pin(self.shake_hands(stream, tls)).await;
                    if let Some((speaker, stream)) = encrypted {
                        Box::pin(speaker.speak(stream)).await;
                    }
                }));
            }
        }
    }

    /// Has it be encrypted.
    async fn shake_hands(self, stream: Stalling<TcpStream>, tls: Arc<Tls>) -> Option<(Speaker, Encrypted)> {
        let mut stopped = self.stopped.clone();
        let begun = tokio::select! {
            begun = shake_hands(stream, &tls, self.limits.handshake_wait) => begun,
            _ = stopped.wait_for(|stopped| *stopped) => return None,
        };
        match begun {
            Begun::Encrypted(stream, peer) => return Some((self.speaker(Encryption::Tls, peer), stream)),
            Begun::Plain(stream) => self.refuse(stream).await,
            Begun::Failed => {}
        }
        None
    }

    /// What answers what comes over it.
    fn speaker(self, encryption: Encryption, peer: Option<Arc<Peer>>) -> Speaker {
        let Self { http, router, stopped, permit, remote, limits } = self;
        Speaker::new((http, router), (remote, encryption, peer), limits.park_after, (stopped, permit))
    }

    /// Tells whoever does not encrypt that it is to be.
    async fn refuse(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let service = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(with_own_headers(Refused::NotEncrypted.into_response(), Encryption::Plain))
        });
        let mut http = http1::Builder::clone(&self.http);
        let mut connection = pin!(http.keep_alive(false).serve_connection(TokioIo::new(stream), service));
        let mut is_stopping = false;
        let ended = loop {
            tokio::select! {
                ended = &mut connection => break ended,
                _ = self.stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection that was not encrypted ended early");
        }
        drop(self.permit);
    }
}
