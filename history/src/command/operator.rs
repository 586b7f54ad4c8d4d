//! Manual changes to activities.

use crate::event::ActivityTimeouts;
use crate::payload::Payload;
use crate::retry::RetryPolicy;
use crate::time::Duration;

/// Manual change to an open activity.
#[derive(Debug, Clone, PartialEq)]
pub enum ActivityCommand {
    /// Mark the activity as completed, even if a runner holds it.
    Succeed {
        /// Result.
        result: Option<Payload>,
    },
    /// Mark the activity as failed, even if its retry policy allows another attempt.
    Fail {
        /// Failure code, for programs.
        reason: String,
        /// Failure details, for people and programs.
        details: Option<Payload>,
    },
    /// Retry the activity at once, even if its backoff has not ended or its retries are exhausted.
    Retry,
    /// Stop runners from taking the activity. A runner that already holds it may still report a result.
    Pause,
    /// Let runners take a paused activity again.
    Resume,
    /// Change the options of the activity.
    Change(Box<OptionsChange>),
}

/// New values for options of an activity. An absent option stays unchanged; `Some(None)` removes a timeout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// Task list that runners poll.
    pub task_list: Option<String>,
    /// Longest time from ActivityScheduled to ActivityStarted.
    pub schedule_to_start: Option<Option<Duration>>,
    /// Longest time from ActivityStarted to the runner's result.
    pub start_to_close: Option<Option<Duration>>,
    /// Longest time from ActivityScheduled to the runner's result.
    pub schedule_to_close: Option<Option<Duration>>,
    /// Longest time between heartbeats, counted from ActivityStarted or the previous heartbeat.
    pub heartbeat: Option<Option<Duration>>,
    /// Retry policy. It cannot be added to an activity that was started without a retry policy.
    pub retry: Option<RetryPolicy>,
}

impl OptionsChange {
    /// Returns the timeouts after this change of `before`.
    pub(crate) fn timeouts(&self, before: ActivityTimeouts) -> ActivityTimeouts {
        ActivityTimeouts {
            schedule_to_start: self.schedule_to_start.unwrap_or(before.schedule_to_start),
            start_to_close: self.start_to_close.unwrap_or(before.start_to_close),
            schedule_to_close: self.schedule_to_close.unwrap_or(before.schedule_to_close),
            heartbeat: self.heartbeat.unwrap_or(before.heartbeat),
        }
    }
}
