//! Short reason for the close of a run, as shown in lists and descriptions.

use crate::event::{Event, EventKind, TerminatedCause, WorkflowTerminated, WorkflowTimeout};
use crate::limits::CLOSE_DETAILS_CHARS_MAX;
use crate::payload::Payload;

/// Characters that end a line. Source: Unicode Standard Annex #14, the classes BK, CR, LF and NL.
const LINE_ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Reason for the close of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloseReason {
    /// Reason given in the request or decision. If the service closed the run, a fixed text of the service. Never
    /// empty.
    pub reason: Option<String>,
    /// First line of the details, at most [`CLOSE_DETAILS_CHARS_MAX`] characters. Never empty.
    pub details: Option<String>,
}

impl CloseReason {
    /// Returns the reason given by the newest closing event among `events`. Returns `None` if there is no closing
    /// event, or if it has neither a reason nor details. The result of a successful run is not a reason.
    pub fn find(events: &[Event]) -> Option<Self> {
        let closing = events.iter().rfind(|event| event.kind.closes())?;
        let (reason, details) = match &closing.kind {
            EventKind::WorkflowFailed(it) => (Some(it.reason.as_str()), it.details.as_ref()),
            EventKind::WorkflowTerminated(it) => (terminated(it), it.details.as_ref()),
            EventKind::WorkflowCanceled(it) => (None, it.details.as_ref()),
            EventKind::WorkflowTimedOut(it) => (Some(it.timeout.words()), None),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityTimedOut(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => (None, None),
        };
        let (reason, details) = (reason.filter(|it| !it.is_empty()).map(str::to_owned), details.and_then(first_line));
        (reason.is_some() || details.is_some()).then_some(Self { reason, details })
    }
}

impl WorkflowTimeout {
    /// Returns the name shown to people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Execution => "execution timeout",
            Self::Run => "run timeout",
        }
    }
}

/// Returns the reason given by the caller, or a fixed text if the service terminated the run.
fn terminated(it: &WorkflowTerminated) -> Option<&str> {
    let by_service = match it.cause {
        Some(TerminatedCause::EventLimit) => Some("event limit exceeded"),
        None => it.reset.map(|_| "reset"),
    };
    it.reason.as_deref().filter(|reason| !reason.is_empty()).or(by_service)
}

/// Returns the first non-empty line of details. If the details are a JSON string, this is a line of the string's
/// content. For any other JSON value, it is a line of the value's compact text.
fn first_line(details: &Payload) -> Option<String> {
    let json = details.text()?;
    let whole = serde_json::from_str::<String>(json).unwrap_or_else(|_| compact(json));
    let line = whole.trim_start().split(LINE_ENDS).next().unwrap_or_default().trim_end();
    if line.is_empty() {
        return None;
    }
    let mut chars = line.chars();
    let mut cut: String = chars.by_ref().take(CLOSE_DETAILS_CHARS_MAX).collect();
    if chars.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    Some(cut)
}

/// Removes insignificant white space from JSON text. The result is cut to one character more than a first line can
/// have, so that the caller sees whether the line is too long.
fn compact(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let kept = json.chars().filter(|c| {
        let is_kept = is_text || !c.is_ascii_whitespace();
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            _ => {}
        }
        is_kept
    });
    kept.take(CLOSE_DETAILS_CHARS_MAX + 1).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::event::{
        LaterSignals, ResetPlan, WorkflowCancelRequested, WorkflowCanceled, WorkflowContinuedAsNew, WorkflowFailed,
        WorkflowSuccess, WorkflowTimedOut,
    };
    use crate::limits::REASON_CHARS_MAX;
    use crate::time::Timestamp;

    fn event(id: u64, kind: EventKind) -> Event {
        Event { id, timestamp: Timestamp::from_millis(0), kind, key: None, by: None, clock: None }
    }

    fn find(kind: EventKind) -> Option<(Option<String>, Option<String>)> {
        CloseReason::find(&[event(7, kind)]).map(|it| (it.reason, it.details))
    }

    fn failed(reason: &str, details: Option<&str>) -> EventKind {
        let (reason, details) = (reason.to_owned(), details.map(Payload::from_trusted));
        let (decision_event_id, has_empty_reason, new_run_id, next_attempt_at) = (6, false, None, None);
        EventKind::WorkflowFailed(WorkflowFailed {
            reason,
            details,
            decision_event_id,
            new_run_id,
            next_attempt_at,
            has_empty_reason,
        })
    }

    fn because(reason: &str, details: &str) -> (Option<String>, Option<String>) {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (some(reason), some(details))
    }

    #[test]
    fn closing_event_gives_the_reason() {
        let details = Some(Payload::from_trusted(r#""undone""#));
        let terminated = |reason: Option<&str>, details| {
            let reason = reason.map(str::to_owned);
            WorkflowTerminated { reason, details, ..WorkflowTerminated::default() }
        };
        let long = "漢".repeat(REASON_CHARS_MAX);
        assert_eq!(find(failed("declined", None)), Some(because("declined", "")));
        assert_eq!(find(failed("declined", Some(r#""card 7""#))), Some(because("declined", "card 7")));
        assert_eq!(find(failed(&long, None)), Some(because(&long, "")), "a reason is not cut");
        assert_eq!(
            find(failed("", Some(r#""card 7""#))),
            Some(because("", "card 7")),
            "SWF's deciders may give no reason"
        );
        assert_eq!(find(failed("", None)), None);
        let end = |it| find(EventKind::WorkflowTerminated(it));
        assert_eq!(end(terminated(Some("duplicate"), None)), Some(because("duplicate", "")));
        assert_eq!(end(terminated(None, details.clone())), Some(because("", "undone")));
        assert_eq!(end(terminated(None, None)), None);
        let event_limit = WorkflowTerminated { cause: Some(TerminatedCause::EventLimit), ..terminated(None, None) };
        assert_eq!(end(event_limit), Some(because("event limit exceeded", "")));
        let (new_run_id, run_id, signals) = (Uuid::nil(), Uuid::nil(), LaterSignals::default());
        let plan = ResetPlan { new_run_id, run_id, event_id: 4, signals };
        let reset = |reason| WorkflowTerminated { reset: Some(plan), ..terminated(reason, None) };
        assert_eq!(end(reset(None)), Some(because("reset", "")));
        assert_eq!(end(reset(Some("bad deploy"))), Some(because("bad deploy", "")));
        let canceled = WorkflowCanceled { details: details.clone(), decision_event_id: 6 };
        assert_eq!(find(EventKind::WorkflowCanceled(canceled)), Some(because("", "undone")));
        for (timeout, words) in
            [(WorkflowTimeout::Execution, "execution timeout"), (WorkflowTimeout::Run, "run timeout")]
        {
            let timed_out = WorkflowTimedOut { timeout, new_run_id: None, next_attempt_at: None };
            assert_eq!(find(EventKind::WorkflowTimedOut(timed_out)), Some(because(words, "")));
        }
        let success = WorkflowSuccess { result: details.clone(), decision_event_id: 6 };
        assert_eq!(find(EventKind::WorkflowSuccess(success)), None, "a result is not a reason");
        let (workflow_type, task_list) = ("order".to_owned(), "default".to_owned());
        let (new_run_id, tags, swf) = (Uuid::nil(), Vec::new(), None);
        let (input, decision_event_id) = (details, 6);
        let continued =
            WorkflowContinuedAsNew { new_run_id, input, workflow_type, task_list, tags, decision_event_id, swf };
        assert_eq!(find(EventKind::WorkflowContinuedAsNew(continued)), None);
    }

    #[test]
    fn newest_closing_event_counts() {
        let open = EventKind::WorkflowCancelRequested(WorkflowCancelRequested::default());
        let events = [event(1, failed("first", None)), event(2, failed("second", None)), event(3, open)];
        assert_eq!(CloseReason::find(&events).unwrap().reason.unwrap(), "second");
        assert_eq!(CloseReason::find(&events[2..]), None, "an open run has no reason");
    }

    #[test]
    fn details_are_cut_to_their_first_line() {
        let full = "漢".repeat(CLOSE_DETAILS_CHARS_MAX);
        let cut = format!("{}…", "漢".repeat(CLOSE_DETAILS_CHARS_MAX - 1));
        for (json, line) in [
            (r#""""#, None),
            (r#""  \n""#, None),
            (r#""one\ntwo""#, Some("one")),
            (r#""one\rtwo""#, Some("one")),
            (r#""one\u2028two""#, Some("one")),
            (r#""\n\n  trace:\r\nat x""#, Some("trace:")),
            (r#"{ "message": "two words", "n": 1.0 }"#, Some(r#"{"message":"two words","n":1.0}"#)),
            ("{\n  \"a\": \"say \\\" so\"\n}", Some(r#"{"a":"say \" so"}"#)),
            ("18446744073709551617", Some("18446744073709551617")),
            ("null", Some("null")),
            (&format!("\"{full}\""), Some(full.as_str())),
            (&format!("\"{full}漢\""), Some(cut.as_str())),
            (&format!("[\"{full}\"]"), Some(&*format!("[\"{}…", "漢".repeat(CLOSE_DETAILS_CHARS_MAX - 3)))),
            // A lone surrogate is not valid text, so its JSON escape is kept.
            (r#""\ud800""#, Some(r#""\ud800""#)),
        ] {
            assert_eq!(find(failed("declined", Some(json))).unwrap().1.as_deref(), line, "{json}");
        }
    }
}
