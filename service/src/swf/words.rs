//! Conversion of small values, such as timestamps, durations and policies, between the representations of SWF and
//! Baton.

use history::event::ChildPolicy;
use history::{Duration, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Returns SWF's word for the registration status of a domain or type.
pub(super) fn registration(deprecated_at: Option<Timestamp>) -> &'static str {
    if deprecated_at.is_some() { "DEPRECATED" } else { "REGISTERED" }
}

/// Adds a member if the value is present. A present but empty value is added, too.
pub(super) fn set(object: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(name.to_owned(), json!(value));
    }
}

/// Formats a timestamp as seconds since 1970, with a precision of milliseconds.
pub(super) fn instant(at: Timestamp) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "exact for the next 285,000 years")]
    let millis = at.as_millis() as f64;
    json!(millis / 1_000.0)
}

/// Duration that represents `NONE`: the maximum, which is longer than any number of seconds that this protocol
/// permits.
const NONE: Duration = limits::SPAN_MAX;

/// Parses a timeout, which has already been checked. Returns `None` if the text is absent or empty, and the duration
/// [`NONE`] for `NONE`.
pub(super) fn span(text: Option<&str>) -> Option<Duration> {
    match text? {
        "" => None,
        "NONE" => Some(NONE),
        seconds => seconds.parse().ok().map(Duration::from_secs),
    }
}

/// Parses a timeout, which has already been checked. Returns `None` if the text is absent, empty or `NONE`.
pub(super) fn limited_span(text: Option<&str>) -> Option<Duration> {
    span(text).filter(|span| *span != NONE)
}

/// Formats a timeout in seconds, rounded up, or `NONE`.
pub(super) fn seconds(span: Duration) -> String {
    if span == NONE { "NONE".to_owned() } else { span.as_millis().div_ceil(1_000).to_string() }
}

/// Parses a priority, which has already been checked.
pub(super) fn priority(text: Option<&str>) -> Option<i32> {
    text?.parse().ok()
}

/// Parses a child policy, which has already been checked.
pub(super) fn child_policy(text: Option<&str>) -> Option<ChildPolicy> {
    Some(match text? {
        "REQUEST_CANCEL" => ChildPolicy::RequestCancel,
        "ABANDON" => ChildPolicy::Abandon,
        _ => ChildPolicy::Terminate,
    })
}

/// Returns SWF's word for a child policy.
pub(super) fn policy(policy: ChildPolicy) -> &'static str {
    match policy {
        ChildPolicy::Terminate => "TERMINATE",
        ChildPolicy::RequestCancel => "REQUEST_CANCEL",
        ChildPolicy::Abandon => "ABANDON",
    }
}

/// Task list in a request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct List {
    pub(super) name: String,
}

/// Renders a task list.
pub(super) fn list(name: &String) -> Value {
    json!({ "name": name })
}
