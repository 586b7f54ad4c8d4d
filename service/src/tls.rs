//! TLS of the listener: the configuration in use, and replacing it when its files change. `read` parses the files;
//! `http::Server` uses the configuration for connections.
//!
//! Changed files take effect together or not at all. Existing connections keep the configuration with which they
//! began.

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
pub use standing::TlsStatus;

/// The TLS configuration in use.
pub struct Tls {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    loaded: RwLock<Arc<LoadedTls>>,
    standing: Arc<TlsStatus>,
}

impl std::fmt::Debug for Tls {
    /// Formats the value without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files and creates a configuration from them.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, is not in PEM format, or lacks the expected contents. Also fails if the key does
    /// not belong to the certificate.
    pub fn open(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Arc<Self>, String> {
        let loaded = LoadedTls::read(&files)?;
        if let Some(problem) = loaded.validity.problem(clock.now()) {
            tracing::warn!("the TLS certificate {}: {problem}; clients will reject it", files.certificate.display());
        }
        let standing = Arc::new(TlsStatus::of(loaded.validity.until));
        Ok(Arc::new(Self { files, clock, loaded: RwLock::new(Arc::new(loaded)), standing }))
    }

    /// Reads the files again, and uses them for new connections.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open). Also fails if the new certificate is not valid now but the current one is.
    /// The current configuration then stays in use.
    pub fn reload(&self) -> Result<(), String> {
        let loaded = LoadedTls::read(&self.files)?;
        let (now, before) = (self.clock.now(), self.loaded());
        if let Some(problem) = loaded.validity.problem(now).filter(|_| before.validity.problem(now).is_none()) {
            return Err(format!(
                "{}: {problem}, but the previous certificate is still valid",
                self.files.certificate.display()
            ));
        }
        self.standing.renewed(loaded.validity.until);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        Ok(())
    }

    /// Returns the status of TLS for the metrics.
    pub fn standing(&self) -> &Arc<TlsStatus> {
        &self.standing
    }

    /// Returns the configuration for a new connection, and the verifier of the client certificate on that connection.
    pub(crate) fn begin(&self) -> (Arc<ServerConfig>, Option<Arc<dyn ClientCertVerifier>>) {
        let loaded = self.loaded();
        (Arc::clone(&loaded.config), loaded.verifier.clone())
    }

    /// Returns the current verifier of client certificates.
    fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.loaded().verifier.clone()
    }

    fn loaded(&self) -> Arc<LoadedTls> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}
