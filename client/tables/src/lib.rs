//! Histories and lists as tables for people, and [escaping](escape) of text for a terminal.

pub mod escape;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use history::event::{ActivityPausedCause, OperatorAction};
use history::{Event, EventKind, Origin, Payload, Timestamp};

/// Maximum number of characters of a payload that a table shows.
const PAYLOAD_CHARS_MAX: usize = 60;

/// Formats a table with a header. Each column is as wide as its contents.
pub fn rows<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = plain(&header);
    for row in rows {
        table.add_row(row.map(|cell| escape::line(&cell).into_owned()));
    }
    text(&table)
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn text(table: &Table) -> String {
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats a history as a table, in the given order. The columns are: id, time, time since the oldest of the events,
/// name, summary, causes, and the credential if any event has one. A blank row precedes each turn.
pub fn history(events: &[Event]) -> String {
    let is_signed = events.iter().any(|event| event.by.is_some());
    let header = ["#", "time", "after", "event", "what", "because of", "credential"];
    let columns = if is_signed { header.len() } else { header.len() - 1 };
    let mut table = plain(header.get(..columns).unwrap_or(&header));
    for column in [0, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let oldest = events.iter().min_by_key(|event| event.id).map(|event| event.timestamp).unwrap_or_default();
    for event in events {
        if matches!(event.kind, EventKind::DeciderStarted(_)) && event.id != 1 {
            table.add_row(vec![""; columns]);
        }
        let after = event.timestamp.since(oldest).as_millis();
        let row = [
            event.id.to_string(),
            event.timestamp.to_string(),
            elapsed(after),
            event.kind.name().to_owned(),
            escape::line(&summary(event)).into_owned(),
            event.kind.causes().iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
            event.by.as_ref().map(|by| escape::line(by.as_str()).into_owned()).unwrap_or_default(),
        ];
        table.add_row(row.into_iter().take(columns));
    }
    text(&table)
}

fn elapsed(millis: u64) -> String {
    const DAY: u64 = 86_400_000;
    match millis {
        0..1_000 => format!("+{millis} ms"),
        1_000..60_000 => format!("+{}.{:03} s", millis / 1_000, millis % 1_000),
        60_000..DAY => {
            let (hours, minutes, seconds) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
            format!("+{hours}:{minutes:02}:{seconds:02}")
        }
        DAY.. => {
            let (days, hours, minutes) = (millis / DAY, millis / 3_600_000 % 24, millis / 60_000 % 60);
            format!("+{days} d {hours}:{minutes:02}")
        }
    }
}

fn short(payload: Option<&Payload>) -> String {
    let Some(payload) = payload else { return String::new() };
    let text = payload.to_string();
    if text.chars().count() <= PAYLOAD_CHARS_MAX {
        return format!(" {text}");
    }
    let start: String = text.chars().take(PAYLOAD_CHARS_MAX - 1).collect();
    format!(" {start}…")
}

fn from(origin: Option<&Origin>) -> String {
    origin.map(|origin| format!(" from `{}` ({})", origin.workflow_id, origin.event_id)).unwrap_or_default()
}

fn again(next_attempt_at: Option<Timestamp>) -> String {
    next_attempt_at.map(|at| format!(", retried at {at}")).unwrap_or_default()
}

/// Returns a short summary of an event. The summary is not escaped. Use [`escape`] before you write it to a terminal.
pub fn summary(event: &Event) -> String {
    match &event.kind {
        EventKind::WorkflowStarted(it) => {
            let child =
                it.parent.as_ref().map(|parent| format!(", child of `{}`", parent.workflow_id)).unwrap_or_default();
            let (workflow_type, workflow_id, task_list) = (&it.workflow_type, &it.workflow_id, &it.task_list);
            let attempt = it.attempt.filter(|attempt| *attempt > 1);
            let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
            format!("{workflow_type} `{workflow_id}` on {task_list}{child}{attempt}{}", short(it.input.as_ref()))
        }
        EventKind::WorkflowSuccess(it) => short(it.result.as_ref()).trim_start().to_owned(),
        EventKind::WorkflowFailed(it) => {
            format!("{}{}{}", it.reason, short(it.details.as_ref()), again(it.next_attempt_at))
        }
        EventKind::WorkflowCanceled(it) => short(it.details.as_ref()).trim_start().to_owned(),
        EventKind::WorkflowContinuedAsNew(it) => format!("as {}{}", it.new_run_id, short(it.input.as_ref())),
        EventKind::WorkflowTimedOut(it) => format!("{}{}", it.timeout, again(it.next_attempt_at)),
        EventKind::WorkflowTerminated(it) => {
            let goes_on = it
                .reset
                .map(|it| format!(" run {} continues from event {} of run {}", it.new_run_id, it.event_id, it.run_id));
            let (reason, details) = (it.reason.as_deref().unwrap_or_default(), short(it.details.as_ref()));
            format!("{reason}{details}{}", goes_on.unwrap_or_default()).trim_start().to_owned()
        }
        EventKind::WorkflowCloseFailed(it) => format!("{}: {}", it.decision, it.cause),
        EventKind::WorkflowCancelRequested(it) => {
            let (reason, from) = (it.reason.as_deref().unwrap_or_default(), from(it.origin.as_ref()));
            let releases = if it.releases_first_turn { " releases the first turn" } else { "" };
            format!("{reason}{from}{releases}").trim_start().to_owned()
        }
        EventKind::DeciderScheduled(it) if it.attempt > 1 => format!("on {}, attempt {}", it.task_list, it.attempt),
        EventKind::DeciderScheduled(it) => format!("on {}", it.task_list),
        EventKind::DeciderStarted(it) => it.identity.as_ref().map(|who| format!("by {who}")).unwrap_or_default(),
        EventKind::DeciderCompleted(it) => short(it.context.as_ref()).trim_start().to_owned(),
        EventKind::DeciderTimedOut(it) => it.timeout.to_string(),
        EventKind::DeciderFailed(it) => {
            let reason = it.reason.clone().unwrap_or_else(|| it.cause.to_string());
            format!("{reason}{}", short(it.details.as_ref()))
        }
        EventKind::ActivityScheduled(it) => {
            let id = if it.activity_id == it.activity_type { String::new() } else { format!("`{}` ", it.activity_id) };
            format!("{id}{} on {}{}", it.activity_type, it.task_list, short(it.input.as_ref()))
        }
        EventKind::ActivityScheduleFailed(it) => format!("`{}`: {}", it.activity_id, it.cause),
        EventKind::ActivityStarted(it) => it.identity.as_ref().map(|who| format!("by {who}")).unwrap_or_default(),
        EventKind::ActivitySuccess(it) => {
            format!("{}{}", short(it.result.as_ref()), operator(it.operator.as_ref())).trim_start().to_owned()
        }
        EventKind::ActivityFailed(it) => {
            format!("{}{}{}", it.reason, short(it.details.as_ref()), operator(it.operator.as_ref()))
        }
        EventKind::ActivityCanceled(it) => short(it.details.as_ref()).trim_start().to_owned(),
        EventKind::ActivityTimedOut(it) => {
            let cause = it.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
            format!("{}{cause}{}", it.timeout, short(it.details.as_ref()))
        }
        EventKind::ActivityScheduledTimeout(_) => "not taken by a runner".to_owned(),
        EventKind::ActivityTaskCancel(it) => format!("`{}`", it.activity_id),
        EventKind::ActivityTaskCancelFailed(it) => format!("`{}`: {}", it.activity_id, it.cause),
        EventKind::TimerScheduled(it) => format!("`{}` after {}", it.timer_id, it.after),
        EventKind::TimerScheduleFailed(it) => format!("`{}`: {}", it.timer_id, it.cause),
        EventKind::TimerExpired(it) => format!("`{}`", it.timer_id),
        EventKind::TimerCanceled(it) => format!("`{}`", it.timer_id),
        EventKind::TimerCancelFailed(it) => format!("`{}`: {}", it.timer_id, it.cause),
        EventKind::Signal(it) => format!("`{}`{}{}", it.name, short(it.input.as_ref()), from(it.origin.as_ref())),
        EventKind::Marker(it) => format!("`{}`{}", it.name, short(it.details.as_ref())),
        EventKind::MarkerFailed(it) => format!("`{}`: {}", it.name, it.cause),
        EventKind::ChildScheduled(it) => {
            format!("{} `{}` on {}{}", it.workflow_type, it.workflow_id, it.task_list, short(it.input.as_ref()))
        }
        EventKind::ChildScheduleFailed(it) => format!("`{}`: {}", it.workflow_id, it.cause),
        EventKind::ChildStarted(it) => format!("`{}`, run {}", it.workflow_id, it.run_id),
        EventKind::ChildSuccess(it) => format!("`{}`{}", it.workflow_id, short(it.result.as_ref())),
        EventKind::ChildFailed(it) => format!("`{}`: {}{}", it.workflow_id, it.reason, short(it.details.as_ref())),
        EventKind::ChildTimedOut(it) => format!("`{}`: {}", it.workflow_id, it.timeout),
        EventKind::ChildCanceled(it) => format!("`{}`{}", it.workflow_id, short(it.details.as_ref())),
        EventKind::ChildTerminated(it) => {
            let reason = it.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("`{}`{reason}", it.workflow_id)
        }
        EventKind::ExternalSignalScheduled(it) => {
            format!("`{}` to `{}`{}", it.name, it.workflow_id, short(it.input.as_ref()))
        }
        EventKind::ExternalSignalDelivered(it) => format!("to `{}`", it.workflow_id),
        EventKind::ExternalSignalFailed(it) => format!("to `{}`: {}", it.workflow_id, it.cause),
        EventKind::ExternalCancelScheduled(it) => {
            let reason = it.reason.as_ref().map(|reason| format!(" {reason}")).unwrap_or_default();
            format!("of `{}`{reason}", it.workflow_id)
        }
        EventKind::ExternalCancelDelivered(it) => format!("of `{}`", it.workflow_id),
        EventKind::ExternalCancelFailed(it) => format!("of `{}`: {}", it.workflow_id, it.cause),
        EventKind::UpdateAccepted(it) => format!("`{}` as `{}`{}", it.name, it.update_id, short(it.input.as_ref())),
        EventKind::UpdateCompleted(it) => format!("`{}`{}", it.update_id, short(it.result.as_ref())),
        EventKind::UpdateFailed(it) => format!("`{}`: {}{}", it.update_id, it.reason, short(it.details.as_ref())),
        EventKind::ActivityPaused(it) => {
            let tries = match (it.cause, &it.last_failure) {
                (ActivityPausedCause::AttemptsExhausted, Some(failure)) => {
                    let timeout = failure.timeout.map(|timeout| timeout.to_string());
                    format!("attempts exhausted: {}", failure.reason.clone().or(timeout).unwrap_or_default())
                }
                _ => String::new(),
            };
            format!("{tries}{}", who(it.identity.as_deref(), it.reason.as_deref())).trim_start().to_owned()
        }
        EventKind::WorkflowPaused(it) => {
            let clocks = if it.stop_clocks { "timers and timeouts stopped" } else { "" };
            format!("{clocks}{}", who(it.identity.as_deref(), it.reason.as_deref())).trim_start().to_owned()
        }
        EventKind::WorkflowResumed(it) => {
            let repairs = if it.repairs_deadlines { "repairs deadlines" } else { "" };
            format!("{repairs}{}", who(it.identity.as_deref(), it.reason.as_deref())).trim_start().to_owned()
        }
        EventKind::WorkflowReset(it) => {
            let of = it.workflow_id.as_ref().map(|id| format!(" of `{id}`")).unwrap_or_default();
            let by = who(it.identity.as_deref(), it.reason.as_deref());
            format!("from event {} of run {}{of}{by}", it.event_id, it.run_id)
        }
        EventKind::ActivityResumed(it) => who(it.identity.as_deref(), it.reason.as_deref()).trim_start().to_owned(),
        EventKind::ActivityRetried(it) => who(it.identity.as_deref(), it.reason.as_deref()).trim_start().to_owned(),
        EventKind::ActivityOptionsChanged(it) => {
            format!("on {}{}", it.task_list, who(it.identity.as_deref(), it.reason.as_deref()))
        }
    }
}

fn who(identity: Option<&str>, reason: Option<&str>) -> String {
    let by = identity.map(|identity| format!(" by {identity}")).unwrap_or_default();
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{by}{why}")
}

fn operator(operator: Option<&OperatorAction>) -> String {
    operator
        .map(|it| format!(" by an operator{}", who(it.identity.as_deref(), it.reason.as_deref())))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_passed_since_the_start_is_the_same_in_both_orders() {
        let event = |id: u64, at: &str| {
            let signal = json!({ "type": "Signal", "id": id, "timestamp": at, "name": "s" });
            serde_json::from_value::<Event>(signal).unwrap()
        };
        let mut events = vec![
            event(1, "2026-01-01T00:00:00.000Z"),
            event(2, "2026-01-01T00:00:00.250Z"),
            event(3, "2026-01-01T00:01:05.000Z"),
        ];
        let column = |events: &[Event]| -> Vec<String> {
            let table = history(events);
            let rows = table.lines().skip(1).map(|row| row.split_once('+').unwrap().1);
            rows.map(|rest| rest.split("  ").next().unwrap().to_owned()).collect()
        };
        assert_eq!(column(&events), ["0 ms", "250 ms", "0:01:05"]);
        events.reverse();
        assert_eq!(column(&events), ["0:01:05", "250 ms", "0 ms"]);
    }
}
