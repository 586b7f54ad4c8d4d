//! Limits of task lists as text.

use client::body::{StartRate, WaitsBehind};

/// Formats a rate.
pub(super) fn rate(rate: &StartRate) -> String {
    format!("{}/s (burst {})", rate.per_second.as_f64(), rate.burst)
}

/// Formats limits of some tasks.
pub(super) fn limits(max_running: Option<u32>, of_starts: Option<&StartRate>) -> String {
    let max = max_running.map(|max| format!("at most {max} running"));
    max.into_iter().chain(of_starts.map(|it| format!("at most {}", rate(it)))).collect::<Vec<_>>().join(", ")
}

/// Describes the limits that hold a task of this list back; `None` if there are none.
pub(super) fn behind(behind: &[WaitsBehind], list: &str) -> Option<String> {
    let each = |it: &WaitsBehind| phrase(it, list);
    let phrases: Vec<String> = behind.iter().map(each).collect();
    (!phrases.is_empty()).then(|| format!("waits behind: {}", phrases.join("; ")))
}

/// Describes a limit that holds tasks of this list back.
pub(super) fn phrase(behind: &WaitsBehind, list: &str) -> String {
    let of = match behind.scope.as_str() {
        "key" => format!("with key `{}` on {list}", behind.name),
        "group" => format!("in group {}", behind.name),
        _ => format!("on {}", behind.name),
    };
    match (behind.limit.as_str(), behind.running, behind.max, &behind.rate) {
        ("paused", ..) => format!("{list} is paused"),
        ("counting", ..) => format!("the service counts the running tasks of {list}"),
        (_, Some(running), Some(max), _) => format!("{running} of {max} running {of}"),
        (_, _, _, Some(of_starts)) => format!("at most {} {of}", rate(of_starts)),
        // A newer service may have other limits.
        (limit, ..) => format!("limit `{limit}` {of}"),
    }
}
