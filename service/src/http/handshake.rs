//! How a connection comes to be encrypted: within a time of its own, or not at all.

use std::io;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::ServerLimits;
use super::stall::Stalling;
use crate::tls::Tls;

/// What came of it.
pub(super) enum Begun {
    /// A connection that is encrypted.
    Encrypted(Box<TlsStream<Stalling<TcpStream>>>),
    /// One whose peer speaks something else, HTTP by the look of it.
    Plain(Stalling<TcpStream>),
    /// None.
    Failed,
}

/// Has a connection be encrypted.
pub(super) async fn shake_hands(stream: TcpStream, tls: &Tls, limits: &ServerLimits) -> Begun {
    let begun = tokio::time::timeout(limits.handshake_wait, begin(stream, tls, limits)).await;
    let begun = begun.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")));
    if !matches!(begun, Ok(Begun::Encrypted(_))) {
        tls.standing().handshake_failed();
    }
    begun.unwrap_or_else(|error| {
        tracing::debug!(%error, "a connection could not be encrypted");
        Begun::Failed
    })
}

async fn begin(stream: TcpStream, tls: &Tls, limits: &ServerLimits) -> io::Result<Begun> {
    let mut first = [0];
    let is_there = stream.peek(&mut first).await? > 0;
    let speaks_http = is_there && first.iter().all(u8::is_ascii_uppercase);
    let stream = Stalling::new(stream, limits.write_wait);
    if speaks_http {
        return Ok(Begun::Plain(stream));
    }
    let encrypted = TlsAcceptor::from(tls.begin()).accept(stream).await?;
    Ok(Begun::Encrypted(Box::new(encrypted)))
}
