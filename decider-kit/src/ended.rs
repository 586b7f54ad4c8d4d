//! What an event says of the end of something that a decider asked for: an activity, a timer, a child, a message to another
//! run. Read by flows and by [`Steps`](crate::Steps) alike.

use baton_history::{EventId, EventKind, Payload};

use crate::failure::{ActivityEnd, Cause, ChildEnd, Failure};

/// How it ended: with what result, or why not well.
pub(crate) type Outcome = Result<Option<Payload>, Failure>;

/// The end of something.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// What this event scheduled has ended.
    Scheduled { scheduled_event_id: EventId, outcome: Outcome },
    /// The activity that this event scheduled has not succeeded.
    Activity { scheduled_event_id: EventId, unhappy: Unhappy },
    /// Nothing was scheduled: the decision could not be carried out.
    NotScheduled(Failure),
}

/// Why an activity did not succeed. Its events name it by the one that scheduled it, and not by its id.
#[derive(Debug, Clone)]
pub(crate) struct Unhappy {
    end: ActivityEnd,
    reason: String,
    details: Option<Payload>,
}

impl Unhappy {
    /// The failure of the activity with this id and type.
    pub(crate) fn of(self, activity_id: String, activity_type: String) -> Failure {
        let Self { end, reason, details } = self;
        Failure::of(reason, details, Cause::Activity { activity_id, activity_type, end })
    }
}

impl Ended {
    /// What `kind` says has ended; `None` where it says nothing of the kind.
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
            // Beginnings, bookkeeping, and what is about the run itself.
            _ => return None,
        })
    }

    /// The event that scheduled it.
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
    Ended::Activity { scheduled_event_id, unhappy: Unhappy { end, reason: reason.to_owned(), details } }
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

/// A decision that failed: at once, or later.
fn failed(scheduled_event_id: Option<EventId>, failure: Failure) -> Ended {
    match scheduled_event_id {
        Some(scheduled_event_id) => Ended::Scheduled { scheduled_event_id, outcome: Err(failure) },
        None => Ended::NotScheduled(failure),
    }
}
