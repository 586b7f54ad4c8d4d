//! Attributes of the events that an operator causes.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ActivityTimeouts, EventId};
use crate::event::LastFailure;
use crate::retry::RetryPolicy;

/// An activity is paused. No runner can take it, but a runner that already holds it may still report a result.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityPaused {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ActivityPausedCause,
    /// Identity of the operator; absent if retries were exhausted.
    #[n(2)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(3)]
    pub reason: Option<String>,
    /// Outcome of the last attempt, if retries were exhausted.
    #[n(4)]
    pub last_failure: Option<LastFailure>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// A paused activity was resumed. Runners can take it again.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityResumed {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Identity of the operator.
    #[n(1)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(2)]
    pub reason: Option<String>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// An activity is retried at once, even if it was waiting for its next attempt or a runner holds it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityRetried {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Identity of the operator.
    #[n(1)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(2)]
    pub reason: Option<String>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The options of an open activity changed. The event contains all options, including unchanged options.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityOptionsChanged {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Task list of the activity after the change.
    #[n(1)]
    pub task_list: String,
    /// Timeouts of the activity after the change.
    #[n(2)]
    #[serde(default)]
    pub timeouts: ActivityTimeouts,
    /// Retry policy of the activity after the change. When absent, the activity is not retried.
    #[n(3)]
    pub retry: Option<RetryPolicy>,
    /// Identity of the operator.
    #[n(4)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(5)]
    pub reason: Option<String>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// Reason why an activity is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityPausedCause {
    /// An operator paused the activity.
    #[n(0)]
    OperatorInitiated,
    /// All attempts have failed, and the retry policy pauses the activity in this case.
    #[n(1)]
    AttemptsExhausted,
}

/// The run is paused: deciders and runners get none of its tasks. A worker that already holds a task may still complete
/// it, and new events are recorded.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowPaused {
    /// True if the run's clock also stops, which suspends the run's timers and all timeouts.
    #[n(0)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_clocks: bool,
    /// Identity of the operator.
    #[n(1)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(2)]
    pub reason: Option<String>,
}

/// The run was resumed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowResumed {
    /// Identity of the operator.
    #[n(0)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(1)]
    pub reason: Option<String>,
    /// True if the resume also repairs deadlines that were set while the service's clock was ahead. If a deadline
    /// counts from a time later than this event, it then counts from the time of this event instead.
    #[n(2)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repairs_deadlines: bool,
}
