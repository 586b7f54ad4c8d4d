//! Checks of runs that consist of a single activity. The service decides their turns, so that no turn is ever waiting
//! or held at the end of a commit.

use super::rule::{Rule, Violation, broken};
use super::{EventRole, HistoryReader, decision_event_id, part};
use crate::event::{ActivityClose, Event, EventKind};

impl HistoryReader {
    /// Checks an event of a run with a single activity, before the event is applied to the state of the checker.
    pub(super) fn one_activity(&mut self, event: &Event) -> Result<(), Violation> {
        if !self.is_one_activity() {
            return Ok(());
        }
        let (id, kind) = (event.id, &event.kind);
        let name = kind.name();
        let wrong = |found: String| broken(Rule::OneActivity, id, found);
        if std::mem::take(&mut self.one_activity.must_close) {
            let reason = if let EventKind::WorkflowFailed(it) = kind { Some(it.reason.clone()) } else { None };
            let expected = self.one_activity.outcome.clone().unwrap_or_default();
            if (name, reason) != expected {
                return wrong(format!("{name} follows the close of the activity, expected {}", expected.0));
            }
        }
        if self.active.is_some() && !matches!(kind, EventKind::DeciderCompleted(_)) {
            return wrong(format!("{name} while the service holds a turn"));
        }
        // A reset reapplies requests after it has scheduled the turn.
        let may_follow_turn =
            matches!(kind, EventKind::DeciderStarted(_) | EventKind::Signal(_) | EventKind::WorkflowCancelRequested(_));
        if self.waiting.is_some() && !may_follow_turn {
            return wrong(format!("{name} while a turn waits for the service"));
        }
        match kind {
            EventKind::ActivityScheduled(_) => {
                if let Some(first) = self.one_activity.scheduled.replace(id) {
                    return wrong(format!("another activity was scheduled by event {first}"));
                }
            }
            EventKind::ActivityTaskCancel(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_) => {}
            other if decision_event_id(other).is_some() || part(other) == EventRole::DecidedNews => {
                return wrong(format!("{name} is not a decision of the service"));
            }
            EventKind::DeciderCompleted(_) => self.one_activity.must_close = self.one_activity.outcome.is_some(),
            other => {
                self.one_activity.outcome =
                    other.activity_close().and_then(outcome).or(self.one_activity.outcome.take());
            }
        }
        Ok(())
    }

    /// Checks the end of the history of a run with a single activity.
    pub(super) fn one_activity_ends(&self) -> Result<(), Violation> {
        let Some((id, _)) = self.last.filter(|_| self.is_one_activity() && self.closed.is_none()) else {
            return Ok(());
        };
        if self.waiting.is_some() || self.active.is_some() || self.one_activity.outcome.is_some() {
            return broken(Rule::OneActivity, id, "the history ends before the service has decided the turn");
        }
        if self.one_activity.scheduled.is_none() {
            return broken(Rule::OneActivity, id, "the history ends before the activity is scheduled");
        }
        Ok(())
    }

    /// Returns `true` if the run consists of a single activity.
    pub(super) fn is_one_activity(&self) -> bool {
        self.start.as_ref().is_some_and(|(start, _)| start.one_activity)
    }
}

/// Returns the close of the run that follows from this close of its activity.
fn outcome(close: ActivityClose<'_>) -> Option<(&'static str, Option<String>)> {
    let timeout = match close {
        ActivityClose::Success(_) => return Some(("WorkflowSuccess", None)),
        ActivityClose::Failed(it) => return Some(("WorkflowFailed", Some(it.reason.clone()))),
        // An activity that no runner holds is canceled together with the run.
        ActivityClose::Canceled(it) => return it.started_event_id.map(|_| ("WorkflowCanceled", None)),
        ActivityClose::TimedOut(it) if it.cause.is_some() => "delivery-failed".to_owned(),
        ActivityClose::TimedOut(it) => format!("{}-timeout", dashed(&it.timeout.to_string())),
        ActivityClose::ScheduledTimeout(_) => "schedule-to-start-timeout".to_owned(),
    };
    Some(("WorkflowFailed", Some(timeout)))
}

/// Converts a name such as `StartToClose` to `start-to-close`.
fn dashed(name: &str) -> String {
    let lower = |(at, c): (usize, char)| {
        let dash = if at > 0 && c.is_ascii_uppercase() { "-" } else { "" };
        format!("{dash}{}", c.to_ascii_lowercase())
    };
    name.char_indices().map(lower).collect()
}
