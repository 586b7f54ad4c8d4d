//! Checks of activities.

use super::part::attempts;
use super::rule::{Rule, Violation, broken, failed, or_none};
use super::{CheckedActivity, HistoryReader};
use crate::event::{
    ActivityScheduled, ActivityScheduledTimeout, ActivityStarted, ActivityTaskCancel, ActivityTimedOut,
    ActivityTimeout, EventId,
};
use crate::time::Timestamp;

impl HistoryReader {
    pub(super) fn activity_scheduled(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: &ActivityScheduled,
    ) -> Result<(), Violation> {
        if let Some(other) = self.newest_activity.insert(scheduled.activity_id.clone(), id)
            && self.activities.get(&other).is_some_and(|other| other.closed.is_none())
        {
            let found = format!("activity `{}` has been open since event {other}", scheduled.activity_id);
            return broken(Rule::IdInUse, id, found);
        }
        let activity = CheckedActivity {
            scheduled: scheduled.clone(),
            scheduled_at: at,
            waits_from: at,
            started: None,
            cancels: Vec::new(),
            closed: None,
            is_paused: false,
            attempts_max: attempts(scheduled.retry.as_ref()),
            extra_attempts: 0,
        };
        self.activities.insert(id, activity);
        Ok(())
    }

    pub(super) fn open_activity(&mut self, id: EventId, scheduled: EventId) -> Result<&mut CheckedActivity, Violation> {
        match self.activities.get_mut(&scheduled) {
            None => broken(Rule::Link, id, format!("event {scheduled} is not an ActivityScheduled that precedes it")),
            Some(CheckedActivity { closed: Some(closed), .. }) => {
                broken(Rule::ActivityLife, id, format!("event {closed} closed the activity"))
            }
            Some(activity) => Ok(activity),
        }
    }

    pub(super) fn activity_started(
        &mut self,
        id: EventId,
        at: Timestamp,
        it: &ActivityStarted,
    ) -> Result<(), Violation> {
        let run_is_paused = self.clock.is_paused();
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if let Some((started, _)) = activity.started {
            return broken(Rule::ActivityLife, id, format!("event {started} already started it"));
        }
        if activity.scheduled.retry.is_none() {
            activity.started = Some((id, at));
            if activity.is_paused || run_is_paused {
                self.closing = Some((it.scheduled_event_id, true));
            }
            return match (it.attempt, it.started_at, &it.last_failure) {
                (None, None, None) => Ok(()),
                _ => broken(Rule::ActivityLife, id, "it has data of attempts but no retry policy"),
            };
        }
        let (Some(attempt), Some(started_at)) = (it.attempt, it.started_at) else {
            return broken(Rule::ActivityLife, id, "the last attempt has no number or no time");
        };
        let attempts_max = activity.attempts_max.saturating_add(activity.extra_attempts);
        if attempt == 0 || attempt > attempts_max {
            return broken(Rule::ActivityLife, id, format!("attempt {attempt} of {attempts_max}"));
        }
        if it.last_failure.is_some() != (attempt > 1) {
            return broken(
                Rule::ActivityLife,
                id,
                format!("attempt {attempt} follows {}", failed(it.last_failure.is_some())),
            );
        }
        let earliest = activity.scheduled_at.min(started_at);
        let since = it.last_failure.as_ref().map_or(earliest, |failure| failure.at);
        // If the clock was put back, an attempt can begin before the time at which the activity was scheduled.
        if since < earliest || started_at < since || at < started_at {
            let found = format!("attempt {attempt} started at {started_at}, but the previous one ended at {since}");
            return broken(Rule::NotBeforeTime, id, found);
        }
        activity.started = Some((id, started_at));
        // The checker cannot tell whether the attempt began before a pause, because attempts record no events and the
        // clock may have been put back.
        self.closing = Some((it.scheduled_event_id, false));
        Ok(())
    }

    pub(super) fn activity_answered(
        &mut self,
        id: EventId,
        scheduled: EventId,
        started: EventId,
    ) -> Result<(), Violation> {
        let activity = self.open_activity(id, scheduled)?;
        match activity.started {
            None => return broken(Rule::ActivityLife, id, "the activity was not started"),
            Some((found, _)) if found != started => {
                return broken(Rule::Link, id, format!("it refers to start {started}, but the activity's is {found}"));
            }
            Some(_) => {}
        }
        activity.closed = Some(id);
        Ok(())
    }

    pub(super) fn activity_canceled(
        &mut self,
        id: EventId,
        scheduled: EventId,
        started: Option<EventId>,
        cancel: EventId,
    ) -> Result<(), Violation> {
        let (canceling, is_swf) = (self.canceling, self.is_swf());
        let activity = self.open_activity(id, scheduled)?;
        let is_unrequested = cancel == 0 && started.is_some() && is_swf;
        if !activity.cancels.contains(&cancel) && !is_unrequested {
            return broken(Rule::Link, id, format!("event {cancel} is not a cancel request for this activity"));
        }
        if activity.started.map(|(started, _)| started) != started {
            let found = starts(started, activity.started);
            return broken(Rule::Link, id, found);
        }
        if started.is_none() && canceling != Some(cancel) {
            return broken(Rule::DecisionsTogether, id, "an activity that was not started must be canceled at once");
        }
        activity.closed = Some(id);
        Ok(())
    }

    pub(super) fn activity_timed_out(
        &mut self,
        id: EventId,
        at: Timestamp,
        it: &ActivityTimedOut,
    ) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if activity.started.map(|(started, _)| started) != it.started_event_id {
            let found = starts(it.started_event_id, activity.started);
            return broken(Rule::Link, id, found);
        }
        let timeouts = &activity.scheduled.timeouts;
        let started_at = activity.started.map(|(_, at)| at);
        let (from, limit) = match it.timeout {
            ActivityTimeout::StartToClose => (started_at, timeouts.start_to_close),
            ActivityTimeout::Heartbeat => (started_at, timeouts.heartbeat),
            ActivityTimeout::ScheduleToClose => (Some(activity.scheduled_at), timeouts.schedule_to_close),
        };
        let Some(from) = from else {
            return broken(Rule::ActivityLife, id, format!("{} of an activity that was not started", it.timeout));
        };
        activity.closed = Some(id);
        match it.cause {
            None => self.clock.expired(id, at, from, limit),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn activity_not_started(
        &mut self,
        id: EventId,
        at: Timestamp,
        it: &ActivityScheduledTimeout,
    ) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if let Some((started, _)) = activity.started {
            return broken(Rule::ActivityLife, id, format!("event {started} started it in time"));
        }
        let (since, limit) = (activity.waits_from, activity.scheduled.timeouts.schedule_to_start);
        activity.closed = Some(id);
        match it.cause {
            // Attempts record no events. If the clock was put back between attempts, this is the first event that shows
            // it.
            None if activity.scheduled.retry.is_some() && at < since => Ok(()),
            None => self.clock.expired(id, at, since, limit),
            // The cause of the event is not an expired timeout, so there is no time to check.
            Some(_) => Ok(()),
        }
    }

    pub(super) fn activity_cancel_requested(&mut self, id: EventId, it: &ActivityTaskCancel) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if activity.scheduled.activity_id != it.activity_id {
            let found = format!("`{}` was scheduled as `{}`", it.activity_id, activity.scheduled.activity_id);
            return broken(Rule::Link, id, found);
        }
        activity.cancels.push(id);
        Ok(())
    }
}

/// Describes an event that does not refer to the last start of the activity.
fn starts(named: Option<EventId>, found: Option<(EventId, Timestamp)>) -> String {
    let found = or_none(found.map(|(started, _)| started));
    format!("it refers to start {}, but the activity's is {found}", or_none(named))
}
