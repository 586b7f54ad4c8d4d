//! Histories and errors as text, as the SDK parsed them from responses.

use aws_sdk_swf::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_swf::types::HistoryEvent;

/// Removes absent members (`name: None`) and type names from a structure's debug text.
fn plain(text: &str) -> String {
    let mut kept = text.to_owned();
    while let Some(at) = kept.find(": None") {
        let start = kept[..at].rfind([' ', '{', '(']).map_or(0, |start| start + 1);
        let end = at + ": None".len();
        let end = if kept[end..].starts_with(", ") { end + 2 } else { end };
        kept.replace_range(start..end, "");
    }
    // Structures that consist only of a name, or of a name and a version, are replaced by these values.
    for (opening, between) in [("TaskList { name: ", None), ("Type { name: ", Some("\", version: \""))] {
        while let Some(at) = kept.find(opening) {
            let Some(length) = kept[at..].find('}') else { break };
            let start = kept[..at].rfind([' ', '(']).map_or(0, |start| start + 1);
            let inner = kept[at + opening.len()..at + length].trim();
            let inner = between.map_or_else(|| inner.to_owned(), |between| inner.replacen(between, "/", 1));
            kept.replace_range(start..=at + length, &inner);
        }
    }
    kept.replace("Some(", "").replace(')', "").replace(",  }", " }")
}

/// Formats one event: its id, its type and its attributes.
fn line(event: &HistoryEvent) -> String {
    let text = plain(&format!("{event:?}"));
    let attributes = text.split_once("_event_attributes: ").and_then(|(_, rest)| rest.split_once("EventAttributes "));
    let attributes = attributes.map_or("", |(_, rest)| rest.strip_suffix(" }").unwrap_or(rest).trim_end_matches(", "));
    format!("{} {} {attributes}", event.event_id(), event.event_type())
}

/// Formats a history, one event per line. Run ids are replaced by the given names.
#[must_use]
pub fn events(history: &[HistoryEvent], named: &[(&str, &str)]) -> String {
    let mut text: Vec<String> = history.iter().map(line).collect();
    for line in &mut text {
        for (id, name) in named {
            *line = line.replace(id, name);
        }
    }
    text.join("\n")
}

/// Returns the types of events in a short form.
#[must_use]
pub fn names(history: &[HistoryEvent]) -> String {
    let short = |event: &HistoryEvent| {
        let name = event.event_type().as_str();
        name.replace("DecisionTask", "DT").replace("ActivityTask", "Act").replace("WorkflowExecution", "")
    };
    history.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// Returns the code and the message of an error response, as the SDK parsed them.
///
/// # Panics
///
/// If the response is a success, or if the error is not a response of the service.
#[must_use]
pub fn fault<T: std::fmt::Debug, E>(answer: Result<T, SdkError<E>>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let error = answer.expect_err("a fault");
    let code = error.code().map(str::to_owned);
    let message = error.message().unwrap_or_default().to_owned();
    let code = code.unwrap_or_else(|| panic!("no fault of the service: {}", DisplayErrorContext(&error)));
    format!("{code}: {message}")
}
