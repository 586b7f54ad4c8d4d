//! Checks of manual changes to activities.

use super::HistoryReader;
use super::part::attempts;
use super::rule::{Rule, Violation, broken, failed};
use crate::event::{ActivityOptionsChanged, ActivityPaused, ActivityPausedCause, EventId};
use crate::retry::WhenExhausted;
use crate::time::Timestamp;

impl HistoryReader {
    pub(super) fn activity_paused(&mut self, id: EventId, it: &ActivityPaused) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if activity.is_paused {
            return broken(Rule::Pause, id, "the activity is already paused");
        }
        let may_exhaust =
            activity.scheduled.retry.as_ref().is_some_and(|policy| policy.when_exhausted == WhenExhausted::Pause);
        let is_exhausted = it.cause == ActivityPausedCause::AttemptsExhausted;
        if is_exhausted && !may_exhaust {
            return broken(Rule::Pause, id, "its attempts are exhausted, but its policy does not pause it");
        }
        if is_exhausted != it.last_failure.is_some() {
            return broken(Rule::Pause, id, format!("{} after {}", it.cause, failed(it.last_failure.is_some())));
        }
        activity.is_paused = true;
        Ok(())
    }

    pub(super) fn activity_resumed(&mut self, id: EventId, at: Timestamp, scheduled: EventId) -> Result<(), Violation> {
        let activity = self.open_activity(id, scheduled)?;
        if !activity.is_paused {
            return broken(Rule::Pause, id, "the activity is not paused");
        }
        activity.is_paused = false;
        activity.waits_from = activity.waits_from.min(at);
        Ok(())
    }

    pub(super) fn activity_retried(&mut self, id: EventId, at: Timestamp, scheduled: EventId) -> Result<(), Violation> {
        let activity = self.open_activity(id, scheduled)?;
        if let Some((started, _)) = activity.started {
            return broken(Rule::ActivityLife, id, format!("event {started} already started it"));
        }
        activity.is_paused = false;
        activity.waits_from = activity.waits_from.min(at);
        activity.extra_attempts = activity.extra_attempts.saturating_add(1);
        Ok(())
    }

    pub(super) fn activity_changed(
        &mut self,
        id: EventId,
        at: Timestamp,
        it: &ActivityOptionsChanged,
    ) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        let had_policy = activity.scheduled.retry.is_some();
        if had_policy && it.retry.is_none() {
            return broken(Rule::ActivityLife, id, "it removes the retry policy");
        }
        if !had_policy && it.retry.is_some() && activity.started.is_some() {
            return broken(
                Rule::ActivityLife,
                id,
                "it adds a retry policy to an activity that was started without one",
            );
        }
        activity.waits_from = activity.waits_from.min(at);
        activity.attempts_max = activity.attempts_max.max(attempts(it.retry.as_ref()));
        activity.scheduled.retry.clone_from(&it.retry);
        activity.scheduled.timeouts = it.timeouts;
        activity.scheduled.task_list.clone_from(&it.task_list);
        Ok(())
    }
}
