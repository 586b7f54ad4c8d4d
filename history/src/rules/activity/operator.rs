//! Manual changes to activities: complete, fail, retry, pause, resume, and change options.

use crate::command::{ActivityCommand, OptionsChange};
use crate::event::{
    ActivityFailed, ActivityOptionsChanged, ActivityPaused, ActivityPausedCause, ActivityResumed, ActivityRetried,
    ActivitySuccess, ActivityTimeouts, EventId, EventKind, OperatorAction, RequestKey,
};
use crate::fault::Fault;
use crate::limits;
use crate::run::{Attempts, PendingActivity};
use crate::time::Timestamp;
use crate::transition::{Transition, must_be_open};
use crate::validate;

impl Transition {
    pub(crate) fn act_on_activity(
        &mut self,
        activity_id: &str,
        act: &ActivityCommand,
        operator: &OperatorAction,
        mut key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::operator(operator)?;
        validate_change(act)?;
        must_be_open(&self.run)?;
        let (scheduled_event_id, activity) = self.run.activity(activity_id).ok_or(Fault::ActivityClosed)?;
        let has_attempts = activity.attempts.is_some();
        let OperatorAction { identity, reason } = operator.clone();
        let kind = match act {
            ActivityCommand::Succeed { result } => {
                let started_event_id = self.record_start(scheduled_event_id, operator.identity.as_ref(), &mut key, now);
                let (result, operator) = (result.clone(), Some(operator.clone()));
                EventKind::ActivitySuccess(ActivitySuccess {
                    scheduled_event_id,
                    activity_id: None,
                    started_event_id,
                    result,
                    operator,
                })
            }
            ActivityCommand::Fail { reason, details } => {
                let started_event_id = self.record_start(scheduled_event_id, operator.identity.as_ref(), &mut key, now);
                EventKind::ActivityFailed(ActivityFailed {
                    scheduled_event_id,
                    activity_id: None,
                    started_event_id,
                    reason: reason.clone(),
                    details: details.clone(),
                    non_retryable: false,
                    operator: Some(operator.clone()),
                    has_empty_reason: false,
                })
            }
            ActivityCommand::Retry => {
                may_be_retried(activity, now)?;
                EventKind::ActivityRetried(ActivityRetried { scheduled_event_id, activity_id: None, identity, reason })
            }
            ActivityCommand::Pause if activity.paused.is_some() => return Err(Fault::AlreadyPaused),
            ActivityCommand::Pause => EventKind::ActivityPaused(ActivityPaused {
                scheduled_event_id,
                activity_id: None,
                cause: ActivityPausedCause::OperatorInitiated,
                identity,
                reason,
                last_failure: None,
            }),
            ActivityCommand::Resume if activity.paused.is_none() => return Err(Fault::NotPaused),
            ActivityCommand::Resume => {
                EventKind::ActivityResumed(ActivityResumed { scheduled_event_id, activity_id: None, identity, reason })
            }
            ActivityCommand::Change(change) => changed(change, scheduled_event_id, activity, operator.clone())?,
        };
        if matches!(act, ActivityCommand::Retry | ActivityCommand::Pause | ActivityCommand::Change(_)) {
            self.must_have_space(&kind)?;
        }
        if matches!(act, ActivityCommand::Retry) && has_attempts {
            self.change_attempts(scheduled_event_id, Attempts::release);
        }
        self.push_keyed(now, kind, key);
        Ok(())
    }
}

impl Transition {
    /// Retries all activities that are blocked or wait for their next attempt. Activities that a runner holds, and
    /// those that cannot be retried, are left unchanged. With a `failure_reason`, so are those whose last failure has
    /// another reason.
    pub(crate) fn retry_activities(
        &mut self,
        failure_reason: Option<&str>,
        operator: &OperatorAction,
        mut key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::operator(operator)?;
        must_be_open(&self.run)?;
        let needs_retry = |activity: &PendingActivity| {
            let waits = activity.held_since().is_none() && activity.not_before().is_some_and(|at| at > now);
            let reason = activity.last_failure().and_then(|failure| failure.reason.as_deref());
            (activity.is_blocked() || waits)
                && (failure_reason.is_none() || failure_reason == reason)
                && may_be_retried(activity, now).is_ok()
        };
        let retried: Vec<EventId> =
            self.run.activities.iter().filter(|(_, activity)| needs_retry(activity)).map(|(id, _)| *id).collect();
        if retried.is_empty() {
            let after = failure_reason.map(|reason| format!(" after a failure with the reason `{reason}`"));
            let after = after.unwrap_or_default();
            let problem = format!("no open activity of the run is blocked or waits for its next attempt{after}");
            return Err(Fault::ActivityNotRetryable { problem });
        }
        let kind = |scheduled_event_id| {
            let OperatorAction { identity, reason } = operator.clone();
            EventKind::ActivityRetried(ActivityRetried { scheduled_event_id, activity_id: None, identity, reason })
        };
        let kinds: Vec<EventKind> = retried.iter().copied().map(kind).collect();
        self.must_have_space_for(&kinds)?;
        for (scheduled_event_id, kind) in retried.into_iter().zip(kinds) {
            self.change_attempts(scheduled_event_id, Attempts::release);
            self.push_keyed(now, kind, key.take());
        }
        Ok(())
    }
}

/// Returns the event that records a change of options.
fn changed(
    change: &OptionsChange,
    scheduled_event_id: EventId,
    activity: &PendingActivity,
    OperatorAction { identity, reason }: OperatorAction,
) -> Result<EventKind, Fault> {
    let was_started = activity.started_event_id.is_some();
    if change.retry.is_some() && activity.retry.is_none() && was_started {
        let problem = "it was started without a retry policy, which cannot be added after the start";
        return Err(Fault::ActivityNotRetryable { problem: problem.to_owned() });
    }
    Ok(EventKind::ActivityOptionsChanged(Box::new(ActivityOptionsChanged {
        scheduled_event_id,
        activity_id: None,
        task_list: change.task_list.as_ref().unwrap_or(&activity.task_list).clone(),
        timeouts: change.timeouts(activity.timeouts),
        retry: change.retry.clone().or_else(|| activity.retry.clone()),
        identity,
        reason,
    })))
}

/// Checks that an activity can be retried manually. It must be paused, or waiting for its next attempt, or held in an
/// attempt that has recorded no event.
fn may_be_retried(activity: &PendingActivity, now: Timestamp) -> Result<(), Fault> {
    let needs_retry = activity.paused.is_some()
        || activity.held_since().is_some()
        || activity.not_before().is_some_and(|at| at > now);
    let problem = if activity.started_event_id.is_some() {
        "it was started without a retry policy, so it has only one attempt; complete or fail it instead"
    } else if activity.cancel_event_id.is_some() {
        "it was asked to stop; complete or fail it instead"
    } else if needs_retry {
        return Ok(());
    } else {
        "it is already waiting for a runner"
    };
    Err(Fault::ActivityNotRetryable { problem: problem.to_owned() })
}

fn validate_change(act: &ActivityCommand) -> Result<(), Fault> {
    match act {
        ActivityCommand::Succeed { result } => validate::payload("result", result.as_ref()),
        ActivityCommand::Fail { reason, details } => {
            validate::name_up_to("failureReason", reason, limits::REASON_CHARS_MAX)?;
            validate::payload("details", details.as_ref())
        }
        ActivityCommand::Retry | ActivityCommand::Pause | ActivityCommand::Resume => Ok(()),
        ActivityCommand::Change(change) => {
            if **change == OptionsChange::default() {
                let problem = "is empty; expected a task list, a timeout or a retry policy".to_owned();
                return Err(Fault::Invalid { field: "options".to_owned(), problem });
            }
            change.task_list.as_ref().map_or(Ok(()), |list| validate::name("taskList", list))?;
            validate::timeouts("timeouts", change.timeouts(ActivityTimeouts::default()))?;
            validate::retry("retry", change.retry.as_ref())
        }
    }
}

#[cfg(test)]
mod tests;
