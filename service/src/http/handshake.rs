//! How a connection comes to be encrypted: within a time of its own, or not at all.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::stall::Stalling;
use crate::tls::{Peer, Tls};

/// A connection that is encrypted.
pub(super) type Encrypted = Box<TlsStream<Stalling<TcpStream>>>;

/// What came of it.
pub(super) enum Begun {
    /// A connection that is encrypted, and the certificate that its caller has shown.
    Encrypted(Encrypted, Option<Arc<Peer>>),
    /// One whose peer speaks something else, HTTP by the look of it.
    Plain(Stalling<TcpStream>),
    /// None.
    Failed,
}

/// Has a connection be encrypted.
pub(super) async fn shake_hands(stream: Stalling<TcpStream>, tls: &Arc<Tls>, wait: Duration) -> Begun {
    let begun = tokio::time::timeout(wait, begin(stream, tls)).await;
    let begun = begun.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")));
    if !matches!(begun, Ok(Begun::Encrypted(..))) {
        tls.standing().handshake_failed();
    }
    begun.unwrap_or_else(|error| {
        tracing::debug!(%error, "a connection could not be encrypted");
        Begun::Failed
    })
}

async fn begin(stream: Stalling<TcpStream>, tls: &Arc<Tls>) -> io::Result<Begun> {
    let mut first = [0];
    let is_there = stream.of().peek(&mut first).await? > 0;
    let speaks_http = is_there && first.iter().all(u8::is_ascii_uppercase);
    if speaks_http {
        return Ok(Begun::Plain(stream));
    }
    let (config, verifier) = tls.begin();
    let encrypted = TlsAcceptor::from(config).accept(stream).await?;
    let (_, session) = encrypted.get_ref();
    let peer = verifier.zip(session.peer_certificates()).and_then(|(verifier, chain)| Peer::of(tls, &verifier, chain));
    Ok(Begun::Encrypted(Box::new(encrypted), peer.map(Arc::new)))
}
