//! The catalogue of events for the checker: which events schedule a turn, and which belong to a decision.

use crate::event::{EventId, EventKind};
use crate::retry::{RetryPolicy, WhenExhausted};

/// Role of an event in scheduling turns and recording decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventRole {
    /// Schedules a turn, and is the only such event of its commit.
    News,
    /// Schedules a turn, and may be recorded together with other events that are due at the same time.
    TimedNews,
    /// Belongs to a decision and schedules no turn.
    Decided,
    /// Belongs to a decision and schedules a turn.
    DecidedNews,
    /// Belongs to a decision and closes the run.
    DecidedClose,
    /// Closes the run without a decision.
    Close,
    /// None of the above.
    Quiet,
}

pub(super) fn part(event: &EventKind) -> EventRole {
    match event {
        EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowContinuedAsNew(_) => EventRole::DecidedClose,
        EventKind::WorkflowTimedOut(_) | EventKind::WorkflowTerminated(_) => EventRole::Close,
        EventKind::WorkflowCloseFailed(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::MarkerFailed(_) => EventRole::DecidedNews,
        EventKind::ActivityScheduled(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerCanceled(_)
        | EventKind::Marker(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_) => EventRole::Decided,
        // A failure without `scheduled_event_id` was recorded at once, together with the decision. A failure with
        // `scheduled_event_id` was recorded later, after the other run had refused the request.
        EventKind::ChildScheduleFailed(it) if it.scheduled_event_id.is_none() => EventRole::DecidedNews,
        EventKind::ExternalSignalFailed(it) if it.scheduled_event_id.is_none() => EventRole::DecidedNews,
        EventKind::ExternalCancelFailed(it) if it.scheduled_event_id.is_none() => EventRole::DecidedNews,
        EventKind::DeciderTimedOut(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::TimerExpired(_) => EventRole::TimedNews,
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::Signal(_)
        | EventKind::WorkflowReset(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_) => EventRole::News,
        EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::ChildStarted(_) => EventRole::Quiet,
    }
}

/// Returns the id of the DeciderCompleted event that a decision's event refers to.
pub(super) fn decision_event_id(kind: &EventKind) -> Option<EventId> {
    let is_decided = matches!(part(kind), EventRole::Decided | EventRole::DecidedNews | EventRole::DecidedClose);
    kind.causes().last().copied().filter(|_| is_decided)
}

/// Returns the id of the ActivityScheduled event of the activity that the event closes.
pub(super) fn closes_activity(kind: &EventKind) -> Option<EventId> {
    match kind {
        EventKind::ActivitySuccess(it) => Some(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Some(it.scheduled_event_id),
        EventKind::ActivityCanceled(it) => Some(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Some(it.scheduled_event_id),
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
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
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
        | EventKind::WorkflowReset(_) => None,
    }
}

/// Returns `true` if the event is the manual close of an activity by an operator.
pub(super) fn is_manual(kind: &EventKind) -> bool {
    match kind {
        EventKind::ActivitySuccess(it) => it.operator.is_some(),
        EventKind::ActivityFailed(it) => it.operator.is_some(),
        _ => false,
    }
}

/// Returns the highest number of attempts that a policy allows. If the policy pauses an exhausted activity, the limit
/// is one higher, because an operator's close then counts as another attempt.
pub(super) fn attempts(policy: Option<&RetryPolicy>) -> u32 {
    let Some(policy) = policy else { return 0 };
    let waits = u32::from(policy.when_exhausted == WhenExhausted::Pause);
    policy.maximum_attempts.unwrap_or(u32::MAX).saturating_add(waits)
}
