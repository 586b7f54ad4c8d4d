//! Why a connection could not be encrypted, in words that say what to do.

use std::fmt;

/// Why a connection could not be encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsProblem {
    /// Its certificate is signed by nobody who is trusted here.
    UnknownAuthority,
    /// Its certificate is for other names than the one that it was asked by.
    OtherName {
        /// The names that it is for, as far as they are known.
        shown: Vec<String>,
    },
    /// Its certificate has expired, or this machine's clock is ahead.
    Expired,
    /// Its certificate is not valid yet, or this machine's clock is behind.
    NotYetValid,
    /// Its certificate cannot be taken for another reason.
    BadCertificate(String),
    /// What is there does not speak TLS.
    NotEncrypted,
    /// It wants a certificate of its callers, and none was shown.
    CertificateWanted,
    /// It does not take the certificate that was shown.
    CertificateRefused(String),
    /// Something else.
    Other(String),
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAuthority => f.write_str("its certificate is signed by no authority that is trusted here"),
            Self::OtherName { shown } if shown.is_empty() => f.write_str("its certificate is for another name"),
            Self::OtherName { shown } => write!(f, "its certificate is for another name: {}", shown.join(", ")),
            Self::Expired => f.write_str("its certificate has expired"),
            Self::NotYetValid => f.write_str("its certificate is not valid yet"),
            Self::BadCertificate(why) => write!(f, "its certificate cannot be taken: {why}"),
            Self::NotEncrypted => f.write_str("what is there does not speak TLS"),
            Self::CertificateWanted => f.write_str("it wants a certificate of whoever asks, and none was shown"),
            Self::CertificateRefused(why) => write!(f, "it does not take the certificate that was shown: {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}
