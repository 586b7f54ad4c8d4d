//! Activities: what is scheduled, started, answered, timed out and asked to stop.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{ByHand, EventId};
use crate::payload::{self, PackRef, Payload};
use crate::retry::RetryPolicy;
use crate::time::{Duration, Timestamp};

/// A decider wants an activity done.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduled {
    /// The decider's name for it, unique among the run's open activities.
    #[n(0)]
    pub activity_id: String,
    /// What to do.
    #[n(1)]
    pub activity_type: String,
    /// The task list where runners poll for it.
    #[n(2)]
    pub task_list: String,
    /// The input.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Its timeouts.
    #[n(4)]
    #[serde(default)]
    pub timeouts: ActivityTimeouts,
    /// The DeciderCompleted of the turn that decided it.
    #[n(5)]
    pub decision_event_id: EventId,
    /// Whether and when it is tried again; never when absent.
    #[n(6)]
    pub retry: Option<RetryPolicy>,
    /// The decider's note, which comes back with the event.
    #[n(7)]
    pub control: Option<String>,
    /// How it is preferred to others on its list: higher first; 0 when absent.
    #[n(8)]
    pub task_priority: Option<i32>,
}

/// An activity could not be scheduled.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduleFailed {
    /// The decider's name for it.
    #[n(0)]
    pub activity_id: String,
    /// What was to be done.
    #[n(1)]
    pub activity_type: String,
    /// Why.
    #[n(2)]
    pub cause: ActivityScheduleFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(3)]
    pub decision_event_id: EventId,
}

/// A runner took the activity. With a retry policy it is recorded when the activity closes, and tells of the last try.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityStarted {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who took it.
    #[n(1)]
    pub identity: Option<String>,
    /// With a retry policy: which try it was.
    #[n(2)]
    pub attempt: Option<u32>,
    /// With a retry policy: when the runner took it.
    #[n(3)]
    pub started_at: Option<Timestamp>,
    /// How the try before it ended.
    #[n(4)]
    pub last_failure: Option<LastFailure>,
    /// Where the identity is kept that is not here; `None` for whoever reads it through the service.
    #[n(5)]
    #[serde(skip)]
    pub kept: Option<PackRef>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The runner did it, or somebody says that it is done.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivitySuccess {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// The result.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// Who said so, where it was not the runner.
    #[n(3)]
    pub by_hand: Option<ByHand>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The runner could not do it, or somebody says that it cannot be done.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityFailed {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// Why, for programs: the fail code.
    #[n(2)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The runner says that another try cannot help.
    #[n(4)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_retryable: bool,
    /// Who said so, where it was not the runner.
    #[n(5)]
    pub by_hand: Option<ByHand>,
    /// Whether an empty `reason` was given rather than none. Only runs that were started over SWF's wire have either.
    #[n(6)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_empty_reason: bool,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The activity was canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityCanceled {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted; absent when it never started.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// The newest ActivityTaskCancel; 0 in a run over SWF's wire where nobody asked.
    #[n(2)]
    pub cancel_event_id: EventId,
    /// What was done.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The activity took too long.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimedOut {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted; absent when it never started.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// Which timeout.
    #[n(2)]
    pub timeout: ActivityTimeout,
    /// The details of the last heartbeat.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Present when the runner was already gone when the activity was handed to it.
    #[n(4)]
    pub cause: Option<ActivityTimedOutCause>,
    /// How the newest try ended, where the activity waited for another.
    #[n(5)]
    pub last_failure: Option<LastFailure>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// No runner took the activity in time (schedule to start), or none ever may.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduledTimeout {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// How the newest try ended, where the activity waited for another.
    #[n(1)]
    pub last_failure: Option<LastFailure>,
    /// Why no runner may take it; absent where time was up.
    #[n(2)]
    pub cause: Option<ActivityNotStartedCause>,
    /// The decider's name for it. Not stored: the REST API adds it when the event is read.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// Why no runner may take an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityNotStartedCause {
    /// It is a Lambda task of a run without a Lambda role.
    #[n(0)]
    LambdaRoleUndefined,
}

/// A decider wants an activity to stop.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTaskCancel {
    /// The decider's name for it.
    #[n(0)]
    pub activity_id: String,
    /// Its ActivityScheduled.
    #[n(1)]
    pub scheduled_event_id: EventId,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// An activity could not be asked to stop.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTaskCancelFailed {
    /// The decider's name for it.
    #[n(0)]
    pub activity_id: String,
    /// Why.
    #[n(1)]
    pub cause: ActivityTaskCancelFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// The timeouts of an activity: four, independent of each other. An absent one does not apply.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimeouts {
    /// From ActivityScheduled to ActivityStarted, at most.
    #[n(0)]
    pub schedule_to_start: Option<Duration>,
    /// From ActivityStarted to the answer, at most.
    #[n(1)]
    pub start_to_close: Option<Duration>,
    /// From ActivityScheduled to the answer, at most.
    #[n(2)]
    pub schedule_to_close: Option<Duration>,
    /// From ActivityStarted or a heartbeat to the next heartbeat or the answer, at most.
    #[n(3)]
    pub heartbeat: Option<Duration>,
}

/// Reads timeouts out of a request, where an unknown field is a mistake. For `#[serde(deserialize_with = "…")]`.
///
/// # Errors
///
/// The deserializer's.
pub fn timeouts_of_request<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ActivityTimeouts, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct StrictTimeouts {
        schedule_to_start: Option<Duration>,
        start_to_close: Option<Duration>,
        schedule_to_close: Option<Duration>,
        heartbeat: Option<Duration>,
    }
    let StrictTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } =
        StrictTimeouts::deserialize(deserializer)?;
    Ok(ActivityTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat })
}

impl ActivityTimeouts {
    /// These, and where one is absent that of `defaults`.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        Self {
            schedule_to_start: self.schedule_to_start.or(defaults.schedule_to_start),
            start_to_close: self.start_to_close.or(defaults.start_to_close),
            schedule_to_close: self.schedule_to_close.or(defaults.schedule_to_close),
            heartbeat: self.heartbeat.or(defaults.heartbeat),
        }
    }
}

/// The timeouts of an activity, but for schedule-to-start, which has an event of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTimeout {
    /// From ActivityStarted to the answer.
    #[n(0)]
    StartToClose,
    /// From ActivityScheduled to the answer, started or not.
    #[n(1)]
    ScheduleToClose,
    /// From one sign of life to the next.
    #[n(2)]
    Heartbeat,
}

/// Why an activity timed out before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTimedOutCause {
    /// The runner's connection was gone when the activity was handed to it.
    #[n(0)]
    DeliveryFailed,
}

/// Why an activity could not be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityScheduleFailedCause {
    /// An activity with this id is open.
    #[n(0)]
    ActivityIdAlreadyInUse,
    /// As many activities are open as may be.
    #[n(1)]
    OpenActivitiesLimit,
    /// Its type is deprecated.
    #[n(2)]
    ActivityTypeDeprecated,
    /// Its type is not registered. In runs over SWF's wire.
    #[n(3)]
    ActivityTypeUnknown,
    /// Neither the decision nor its type says on which task list it waits. In runs over SWF's wire.
    #[n(4)]
    DefaultTaskListUndefined,
    /// Neither says its schedule-to-start timeout. In runs over SWF's wire.
    #[n(5)]
    DefaultScheduleToStartUndefined,
    /// Neither says its schedule-to-close timeout. In runs over SWF's wire.
    #[n(6)]
    DefaultScheduleToCloseUndefined,
    /// Neither says its start-to-close timeout. In runs over SWF's wire.
    #[n(7)]
    DefaultStartToCloseUndefined,
    /// Neither says its heartbeat timeout. In runs over SWF's wire.
    #[n(8)]
    DefaultHeartbeatUndefined,
    /// It is a Lambda task, and the service has no functions. In runs over SWF's wire.
    #[n(9)]
    LambdaUnavailable,
    /// The state of the run has no room for another.
    #[n(10)]
    StateLimit,
    /// The decider's credential does not allow it.
    #[n(11)]
    OperationNotPermitted,
}

/// Why an activity could not be asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTaskCancelFailedCause {
    /// No activity with this id is open.
    #[n(0)]
    ActivityIdUnknown,
    /// The decider's credential does not allow it.
    #[n(1)]
    OperationNotPermitted,
}

/// How a try ended that was followed by another.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// When.
    #[n(0)]
    pub at: Timestamp,
    /// The runner's reason; absent when it timed out.
    #[n(1)]
    pub reason: Option<String>,
    /// The timeout; absent when the runner answered.
    #[n(2)]
    pub timeout: Option<ActivityTimeout>,
    /// The runner's details, where they have at most 1 KiB.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Who had taken it.
    #[n(4)]
    pub identity: Option<String>,
    /// Where reason, details and identity are kept that are not here; `None` for whoever reads it through the service.
    #[n(5)]
    #[serde(skip)]
    pub kept: Option<PackRef>,
}
