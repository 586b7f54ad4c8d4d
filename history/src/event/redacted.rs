//! Redaction of events for callers that may not see payloads.

use super::{EventKind, LastFailure};

fn remove_details(failure: &mut Option<LastFailure>) {
    if let Some(failure) = failure {
        failure.details = None;
    }
}

impl EventKind {
    /// Removes all payloads, and the texts that deciders stored with their decisions (`control`). Reasons, names and
    /// ids stay.
    pub fn redact_payloads(&mut self) {
        match self {
            Self::WorkflowStarted(it) => it.input = None,
            Self::WorkflowSuccess(it) => it.result = None,
            Self::WorkflowFailed(it) => it.details = None,
            Self::WorkflowCanceled(it) => it.details = None,
            Self::WorkflowContinuedAsNew(it) => it.input = None,
            Self::WorkflowTerminated(it) => it.details = None,
            Self::DeciderCompleted(it) => it.context = None,
            Self::DeciderFailed(it) => it.details = None,
            Self::ActivityScheduled(it) => (it.input, it.control) = (None, None),
            Self::ActivityStarted(it) => remove_details(&mut it.last_failure),
            Self::ActivitySuccess(it) => it.result = None,
            Self::ActivityFailed(it) => it.details = None,
            Self::ActivityCanceled(it) => it.details = None,
            Self::ActivityTimedOut(it) => {
                it.details = None;
                remove_details(&mut it.last_failure);
            }
            Self::ActivityScheduledTimeout(it) => remove_details(&mut it.last_failure),
            Self::ActivityPaused(it) => remove_details(&mut it.last_failure),
            Self::TimerScheduled(it) => it.control = None,
            Self::Signal(it) => it.input = None,
            Self::Marker(it) => it.details = None,
            Self::ChildScheduled(it) => (it.input, it.control) = (None, None),
            Self::ChildScheduleFailed(it) => it.control = None,
            Self::ChildSuccess(it) => it.result = None,
            Self::ChildFailed(it) => it.details = None,
            Self::ChildCanceled(it) => it.details = None,
            Self::ExternalSignalScheduled(it) => (it.input, it.control) = (None, None),
            Self::ExternalSignalFailed(it) => it.control = None,
            Self::ExternalCancelScheduled(it) => it.control = None,
            Self::ExternalCancelFailed(it) => it.control = None,
            Self::UpdateAccepted(it) => it.input = None,
            Self::UpdateCompleted(it) => it.result = None,
            Self::UpdateFailed(it) => it.details = None,
            Self::WorkflowTimedOut(_)
            | Self::WorkflowCloseFailed(_)
            | Self::WorkflowCancelRequested(_)
            | Self::DeciderScheduled(_)
            | Self::DeciderStarted(_)
            | Self::DeciderTimedOut(_)
            | Self::ActivityScheduleFailed(_)
            | Self::ActivityTaskCancel(_)
            | Self::ActivityTaskCancelFailed(_)
            | Self::TimerScheduleFailed(_)
            | Self::TimerExpired(_)
            | Self::TimerCanceled(_)
            | Self::TimerCancelFailed(_)
            | Self::MarkerFailed(_)
            | Self::ChildStarted(_)
            | Self::ChildTimedOut(_)
            | Self::ChildTerminated(_)
            | Self::ExternalSignalDelivered(_)
            | Self::ExternalCancelDelivered(_)
            | Self::ActivityResumed(_)
            | Self::ActivityRetried(_)
            | Self::ActivityOptionsChanged(_)
            | Self::WorkflowPaused(_)
            | Self::WorkflowResumed(_)
            | Self::WorkflowReset(_) => {}
        }
    }
}
