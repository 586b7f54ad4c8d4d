//! Failures of activities.

use baton_history::{Duration, Payload};
use serde::Serialize;

/// Failure of an activity, as reported to the decider.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityFailure {
    pub(crate) reason: String,
    pub(crate) details: Option<Payload>,
    pub(crate) non_retryable: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) is_cancellation: bool,
}

impl ActivityFailure {
    /// Creates a failure. `reason` is a failure code for programs (1 to 256 characters).
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), details: None, non_retryable: false, retry_after: None, is_cancellation: false }
    }

    /// Creates the outcome of an activity that stopped because its cancellation was requested. The service records it
    /// as ActivityCanceled.
    pub fn canceled() -> Self {
        Self { is_cancellation: true, ..Self::new("canceled") }
    }

    /// Adds details. Details that cannot be serialized as JSON are ignored.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Payload::of(details).ok();
        self
    }

    /// Sets the delay before the next attempt, instead of the delay of the activity's retry policy. Has no effect if
    /// the activity has no retry policy.
    #[must_use]
    pub fn retry_after(mut self, wait: impl Into<Duration>) -> Self {
        self.retry_after = Some(wait.into());
        self
    }

    /// Marks the failure as non-retryable, because another attempt cannot succeed.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.non_retryable = true;
        self
    }
}

impl<E: std::error::Error> From<E> for ActivityFailure {
    /// Creates a failure with the reason `error`. Its details are the messages of the error and of the error's sources.
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new("error").details(&text)
    }
}
