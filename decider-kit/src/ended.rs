//! Interpretation of the events that end an activity, a timer, a child or a message to another run. Flows and
//! [`Steps`](crate::Steps) use it.

use baton_history::{EventId, EventKind, Payload};

use crate::failure::{ActivityEnd, Cause, ChildEnd, Failure};

/// Result of the step, or the reason why it did not succeed.
pub(crate) type Outcome = Result<Option<Payload>, Failure>;

/// End of a step that a decider requested.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The step scheduled by this event has ended.
    Scheduled { scheduled_event_id: EventId, outcome: Outcome },
    /// The activity scheduled by this event did not succeed.
    Activity { scheduled_event_id: EventId, unsuccessful: UnsuccessfulActivity },
    /// The decision failed, so nothing was scheduled.
    NotScheduled(Failure),
}

/// Reason why an activity did not succeed. The events contain only the id of the ActivityScheduled event, so the
/// activity's id and type are added later.
#[derive(Debug, Clone)]
pub(crate) struct UnsuccessfulActivity {
    end: ActivityEnd,
    reason: String,
    details: Option<Payload>,
}

impl UnsuccessfulActivity {
    /// Returns the failure of the activity with this id and type.
    pub(crate) fn of(self, activity_id: String, activity_type: String) -> Failure {
        let Self { end, reason, details } = self;
        Failure::of(reason, details, Cause::Activity { activity_id, activity_type, end })
    }
}

impl Ended {
    /// Returns the end of a step that `kind` reports, or `None` if `kind` ends no step.
    pub(crate) fn of(kind: &EventKind) -> Option<Self> {
        Some(match kind {
            EventKind::ActivitySuccess(it) => done(it.scheduled_event_id, it.result.clone()),
            EventKind::ActivityFailed(it) => {
                let end = ActivityEnd::Failed { non_retryable: it.non_retryable };
                activity(it.scheduled_event_id, end, &it.reason, it.details.clone())
            }
            EventKind::ActivityCanceled(it) => {
                activity(it.scheduled_event_id, ActivityEnd::Canceled, "canceled", it.details.clone())
            }
            EventKind::ActivityTimedOut(it) => {
                activity(it.scheduled_event_id, ActivityEnd::TimedOut(it.timeout), "timed-out", it.details.clone())
            }
            EventKind::ActivityScheduledTimeout(it) => {
                activity(it.scheduled_event_id, ActivityEnd::NotTaken, "not-taken", None)
            }
            EventKind::ActivityScheduleFailed(it) => {
                let (activity_id, activity_type) = (it.activity_id.clone(), it.activity_type.clone());
                let end = ActivityEnd::NotScheduled(it.cause);
                let cause = Cause::Activity { activity_id, activity_type, end };
                Self::NotScheduled(Failure::of("not-scheduled", None, cause))
            }
            EventKind::TimerExpired(it) => done(it.scheduled_event_id, None),
            EventKind::TimerScheduleFailed(it) => {
                let cause = Cause::Timer { timer_id: it.timer_id.clone(), cause: it.cause };
                Self::NotScheduled(Failure::of("timer-not-set", None, cause))
            }
            EventKind::ChildSuccess(it) => done(it.scheduled_event_id, it.result.clone()),
            EventKind::ChildFailed(it) => {
                child(it.scheduled_event_id, &it.workflow_id, ChildEnd::Failed, &it.reason, it.details.clone())
            }
            EventKind::ChildTimedOut(it) => {
                child(it.scheduled_event_id, &it.workflow_id, ChildEnd::TimedOut(it.timeout), "timed-out", None)
            }
            EventKind::ChildCanceled(it) => {
                child(it.scheduled_event_id, &it.workflow_id, ChildEnd::Canceled, "canceled", it.details.clone())
            }
            EventKind::ChildTerminated(it) => {
                let reason = it.reason.as_deref().unwrap_or("terminated");
                child(it.scheduled_event_id, &it.workflow_id, ChildEnd::Terminated, reason, None)
            }
            EventKind::ChildScheduleFailed(it) => {
                let (workflow_id, end) = (it.workflow_id.clone(), ChildEnd::NotStarted(it.cause));
                let failure = Failure::of("not-started", None, Cause::Child { workflow_id, end });
                failed(it.scheduled_event_id, failure)
            }
            EventKind::ExternalSignalDelivered(it) => done(it.scheduled_event_id, None),
            EventKind::ExternalCancelDelivered(it) => done(it.scheduled_event_id, None),
            EventKind::ExternalSignalFailed(it) => {
                let cause = Cause::External { workflow_id: it.workflow_id.clone(), cause: it.cause };
                failed(it.scheduled_event_id, Failure::of("not-signaled", None, cause))
            }
            EventKind::ExternalCancelFailed(it) => {
                let cause = Cause::External { workflow_id: it.workflow_id.clone(), cause: it.cause };
                failed(it.scheduled_event_id, Failure::of("not-asked-to-cancel", None, cause))
            }
            // Events that start a step, bookkeeping events, and events of the run itself end no step.
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildStarted(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => return None,
        })
    }

    /// Returns the id of the event that scheduled the step, if the step was scheduled.
    pub(crate) fn scheduled_event_id(&self) -> Option<EventId> {
        match self {
            Self::Scheduled { scheduled_event_id, .. } | Self::Activity { scheduled_event_id, .. } => {
                Some(*scheduled_event_id)
            }
            Self::NotScheduled(_) => None,
        }
    }
}

fn done(scheduled_event_id: EventId, result: Option<Payload>) -> Ended {
    Ended::Scheduled { scheduled_event_id, outcome: Ok(result) }
}

fn activity(scheduled_event_id: EventId, end: ActivityEnd, reason: &str, details: Option<Payload>) -> Ended {
    Ended::Activity {
        scheduled_event_id,
        unsuccessful: UnsuccessfulActivity { end, reason: reason.to_owned(), details },
    }
}

fn child(
    scheduled_event_id: EventId,
    workflow_id: &str,
    end: ChildEnd,
    reason: &str,
    details: Option<Payload>,
) -> Ended {
    let cause = Cause::Child { workflow_id: workflow_id.to_owned(), end };
    Ended::Scheduled { scheduled_event_id, outcome: Err(Failure::of(reason, details, cause)) }
}

/// Returns the end of a step whose decision failed. A decision fails either at once, without a scheduling event, or
/// after its step was scheduled.
fn failed(scheduled_event_id: Option<EventId>, failure: Failure) -> Ended {
    match scheduled_event_id {
        Some(scheduled_event_id) => Ended::Scheduled { scheduled_event_id, outcome: Err(failure) },
        None => Ended::NotScheduled(failure),
    }
}
