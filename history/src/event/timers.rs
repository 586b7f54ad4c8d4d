//! Attributes of the timer events.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::EventId;
use crate::time::Duration;

/// A decider set a timer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerScheduled {
    /// Timer id, unique among the run's open timers.
    #[n(0)]
    pub timer_id: String,
    /// Time from this event until the timer expires.
    #[n(1)]
    pub after: Duration,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
    /// Text from the decision, which the service stored for later use by the decider.
    #[n(3)]
    pub control: Option<String>,
}

/// A timer could not be set.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerScheduleFailed {
    /// Timer id.
    #[n(0)]
    pub timer_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: TimerScheduleFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A timer expired.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerExpired {
    /// Timer id.
    #[n(0)]
    pub timer_id: String,
    /// Id of the TimerScheduled event.
    #[n(1)]
    pub scheduled_event_id: EventId,
}

/// A decider canceled a timer.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerCanceled {
    /// Timer id.
    #[n(0)]
    pub timer_id: String,
    /// Id of the TimerScheduled event.
    #[n(1)]
    pub scheduled_event_id: EventId,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A timer could not be canceled.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerCancelFailed {
    /// Timer id.
    #[n(0)]
    pub timer_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: TimerCancelFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Reason why a timer could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TimerScheduleFailedCause {
    /// A timer with this id is already open.
    #[n(0)]
    TimerIdAlreadyInUse,
    /// The run has reached its limit of open timers.
    #[n(1)]
    OpenTimersLimit,
    /// The state of the run has no space for another timer.
    #[n(2)]
    StateLimit,
    /// The decider's credential does not permit the decision.
    #[n(3)]
    OperationNotPermitted,
}

/// Reason why a timer could not be canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TimerCancelFailedCause {
    /// No timer with this id is open, for example because it has expired.
    #[n(0)]
    TimerIdUnknown,
    /// The decider's credential does not permit the decision.
    #[n(1)]
    OperationNotPermitted,
}
