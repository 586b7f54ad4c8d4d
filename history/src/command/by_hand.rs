//! What somebody who operates a run may do to one of its activities.

use crate::event::ActivityTimeouts;
use crate::payload::Payload;
use crate::retry::RetryPolicy;
use crate::time::Duration;

/// What is done to an open activity by hand.
#[derive(Debug, Clone, PartialEq)]
pub enum ActivityCommand {
    /// It is done, whoever has it.
    Succeed {
        /// The result.
        result: Option<Payload>,
    },
    /// It cannot be done, whatever its retry policy has.
    Fail {
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        details: Option<Payload>,
    },
    /// It is tried again at once, whatever it waits for. One try more than the policy allows, where its tries ran out.
    Retry,
    /// It is not handed out any more; whoever has it may still answer.
    Pause,
    /// It is handed out again.
    Resume,
    /// Its options are changed.
    Change(Box<OptionsChange>),
}

/// Which options of an activity are changed, and to what; an absent one stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionsChange {
    /// The task list where runners poll for it.
    pub task_list: Option<String>,
    /// From ActivityScheduled to ActivityStarted, at most; `Some(None)` for no limit.
    pub schedule_to_start: Option<Option<Duration>>,
    /// From ActivityStarted to the answer, at most.
    pub start_to_close: Option<Option<Duration>>,
    /// From ActivityScheduled to the answer, at most.
    pub schedule_to_close: Option<Option<Duration>>,
    /// From ActivityStarted or a heartbeat to the next heartbeat or the answer, at most.
    pub heartbeat: Option<Option<Duration>>,
    /// Whether and when it is tried again. Cannot be given to an activity that was started without one.
    pub retry: Option<RetryPolicy>,
}

impl OptionsChange {
    /// The timeouts that it leaves, of these.
    pub(crate) fn timeouts(&self, before: ActivityTimeouts) -> ActivityTimeouts {
        ActivityTimeouts {
            schedule_to_start: self.schedule_to_start.unwrap_or(before.schedule_to_start),
            start_to_close: self.start_to_close.unwrap_or(before.start_to_close),
            schedule_to_close: self.schedule_to_close.unwrap_or(before.schedule_to_close),
            heartbeat: self.heartbeat.unwrap_or(before.heartbeat),
        }
    }
}
