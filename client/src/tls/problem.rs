//! Reasons why a secure connection could not be established.

use std::fmt;

/// Reason why a secure connection could not be established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsProblem {
    /// The server's certificate is not signed by a trusted authority.
    UnknownAuthority,
    /// The server's certificate is for other names than the requested one.
    OtherName {
        /// Names of the certificate, if they are known.
        shown: Vec<String>,
    },
    /// The server's certificate has expired, or the local clock is ahead.
    Expired,
    /// The server's certificate is not valid yet, or the local clock is behind.
    NotYetValid,
    /// The server's certificate is invalid for another reason.
    BadCertificate(String),
    /// The server does not use TLS.
    NotEncrypted,
    /// The server requires a client certificate, and none was sent.
    CertificateWanted,
    /// The server refuses the client certificate.
    CertificateRefused(String),
    /// Another problem.
    Other(String),
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAuthority => f.write_str("its certificate is not signed by a trusted authority"),
            Self::OtherName { shown } if shown.is_empty() => f.write_str("its certificate is for another name"),
            Self::OtherName { shown } => write!(f, "its certificate is for another name: {}", shown.join(", ")),
            Self::Expired => f.write_str("its certificate has expired"),
            Self::NotYetValid => f.write_str("its certificate is not valid yet"),
            Self::BadCertificate(why) => write!(f, "its certificate is invalid: {why}"),
            Self::NotEncrypted => f.write_str("the server does not use TLS"),
            Self::CertificateWanted => f.write_str("it requires a client certificate, but none was sent"),
            Self::CertificateRefused(why) => write!(f, "it rejected the client certificate: {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}
