//! How a connection comes to be encrypted: within a time of its own, or not at all.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::stall::Stalling;
use crate::tls::{Peer, Tls};

/// A connection that is encrypted.
pub(super) type Encrypted = Box<TlsStream<Stalling<Socket>>>;

/// What came of it.
pub(super) enum Begun {
    /// A connection that is encrypted, and the certificate that its caller has shown.
    Encrypted(Encrypted, Option<Arc<Peer>>),
    /// One whose peer speaks something else, HTTP by the look of it.
    Plain(Stalling<Socket>),
    /// None.
    Failed,
}

/// Has a connection be encrypted.
pub(super) async fn shake_hands(socket: &Socket, stream: Stalling<Socket>, tls: &Arc<Tls>, wait: Duration) -> Begun {
    let begun = tokio::time::timeout(wait, begin(socket, stream, tls)).await;
    let begun = begun.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")));
    if !matches!(begun, Ok(Begun::Encrypted(..))) {
        tls.standing().handshake_failed();
    }
    begun.unwrap_or_else(|error| {
        tracing::debug!(%error, "a connection could not be encrypted");
        Begun::Failed
    })
}

async fn begin(socket: &Socket, stream: Stalling<Socket>, tls: &Arc<Tls>) -> io::Result<Begun> {
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
