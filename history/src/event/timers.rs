//! Timers.

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
    /// Its name, unique among the run's open timers.
    #[n(0)]
    pub timer_id: String,
    /// How long from here.
    #[n(1)]
    pub after: Duration,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
    /// The decider's note, which comes back with the event.
    #[n(3)]
    pub control: Option<String>,
}

/// A timer could not be set.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerScheduleFailed {
    /// Its name.
    #[n(0)]
    pub timer_id: String,
    /// Why.
    #[n(1)]
    pub cause: TimerScheduleFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A timer's time has come.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerExpired {
    /// Its name.
    #[n(0)]
    pub timer_id: String,
    /// Its TimerScheduled.
    #[n(1)]
    pub scheduled_event_id: EventId,
}

/// A decider took a timer back.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerCanceled {
    /// Its name.
    #[n(0)]
    pub timer_id: String,
    /// Its TimerScheduled.
    #[n(1)]
    pub scheduled_event_id: EventId,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A timer could not be taken back.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimerCancelFailed {
    /// Its name.
    #[n(0)]
    pub timer_id: String,
    /// Why.
    #[n(1)]
    pub cause: TimerCancelFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Why a timer could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TimerScheduleFailedCause {
    /// A timer with this name is open.
    #[n(0)]
    TimerIdAlreadyInUse,
    /// As many timers are open as may be.
    #[n(1)]
    OpenTimersLimit,
    /// The state of the run has no room for another.
    #[n(2)]
    StateLimit,
    /// The decider's credential does not allow it.
    #[n(3)]
    OperationNotPermitted,
}

/// Why a timer could not be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TimerCancelFailedCause {
    /// No timer with this name is open, e.g. because it has expired.
    #[n(0)]
    TimerIdUnknown,
    /// The decider's credential does not allow it.
    #[n(1)]
    OperationNotPermitted,
}
