//! The attributes of events that somebody who operates a run has caused, by hand.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ActivityTimeouts, EventId};
use crate::event::LastFailure;
use crate::retry::RetryPolicy;

/// An activity is not handed out any more. Whoever has it may still answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityPaused {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Why, for programs.
    #[n(1)]
    pub cause: ActivityPausedCause,
    /// Who did it; absent when its tries ran out.
    #[n(2)]
    pub identity: Option<String>,
    /// Why, for people.
    #[n(3)]
    pub reason: Option<String>,
    /// How the last try ended, when its tries ran out.
    #[n(4)]
    pub last_failure: Option<LastFailure>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// A paused activity is handed out again.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityResumed {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who did it.
    #[n(1)]
    pub identity: Option<String>,
    /// Why.
    #[n(2)]
    pub reason: Option<String>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// An activity is handed out for another try at once, whatever it waited for, and whoever had it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityRetried {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who did it.
    #[n(1)]
    pub identity: Option<String>,
    /// Why.
    #[n(2)]
    pub reason: Option<String>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The options of an open activity are others from here on: all of them, those that stay as they were, too.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityOptionsChanged {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The task list where runners poll for it.
    #[n(1)]
    pub task_list: String,
    /// Its timeouts.
    #[n(2)]
    #[serde(default)]
    pub timeouts: ActivityTimeouts,
    /// Whether and when it is tried again; never when absent.
    #[n(3)]
    pub retry: Option<RetryPolicy>,
    /// Who did it.
    #[n(4)]
    pub identity: Option<String>,
    /// Why.
    #[n(5)]
    pub reason: Option<String>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// Why an activity is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityPausedCause {
    /// Somebody did it.
    #[n(0)]
    ByHand,
    /// Its tries ran out, and its retry policy has it wait for somebody then.
    #[n(1)]
    TriesExhausted,
}

/// The run is paused: no turn and no activity is handed out. Whoever has one may still answer; what comes is recorded.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowPaused {
    /// Whether its clock stands still: its timers and all timeouts wait, too.
    #[n(0)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_clocks: bool,
    /// Who did it.
    #[n(1)]
    pub identity: Option<String>,
    /// Why.
    #[n(2)]
    pub reason: Option<String>,
}

/// The run goes on.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowResumed {
    /// Who did it.
    #[n(0)]
    pub identity: Option<String>,
    /// Why.
    #[n(1)]
    pub reason: Option<String>,
    /// Whether it repairs deadlines that were set while the service's clock was ahead: what counts from a later time than this
    /// event's counts from this event.
    #[n(2)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repairs_deadlines: bool,
}
