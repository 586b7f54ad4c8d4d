//! How the two vocabularies say small things: instants, durations, policies, states.

use history::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether something is in use.
pub(super) fn registration(deprecated_at: Option<Timestamp>) -> &'static str {
    if deprecated_at.is_some() { "DEPRECATED" } else { "REGISTERED" }
}

/// Adds a member where there is something to say: what is absent stays absent, and what is empty is said.
pub(super) fn set(object: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(name.to_owned(), json!(value));
    }
}
