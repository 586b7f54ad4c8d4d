//! Which payload an event carries: a row a kind.

use super::EventKind;
use crate::payload::Payload;

impl EventKind {
    /// The payload that it carries, if any.
    pub fn payload(&self) -> Option<&Payload> {
        match self {
            Self::WorkflowStarted(it) => it.input.as_ref(),
            Self::WorkflowSuccess(it) => it.result.as_ref(),
            Self::WorkflowFailed(it) => it.details.as_ref(),
            Self::WorkflowCanceled(it) => it.details.as_ref(),
            Self::WorkflowContinuedAsNew(it) => it.input.as_ref(),
            Self::WorkflowTerminated(it) => it.details.as_ref(),
            Self::DeciderCompleted(it) => it.context.as_ref(),
            Self::DeciderFailed(it) => it.details.as_ref(),
            Self::ActivityScheduled(it) => it.input.as_ref(),
            Self::ActivitySuccess(it) => it.result.as_ref(),
            Self::ActivityFailed(it) => it.details.as_ref(),
            Self::ActivityCanceled(it) => it.details.as_ref(),
            Self::ActivityTimedOut(it) => it.details.as_ref(),
            Self::Signal(it) => it.input.as_ref(),
            Self::Marker(it) => it.details.as_ref(),
            Self::ExternalSignalScheduled(it) => it.input.as_ref(),
            Self::ChildScheduled(it) => it.input.as_ref(),
            Self::ChildSuccess(it) => it.result.as_ref(),
            Self::ChildFailed(it) => it.details.as_ref(),
            Self::ChildCanceled(it) => it.details.as_ref(),
            Self::UpdateAccepted(it) => it.input.as_ref(),
            Self::UpdateCompleted(it) => it.result.as_ref(),
            Self::UpdateFailed(it) => it.details.as_ref(),
            Self::WorkflowTimedOut(_)
            | Self::WorkflowCloseFailed(_)
            | Self::WorkflowCancelRequested(_)
            | Self::DeciderScheduled(_)
            | Self::DeciderStarted(_)
            | Self::DeciderTimedOut(_)
            | Self::ActivityScheduleFailed(_)
            | Self::ActivityStarted(_)
            | Self::ActivityScheduledTimeout(_)
            | Self::ActivityTaskCancel(_)
            | Self::ActivityTaskCancelFailed(_)
            | Self::TimerScheduled(_)
            | Self::TimerScheduleFailed(_)
            | Self::TimerExpired(_)
            | Self::TimerCanceled(_)
            | Self::TimerCancelFailed(_)
            | Self::MarkerFailed(_)
            | Self::ChildScheduleFailed(_)
            | Self::ChildStarted(_)
            | Self::ChildTimedOut(_)
            | Self::ChildTerminated(_)
            | Self::ExternalSignalDelivered(_)
            | Self::ExternalSignalFailed(_)
            | Self::ExternalCancelScheduled(_)
            | Self::ExternalCancelDelivered(_)
            | Self::ExternalCancelFailed(_)
            | Self::ActivityPaused(_)
            | Self::ActivityResumed(_)
            | Self::ActivityRetried(_)
            | Self::ActivityOptionsChanged(_)
            | Self::WorkflowPaused(_)
            | Self::WorkflowResumed(_)
            | Self::WorkflowReset(_) => None,
        }
    }

    /// The payload that it carries, to be replaced by a claim check, or the other way round.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::WorkflowStarted(it) => it.input.as_mut(),
            Self::WorkflowSuccess(it) => it.result.as_mut(),
            Self::WorkflowFailed(it) => it.details.as_mut(),
            Self::WorkflowCanceled(it) => it.details.as_mut(),
            Self::WorkflowContinuedAsNew(it) => it.input.as_mut(),
            Self::WorkflowTerminated(it) => it.details.as_mut(),
            Self::DeciderCompleted(it) => it.context.as_mut(),
            Self::DeciderFailed(it) => it.details.as_mut(),
            Self::ActivityScheduled(it) => it.input.as_mut(),
            Self::ActivitySuccess(it) => it.result.as_mut(),
            Self::ActivityFailed(it) => it.details.as_mut(),
            Self::ActivityCanceled(it) => it.details.as_mut(),
            Self::ActivityTimedOut(it) => it.details.as_mut(),
            Self::Signal(it) => it.input.as_mut(),
            Self::Marker(it) => it.details.as_mut(),
            Self::ExternalSignalScheduled(it) => it.input.as_mut(),
            Self::ChildScheduled(it) => it.input.as_mut(),
            Self::ChildSuccess(it) => it.result.as_mut(),
            Self::ChildFailed(it) => it.details.as_mut(),
            Self::ChildCanceled(it) => it.details.as_mut(),
            Self::UpdateAccepted(it) => it.input.as_mut(),
            Self::UpdateCompleted(it) => it.result.as_mut(),
            Self::UpdateFailed(it) => it.details.as_mut(),
            Self::WorkflowTimedOut(_)
            | Self::WorkflowCloseFailed(_)
            | Self::WorkflowCancelRequested(_)
            | Self::DeciderScheduled(_)
            | Self::DeciderStarted(_)
            | Self::DeciderTimedOut(_)
            | Self::ActivityScheduleFailed(_)
            | Self::ActivityStarted(_)
            | Self::ActivityScheduledTimeout(_)
            | Self::ActivityTaskCancel(_)
            | Self::ActivityTaskCancelFailed(_)
            | Self::TimerScheduled(_)
            | Self::TimerScheduleFailed(_)
            | Self::TimerExpired(_)
            | Self::TimerCanceled(_)
            | Self::TimerCancelFailed(_)
            | Self::MarkerFailed(_)
            | Self::ChildScheduleFailed(_)
            | Self::ChildStarted(_)
            | Self::ChildTimedOut(_)
            | Self::ChildTerminated(_)
            | Self::ExternalSignalDelivered(_)
            | Self::ExternalSignalFailed(_)
            | Self::ExternalCancelScheduled(_)
            | Self::ExternalCancelDelivered(_)
            | Self::ExternalCancelFailed(_)
            | Self::ActivityPaused(_)
            | Self::ActivityResumed(_)
            | Self::ActivityRetried(_)
            | Self::ActivityOptionsChanged(_)
            | Self::WorkflowPaused(_)
            | Self::WorkflowResumed(_)
            | Self::WorkflowReset(_) => None,
        }
    }
}
