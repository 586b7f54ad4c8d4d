//! The files that TLS is made of.

use std::path::PathBuf;

/// The files that TLS is made of, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate that is shown, and after it those that lead to its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whose certificates are looked at; where it is absent callers are asked for none.
    pub callers: Option<TlsCallers>,
}

/// Certificates of callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsCallers {
    /// The certificates of the authorities that sign them.
    pub ca: PathBuf,
    /// Whether nobody gets a connection without one.
    pub is_required: bool,
}

impl TlsFiles {
    /// All of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        let Self { certificate, key, callers } = self;
        let ca = callers.iter().map(|callers| callers.ca.clone());
        [certificate.clone(), key.clone()].into_iter().chain(ca).collect()
    }
}
