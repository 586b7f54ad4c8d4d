//! Why an activity could not be done.

use std::time::Duration;

use baton_history::Payload;
use serde::Serialize;

/// Why an activity could not be done, for the decider to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub(crate) reason: String,
    pub(crate) details: Option<Payload>,
    pub(crate) non_retryable: bool,
    pub(crate) retry_after: Option<baton_history::Duration>,
    pub(crate) is_cancellation: bool,
}

impl Failure {
    /// A failure with a fail code for programs: 1 to 256 characters.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), details: None, non_retryable: false, retry_after: None, is_cancellation: false }
    }

    /// The activity stopped because it was asked to; recorded as ActivityCanceled.
    pub fn canceled() -> Self {
        Self { is_cancellation: true, ..Self::new("canceled") }
    }

    /// With more of it. What has no JSON form is left out.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Payload::of(details).ok();
        self
    }

    /// Try again after this long, whatever the activity's retry policy has for the wait. Without a policy it changes
    /// nothing.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait.into());
        self
    }

    /// Another try cannot help.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.non_retryable = true;
        self
    }
}

impl<E: std::error::Error> From<E> for Failure {
    /// Reason `error`, and the error with all that caused it as details.
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
