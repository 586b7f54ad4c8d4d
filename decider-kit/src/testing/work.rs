//! What activities do in a test, in virtual time.

use baton_history::{Duration, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::commands::payload;

/// An activity that a runner was given.
#[derive(Debug, Clone)]
pub struct Call {
    /// The run's workflow id.
    pub workflow_id: String,
    /// The decider's name for it.
    pub activity_id: String,
    /// Its type.
    pub activity_type: String,
    /// The task list that it came from.
    pub task_list: String,
    /// Which try it is: 1, 2, 3, …; without a retry policy always 1.
    pub attempt: u32,
    /// What the last heartbeat of an earlier try said.
    pub heartbeat_details: Option<Payload>,
    /// Its input.
    pub input: Option<Payload>,
    /// When.
    pub now: Timestamp,
    /// How many calls of this type there were in this run, this one included.
    pub nth: usize,
}

impl Call {
    /// The input, read as a `T`; absent is `null`.
    pub fn input<T: DeserializeOwned>(&self) -> T {
        let text = self.input.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("the input of `{}` is something else: {error}: {text}", self.activity_id))
    }
}

/// What a runner makes of an activity, and how long it takes.
#[derive(Debug, Clone)]
#[must_use]
pub struct Work {
    pub(super) takes: Duration,
    pub(super) answer: WorkResult,
    pub(super) beats: Option<(Duration, Payload)>,
    pub(super) heeds_cancel: bool,
}

#[derive(Debug, Clone)]
pub(super) enum WorkResult {
    Success(Payload),
    Failure { reason: String, details: Payload, non_retryable: bool, retry_after: Option<Duration> },
    Never,
}

impl Work {
    fn of(answer: WorkResult) -> Self {
        Self { takes: Duration::ZERO, answer, beats: None, heeds_cancel: false }
    }

    /// Does it, at once unless [`Work::takes`] says otherwise.
    pub fn success<T: Serialize + ?Sized>(result: &T) -> Self {
        Self::of(WorkResult::Success(payload(result)))
    }

    /// Cannot do it.
    pub fn failure<T: Serialize + ?Sized>(reason: &str, details: &T) -> Self {
        let (reason, details) = (reason.to_owned(), payload(details));
        Self::of(WorkResult::Failure { reason, details, non_retryable: false, retry_after: None })
    }

    /// Takes it and is never heard of again, but for heartbeats. Its timeouts are what is left.
    pub fn never() -> Self {
        Self::of(WorkResult::Never)
    }

    /// Cannot do it, and says that another try cannot help. For a failure.
    pub fn non_retryable(mut self) -> Self {
        if let WorkResult::Failure { non_retryable, .. } = &mut self.answer {
            *non_retryable = true;
        }
        self
    }

    /// Asks to be tried again after so long, whatever the retry policy says. For a failure.
    pub fn retry_after(mut self, span: Duration) -> Self {
        if let WorkResult::Failure { retry_after, .. } = &mut self.answer {
            *retry_after = Some(span);
        }
        self
    }

    /// Takes so long.
    pub fn takes(mut self, span: Duration) -> Self {
        self.takes = span;
        self
    }

    /// Sends a heartbeat each time this span has passed; at least a millisecond.
    pub fn beats<T: Serialize + ?Sized>(mut self, every: Duration, details: &T) -> Self {
        self.beats = Some((every.max(Duration::from_millis(1)), payload(details)));
        self
    }

    /// Stops, when it learns with a heartbeat that it was asked to.
    pub fn heeds_cancel(mut self) -> Self {
        self.heeds_cancel = true;
        self
    }
}
