//! Reasons why a flow, or a step that a decider requested, did not succeed.

use std::fmt;

use baton_history::event::{
    ActivityScheduleFailedCause, ActivityTimeout, ChildScheduleFailedCause, ExternalFailedCause,
    TimerScheduleFailedCause, WorkflowTimeout,
};
use baton_history::{Decision, FailWorkflow, Payload, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::payload::payload;

/// Reason why a flow or a step did not succeed. A flow that returns a failure closes its run, as does
/// [`Decisions::fail_with`](crate::Decisions::fail_with). The run closes as canceled if [`Failure::is_canceled`],
/// otherwise as failed with the failure's reason and details.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    reason: String,
    details: Option<Payload>,
    cause: Cause,
}

/// Origin of a [`Failure`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The flow created the failure itself.
    Stated,
    /// A scope was canceled, the flow returned a cancellation, or the decider canceled the timer.
    Canceled,
    /// An activity did not succeed.
    Activity {
        /// Activity id.
        activity_id: String,
        /// Activity type.
        activity_type: String,
        /// End of the activity.
        end: ActivityEnd,
    },
    /// A timer could not be started.
    Timer {
        /// Timer id.
        timer_id: String,
        /// Cause, for programs.
        cause: TimerScheduleFailedCause,
    },
    /// A child did not succeed.
    Child {
        /// Workflow id of the child.
        workflow_id: String,
        /// End of the child.
        end: ChildEnd,
    },
    /// Another run could not be signaled or asked to cancel.
    External {
        /// Workflow id of the other run.
        workflow_id: String,
        /// Cause, for programs.
        cause: ExternalFailedCause,
    },
    /// The time limit of [`Context::within`](crate::flow::Context::within) has expired.
    Elapsed,
    /// The input of a signal does not have the type that the flow expects.
    Unreadable,
    /// Not a failure: the flow continues in a new run
    /// ([`Context::continue_as_new`](crate::flow::Context::continue_as_new)).
    ContinuedAsNew,
}

/// End of an activity that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityEnd {
    /// The runner reported a failure.
    Failed {
        /// The runner reported that retrying cannot help.
        non_retryable: bool,
    },
    /// The activity exceeded a timeout after a runner had taken it.
    TimedOut(ActivityTimeout),
    /// No runner took the activity in time.
    NotTaken,
    /// The runner stopped the activity on request.
    Canceled,
    /// The activity could not be scheduled.
    NotScheduled(ActivityScheduleFailedCause),
}

/// End of a child that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildEnd {
    /// The child failed.
    Failed,
    /// The child timed out.
    TimedOut(WorkflowTimeout),
    /// The child was canceled.
    Canceled,
    /// The child was terminated from outside.
    Terminated,
    /// The child could not be started.
    NotStarted(ChildScheduleFailedCause),
}

impl Failure {
    /// Creates a failure with a reason for programs. A reason longer than [`limits::REASON_CHARS_MAX`] (256) characters
    /// is cut off. An empty reason becomes `failed`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self::of(reason, None, Cause::Stated)
    }

    /// Creates a cancellation. A flow that returns this failure closes its run as canceled.
    pub fn canceled<T: Serialize + ?Sized>(details: &T) -> Self {
        Self::of("canceled", Some(payload(details)), Cause::Canceled)
    }

    pub(crate) fn of(reason: impl Into<String>, details: Option<Payload>, cause: Cause) -> Self {
        let mut reason = reason.into();
        if reason.is_empty() {
            "failed".clone_into(&mut reason);
        }
        if let Some((end, _)) = reason.char_indices().nth(limits::REASON_CHARS_MAX) {
            reason.truncate(end);
        }
        Self { reason, details, cause }
    }

    /// Adds details, for people and programs.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Some(payload(details));
        self
    }

    /// Returns the reason, for programs. For a failed activity, it is the failure code from the runner.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the origin of the failure.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Returns the details as a `T`, or `None` if the failure has no details or they are not a `T`.
    pub fn read_details<T: DeserializeOwned>(&self) -> Option<T> {
        self.details.as_ref().and_then(|details| details.read().ok())
    }

    /// Returns the details unparsed.
    pub fn payload(&self) -> Option<&Payload> {
        self.details.as_ref()
    }

    /// Returns whether this is a cancellation: of the run, of a scope, or of a single activity or child.
    pub fn is_canceled(&self) -> bool {
        match &self.cause {
            Cause::Activity { end, .. } => *end == ActivityEnd::Canceled,
            Cause::Child { end, .. } => *end == ChildEnd::Canceled,
            cause => *cause == Cause::Canceled,
        }
    }

    /// Returns whether a time limit expired: a timeout of an activity or of a child, or the limit of
    /// [`Context::within`](crate::flow::Context::within).
    pub fn is_timeout(&self) -> bool {
        match &self.cause {
            Cause::Activity { end, .. } => matches!(end, ActivityEnd::TimedOut(_) | ActivityEnd::NotTaken),
            Cause::Child { end, .. } => matches!(end, ChildEnd::TimedOut(_)),
            Cause::Elapsed => true,
            Cause::Stated
            | Cause::Canceled
            | Cause::Timer { .. }
            | Cause::External { .. }
            | Cause::Unreadable
            | Cause::ContinuedAsNew => false,
        }
    }

    /// Returns whether another attempt at the activity might help. This is the case if the activity failed or timed
    /// out, and its runner did not report the failure as non-retryable.
    pub fn may_retry(&self) -> bool {
        match &self.cause {
            Cause::Activity { end, .. } => match end {
                ActivityEnd::Failed { non_retryable } => !non_retryable,
                ActivityEnd::TimedOut(_) | ActivityEnd::NotTaken => true,
                ActivityEnd::Canceled | ActivityEnd::NotScheduled(_) => false,
            },
            Cause::Stated
            | Cause::Canceled
            | Cause::Timer { .. }
            | Cause::Child { .. }
            | Cause::External { .. }
            | Cause::Elapsed
            | Cause::Unreadable
            | Cause::ContinuedAsNew => false,
        }
    }

    /// Returns the decision that closes the run with this failure.
    pub(crate) fn closing(self) -> Decision {
        let Self { reason, details, .. } = &self;
        if self.cause == Cause::ContinuedAsNew {
            return baton_history::ContinueAsNew { input: details.clone(), ..baton_history::ContinueAsNew::default() }
                .into();
        }
        if self.is_canceled() {
            return baton_history::CancelWorkflow { details: details.clone(), force: false }.into();
        }
        FailWorkflow { reason: reason.clone(), details: details.clone(), ..FailWorkflow::default() }.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Stated | Cause::Elapsed | Cause::Unreadable | Cause::Canceled | Cause::ContinuedAsNew => {
                f.write_str(&self.reason)?;
            }
            Cause::Activity { activity_id, end, .. } => {
                write!(f, "activity `{activity_id}`: ")?;
                match end {
                    ActivityEnd::Failed { .. } => f.write_str(&self.reason)?,
                    ActivityEnd::TimedOut(timeout) => write!(f, "timed out ({timeout})")?,
                    ActivityEnd::NotTaken => f.write_str("no runner took it in time")?,
                    ActivityEnd::Canceled => f.write_str("canceled")?,
                    ActivityEnd::NotScheduled(cause) => write!(f, "could not be scheduled ({cause})")?,
                }
            }
            Cause::Child { workflow_id, end } => {
                write!(f, "child `{workflow_id}`: ")?;
                match end {
                    ChildEnd::Failed | ChildEnd::Terminated => f.write_str(&self.reason)?,
                    ChildEnd::TimedOut(timeout) => write!(f, "timed out ({timeout})")?,
                    ChildEnd::Canceled => f.write_str("canceled")?,
                    ChildEnd::NotStarted(cause) => write!(f, "could not be started ({cause})")?,
                }
            }
            Cause::External { workflow_id, cause } => write!(f, "`{workflow_id}` could not be reached ({cause})")?,
            Cause::Timer { timer_id, cause } => write!(f, "timer `{timer_id}` could not be set ({cause})")?,
        }
        match &self.details {
            Some(details) => write!(f, ": {details}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_to_256_characters_and_never_empty() {
        assert_eq!(Failure::new("").reason(), "failed");
        let full = "é".repeat(limits::REASON_CHARS_MAX);
        assert_eq!(Failure::new(full.clone()).reason(), full);
        assert_eq!(Failure::new(format!("{full}x")).reason(), full);
    }
}
