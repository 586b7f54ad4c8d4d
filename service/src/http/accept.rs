//! Headers that list accepted values, such as `Accept`.

use axum::http::{HeaderMap, HeaderName};

/// Returns whether a header such as `Accept` names this value explicitly. Wildcards, and values with `q=0`, do not
/// count.
pub(crate) fn names(headers: &HeaderMap, header: &HeaderName, wanted: &str) -> bool {
    let accepted = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|entry| {
        let mut parameters = entry.split(';').map(str::trim);
        let is_wanted = parameters.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        is_wanted && !parameters.any(|it| matches!(it, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}
