//! Paths of the TLS files.

use std::path::PathBuf;

/// Paths of the TLS files. All files are in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Server certificate, followed by the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// Private key of the server certificate.
    pub key: PathBuf,
    /// Options for the verification of client certificates; if absent, the service requests no client certificates.
    pub callers: Option<TlsCallers>,
}

/// Options for the verification of client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsCallers {
    /// Certificates of the authorities that sign client certificates.
    pub ca: PathBuf,
    /// True if connections without a client certificate are refused.
    pub is_required: bool,
}

impl TlsFiles {
    /// Returns the paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        let Self { certificate, key, callers } = self;
        let ca = callers.iter().map(|callers| callers.ca.clone());
        [certificate.clone(), key.clone()].into_iter().chain(ca).collect()
    }
}
