//! Reading and checking the files of the TLS configuration.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use history::Timestamp;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

use super::files::{TlsCallers, TlsFiles};

/// Maximum size of a TLS file in bytes. Our choice: five times the size of a file with all authorities that browsers
/// trust (200 KB).
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Beginning of a PEM block.
const PEM: &[u8] = b"-----BEGIN ";

/// Text in the PEM block of a private key that is protected by a passphrase.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The only application protocol that connections can use (ALPN).
const PROTOCOL: &[u8] = b"http/1.1";

/// Validity period of a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CertificateValidity {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl CertificateValidity {
    /// Returns the reason why the certificate is not valid at this time; `None` if it is valid.
    pub(super) fn problem(&self, now: Timestamp) -> Option<String> {
        if now > self.until {
            Some(format!("it expired at {}", self.until))
        } else if now < self.from {
            Some(format!("it is not valid before {}", self.from))
        } else {
            None
        }
    }
}

/// TLS configuration that was read from files.
pub(super) struct LoadedTls {
    pub(super) config: Arc<ServerConfig>,
    /// Verifier of client certificates; `None` if the service requests no client certificates.
    pub(super) verifier: Option<Arc<dyn ClientCertVerifier>>,
    pub(super) validity: CertificateValidity,
}

impl LoadedTls {
    /// Reads the files and creates a configuration from them.
    pub(super) fn read(files: &TlsFiles) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&files.certificate)?;
        let validity = validity(&files.certificate, &chain)?;
        let key = key(&files.key)?;
        let (shown, shown_key) = (files.certificate.display(), files.key.display());
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                format!("{shown_key}: the key does not belong to the certificate {shown}")
            }
            error => format!("{shown} with the key {shown_key}: {error}"),
        })?;
        let verifier = files.callers.as_ref().map(|callers| verifier(callers, &provider)).transpose()?;
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| format!("TLS: {error}"))?;
        let config = match &verifier {
            Some(verifier) => config.with_client_cert_verifier(Arc::clone(verifier)),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Disables the resumption of TLS sessions, so that the client's certificate is verified for each connection.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), verifier, validity })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{shown}: it has more than {FILE_BYTES_MAX} bytes, expected a few certificates or a key"));
    }
    Ok(bytes)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns an error message that says which contents a file lacks.
fn lacks(path: &Path, bytes: &[u8], what: &str, begins: &str) -> String {
    let shown = path.display();
    if has(bytes, PEM) {
        format!("{shown}: it contains no {what}; expected a block that begins with `-----BEGIN {begins}-----`")
    } else {
        format!("{shown}: this is not PEM; expected a {what} that begins with `-----BEGIN {begins}-----`")
    }
}

/// Returns the certificates in a file. Fails if there is none.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        return Err(lacks(path, &bytes, "certificate", "CERTIFICATE"));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        if has(&bytes, ENCRYPTED) {
            let how = "remove it with `openssl pkey -in FILE -out FILE`";
            return format!("{}: the key has a passphrase, which the service cannot ask for; {how}", path.display());
        }
        lacks(path, &bytes, "private key", "PRIVATE KEY")
    })
}

/// Creates a verifier of client certificates.
fn verifier(callers: &TlsCallers, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let shown = callers.ca.display();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&callers.ca)? {
        roots.add(certificate).map_err(|error| format!("{shown}: a certificate cannot be used: {error}"))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = if callers.is_required { verifier } else { verifier.allow_unauthenticated() };
    verifier.build().map_err(|error| format!("{shown}: {error}"))
}

/// Returns the validity period of the first certificate of a chain.
fn validity(path: &Path, chain: &[CertificateDer<'_>]) -> Result<CertificateValidity, String> {
    let unreadable = |error: String| format!("{}: the certificate cannot be read: {error}", path.display());
    let first = chain.first().ok_or_else(|| unreadable("there is none".to_owned()))?;
    validity_of(first).map_err(unreadable)
}

/// Returns the validity period of a certificate.
pub(super) fn validity_of(certificate: &CertificateDer<'_>) -> Result<CertificateValidity, String> {
    let (_, certificate) = parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let found = certificate.validity();
    Ok(CertificateValidity { from: instant(found.not_before), until: instant(found.not_after) })
}

/// Converts a time in a certificate. Times before 1970 are treated as 1970.
fn instant(time: ASN1Time) -> Timestamp {
    Timestamp::from_millis(u64::try_from(time.timestamp()).unwrap_or_default().saturating_mul(1_000))
}
