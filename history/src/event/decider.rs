//! Attributes of the events about turns.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::EventId;
use crate::payload::{self, Payload};
use crate::time::{Duration, Timestamp};

/// A turn is waiting for a decider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderScheduled {
    /// Task list on which the turn waits.
    #[n(0)]
    pub task_list: String,
    /// Longest time from DeciderStarted to the decider's answer.
    #[n(1)]
    pub start_to_close: Duration,
    /// Longest time from this event to DeciderStarted; unlimited when absent.
    #[n(2)]
    pub schedule_to_start: Option<Duration>,
    /// Number of the attempt: 1, plus the number of consecutive turns before this turn that failed or timed out.
    #[n(3)]
    pub attempt: u32,
    /// Earliest time at which a decider gets the turn. Turns that keep failing are retried with increasing delays.
    #[n(4)]
    pub not_before: Option<Timestamp>,
    /// Priority on the task list, which hands out tasks of a higher priority first. 0 when absent.
    #[n(5)]
    pub task_priority: Option<i32>,
}

/// A decider took the turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderStarted {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Identity of the decider that took the turn.
    #[n(1)]
    pub identity: Option<String>,
}

/// The decider answered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderCompleted {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the turn's DeciderStarted event.
    #[n(1)]
    pub started_event_id: EventId,
    /// Payload that the decider gets with the next turn of the run.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub context: Option<Payload>,
    /// Names of the signals that the decider waits for; `baton.cancel` stands for a cancel request.
    #[n(3)]
    #[cbor(skip_if = "Vec::is_empty")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
    /// Task list for later turns; absent if the list does not change.
    #[n(4)]
    pub next_task_list: Option<TurnList>,
}

/// Change of the task list on which later turns wait.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnList {
    /// Task list on which later turns wait.
    #[n(0)]
    pub task_list: String,
    /// Longest time from DeciderScheduled to DeciderStarted on this list. If a turn exceeds this time or its
    /// start-to-close timeout, later turns wait on the previous list again. When absent, later turns stay on this list.
    #[n(1)]
    pub schedule_to_start: Option<Duration>,
}

/// The decider did not answer in time, or no decider took the turn in time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderTimedOut {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the turn's DeciderStarted event; absent if no decider took the turn.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// Timeout that expired.
    #[n(2)]
    pub timeout: DeciderTimeout,
}

/// The turn failed: the decider reported a failure, or the turn could not be delivered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderFailed {
    /// Id of the turn's DeciderScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the turn's DeciderStarted event.
    #[n(1)]
    pub started_event_id: EventId,
    /// Cause, for programs.
    #[n(2)]
    pub cause: DeciderFailedCause,
    /// Failure code from the decider.
    #[n(3)]
    pub reason: Option<String>,
    /// Failure details from the decider.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Earliest time at which a decider gets the next turn, if that turn is already scheduled. Turns that keep failing
    /// are retried with increasing delays, even if new events arrive.
    #[n(5)]
    pub next_not_before: Option<Timestamp>,
}

/// Timeout of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderTimeout {
    /// The time from DeciderStarted to the decider's answer was too long.
    #[n(0)]
    StartToClose,
    /// The time from DeciderScheduled to DeciderStarted was too long.
    #[n(1)]
    ScheduleToStart,
}

/// Reason why a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderFailedCause {
    /// The decider reported a failure.
    #[n(0)]
    Reported,
    /// The decider's connection was lost before the turn was delivered.
    #[n(1)]
    DeliveryFailed,
}
