//! TLS of the listener: the files that it is made of, which of their contents is in use, and how others take their place.
//! What is in them is read in `read`; connections are `http::Server`'s.
//!
//! Files that changed are taken as a whole or not at all. A connection keeps what it began with.

mod files;
mod peer;
mod read;
mod standing;

use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use engine::Clock;
use read::LoadedTls;

pub use files::{TlsCallers, TlsFiles};
pub(crate) use peer::{Peer, Shown};
pub use standing::TlsStanding;

/// TLS as it is now.
pub struct Tls {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    loaded: RwLock<Arc<LoadedTls>>,
    standing: Arc<TlsStanding>,
}

impl std::fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// For a file that cannot be read, that is not PEM or has not in it what it should, and for a key of another certificate.
    pub fn open(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Arc<Self>, String> {
        let loaded = LoadedTls::read(&files)?;
        if let Some(problem) = loaded.validity.problem(clock.now()) {
            tracing::warn!("the TLS certificate {}: {problem}; callers will refuse it", files.certificate.display());
        }
        let standing = Arc::new(TlsStanding::of(loaded.validity.until));
        Ok(Arc::new(Self { files, clock, loaded: RwLock::new(Arc::new(loaded)), standing }))
    }

    /// Reads the files again, for connections that begin from now on.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open), and for a certificate that is not good now where the one before is. Everything is as before
    /// then.
    pub fn reload(&self) -> Result<(), String> {
        let loaded = LoadedTls::read(&self.files)?;
        let (now, before) = (self.clock.now(), self.loaded());
        if let Some(problem) = loaded.validity.problem(now).filter(|_| before.validity.problem(now).is_none()) {
            return Err(format!("{}: {problem}, and the one before is good still", self.files.certificate.display()));
        }
        self.standing.renewed(loaded.validity.until);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        Ok(())
    }

    /// How it stands, for the metrics.
    pub fn standing(&self) -> &Arc<TlsStanding> {
        &self.standing
    }

    /// What a new connection begins with: what encrypts it, and what looks at the certificate of its caller.
    pub(crate) fn begin(&self) -> (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>) {
        let loaded = self.loaded();
        (Arc::clone(&loaded.config), loaded.verifier.clone())
    }

    /// What looks at certificates of callers now.
    fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.loaded().verifier.clone()
    }

    fn loaded(&self) -> Arc<LoadedTls> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}
