//! Credentials whose secret is their name.

use service::access::Credential;

use crate::hash::sha256_hex;

/// A credential without permissions.
pub(crate) fn credential(name: &str) -> Credential {
    Credential { name: name.to_owned(), secret_sha256: sha256_hex(name), ..Credential::default() }
}

/// A list with one entry.
pub(crate) fn one(entry: &str) -> Vec<String> {
    vec![entry.to_owned()]
}
