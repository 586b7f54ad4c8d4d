//! The catalogue of events once more, as the checker sees it: who must answer whom, and what belongs to a turn.

use crate::event::{EventId, EventKind};
use crate::retry::{RetryPolicy, WhenExhausted};

/// What the checker makes of an event: its part in scheduling and deciding, told here once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventRole {
    /// Schedules a decider; comes by itself.
    News,
    /// Schedules a decider; several may be recorded together, because their time came together.
    TimedNews,
    /// A decision's event that schedules no decider.
    Decided,
    /// A decision's event that schedules one.
    DecidedNews,
    /// A decision's event that closes.
    DecidedClose,
    /// Closes, from outside.
    Close,
    /// Neither.
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
        // Refused at once, or by the other run.
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

/// The turn that a decision's event names.
pub(super) fn decision_event_id(kind: &EventKind) -> Option<EventId> {
    let is_decided = matches!(part(kind), EventRole::Decided | EventRole::DecidedNews | EventRole::DecidedClose);
    kind.causes().last().copied().filter(|_| is_decided)
}

/// The activity that an event closes.
pub(super) fn closes_activity(kind: &EventKind) -> Option<EventId> {
    match kind {
        EventKind::ActivitySuccess(it) => Some(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Some(it.scheduled_event_id),
        EventKind::ActivityCanceled(it) => Some(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Some(it.scheduled_event_id),
        _ => None,
    }
}

/// Whether somebody who operates the run closed the activity.
pub(super) fn is_by_hand(kind: &EventKind) -> bool {
    match kind {
        EventKind::ActivitySuccess(it) => it.by_hand.is_some(),
        EventKind::ActivityFailed(it) => it.by_hand.is_some(),
        _ => false,
    }
}

/// The most tries that a policy allows. Whose tries ran out may be closed by hand, as if in another one.
pub(super) fn attempts(policy: Option<&RetryPolicy>) -> u32 {
    let Some(policy) = policy else { return 0 };
    let waits = u32::from(policy.when_exhausted == WhenExhausted::Pause);
    policy.maximum_attempts.unwrap_or(u32::MAX).saturating_add(waits)
}
