//! How the two vocabularies say small things: instants, durations, policies, states.

use history::event::ChildPolicy;
use history::{Duration, Timestamp, limits};
use serde::{Deserialize, Serialize};
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

/// An instant: seconds since 1970, to the millisecond.
pub(super) fn instant(at: Timestamp) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "exact for the next 285,000 years")]
    let millis = at.as_millis() as f64;
    json!(millis / 1_000.0)
}

/// What stands for `NONE`: the longest span that there can be, which is longer than any number of seconds on this wire.
const NONE: Duration = limits::SPAN_MAX;

/// A timeout, of a text that was checked. Empty is absent.
pub(super) fn span(text: Option<&str>) -> Option<Duration> {
    match text? {
        "" => None,
        "NONE" => Some(NONE),
        seconds => seconds.parse().ok().map(Duration::from_secs),
    }
}

/// The same, where `NONE` and nothing are one.
pub(super) fn limited_span(text: Option<&str>) -> Option<Duration> {
    span(text).filter(|span| *span != NONE)
}

/// A timeout in seconds, rounded up, or `NONE`.
pub(super) fn seconds(span: Duration) -> String {
    if span == NONE { "NONE".to_owned() } else { span.as_millis().div_ceil(1_000).to_string() }
}

/// A priority, of a text that was checked.
pub(super) fn priority(text: Option<&str>) -> Option<i32> {
    text?.parse().ok()
}

/// A child policy, of a text that was checked.
pub(super) fn child_policy(text: Option<&str>) -> Option<ChildPolicy> {
    Some(match text? {
        "REQUEST_CANCEL" => ChildPolicy::RequestCancel,
        "ABANDON" => ChildPolicy::Abandon,
        _ => ChildPolicy::Terminate,
    })
}

/// A child policy's word.
pub(super) fn policy(policy: ChildPolicy) -> &'static str {
    match policy {
        ChildPolicy::Terminate => "TERMINATE",
        ChildPolicy::RequestCancel => "REQUEST_CANCEL",
        ChildPolicy::Abandon => "ABANDON",
    }
}

/// A task list.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct List {
    pub(super) name: String,
}

/// A task list as answers have it.
pub(super) fn list(name: &String) -> Value {
    json!({ "name": name })
}
