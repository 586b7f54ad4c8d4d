//! Credentials whose secrets are their names.

use service::access::Credential;

use crate::hash::sha256_hex;

/// One that may do nothing yet.
pub(crate) fn credential(name: &str) -> Credential {
    Credential { name: name.to_owned(), secret_sha256: sha256_hex(name), ..Credential::default() }
}

/// The only entry of a list.
pub(crate) fn one(entry: &str) -> Vec<String> {
    vec![entry.to_owned()]
}
