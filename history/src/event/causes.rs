//! Causes of an event: the ids of earlier events that led to it.

use super::EventKind;
use crate::EventId;

impl EventKind {
    /// Returns the ids of the events that caused this event. If a decision caused the event, the last id is the id of
    /// the DeciderCompleted event of the turn that made the decision.
    pub fn causes(&self) -> Vec<EventId> {
        match self {
            EventKind::WorkflowSuccess(it) => vec![it.decision_event_id],
            EventKind::WorkflowFailed(it) => vec![it.decision_event_id],
            EventKind::WorkflowCanceled(it) => vec![it.decision_event_id],
            EventKind::WorkflowContinuedAsNew(it) => vec![it.decision_event_id],
            EventKind::WorkflowCloseFailed(it) => vec![it.decision_event_id],
            EventKind::DeciderStarted(it) => vec![it.scheduled_event_id],
            EventKind::DeciderCompleted(it) => vec![it.started_event_id],
            EventKind::DeciderTimedOut(it) => vec![it.started_event_id.unwrap_or(it.scheduled_event_id)],
            EventKind::DeciderFailed(it) => vec![it.started_event_id],
            EventKind::ActivityScheduled(it) => vec![it.decision_event_id],
            EventKind::ActivityScheduleFailed(it) => vec![it.decision_event_id],
            EventKind::ActivityStarted(it) => vec![it.scheduled_event_id],
            EventKind::ActivitySuccess(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ActivityFailed(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ActivityCanceled(it) => vec![it.scheduled_event_id, it.cancel_event_id],
            EventKind::ActivityTimedOut(it) => vec![it.scheduled_event_id],
            EventKind::ActivityScheduledTimeout(it) => vec![it.scheduled_event_id],
            EventKind::ActivityPaused(it) => vec![it.scheduled_event_id],
            EventKind::ActivityResumed(it) => vec![it.scheduled_event_id],
            EventKind::ActivityRetried(it) => vec![it.scheduled_event_id],
            EventKind::ActivityOptionsChanged(it) => vec![it.scheduled_event_id],
            EventKind::ActivityTaskCancel(it) => vec![it.scheduled_event_id, it.decision_event_id],
            EventKind::ActivityTaskCancelFailed(it) => vec![it.decision_event_id],
            EventKind::TimerScheduled(it) => vec![it.decision_event_id],
            EventKind::TimerScheduleFailed(it) => vec![it.decision_event_id],
            EventKind::TimerExpired(it) => vec![it.scheduled_event_id],
            EventKind::TimerCanceled(it) => vec![it.scheduled_event_id, it.decision_event_id],
            EventKind::TimerCancelFailed(it) => vec![it.decision_event_id],
            EventKind::Marker(it) => vec![it.decision_event_id],
            EventKind::MarkerFailed(it) => vec![it.decision_event_id],
            EventKind::ChildScheduled(it) => vec![it.decision_event_id],
            EventKind::ChildScheduleFailed(it) => vec![it.scheduled_event_id.unwrap_or(it.decision_event_id)],
            EventKind::ChildStarted(it) => vec![it.scheduled_event_id],
            EventKind::ChildSuccess(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ChildFailed(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ChildTimedOut(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ChildCanceled(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ChildTerminated(it) => vec![it.scheduled_event_id, it.started_event_id],
            EventKind::ExternalSignalScheduled(it) => vec![it.decision_event_id],
            EventKind::ExternalSignalDelivered(it) => vec![it.scheduled_event_id],
            EventKind::ExternalSignalFailed(it) => vec![it.scheduled_event_id.unwrap_or(it.decision_event_id)],
            EventKind::ExternalCancelScheduled(it) => vec![it.decision_event_id],
            EventKind::ExternalCancelDelivered(it) => vec![it.scheduled_event_id],
            EventKind::ExternalCancelFailed(it) => vec![it.scheduled_event_id.unwrap_or(it.decision_event_id)],
            EventKind::UpdateAccepted(it) => vec![it.decision_event_id],
            EventKind::UpdateCompleted(it) => vec![it.accepted_event_id, it.decision_event_id],
            EventKind::UpdateFailed(it) => vec![it.accepted_event_id, it.decision_event_id],
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::Signal(_) => vec![],
        }
    }
}
