//! Access to the payload of an event.

use super::EventKind;
use crate::payload::Payload;

/// Selects the payload field of each kind, by shared or mutable reference.
macro_rules! payload_of {
    ($kind:expr, $as:ident) => {
        match $kind {
            EventKind::WorkflowStarted(it) => it.input.$as(),
            EventKind::WorkflowSuccess(it) => it.result.$as(),
            EventKind::WorkflowFailed(it) => it.details.$as(),
            EventKind::WorkflowCanceled(it) => it.details.$as(),
            EventKind::WorkflowContinuedAsNew(it) => it.input.$as(),
            EventKind::WorkflowTerminated(it) => it.details.$as(),
            EventKind::DeciderCompleted(it) => it.context.$as(),
            EventKind::DeciderFailed(it) => it.details.$as(),
            EventKind::ActivityScheduled(it) => it.input.$as(),
            EventKind::ActivitySuccess(it) => it.result.$as(),
            EventKind::ActivityFailed(it) => it.details.$as(),
            EventKind::ActivityCanceled(it) => it.details.$as(),
            EventKind::ActivityTimedOut(it) => it.details.$as(),
            EventKind::Signal(it) => it.input.$as(),
            EventKind::Marker(it) => it.details.$as(),
            EventKind::ExternalSignalScheduled(it) => it.input.$as(),
            EventKind::ChildScheduled(it) => it.input.$as(),
            EventKind::ChildSuccess(it) => it.result.$as(),
            EventKind::ChildFailed(it) => it.details.$as(),
            EventKind::ChildCanceled(it) => it.details.$as(),
            EventKind::UpdateAccepted(it) => it.input.$as(),
            EventKind::UpdateCompleted(it) => it.result.$as(),
            EventKind::UpdateFailed(it) => it.details.$as(),
            EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderTimedOut(_)
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
            | EventKind::MarkerFailed(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => None,
        }
    };
}

impl EventKind {
    /// Returns the payload, if the event has a payload.
    pub fn payload(&self) -> Option<&Payload> {
        payload_of!(self, as_ref)
    }

    /// Returns the payload for replacement, for example by a reference to a stored payload.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        payload_of!(self, as_mut)
    }
}
