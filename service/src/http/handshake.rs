//! TLS handshake of a connection, with a time limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::write_timeout::WriteTimeout;
use crate::tls::{Peer, Tls};

/// TLS stream over a connection's socket.
pub(super) type Encrypted = Box<TlsStream<WriteTimeout<Socket>>>;

/// Outcome of a handshake.
pub(super) enum Begun {
    /// The connection is encrypted. Contains the certificate that the client presented, if any.
    Encrypted(Encrypted, Option<Arc<Peer>>),
    /// The client sent no TLS handshake, probably plain HTTP.
    Plain(WriteTimeout<Socket>),
    /// The handshake failed or timed out.
    Failed,
}

/// Performs the TLS handshake of a connection.
pub(super) async fn shake_hands(
    socket: &Socket,
    stream: WriteTimeout<Socket>,
    tls: &Arc<Tls>,
    wait: Duration,
) -> Begun {
    let begun = tokio::time::timeout(wait, begin(socket, stream, tls)).await;
    let begun = begun.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake timed out")));
    if !matches!(begun, Ok(Begun::Encrypted(..))) {
        tls.standing().handshake_failed();
    }
    begun.unwrap_or_else(|error| {
        tracing::debug!(%error, "TLS handshake failed");
        Begun::Failed
    })
}

async fn begin(socket: &Socket, stream: WriteTimeout<Socket>, tls: &Arc<Tls>) -> io::Result<Begun> {
    let first = socket.peek().await?;
    if first.is_some_and(|byte| byte.is_ascii_uppercase()) {
        return Ok(Begun::Plain(stream));
    }
    let (config, verifier) = tls.begin();
    let encrypted = TlsAcceptor::from(config).accept(stream).await?;
    let (_, session) = encrypted.get_ref();
    let peer = verifier.zip(session.peer_certificates()).and_then(|(verifier, chain)| Peer::of(tls, &verifier, chain));
    Ok(Begun::Encrypted(Box::new(encrypted), peer.map(Arc::new)))
}
