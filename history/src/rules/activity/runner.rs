//! Commands of runners, which take activities and report results. Also contains the retries that follow failed
//! attempts.
//!
//! Without a retry policy, every step is recorded as an event. With a policy, attempts are kept only in the state.
//! ActivityStarted is then recorded together with the event that closes the activity. The history therefore has three
//! events for an activity, regardless of the number of attempts (ADR 6).

use std::sync::Arc;

use super::held;
use crate::command::TaskId;
use crate::event::{
    ActivityCanceled, ActivityFailed, ActivityPaused, ActivityPausedCause, ActivityStarted, ActivitySuccess,
    ActivityTimedOut, ActivityTimedOutCause, ActivityTimeout, EventId, EventKind, LastFailure, RequestKey,
};
use crate::fault::Fault;
use crate::limits;
use crate::links::PollId;
use crate::payload::{PackRef, Payload};
use crate::retry::{self, WhenExhausted};
use crate::run::{PendingActivity, Run};
use crate::time::{Duration, Timestamp};
use crate::transition::{Transition, must_be_open};
use crate::validate;

/// A runner's report of a failed attempt.
pub(crate) struct Report<'a> {
    pub(crate) reason: Option<&'a str>,
    pub(crate) details: Option<&'a Payload>,
    pub(crate) non_retryable: bool,
    pub(crate) retry_after: Option<Duration>,
}

impl Transition {
    pub(crate) fn start_activity(
        &mut self,
        scheduled_event_id: EventId,
        identity: Option<&String>,
        poll: Option<PollId>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::taker_identity(identity.map(String::as_str), self.run.started.is_swf())?;
        must_be_open(&self.run)?;
        let waits = |activity: &&Arc<PendingActivity>| {
            activity.held_since().is_none()
                && activity.paused.is_none()
                && activity.not_before().is_none_or(|at| at <= now)
        };
        let activity = self.run.activities.get(&scheduled_event_id).filter(|_| self.run.paused.is_none()).filter(waits);
        let has_policy = activity.ok_or(Fault::ActivityNotWaiting { scheduled_event_id })?.retry.is_some();
        if has_policy {
            let by = self.author.by.clone();
            self.change_attempts(scheduled_event_id, |attempts| attempts.start(now, identity.cloned(), by));
        } else {
            let identity = identity.cloned();
            let (attempt, started_at, last_failure) = (None, None, None);
            let kept = None;
            let started = ActivityStarted {
                scheduled_event_id,
                activity_id: None,
                identity,
                attempt,
                started_at,
                last_failure,
                kept,
            };
            self.push(now, EventKind::ActivityStarted(started));
        }
        self.links.sent.send(scheduled_event_id, poll);
        Ok(())
    }

    pub(crate) fn succeed_activity(
        &mut self,
        task: TaskId,
        result: Option<&Payload>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::payload("result", result)?;
        held(&self.run, task)?;
        let scheduled_event_id = task.scheduled_event_id;
        let started_event_id = self.record_start(scheduled_event_id, None, &mut None, now);
        let (result, operator) = (result.cloned(), None);
        let success = ActivitySuccess { scheduled_event_id, activity_id: None, started_event_id, result, operator };
        self.push(now, EventKind::ActivitySuccess(success));
        Ok(())
    }

    pub(crate) fn fail_activity(&mut self, task: TaskId, report: &Report<'_>, now: Timestamp) -> Result<(), Fault> {
        let Report { reason, details, non_retryable, retry_after } = *report;
        let has_empty_reason = reason.is_some_and(str::is_empty);
        let reason = reason.unwrap_or_default();
        validate::reason_of("reason", reason, self.run.started.is_swf())?;
        validate::payload("details", details)?;
        validate::span("retryAfter", retry_after.unwrap_or_default())?;
        held(&self.run, task)?;
        let scheduled_event_id = task.scheduled_event_id;
        if !non_retryable {
            let failure = |identity, kept| LastFailure {
                at: now,
                reason: Some(reason.to_owned()),
                timeout: None,
                details: details.filter(|details| details.len() <= limits::RETRIED_DETAILS_BYTES_MAX).cloned(),
                identity,
                kept,
            };
            if self.retry_or_pause(scheduled_event_id, Some(reason), retry_after, failure, now) {
                return Ok(());
            }
        }
        let started_event_id = self.record_start(scheduled_event_id, None, &mut None, now);
        let (reason, details, operator) = (reason.to_owned(), details.cloned(), None);
        let failed = ActivityFailed {
            scheduled_event_id,
            activity_id: None,
            started_event_id,
            reason,
            details,
            non_retryable,
            operator,
            has_empty_reason,
        };
        self.push(now, EventKind::ActivityFailed(failed));
        Ok(())
    }

    pub(crate) fn activity_canceled(
        &mut self,
        task: TaskId,
        details: Option<&Payload>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::payload("details", details)?;
        let requested = held(&self.run, task)?.cancel_event_id;
        // In SWF, a runner may cancel an activity that was not asked to stop. The event id 0 stands for the missing
        // request.
        let requested = requested.or(self.run.started.is_swf().then_some(0));
        let cancel_event_id = requested.ok_or(Fault::CancelNotRequested)?;
        let (scheduled_event_id, details) = (task.scheduled_event_id, details.cloned());
        let started_event_id = Some(self.record_start(scheduled_event_id, None, &mut None, now));
        let canceled =
            ActivityCanceled { scheduled_event_id, activity_id: None, started_event_id, cancel_event_id, details };
        self.push(now, EventKind::ActivityCanceled(canceled));
        Ok(())
    }

    /// Handles an activity that could not be delivered to its runner. If the activity has a retry policy, another
    /// runner can take it. Otherwise the activity times out.
    pub(crate) fn return_activity(&mut self, task: TaskId, poll: Option<PollId>, now: Timestamp) -> Result<(), Fault> {
        let activity = held(&self.run, task)?;
        // The activity may have been sent to another poll in the meantime.
        if self.links.sent.poll_of(task.scheduled_event_id) != poll {
            return Err(Fault::ActivityClosed);
        }
        let scheduled_event_id = task.scheduled_event_id;
        if activity.retry.is_some() && activity.cancel_event_id.is_none() {
            self.change_attempts(scheduled_event_id, |attempts| attempts.give_back(now));
            return Ok(());
        }
        let started_event_id = Some(self.record_start(scheduled_event_id, None, &mut None, now));
        self.push(
            now,
            EventKind::ActivityTimedOut(ActivityTimedOut {
                scheduled_event_id,
                activity_id: None,
                started_event_id,
                timeout: ActivityTimeout::StartToClose,
                details: None,
                cause: Some(ActivityTimedOutCause::DeliveryFailed),
                last_failure: None,
            }),
        );
        Ok(())
    }

    /// Applies a timeout. A start-to-close or heartbeat timeout ends the attempt. If no other attempt follows, it also
    /// ends the activity. A schedule-to-close timeout always ends the activity.
    pub(crate) fn activity_times_out(
        &mut self,
        scheduled_event_id: EventId,
        timeout: ActivityTimeout,
        details: Option<Payload>,
        now: Timestamp,
    ) {
        let Some(activity) = self.run.activities.get(&scheduled_event_id) else { return };
        let task = activity.task(scheduled_event_id);
        let ends_try = match timeout {
            ActivityTimeout::StartToClose | ActivityTimeout::Heartbeat => true,
            ActivityTimeout::ScheduleToClose => false,
        };
        if ends_try {
            // Another deadline at the same time may already have ended the attempt.
            if task.is_none() {
                return;
            }
            let failure = |identity, kept| LastFailure {
                at: now,
                reason: None,
                timeout: Some(timeout),
                details: None,
                identity,
                kept,
            };
            if self.retry_or_pause(scheduled_event_id, None, None, failure, now) {
                return;
            }
        }
        // If a runner holds the activity, its ActivityStarted event contains the previous failure. Otherwise the
        // timeout event contains it.
        let waiting = if task.is_some() { None } else { activity_of(&self.run, scheduled_event_id) };
        let last_failure = waiting.and_then(PendingActivity::last_failure).cloned();
        let started_event_id = task.map(|_| self.record_start(scheduled_event_id, None, &mut None, now));
        let cause = None;
        let timed_out = ActivityTimedOut {
            scheduled_event_id,
            activity_id: None,
            started_event_id,
            timeout,
            details,
            cause,
            last_failure,
        };
        self.push(now, EventKind::ActivityTimedOut(timed_out));
    }

    /// Schedules the next attempt. If the attempts are exhausted and the retry policy pauses exhausted activities,
    /// pauses the activity instead. `named` is the delay that the runner asked for. Returns `false` if the activity
    /// must close.
    fn retry_or_pause(
        &mut self,
        scheduled_event_id: EventId,
        reason: Option<&str>,
        named: Option<Duration>,
        failure: impl FnOnce(Option<String>, Option<PackRef>) -> LastFailure,
        now: Timestamp,
    ) -> bool {
        let Some(activity) = activity_of(&self.run, scheduled_event_id) else { return false };
        let Some(policy) = &activity.retry else { return false };
        let failures = activity.attempt();
        // An activity that was asked to stop, or that failed with a non-retryable reason, is not retried.
        let may = activity.cancel_event_id.is_none() && reason.is_none_or(|reason| policy.retries(reason));
        if !may {
            return false;
        }
        let chance = retry::chance(self.run.started.run_id, scheduled_event_id, failures);
        let next_at = now.plus(named.unwrap_or_else(|| policy.wait(failures, chance)));
        // An attempt that could begin only after the schedule-to-close timeout is skipped, so that the decider gets the
        // failure at once.
        let ends_at =
            activity.timeouts.schedule_to_close.and_then(|limit| self.run.clock.reach(activity.scheduled_at, limit));
        let is_exhausted = !policy.allows_after(failures) || ends_at.is_some_and(|ends_at| next_at >= ends_at);
        if is_exhausted && policy.when_exhausted == WhenExhausted::Fail {
            return false;
        }
        let was_paused = activity.paused.is_some();
        let held = activity.attempts.as_ref().and_then(|attempts| attempts.held.as_ref());
        let failure = failure(held.and_then(|held| held.identity.clone()), held.and_then(|held| held.kept));
        if !is_exhausted {
            self.change_attempts(scheduled_event_id, |attempts| attempts.fail(failure, next_at));
            return true;
        }
        self.change_attempts(scheduled_event_id, |attempts| attempts.fail(failure.clone(), now));
        if !was_paused {
            // If the clock was put back, the failure may have a later time than this event. The history must not
            // contain such a time.
            let last_failure = Some(LastFailure { at: failure.at.min(now), ..failure });
            let (cause, identity, reason) = (ActivityPausedCause::AttemptsExhausted, None, None);
            let paused =
                ActivityPaused { scheduled_event_id, activity_id: None, cause, identity, reason, last_failure };
            self.push(now, EventKind::ActivityPaused(paused));
        }
        true
    }

    /// Returns the id of the activity's ActivityStarted event. Records that event if it is missing, in two cases: an
    /// activity with a retry policy records its last attempt only when it closes, and an operator may close an activity
    /// that no runner holds.
    pub(crate) fn record_start(
        &mut self,
        scheduled_event_id: EventId,
        operator: Option<&String>,
        key: &mut Option<RequestKey>,
        now: Timestamp,
    ) -> EventId {
        let Some(activity) = activity_of(&self.run, scheduled_event_id) else { return 0 };
        if let Some(started_event_id) = activity.started_event_id {
            return started_event_id;
        }
        let held = activity.attempts.as_ref().and_then(|attempts| attempts.held.as_ref());
        let has_policy = activity.retry.is_some();
        // Attempts record no events, so the attempt may have begun after `now` if the clock was put back in the
        // meantime.
        let started_at = held.map_or(now, |held| held.at).min(now);
        let scheduled_at = activity.scheduled_at;
        let earlier = |failure: &LastFailure| {
            let at = failure.at.max(scheduled_at).min(started_at);
            LastFailure { at, ..failure.clone() }
        };
        let started = ActivityStarted {
            scheduled_event_id,
            activity_id: None,
            identity: held.map_or_else(|| operator.cloned(), |held| held.identity.clone()),
            attempt: has_policy.then(|| activity.attempt()),
            started_at: has_policy.then_some(started_at),
            last_failure: activity.last_failure().map(earlier),
            kept: held.and_then(|held| held.kept),
        };
        // The event names the credential of the runner that took the activity, not that of the caller that closes it.
        let by = held.map_or_else(|| self.author.by.clone(), |held| held.by.clone());
        self.push_by(now, EventKind::ActivityStarted(started), key.take(), by)
    }
}

fn activity_of(run: &Run, scheduled_event_id: EventId) -> Option<&PendingActivity> {
    run.activities.get(&scheduled_event_id).map(Arc::as_ref)
}

#[cfg(test)]
mod tests;
