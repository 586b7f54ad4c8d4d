//! The HTTP server: accepts connections within limits on number, speed and header size, and shuts them down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::call::{Encryption, HEADER_BYTES_MAX};
use super::connection::Connection;
use super::handshake::{Begun, shake_hands};
use super::problem::Refused;
use super::record::PeerAddress;
use super::socket::Socket;
use super::unfinished::{UNFINISHED_BYTES_MAX, UnfinishedBytes, UnfinishedPart};
use super::write_timeout::{MayAnswer, WriteTimeout};
use crate::tls::{Peer, Tls};

/// Connections at once, unless set otherwise. Our choice: an idle poll takes about 20 KB, so all of them take 400 MB.
const CONNECTIONS_MAX: usize = 20_000;

/// Time until a connection is encrypted. Our choice: a handshake takes two round trips.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Time for the headers of a request, and idle time of a connection. Our choice: longer than callers keep idle
/// connections.
const HEADER_WAIT: Duration = Duration::from_secs(15);

/// Time during which a peer may take nothing of its response. Our choice: as long as the longest wait of a request.
const WRITE_WAIT: Duration = Duration::from_secs(60);

/// Time for requests under way when the service stops, unless set otherwise. Our choice: less than systemd and
/// Kubernetes wait.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Maximum number of connections; further ones wait to be accepted. While some wait, the service closes connections
    /// whose clients have closed their sending half.
    pub max_connections: usize,
    /// Maximum time for a TLS handshake.
    pub handshake_wait: Duration,
    /// Maximum time for receiving the headers of a request, and for which a connection may be idle. Clients must close
    /// idle connections earlier, so that none is closed during a request: after ten seconds in `client`.
    pub header_wait: Duration,
    /// Maximum number of bytes of unfinished requests and handshakes of all connections; beyond it the oldest are
    /// closed.
    pub unfinished_bytes_max: usize,
    /// Maximum time for which a peer may not read anything written to it.
    pub write_wait: Duration,
    /// Time to wait for requests in progress when the service stops.
    pub shutdown_wait: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: CONNECTIONS_MAX,
            handshake_wait: HANDSHAKE_WAIT,
            header_wait: HEADER_WAIT,
            unfinished_bytes_max: UNFINISHED_BYTES_MAX,
            write_wait: WRITE_WAIT,
            shutdown_wait: SHUTDOWN_WAIT,
        }
    }
}

/// Maximum number of headers of a request. Our choice; browsers send about 20.
const HEADERS_MAX: usize = 64;

/// Size of a connection's read buffer, and of its write buffer, in bytes. Our choice: slightly larger than the maximum
/// head, so that a client whose head exceeds the limit by little receives an explanation.
const BUFFER_BYTES_MAX: usize = HEADER_BYTES_MAX + 4 * 1024;

/// Delay after a failed accept. Our choice: short compared with any client's timeout.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Maximum number of connections that wait to be accepted, if the system allows it. Our choice: the default of Linux;
/// all pollers reconnect at once after a restart.
const BACKLOG: u32 = 4_096;

/// Listens on an address.
///
/// # Errors
///
/// Fails with the error of the operating system.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As in tokio's own listeners, a restart can bind the address immediately.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// HTTP server for a router on a listener.
pub struct Server {
    /// Listener for connections.
    pub listener: TcpListener,
    /// Router that answers requests.
    pub router: Router,
    /// Limits of connections.
    pub limits: ServerLimits,
    /// TLS configuration; without it, connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
}

impl Server {
    /// Serves until `stop` resolves. It then accepts no more connections, and waits for requests in progress.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        self.run_while(MayAnswer::default(), stop).await;
    }

    /// Serves like [`run_until`](Self::run_until), but writes nothing to any connection once the process may not
    /// answer.
    pub async fn run_while(self, may_answer: MayAnswer, stop: impl Future<Output = ()>) {
        let Self { listener, router, limits, tls } = self;
        let connections = Arc::new(Semaphore::new(limits.max_connections));
        let (stopping, crowded) = (watch::Sender::new(false), watch::Sender::new(false));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.header_wait)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            // A client that has closed its sending half may still read its response.
            .half_close(true);
        let http = Arc::new(http);
        let unfinished = UnfinishedBytes::new(limits.unfinished_bytes_max);
        tokio::pin!(stop);
        let mut is_refused = false;
        loop {
            crowded.send_if_modified(|crowded| {
                std::mem::replace(crowded, connections.available_permits() == 0) != *crowded
            });
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
                    // Probably too many open files: wait until some are closed. Only the first failure is logged.
                    if !std::mem::replace(&mut is_refused, true) {
                        tracing::warn!(%error, "a connection could not be accepted; retrying");
                    }
                    tokio::time::sleep(ACCEPT_WAIT).await;
                    continue;
                }
            };
            is_refused = false;
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
            let accepted = AcceptedConnection {
                socket: Socket::new(stream),
                remote: PeerAddress(remote),
                http: Arc::clone(&http),
                router: router.clone(),
                limits,
                may_answer: may_answer.clone(),
                unfinished: Arc::clone(&unfinished),
                stopping: stopping.subscribe(),
                crowded: crowded.subscribe(),
                _permit: permit,
            };
            accepted.spawn(tls.clone());
        }
        drop(listener);
        // A connection that has not begun HTTP has no request in progress and closes. Others close when theirs is
        // answered.
        stopping.send_replace(true);
        tokio::select! {
            () = stopping.closed() => {}
            () = tokio::time::sleep(limits.shutdown_wait) => {
                tracing::warn!("some requests had not finished at the end of the grace period");
            }
        }
    }
}

/// Accepted connection without any received bytes.
struct AcceptedConnection {
    socket: Socket,
    remote: PeerAddress,
    http: Arc<http1::Builder>,
    router: Router,
    limits: ServerLimits,
    may_answer: MayAnswer,
    unfinished: Arc<UnfinishedBytes>,
    stopping: watch::Receiver<bool>,
    crowded: watch::Receiver<bool>,
    /// Held until the connection ends.
    _permit: Option<OwnedSemaphorePermit>,
}

impl AcceptedConnection {
    /// Serves the connection in a separate task.
    fn spawn(self, tls: Option<Arc<Tls>>) {
        tokio::spawn(async move {
            let mut part = UnfinishedPart::new(&self.unfinished);
            let socket = self.socket.clone();
            let stream = WriteTimeout::new(socket.clone(), self.limits.write_wait, self.may_answer.clone());
            let served = match tls {
                None => part.count_during(&socket, self.connection(Encryption::Plain, None).serve(stream)).await,
                Some(tls) => part.count_during(&socket, Box::pin(self.serve_encrypted(stream, tls))).await,
            };
            if served.is_none() {
                tracing::debug!(
                    peer = %self.remote.0,
                    "connection closed: its request was incomplete, and the memory is needed for others"
                );
            }
        });
    }

    async fn serve_encrypted(&self, stream: WriteTimeout<Socket>, tls: Arc<Tls>) {
        let mut stopping = self.stopping.clone();
        let begun = tokio::select! {
            begun = shake_hands(&self.socket, stream, &tls, self.limits.handshake_wait) => begun,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        self.socket.end_handshake();
        match begun {
            Begun::Encrypted(stream, certificate) => {
                self.connection(Encryption::Tls, certificate).serve(stream).await;
            }
            Begun::Plain(stream) => {
                let router = Router::new().fallback(async || Refused::TlsRequired);
                let mut http = http1::Builder::clone(&self.http);
                http.keep_alive(false);
                let connection = self.connection(Encryption::Plain, None);
                Connection { http: Arc::new(http), router, ..connection }.serve(stream).await;
            }
            Begun::Failed => {}
        }
    }

    fn connection(&self, encryption: Encryption, certificate: Option<Arc<Peer>>) -> Connection {
        Connection {
            http: Arc::clone(&self.http),
            router: self.router.clone(),
            remote: self.remote,
            encryption,
            certificate,
            socket: self.socket.clone(),
            stopping: self.stopping.clone(),
            crowded: self.crowded.clone(),
        }
    }
}
