//! The attributes of events about children: runs that a run starts, and that tell it how they closed.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::{ActivityTimeouts, EventId, WorkflowTimeout};
use crate::dialect::SwfRun;
use crate::ids::{ChildPolicy, ReusePolicy};
use crate::payload::{self, Payload};
use crate::retry::RetryPolicy;
use crate::time::Duration;

/// A decider wants a child to be started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildScheduled {
    /// The child's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its workflow type.
    #[n(1)]
    pub workflow_type: String,
    /// The task list of its deciders.
    #[n(2)]
    pub task_list: String,
    /// Its input.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// From its start to its close, at most, of all runs that go on for each other.
    #[n(4)]
    pub execution_timeout: Duration,
    /// From its DeciderStarted to the answer, at most.
    #[n(5)]
    pub decider_start_to_close: Duration,
    /// From its DeciderScheduled to DeciderStarted, at most; unlimited when absent.
    #[n(6)]
    pub decider_schedule_to_start: Option<Duration>,
    /// What applies to its activities whose decisions do not say.
    #[n(7)]
    #[serde(default)]
    pub activity_timeouts: ActivityTimeouts,
    /// Its tags.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How long it stays readable after it closed.
    #[n(9)]
    pub retention: Duration,
    /// Whether the id of a closed run may be used again.
    #[n(10)]
    pub reuse_policy: ReusePolicy,
    /// What becomes of it when the parent closes first.
    #[n(11)]
    pub child_policy: ChildPolicy,
    /// The DeciderCompleted of the turn that decided it.
    #[n(12)]
    pub decision_event_id: EventId,
    /// From its first turn to its close, at most, of one run; unlimited when absent.
    #[n(13)]
    pub run_timeout: Option<Duration>,
    /// Whether and when it is tried again after it failed or took too long; never when absent.
    #[n(14)]
    pub retry: Option<RetryPolicy>,
    /// The decider's note, which comes back with the event.
    #[n(15)]
    pub control: Option<String>,
    /// In runs over SWF's wire: the child's own settings.
    #[n(16)]
    pub swf: Option<SwfRun>,
}

/// A child could not be started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildScheduleFailed {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Why.
    #[n(1)]
    pub cause: ChildScheduleFailedCause,
    /// Its ChildScheduled; absent when it was not even tried.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Its type, where there is no ChildScheduled to say.
    #[n(4)]
    pub workflow_type: Option<String>,
    /// The decider's note, likewise.
    #[n(5)]
    pub control: Option<String>,
}

/// Why a child could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ChildScheduleFailedCause {
    /// A run of this workflow id is open, e.g. another child.
    #[n(0)]
    WorkflowAlreadyOpen,
    /// The workflow id was used before, and the reuse policy does not allow another run.
    #[n(1)]
    WorkflowIdReuseRefused,
    /// As many children are open as may be.
    #[n(2)]
    OpenChildrenLimit,
    /// Its type is deprecated.
    #[n(3)]
    WorkflowTypeDeprecated,
    /// Its type is not registered. In runs over SWF's wire.
    #[n(4)]
    WorkflowTypeUnknown,
    /// Neither the decision nor its type says its execution timeout. In runs over SWF's wire.
    #[n(5)]
    DefaultExecutionTimeoutUndefined,
    /// Neither says on which task list its deciders poll. In runs over SWF's wire.
    #[n(6)]
    DefaultTaskListUndefined,
    /// Neither says how long its deciders may take. In runs over SWF's wire.
    #[n(7)]
    DefaultDeciderTimeoutUndefined,
    /// Neither says what becomes of its children. In runs over SWF's wire.
    #[n(8)]
    DefaultChildPolicyUndefined,
    /// The run cannot be begun as it is wanted, and never could: a limit of the service or its store is in the way.
    #[n(9)]
    StartRefused,
    /// As many runs are open in the domain as may be.
    #[n(10)]
    OpenRunsLimit,
    /// The state of the run has no room for another.
    #[n(11)]
    StateLimit,
    /// The decider's credential does not allow it.
    #[n(12)]
    OperationNotPermitted,
}

/// The child has begun.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildStarted {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The child has closed: WorkflowSuccess.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildSuccess {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: EventId,
    /// Its result.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
}

/// The child has closed: WorkflowFailed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildFailed {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: EventId,
    /// Why, for programs.
    #[n(4)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(5)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Whether an empty `reason` was given rather than none. Only runs that were started over SWF's wire have either.
    #[n(6)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_empty_reason: bool,
}

/// The child has closed: WorkflowTimedOut.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildTimedOut {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: EventId,
    /// Which timeout.
    #[n(4)]
    pub timeout: WorkflowTimeout,
}

/// The child has closed: WorkflowCanceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildCanceled {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: EventId,
    /// What was done.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
}

/// The child has closed: WorkflowTerminated.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildTerminated {
    /// Its workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Its run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ChildScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Its ChildStarted.
    #[n(3)]
    pub started_event_id: EventId,
    /// Why.
    #[n(4)]
    pub reason: Option<String>,
}
