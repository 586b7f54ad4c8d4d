//! Certificates that belong to a credential: their notation in the configuration file, and the comparison with
//! certificates that clients present.

use super::hex::unhex;
use crate::tls::Shown;

/// Notations of a certificate in the configuration file.
const FORMS: &str = "`CN=name`, `DNS:name`, `URI:uri` or `SHA256:fingerprint`";

/// Certificate of a credential, identified by a name in the certificate or by its fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CertificateName {
    /// Common name of the certificate's subject.
    CommonName(String),
    /// DNS name among the certificate's alternative names.
    Dns(String),
    /// URI among the certificate's alternative names.
    Uri(String),
    /// SHA-256 fingerprint of the certificate.
    Sha256([u8; 32]),
}

impl CertificateName {
    /// Parses an entry of the configuration file. Names and fingerprints are written as `openssl x509` prints them.
    pub(super) fn read(entry: &str) -> Result<Self, String> {
        let bad = |problem: &str| format!("the certificate `{entry}` {problem}; expected {FORMS}");
        let (kind, name) = entry.split_once(['=', ':']).ok_or_else(|| bad("has an unknown prefix"))?;
        if name.is_empty() {
            return Err(bad("has an empty name"));
        }
        let separator = entry.get(kind.len()..=kind.len()).unwrap_or_default();
        match (kind.to_ascii_uppercase().as_str(), separator) {
            ("CN", "=") => Ok(Self::CommonName(name.to_owned())),
            ("DNS", ":") => Ok(Self::Dns(name.to_ascii_lowercase())),
            ("URI", ":") => Ok(Self::Uri(name.to_owned())),
            ("SHA256", ":") => {
                let digits: String = name.chars().filter(|c| *c != ':').collect();
                let digest = unhex(&digits);
                digest.map(Self::Sha256).ok_or_else(|| bad("has a fingerprint without exactly 64 hexadecimal digits"))
            }
            _ => Err(bad("has an unknown prefix")),
        }
    }

    /// Returns whether this entry matches a certificate. Names must be equal; the entry cannot be a pattern.
    pub(super) fn is_of(&self, shown: &Shown) -> bool {
        match self {
            Self::CommonName(name) => shown.common_names.contains(name),
            Self::Dns(name) => shown.dns.iter().any(|shown| shown.eq_ignore_ascii_case(name)),
            Self::Uri(uri) => shown.uris.contains(uri),
            Self::Sha256(digest) => shown.sha256 == *digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_matches_a_whole_name_or_its_fingerprint() {
        let digits = "0123456789abcdef".repeat(4);
        let colons: Vec<String> =
            digits.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
        let sha256 = unhex(&digits).unwrap();
        let shown = Shown {
            common_names: vec!["pci".to_owned()],
            dns: vec!["PCI.shop.internal".to_owned(), "*.b".to_owned()],
            uris: vec!["spiffe://shop/pci".to_owned()],
            sha256,
        };
        for (entry, is_of) in [
            ("CN=pci", true),
            ("cn=pci", true),
            ("CN=PCI", false),
            ("CN=pc", false),
            ("CN=pci.shop.internal", false),
            ("DNS:pci.shop.internal", true),
            ("DNS:pci", false),
            ("DNS:shop.internal", false),
            ("DNS:a.b", false),
            ("DNS:*.shop.internal", false),
            ("URI:spiffe://shop/pci", true),
            ("URI:spiffe://shop/pc", false),
            (&format!("SHA256:{digits}"), true),
            (&format!("sha256:{}", colons.join(":")), true),
            (&format!("SHA256:{}", "0".repeat(64)), false),
        ] {
            assert_eq!(CertificateName::read(entry).unwrap().is_of(&shown), is_of, "{entry}");
        }
    }

    #[test]
    fn an_entry_of_unknown_kind_is_refused_with_the_known_ones() {
        for entry in ["", "pci", "CN=", "DNS:", "CN:pci", "DNS=pci", "O=shop", "SHA256:00", "SHA256:zz", ":", "="] {
            let refused = CertificateName::read(entry).unwrap_err();
            assert!(refused.contains(FORMS) && refused.contains(&format!("`{entry}`")), "{refused}");
        }
    }
}
