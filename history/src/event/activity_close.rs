//! Events that close an activity.

use super::{
    ActivityCanceled, ActivityFailed, ActivityScheduledTimeout, ActivitySuccess, ActivityTimedOut, EventId, EventKind,
};

/// Event that closes an activity.
#[derive(Debug, Clone, Copy)]
pub enum ActivityClose<'a> {
    /// The activity succeeded.
    Success(&'a ActivitySuccess),
    /// The activity failed.
    Failed(&'a ActivityFailed),
    /// The activity was canceled.
    Canceled(&'a ActivityCanceled),
    /// A timeout of the activity expired, other than the one for its wait in the task list.
    TimedOut(&'a ActivityTimedOut),
    /// No runner took the activity within its schedule-to-start timeout.
    ScheduledTimeout(&'a ActivityScheduledTimeout),
}

impl ActivityClose<'_> {
    /// Returns the id of the ActivityScheduled event of the activity.
    pub fn scheduled_event_id(self) -> EventId {
        match self {
            Self::Success(it) => it.scheduled_event_id,
            Self::Failed(it) => it.scheduled_event_id,
            Self::Canceled(it) => it.scheduled_event_id,
            Self::TimedOut(it) => it.scheduled_event_id,
            Self::ScheduledTimeout(it) => it.scheduled_event_id,
        }
    }
}

impl EventKind {
    /// Returns the close of an activity, if this event is one.
    pub fn activity_close(&self) -> Option<ActivityClose<'_>> {
        Some(match self {
            EventKind::ActivitySuccess(it) => ActivityClose::Success(it),
            EventKind::ActivityFailed(it) => ActivityClose::Failed(it),
            EventKind::ActivityCanceled(it) => ActivityClose::Canceled(it),
            EventKind::ActivityTimedOut(it) => ActivityClose::TimedOut(it),
            EventKind::ActivityScheduledTimeout(it) => ActivityClose::ScheduledTimeout(it),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
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
            | EventKind::WorkflowReset(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_) => return None,
        })
    }
}
