//! Turns of the decider.

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
    /// The task list where it waits.
    #[n(0)]
    pub task_list: String,
    /// From DeciderStarted to the answer, at most.
    #[n(1)]
    pub start_to_close: Duration,
    /// From here to DeciderStarted, at most; unlimited when absent.
    #[n(2)]
    pub schedule_to_start: Option<Duration>,
    /// 1, and one more for every turn in a row that failed or timed out before it.
    #[n(3)]
    pub attempt: u32,
    /// Not handed out before this instant: deciders that keep failing are asked less and less often.
    #[n(4)]
    pub not_before: Option<Timestamp>,
    /// How it is preferred to others on its list: higher first; 0 when absent.
    #[n(5)]
    pub task_priority: Option<i32>,
}

/// A decider took the turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderStarted {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who took it.
    #[n(1)]
    pub identity: Option<String>,
}

/// The decider answered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderCompleted {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// What the decider wants to be told on the next turn.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub context: Option<Payload>,
    /// The signals that the decider says it waits for; `baton.cancel` for a cancel request.
    #[n(3)]
    #[cbor(skip_if = "Vec::is_empty")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
    /// Where later turns wait, if that is to change.
    #[n(4)]
    pub moves_to: Option<TurnList>,
}

/// Where turns are to wait from now on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnList {
    /// The task list.
    #[n(0)]
    pub task_list: String,
    /// From DeciderScheduled to DeciderStarted there, at most: when a turn takes longer than that, or than its start-to-close
    /// timeout, later ones wait where they did before. For good when absent.
    #[n(1)]
    pub schedule_to_start: Option<Duration>,
}

/// The decider did not answer, or none came, in time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderTimedOut {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted; absent when none came.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// Which timeout.
    #[n(2)]
    pub timeout: DeciderTimeout,
}

/// The decider gave the turn back.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderFailed {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// Why.
    #[n(2)]
    pub cause: DeciderFailedCause,
    /// Why, in the decider's words.
    #[n(3)]
    pub reason: Option<String>,
    /// More of it.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The next turn, which waits already, is not handed out before this instant: deciders that keep failing are asked
    /// less and less often, however much news there is.
    #[n(5)]
    pub next_not_before: Option<Timestamp>,
}

/// The timeouts of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderTimeout {
    /// From DeciderStarted to the answer.
    #[n(0)]
    StartToClose,
    /// From DeciderScheduled to DeciderStarted.
    #[n(1)]
    ScheduleToStart,
}

/// Why a turn was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderFailedCause {
    /// The decider said so.
    #[n(0)]
    Reported,
    /// The decider's connection was gone when the turn was handed to it.
    #[n(1)]
    DeliveryFailed,
}
