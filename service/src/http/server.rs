//! The HTTP server. It accepts connections, limits their number, speed and header size, and shuts down gracefully.

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

/// Default maximum number of connections. Our choice: a waiting poll takes about 20 KB, so 20,000 polls take 400 MB.
const CONNECTIONS_MAX: usize = 20_000;

/// Default time limit of a TLS handshake. Our choice: many times the two round trips of a handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Default time limit for receiving the headers of a request, and for an idle connection. Our choice: longer than our
/// client keeps idle connections.
const HEADER_WAIT: Duration = Duration::from_secs(15);

/// Default time for which a client may read nothing of its response before the connection is closed. Our choice: equals
/// the maximum wait of a request.
const WRITE_WAIT: Duration = Duration::from_secs(60);

/// Default time to wait for requests in progress when the service stops. Our choice: shorter than the grace periods
/// of systemd and Kubernetes.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Maximum number of connections; further connections wait to be accepted. While connections wait, the service
    /// closes others whose clients have closed their sending half.
    pub max_connections: usize,
    /// Maximum time for a TLS handshake.
    pub handshake_wait: Duration,
    /// Time limit for receiving the headers of a request, and for an idle connection. Clients should close idle
    /// connections earlier, so that the service never closes one on which a request is being sent. Our `client` closes
    /// them after ten seconds.
    pub header_wait: Duration,
    /// Maximum number of bytes of unfinished requests and handshakes on all connections together. If it is exceeded,
    /// the connections with the oldest of these bytes are closed.
    pub unfinished_bytes_max: usize,
    /// Maximum time for which a client may read nothing of a response before its connection is closed.
    pub write_wait: Duration,
    /// Maximum time to wait for requests in progress when the service stops.
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

/// Maximum number of headers of a request. Our choice: about three times what browsers send.
const HEADERS_MAX: usize = 64;

/// Size in bytes of a connection's read buffer, and of its write buffer. Our choice: slightly larger than the maximum
/// size of headers, so that a client whose headers slightly exceed that limit receives an explanation.
const BUFFER_BYTES_MAX: usize = HEADER_BYTES_MAX + 4 * 1024;

/// Delay before the next `accept` after one has failed. Our choice: short compared with the timeouts of clients.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Maximum number of connections in the system's queue that wait to be accepted, if the system permits as many. Our
/// choice: the default of Linux. A long queue is needed after a restart, because all pollers then reconnect at once.
const BACKLOG: u32 = 4_096;

/// Returns a listener on an address.
///
/// # Errors
///
/// Fails with the error of the operating system.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Like tokio's own listeners, permits binding the address again immediately after a restart.
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
    /// Serves until `stop` resolves. Then accepts no more connections and waits for requests in progress.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        self.run_while(MayAnswer::default(), stop).await;
    }

    /// Serves like [`run_until`](Self::run_until), but stops writing to all connections when `may_answer` forbids it.
    pub async fn run_while(self, may_answer: MayAnswer, stop: impl Future<Output = ()>) {
        let Self { listener, router, limits, tls } = self;
        let connections = Arc::new(Semaphore::new(limits.max_connections));
        let (stopping, crowded) = (watch::Sender::new(false), watch::Sender::new(false));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.header_wait)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            // The connection stays open if the client closes its sending half, because the client may still read its
            // response.
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
                    // The probable reason is too many open files. `accept` is retried after a delay, when some of them
                    // may be closed. Only the first of consecutive failures is logged.
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
        // Tells all connections to stop. A connection without a request in progress closes at once; any other
        // connection closes when its request is answered.
        stopping.send_replace(true);
        tokio::select! {
            () = stopping.closed() => {}
            () = tokio::time::sleep(limits.shutdown_wait) => {
                tracing::warn!("some requests had not finished at the end of the grace period");
            }
        }
    }
}

/// Accepted connection from which no byte has been received yet.
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
    /// Permit that counts this connection under the maximum number of connections. Held until the connection ends.
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
