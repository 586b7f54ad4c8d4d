//! Which payload an event carries: a row a kind.

use super::EventKind;
use crate::payload::Payload;

/// The payload of an event, lent or to be changed: which of its fields that is stands here, once for both.
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
    /// The payload that it carries, if any.
    pub fn payload(&self) -> Option<&Payload> {
        payload_of!(self, as_ref)
    }

    /// The payload that it carries, to be replaced by a claim check, or the other way round.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        payload_of!(self, as_mut)
    }
}
