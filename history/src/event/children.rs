//! Attributes of the events about children. A child is a run that another run starts, and whose outcome is reported
//! back.

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

/// A decider asked for a child to be started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildScheduled {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Workflow type of the child.
    #[n(1)]
    pub workflow_type: String,
    /// Task list of the child's deciders.
    #[n(2)]
    pub task_list: String,
    /// Input of the child.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Longest time from the start to the close of the child, including all of its successors.
    #[n(4)]
    pub execution_timeout: Duration,
    /// Longest time from DeciderStarted to the decider's answer.
    #[n(5)]
    pub decider_start_to_close: Duration,
    /// Longest time from DeciderScheduled to DeciderStarted; unlimited when absent.
    #[n(6)]
    pub decider_schedule_to_start: Option<Duration>,
    /// Default timeouts of the child's activities.
    #[n(7)]
    #[serde(default)]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags of the child.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Time for which the child stays readable after its close.
    #[n(9)]
    pub retention: Duration,
    /// Policy that decides whether the child may be started if a closed run has the same workflow id.
    #[n(10)]
    pub reuse_policy: ReusePolicy,
    /// Effect on the child if the parent closes before the child.
    #[n(11)]
    pub child_policy: ChildPolicy,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(12)]
    pub decision_event_id: EventId,
    /// Longest time from the first turn to the close of a single run of the child; unlimited when absent.
    #[n(13)]
    pub run_timeout: Option<Duration>,
    /// Retry policy of the child. When absent, the child is not retried.
    #[n(14)]
    pub retry: Option<RetryPolicy>,
    /// Text from the decision, which the service stored for later use by the decider.
    #[n(15)]
    pub control: Option<String>,
    /// SWF settings of the child. Only in runs over SWF's protocol.
    #[n(16)]
    pub swf: Option<SwfRun>,
    /// Concurrency key of the child's tasks.
    #[n(17)]
    pub concurrency_key: Option<String>,
}

/// A child could not be started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildScheduleFailed {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ChildScheduleFailedCause,
    /// Id of the ChildScheduled event; absent if the decision failed at once.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Workflow type of the child, present if there is no ChildScheduled event.
    #[n(4)]
    pub workflow_type: Option<String>,
    /// Text from the decision. Present only if there is no ChildScheduled event.
    #[n(5)]
    pub control: Option<String>,
}

/// Reason why a child could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ChildScheduleFailedCause {
    /// A run with this workflow id is open, for example another child.
    #[n(0)]
    WorkflowAlreadyOpen,
    /// An earlier run used the workflow id, and the reuse policy forbids another run with this id.
    #[n(1)]
    WorkflowIdReuseRefused,
    /// The run has reached its limit of open children.
    #[n(2)]
    OpenChildrenLimit,
    /// The workflow type is deprecated.
    #[n(3)]
    WorkflowTypeDeprecated,
    /// The workflow type is not registered. Only in runs over SWF's protocol.
    #[n(4)]
    WorkflowTypeUnknown,
    /// Neither the decision nor the workflow type sets an execution timeout. Only in runs over SWF's protocol.
    #[n(5)]
    DefaultExecutionTimeoutUndefined,
    /// Neither the decision nor the workflow type sets a task list for deciders. Only in runs over SWF's protocol.
    #[n(6)]
    DefaultTaskListUndefined,
    /// Neither the decision nor the workflow type sets a decider timeout. Only in runs over SWF's protocol.
    #[n(7)]
    DefaultDeciderTimeoutUndefined,
    /// Neither the decision nor the workflow type sets a child policy. Only in runs over SWF's protocol.
    #[n(8)]
    DefaultChildPolicyUndefined,
    /// A limit of the service or its store does not allow this start, and retrying cannot help.
    #[n(9)]
    StartRefused,
    /// The domain has reached its limit of open runs.
    #[n(10)]
    OpenRunsLimit,
    /// The state of the run has no space for another child.
    #[n(11)]
    StateLimit,
    /// The decider's credential does not permit the decision.
    #[n(12)]
    OperationNotPermitted,
}

/// The child started.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildStarted {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The child closed with WorkflowSuccess.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildSuccess {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: EventId,
    /// Result of the child.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
}

/// The child closed with WorkflowFailed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildFailed {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: EventId,
    /// Failure code, for programs.
    #[n(4)]
    pub reason: String,
    /// Failure details, for people and programs.
    #[n(5)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// True if an empty string was sent as `reason` over SWF's protocol. If `reason` is empty and this field is absent,
    /// no `reason` was sent.
    #[n(6)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_empty_reason: bool,
}

/// The child closed with WorkflowTimedOut.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildTimedOut {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: EventId,
    /// Timeout that expired.
    #[n(4)]
    pub timeout: WorkflowTimeout,
}

/// The child closed with WorkflowCanceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildCanceled {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: EventId,
    /// Details given by the child's decider.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
}

/// The child closed with WorkflowTerminated.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildTerminated {
    /// Workflow id of the child.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the child.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ChildScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
    /// Id of the ChildStarted event.
    #[n(3)]
    pub started_event_id: EventId,
    /// Reason for the termination.
    #[n(4)]
    pub reason: Option<String>,
}
