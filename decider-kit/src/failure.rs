//! Why a flow, or something that a decider asked for, did not come to a good end.

use std::fmt;

use baton_history::event::{
    ActivityScheduleFailedCause, ActivityTimeout, ChildScheduleFailedCause, ExternalFailedCause,
    TimerScheduleFailedCause, WorkflowTimeout,
};
use baton_history::{Decision, FailWorkflow, Payload, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::payload::payload;

/// Why something did not come to a good end. Returned by a flow, or given to [`Decisions::fail_with`](crate::Decisions::fail_with), it says
/// how the run closes: as canceled if [`Failure::is_canceled`], else as failed with its reason and details.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    reason: String,
    details: Option<Payload>,
    cause: Cause,
}

/// Where a [`Failure`] comes from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The flow says so itself.
    Stated,
    /// The scope was canceled, or the flow says that it was; or a decider took its timer back.
    Canceled,
    /// An activity.
    Activity {
        /// Its id.
        activity_id: String,
        /// Its type.
        activity_type: String,
        /// What became of it.
        end: ActivityEnd,
    },
    /// A timer could not be set.
    Timer {
        /// Its id.
        timer_id: String,
        /// Why.
        cause: TimerScheduleFailedCause,
    },
    /// A child.
    Child {
        /// Its workflow id.
        workflow_id: String,
        /// What became of it.
        end: ChildEnd,
    },
    /// Another run could not be signaled, or asked to cancel.
    External {
        /// Its workflow id.
        workflow_id: String,
        /// Why.
        cause: ExternalFailedCause,
    },
    /// The time given with [`Context::within`](crate::flow::Context::within) is over.
    Elapsed,
    /// What a signal said is not what the flow reads.
    Unreadable,
    /// No failure: the flow goes on in a new run ([`Context::continue_as_new`](crate::flow::Context::continue_as_new)).
    ContinuedAsNew,
}

/// What became of an activity that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityEnd {
    /// Its runner could not do it.
    Failed {
        /// The runner says that another try cannot help.
        non_retryable: bool,
    },
    /// Its runner took too long.
    TimedOut(ActivityTimeout),
    /// No runner took it in time.
    NotTaken,
    /// Its runner stopped, as it was asked to.
    Canceled,
    /// It could not be scheduled.
    NotScheduled(ActivityScheduleFailedCause),
}

/// What became of a child that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildEnd {
    /// It failed.
    Failed,
    /// It took too long.
    TimedOut(WorkflowTimeout),
    /// It was canceled.
    Canceled,
    /// Somebody ended it from outside.
    Terminated,
    /// It could not be started.
    NotStarted(ChildScheduleFailedCause),
}

impl Failure {
    /// A failure with a reason, for programs: one to 256 characters, of which what is too long is cut off.
    /// Source: [`limits::REASON_CHARS_MAX`].
    pub fn new(reason: impl Into<String>) -> Self {
        Self::of(reason, None, Cause::Stated)
    }

    /// A cancellation: a flow that returns it closes its run as canceled.
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

    /// With more of it, for people and programs.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Some(payload(details));
        self
    }

    /// Why, for programs. The fail code of an activity that failed.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Where it comes from.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// More of it, where it is there and is a `T`.
    pub fn read_details<T: DeserializeOwned>(&self) -> Option<T> {
        self.details.as_ref().and_then(|details| details.read().ok())
    }

    /// More of it, as it was given.
    pub fn payload(&self) -> Option<&Payload> {
        self.details.as_ref()
    }

    /// Whether it is a cancellation: of the run, of a scope, or of the activity alone.
    pub fn is_canceled(&self) -> bool {
        match &self.cause {
            Cause::Activity { end, .. } => *end == ActivityEnd::Canceled,
            Cause::Child { end, .. } => *end == ChildEnd::Canceled,
            cause => *cause == Cause::Canceled,
        }
    }

    /// Whether the time given was over: an activity's, or that of [`Context::within`](crate::flow::Context::within).
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

    /// Whether another try of the activity might help: it failed or timed out, and its runner did not say no.
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

    /// The decision that closes the run.
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
    fn a_reason_has_one_to_256_characters_whatever_is_given() {
        assert_eq!(Failure::new("").reason(), "failed");
        let full = "é".repeat(limits::REASON_CHARS_MAX);
        assert_eq!(Failure::new(full.clone()).reason(), full);
        assert_eq!(Failure::new(format!("{full}x")).reason(), full);
    }
}
