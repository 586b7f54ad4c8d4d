//! Certificates of a client, and reasons why a secure connection could not be established.

mod problem;

use std::fmt;

pub use problem::TlsProblem;

/// A client certificate and its private key, as PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    /// The certificate, followed by the intermediate certificates up to its authority.
    pub certificate: &'a [u8],
    /// The private key, without a passphrase.
    pub key: &'a [u8],
}

impl fmt::Debug for ClientCertificate<'_> {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

#[cfg(feature = "tls")]
mod with_tls {
    use reqwest::{Certificate, ClientBuilder, Identity, Url};
    use rustls::{AlertDescription, CertificateError, Error as Rustls};

    use super::{ClientCertificate, TlsProblem};
    use crate::Error;

    /// Configures the trusted authorities and the client certificate.
    pub(crate) fn equipped(
        http: ClientBuilder,
        root: &Url,
        ca: Option<&[u8]>,
        own: Option<ClientCertificate<'_>>,
    ) -> Result<ClientBuilder, Error> {
        if root.scheme() == "http" {
            // Without TLS, the system's certificates are not needed.
            return Ok(http.tls_certs_only([]));
        }
        let http = match ca {
            Some(ca) => http.tls_certs_merge(authorities(ca)?),
            None => http,
        };
        match own {
            Some(own) => Ok(http.identity(identity(own)?)),
            None => Ok(http),
        }
    }

    fn authorities(ca: &[u8]) -> Result<Vec<Certificate>, Error> {
        let bad = |problem: String| Error::Setup { what: format!("cannot read the CA certificates: {problem}") };
        let certificates = Certificate::from_pem_bundle(ca).map_err(|error| bad(error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("no certificate found; expected PEM with `-----BEGIN CERTIFICATE-----`".to_owned()));
        }
        Ok(certificates)
    }

    fn identity(own: ClientCertificate<'_>) -> Result<Identity, Error> {
        const HOW: &str = "expected PEM with a certificate (`-----BEGIN CERTIFICATE-----`) and its key without \
                           a passphrase (`-----BEGIN PRIVATE KEY-----`)";
        let whole = [own.certificate, b"\n", own.key].concat();
        Identity::from_pem(&whole)
            .map_err(|_| Error::Setup { what: format!("cannot read the client certificate: {HOW}") })
    }

    /// Returns the TLS problem that caused an error, if there is one.
    pub(crate) fn problem(error: &reqwest::Error) -> Option<TlsProblem> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Rustls>() {
                return Some(of(found));
            }
            // The `source` of an IO error skips the error that the IO error wraps. Therefore the wrapped error is
            // examined separately.
            next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        None
    }

    fn of(error: &Rustls) -> TlsProblem {
        match error {
            Rustls::InvalidCertificate(why) => of_certificate(why),
            Rustls::InvalidMessage(_) => TlsProblem::NotEncrypted,
            Rustls::AlertReceived(AlertDescription::CertificateRequired) => TlsProblem::CertificateWanted,
            Rustls::AlertReceived(alert) => of_alert(*alert),
            other => TlsProblem::Other(other.to_string()),
        }
    }

    fn of_certificate(why: &CertificateError) -> TlsProblem {
        match why {
            CertificateError::UnknownIssuer => TlsProblem::UnknownAuthority,
            CertificateError::NotValidForName => TlsProblem::OtherName { shown: Vec::new() },
            CertificateError::NotValidForNameContext { presented, .. } => {
                TlsProblem::OtherName { shown: presented.clone() }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsProblem::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsProblem::NotYetValid,
            other => TlsProblem::BadCertificate(other.to_string()),
        }
    }

    /// Interprets a TLS alert with which the server refuses the client certificate.
    fn of_alert(alert: AlertDescription) -> TlsProblem {
        let why = match alert {
            AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
            AlertDescription::UnknownCA => "its authority is not accepted by the service",
            AlertDescription::CertificateRevoked => "it was revoked",
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError => "the service's log shows the reason at level `debug`",
            other => {
                let name = other.as_str().unwrap_or("an alert without a name");
                return TlsProblem::Other(format!("the service aborted the TLS handshake: {name}"));
            }
        };
        TlsProblem::CertificateRefused(why.to_owned())
    }
}

#[cfg(not(feature = "tls"))]
mod without_tls {
    use reqwest::{ClientBuilder, Url};

    use super::{ClientCertificate, TlsProblem};
    use crate::Error;

    /// Does nothing, because without the feature `tls` there are no certificates.
    #[expect(clippy::unnecessary_wraps, reason = "as with TLS")]
    pub(crate) fn equipped(
        http: ClientBuilder,
        _: &Url,
        _: Option<&[u8]>,
        _: Option<ClientCertificate<'_>>,
    ) -> Result<ClientBuilder, Error> {
        Ok(http)
    }

    /// Returns `None`, because without the feature `tls` there are no TLS problems.
    pub(crate) fn problem(_: &reqwest::Error) -> Option<TlsProblem> {
        None
    }
}

#[cfg(feature = "tls")]
pub(crate) use with_tls::{equipped, problem};
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::{equipped, problem};
