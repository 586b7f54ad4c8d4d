//! Attributes of the activity events.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{EventId, OperatorAction};
use crate::payload::{self, PackRef, Payload};
use crate::retry::RetryPolicy;
use crate::time::{Duration, Timestamp};

/// A decider scheduled an activity.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduled {
    /// Activity id chosen by the decider, unique among the run's open activities.
    #[n(0)]
    pub activity_id: String,
    /// Activity type.
    #[n(1)]
    pub activity_type: String,
    /// Task list on which the activity waits for a runner.
    #[n(2)]
    pub task_list: String,
    /// Input for the runner.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Timeouts of the activity.
    #[n(4)]
    #[serde(default)]
    pub timeouts: ActivityTimeouts,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(5)]
    pub decision_event_id: EventId,
    /// Retry policy. When absent, the activity is not retried.
    #[n(6)]
    pub retry: Option<RetryPolicy>,
    /// Text from the decision, which the service stored for later use by the decider.
    #[n(7)]
    pub control: Option<String>,
    /// Priority on the task list, which hands out tasks of a higher priority first. 0 when absent.
    #[n(8)]
    pub task_priority: Option<i32>,
    /// Concurrency key for the limits of the task list; the run's key when absent.
    #[n(9)]
    pub concurrency_key: Option<String>,
}

/// An activity could not be scheduled.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduleFailed {
    /// Activity id chosen by the decider.
    #[n(0)]
    pub activity_id: String,
    /// Activity type.
    #[n(1)]
    pub activity_type: String,
    /// Cause, for programs.
    #[n(2)]
    pub cause: ActivityScheduleFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
}

/// A runner took the activity. If the activity has a retry policy, the event is recorded when the activity closes
/// and describes the last attempt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityStarted {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Identity of the runner that took the activity.
    #[n(1)]
    pub identity: Option<String>,
    /// Number of the attempt, if the activity has a retry policy.
    #[n(2)]
    pub attempt: Option<u32>,
    /// Time at which the runner took the activity, if the activity has a retry policy.
    #[n(3)]
    pub started_at: Option<Timestamp>,
    /// Outcome of the previous attempt.
    #[n(4)]
    pub last_failure: Option<LastFailure>,
    /// Location of the identity if it is stored outside the event. Always `None` when the event is read through the
    /// service.
    #[n(5)]
    #[serde(skip)]
    pub kept: Option<PackRef>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The runner completed the activity, or an operator marked it as completed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivitySuccess {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event.
    #[n(1)]
    pub started_event_id: EventId,
    /// Result of the activity.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// Operator that completed the activity manually; absent if the runner completed it.
    #[n(3)]
    pub operator: Option<OperatorAction>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The runner reported a failure, or an operator marked the activity as failed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityFailed {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event.
    #[n(1)]
    pub started_event_id: EventId,
    /// Failure code, for programs.
    #[n(2)]
    pub reason: String,
    /// Failure details, for people and programs.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// True if the runner reported that a retry cannot help.
    #[n(4)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_retryable: bool,
    /// Operator that marked the activity as failed manually; absent if the runner reported the failure.
    #[n(5)]
    pub operator: Option<OperatorAction>,
    /// True if an empty string was sent as `reason` over SWF's protocol. If `reason` is empty and this field is absent,
    /// no `reason` was sent.
    #[n(6)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_empty_reason: bool,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The activity was canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityCanceled {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event; absent if the activity never started.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// Id of the latest ActivityTaskCancel event; 0 in a run over SWF's protocol if no cancellation was requested.
    #[n(2)]
    pub cancel_event_id: EventId,
    /// Details reported by the runner.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// The activity timed out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimedOut {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event; absent if the activity never started.
    #[n(1)]
    pub started_event_id: Option<EventId>,
    /// Timeout that expired.
    #[n(2)]
    pub timeout: ActivityTimeout,
    /// Details of the last heartbeat.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Cause of an early timeout: the runner's connection was lost before the activity was delivered. Absent if the
    /// timeout expired.
    #[n(4)]
    pub cause: Option<ActivityTimedOutCause>,
    /// Outcome of the latest attempt, if the activity was waiting for a retry.
    #[n(5)]
    pub last_failure: Option<LastFailure>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// No runner took the activity within its schedule-to-start timeout, or no runner may take it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduledTimeout {
    /// Id of the activity's ActivityScheduled event.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Outcome of the latest attempt, if the activity was waiting for a retry.
    #[n(1)]
    pub last_failure: Option<LastFailure>,
    /// Reason why no runner may take the activity; absent if the timeout expired.
    #[n(2)]
    pub cause: Option<ActivityNotStartedCause>,
    /// Activity id chosen by the decider. The stored event does not contain this id; the REST API adds it to the
    /// response.
    #[cbor(skip)]
    pub activity_id: Option<Box<str>>,
}

/// Reason why no runner may take an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityNotStartedCause {
    /// The activity is a Lambda task, and the run has no Lambda role.
    #[n(0)]
    LambdaRoleUndefined,
}

/// A decider asked for an activity to stop.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTaskCancel {
    /// Activity id chosen by the decider.
    #[n(0)]
    pub activity_id: String,
    /// Id of the activity's ActivityScheduled event.
    #[n(1)]
    pub scheduled_event_id: EventId,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// The activity that a decider asked to stop is not open, or the decider may not stop it.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTaskCancelFailed {
    /// Activity id chosen by the decider.
    #[n(0)]
    pub activity_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ActivityTaskCancelFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Four independent timeouts of an activity. An absent timeout does not apply.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimeouts {
    /// Longest time from ActivityScheduled to ActivityStarted.
    #[n(0)]
    pub schedule_to_start: Option<Duration>,
    /// Longest time from ActivityStarted to the runner's result.
    #[n(1)]
    pub start_to_close: Option<Duration>,
    /// Longest time from ActivityScheduled to the runner's result.
    #[n(2)]
    pub schedule_to_close: Option<Duration>,
    /// Longest time between heartbeats, counted from ActivityStarted or the previous heartbeat.
    #[n(3)]
    pub heartbeat: Option<Duration>,
}

/// Deserializes the timeouts of a request and rejects unknown fields. Used as `#[serde(deserialize_with = "…")]`.
///
/// # Errors
///
/// Fails if `deserializer` fails, or if the timeouts have unknown fields.
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
    /// Fills absent timeouts from `defaults`.
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

/// Expired timeout of an activity. The schedule-to-start timeout is not included, because its expiry is recorded as
/// ActivityScheduledTimeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTimeout {
    /// The time from ActivityStarted to the result was too long.
    #[n(0)]
    StartToClose,
    /// The time from ActivityScheduled to the result was too long, whether or not the activity had started.
    #[n(1)]
    ScheduleToClose,
    /// The time since the last heartbeat, or since ActivityStarted if there was no heartbeat, was too long.
    #[n(2)]
    Heartbeat,
}

/// Reason why an activity timed out early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTimedOutCause {
    /// The runner's connection was lost before the activity was delivered.
    #[n(0)]
    DeliveryFailed,
}

/// Reason why an activity could not be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityScheduleFailedCause {
    /// An activity with this id is already open.
    #[n(0)]
    ActivityIdAlreadyInUse,
    /// The run has reached its limit of open activities.
    #[n(1)]
    OpenActivitiesLimit,
    /// The activity type is deprecated.
    #[n(2)]
    ActivityTypeDeprecated,
    /// The activity type is not registered. Only in runs over SWF's protocol.
    #[n(3)]
    ActivityTypeUnknown,
    /// Neither the decision nor the activity type sets a task list. Only in runs over SWF's protocol.
    #[n(4)]
    DefaultTaskListUndefined,
    /// Neither the decision nor the activity type sets a schedule-to-start timeout. Only in runs over SWF's protocol.
    #[n(5)]
    DefaultScheduleToStartUndefined,
    /// Neither the decision nor the activity type sets a schedule-to-close timeout. Only in runs over SWF's protocol.
    #[n(6)]
    DefaultScheduleToCloseUndefined,
    /// Neither the decision nor the activity type sets a start-to-close timeout. Only in runs over SWF's protocol.
    #[n(7)]
    DefaultStartToCloseUndefined,
    /// Neither the decision nor the activity type sets a heartbeat timeout. Only in runs over SWF's protocol.
    #[n(8)]
    DefaultHeartbeatUndefined,
    /// The activity is a Lambda task, and the service cannot call Lambda functions. Only in runs over SWF's protocol.
    #[n(9)]
    LambdaUnavailable,
    /// The state of the run has no space for another activity.
    #[n(10)]
    StateLimit,
    /// The decider's credential does not permit the decision.
    #[n(11)]
    OperationNotPermitted,
}

/// Reason why the cancellation of an activity could not be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTaskCancelFailedCause {
    /// No activity with this id is open.
    #[n(0)]
    ActivityIdUnknown,
    /// The decider's credential does not permit the decision.
    #[n(1)]
    OperationNotPermitted,
}

/// Failure or timeout of an earlier attempt of an activity.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// Time at which the attempt ended.
    #[n(0)]
    pub at: Timestamp,
    /// Failure code from the runner; absent if the attempt timed out.
    #[n(1)]
    pub reason: Option<String>,
    /// Timeout that expired; absent if the runner reported a failure.
    #[n(2)]
    pub timeout: Option<ActivityTimeout>,
    /// Failure details from the runner, if they have at most 1 KiB.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Identity of the runner that made the attempt.
    #[n(4)]
    pub identity: Option<String>,
    /// Location of the reason, details and identity if they are stored outside the event. Always `None` when the event
    /// is read through the service.
    #[n(5)]
    #[serde(skip)]
    pub kept: Option<PackRef>,
}
