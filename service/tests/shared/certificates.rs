//! Certificates of a test authority, and files with them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// A certificate authority that no system trusts.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        static AUTHORITIES: AtomicU32 = AtomicU32::new(0);
        let mut authority = CertificateParams::default();
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        authority.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap())
    }

    /// The authority's certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |_| {})
    }

    /// A certificate for these names, with changed parameters.
    pub(crate) fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "of a test");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Sets an end in the past.
pub(crate) fn expired(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2001, 1, 1);
}

/// Sets a beginning in the far future.
pub(crate) fn not_yet(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2999, 1, 1);
}

impl Issued {
    /// Writes certificate and key to a directory and returns their paths.
    pub(crate) fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
        std::fs::write(&certificate, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (certificate, key)
    }
}
