//! Simulated work of activities, in virtual time.

use baton_history::{Duration, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::commands::payload;

/// An activity given to a simulated runner.
#[derive(Debug, Clone)]
pub struct Call {
    /// Workflow id of the run.
    pub workflow_id: String,
    /// Activity id, chosen by the decider.
    pub activity_id: String,
    /// Activity type.
    pub activity_type: String,
    /// Task list of the activity.
    pub task_list: String,
    /// Attempt number, starting at 1. Always 1 without a retry policy.
    pub attempt: u32,
    /// Details of the last heartbeat of an earlier attempt.
    pub heartbeat_details: Option<Payload>,
    /// Input of the activity.
    pub input: Option<Payload>,
    /// Current virtual time.
    pub now: Timestamp,
    /// Number of calls of this activity type in this run, including this call.
    pub nth: usize,
}

impl Call {
    /// Returns the input as a `T`. A missing input is `null`.
    pub fn input<T: DeserializeOwned>(&self) -> T {
        let text = self.input.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("cannot read the input of activity `{}`: {error}: {text}", self.activity_id))
    }
}

/// Outcome and duration of a simulated activity.
#[derive(Debug, Clone)]
#[must_use]
pub struct Work {
    pub(super) takes: Duration,
    pub(super) answer: WorkResult,
    pub(super) heartbeats: Option<(Duration, Payload)>,
    pub(super) stops_on_cancel: bool,
}

#[derive(Debug, Clone)]
pub(super) enum WorkResult {
    Success(Payload),
    Failure { reason: String, details: Payload, non_retryable: bool, retry_after: Option<Duration> },
    Never,
}

impl Work {
    fn of(answer: WorkResult) -> Self {
        Self { takes: Duration::ZERO, answer, heartbeats: None, stops_on_cancel: false }
    }

    /// Succeeds, immediately unless [`Work::takes`] sets a duration.
    pub fn success<T: Serialize + ?Sized>(result: &T) -> Self {
        Self::of(WorkResult::Success(payload(result)))
    }

    /// Fails with this reason and these details, immediately unless [`Work::takes`] sets a duration.
    pub fn failure<T: Serialize + ?Sized>(reason: &str, details: &T) -> Self {
        let (reason, details) = (reason.to_owned(), payload(details));
        Self::of(WorkResult::Failure { reason, details, non_retryable: false, retry_after: None })
    }

    /// Takes the activity and never answers, so that only a timeout can end it. It can send heartbeats.
    pub fn never() -> Self {
        Self::of(WorkResult::Never)
    }

    /// Marks a failure as non-retryable.
    pub fn non_retryable(mut self) -> Self {
        if let WorkResult::Failure { non_retryable, .. } = &mut self.answer {
            *non_retryable = true;
        }
        self
    }

    /// Makes a failure ask to be retried after this span, overriding the retry policy.
    pub fn retry_after(mut self, span: impl Into<Duration>) -> Self {
        if let WorkResult::Failure { retry_after, .. } = &mut self.answer {
            *retry_after = Some(span.into());
        }
        self
    }

    /// Sets the duration.
    pub fn takes(mut self, span: impl Into<Duration>) -> Self {
        self.takes = span.into();
        self
    }

    /// Sends a heartbeat at this interval, at least a millisecond.
    pub fn heartbeats<T: Serialize + ?Sized>(mut self, every: impl Into<Duration>, details: &T) -> Self {
        self.heartbeats = Some((every.into().max(Duration::from_millis(1)), payload(details)));
        self
    }

    /// Stops as canceled when a heartbeat reports a cancellation request.
    pub fn stops_on_cancel(mut self) -> Self {
        self.stops_on_cancel = true;
        self
    }
}
