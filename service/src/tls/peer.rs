//! The client certificate of a connection, and the check whether it is valid.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::Tls;
use super::read::{CertificateValidity, validity_of};

/// Names and fingerprint in a client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Common names of the certificate's subject.
    pub(crate) common_names: Vec<String>,
    /// DNS names among the certificate's alternative names.
    pub(crate) dns: Vec<String>,
    /// URIs among the certificate's alternative names.
    pub(crate) uris: Vec<String>,
    /// SHA-256 fingerprint of the whole certificate.
    pub(crate) sha256: [u8; 32],
}

impl std::fmt::Display for Shown {
    /// Formats the first name in the certificate, in the notation of the configuration file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.common_names.first(), self.dns.first(), self.uris.first()) {
            (Some(name), _, _) => write!(f, "CN={name}"),
            (None, Some(name), _) => write!(f, "DNS:{name}"),
            (None, None, Some(name)) => write!(f, "URI:{name}"),
            (None, None, None) => f.write_str("without a name"),
        }
    }
}

/// Client certificate of a connection.
pub(crate) struct Peer {
    tls: Arc<Tls>,
    end_entity: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    shown: Shown,
    validity: CertificateValidity,
    /// Verifier that accepted the certificate most recently.
    found_good_by: Mutex<Arc<dyn ClientCertVerifier>>,
}

impl Peer {
    /// Creates the client certificate of a connection. `verifier` has accepted it in the handshake.
    pub(crate) fn of(
        tls: &Arc<Tls>,
        verifier: &Arc<dyn ClientCertVerifier>,
        chain: &[CertificateDer<'_>],
    ) -> Option<Self> {
        let (end_entity, intermediates) = chain.split_first()?;
        Some(Self {
            tls: Arc::clone(tls),
            shown: shown(end_entity),
            // If the validity period cannot be read, it counts as empty.
            validity: validity_of(end_entity).unwrap_or_default(),
            end_entity: end_entity.clone().into_owned(),
            intermediates: intermediates.iter().map(|it| it.clone().into_owned()).collect(),
            found_good_by: Mutex::new(Arc::clone(verifier)),
        })
    }

    /// Returns the names in the certificate if it is valid now. The validity is checked again, because the certificate
    /// may have expired since the handshake, and the trusted authorities may have changed.
    ///
    /// # Errors
    ///
    /// If the certificate is not valid. The error is the reason in words.
    pub(crate) fn shown(&self) -> Result<&Shown, String> {
        let now = self.tls.clock.now();
        if let Some(problem) = self.validity.problem(now) {
            return Err(problem);
        }
        let Some(verifier) = self.tls.verifier() else {
            return Err("client certificates are no longer accepted".to_owned());
        };
        let mut found_good_by = self.found_good_by.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&found_good_by, &verifier) {
            let now = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
            let verified = verifier.verify_client_cert(&self.end_entity, &self.intermediates, now);
            verified.map_err(|error| format!("its authority is no longer trusted: {error}"))?;
            *found_good_by = verifier;
        }
        Ok(&self.shown)
    }
}

impl PartialEq for Peer {
    /// Returns whether both certificates belong to the same connection. Certificates of different connections are never
    /// equal.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Peer {}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shown.fmt(f)
    }
}

fn shown(certificate: &CertificateDer<'_>) -> Shown {
    let mut shown = Shown { sha256: Sha256::digest(certificate).into(), ..Shown::default() };
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return shown };
    let names = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    shown.common_names = names.map(str::to_owned).collect();
    if let Ok(Some(names)) = parsed.subject_alternative_name() {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => shown.dns.push((*name).to_owned()),
                GeneralName::URI(uri) => shown.uris.push((*uri).to_owned()),
                _ => {}
            }
        }
    }
    shown
}
