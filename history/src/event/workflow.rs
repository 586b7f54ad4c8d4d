//! Attributes of the events about a run itself: its start, its close, and requests to cancel it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::dialect::{SwfRun, SwfSuccessor};
use crate::event::{ActivityTimeouts, ChildPolicy, EventId, Origin, ResetPlan};
use crate::payload::{self, Payload};
use crate::retry::RetryPolicy;
use crate::schedule::Scheduled;
use crate::time::{Duration, Timestamp};
use crate::trace::Traceparent;

/// The run started.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStarted {
    /// Workflow id, chosen by the caller.
    #[n(0)]
    pub workflow_id: String,
    /// Run id, assigned by the service.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// Task list that the run's deciders poll.
    #[n(3)]
    pub task_list: String,
    /// Input of the run.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Longest time from the first start to the close, including all runs that continue this run.
    #[n(5)]
    pub execution_timeout: Duration,
    /// Longest time from DeciderStarted to the decider's answer.
    #[n(6)]
    pub decider_start_to_close: Duration,
    /// Longest time from DeciderScheduled to DeciderStarted; unlimited when absent.
    #[n(7)]
    pub decider_schedule_to_start: Option<Duration>,
    /// Default timeouts of the run's activities.
    #[n(8)]
    #[serde(default)]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, used to filter lists of runs.
    #[n(9)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Time for which the run stays readable after its close.
    #[n(10)]
    pub retention: Duration,
    /// Identity of the caller that started the run.
    #[n(11)]
    pub identity: Option<String>,
    /// Delay before the first turn. The execution timeout counts from the end of the delay.
    #[n(12)]
    pub start_after: Option<Duration>,
    /// Event in the parent's history that started the run, if the run is a child.
    #[n(13)]
    pub parent: Option<Origin>,
    /// Longest time from the first turn to the close of this run; unlimited when absent.
    #[n(14)]
    pub run_timeout: Option<Duration>,
    /// Id of the run that this run continues.
    #[cbor(n(15), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Time from which the execution timeout counts. When absent, the timeout counts from the earliest time of this
    /// run's first turn.
    #[n(16)]
    pub execution_from: Option<Timestamp>,
    /// Retry policy: after a failure or timeout, a new run makes another attempt. Without a policy, the run is not
    /// retried.
    #[n(17)]
    pub retry: Option<RetryPolicy>,
    /// Number of the attempt made by this run (1, 2, 3, …), if the run has a retry policy. `continuedFrom` is the id of
    /// the run that made the previous attempt.
    #[n(18)]
    pub attempt: Option<u32>,
    /// Schedule that started this run, or that started an earlier run that this run continues.
    #[n(19)]
    pub schedule: Option<Scheduled>,
    /// SWF settings, present if the run was started over SWF's protocol.
    #[n(20)]
    pub swf: Option<SwfRun>,
    /// Priority of the run's turns on the task list, which hands out tasks of a higher priority first; 0 when absent.
    /// In runs over SWF's protocol, the priority is in `swf` instead.
    #[n(21)]
    pub task_priority: Option<i32>,
    /// W3C `traceparent` of the trace that the run belongs to: the trace of the caller, or a new one if the caller sent
    /// none.
    #[n(22)]
    pub traceparent: Option<Traceparent>,
    /// W3C `tracestate`, with data of the tracing vendors. At most 512 bytes.
    #[n(23)]
    pub tracestate: Option<String>,
    /// Concurrency key of the run's turns, and of its activities without a separate key. Task lists can limit how many
    /// tasks with the same key run at once.
    #[n(24)]
    pub concurrency_key: Option<String>,
    /// True if the run consists of a single activity. It has no decider: the service decides its turns, and closes the
    /// run with the outcome of the activity.
    #[n(25)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_activity: bool,
}

/// The decider closed the run as successful.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSuccess {
    /// Result of the run.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run as failed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowFailed {
    /// Failure code, for programs.
    #[n(0)]
    pub reason: String,
    /// Failure details, for people and programs.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
    /// Id of the new run that makes the next attempt; absent if there is no next attempt.
    #[cbor(n(3), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// Earliest time of the first turn of the new run.
    #[n(4)]
    pub next_attempt_at: Option<Timestamp>,
    /// True if an empty string was sent as `reason` over SWF's protocol. If `reason` is empty and this field is absent,
    /// no `reason` was sent.
    #[n(5)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_empty_reason: bool,
}

/// The decider closed the run as canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCanceled {
    /// Details given by the decider.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run, and a new run continues it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowContinuedAsNew {
    /// Id of the new run.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub new_run_id: Uuid,
    /// Input of the new run.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Workflow type of the new run.
    #[n(2)]
    pub workflow_type: String,
    /// Task list of the new run's deciders.
    #[n(3)]
    pub task_list: String,
    /// Tags of the new run.
    #[n(4)]
    #[cbor(skip_if = "Vec::is_empty")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(5)]
    pub decision_event_id: EventId,
    /// SWF settings of the new run. Only in runs over SWF's protocol.
    #[n(6)]
    pub swf: Option<SwfSuccessor>,
}

/// The run timed out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTimedOut {
    /// Timeout that expired.
    #[n(0)]
    pub timeout: WorkflowTimeout,
    /// Id of the new run that makes the next attempt; absent if there is no next attempt.
    #[cbor(n(1), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// Earliest time of the first turn of the new run.
    #[n(2)]
    pub next_attempt_at: Option<Timestamp>,
}

/// The run was terminated.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTerminated {
    /// Reason, for people.
    #[n(0)]
    pub reason: Option<String>,
    /// Details of the termination, for people and programs.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Identity of the caller.
    #[n(2)]
    pub identity: Option<String>,
    /// Event in the parent's history that started this run. Present if this run was terminated because the parent
    /// closed.
    #[n(3)]
    pub origin: Option<Origin>,
    /// Child policy used instead of the run's own policy. Only in runs over SWF's protocol.
    #[n(4)]
    pub child_policy: Option<ChildPolicy>,
    /// Reset that terminated this run, with the id of the new run that continues from an earlier event.
    #[n(5)]
    pub reset: Option<ResetPlan>,
    /// Cause, for programs; absent if a caller asked for the termination or the parent closed.
    #[n(6)]
    pub cause: Option<TerminatedCause>,
}

/// Reason why the service terminated a run without a request from a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TerminatedCause {
    /// The history has reached its limit of events. Only in runs over SWF's protocol.
    #[n(0)]
    EventLimit,
}

/// A closing decision was not carried out.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCloseFailed {
    /// Closing decision that failed.
    #[n(0)]
    pub decision: CloseDecision,
    /// Cause, for programs.
    #[n(1)]
    pub cause: CloseFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A caller or another run asked to cancel the run.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCancelRequested {
    /// Reason, for people.
    #[n(0)]
    pub reason: Option<String>,
    /// Identity of the caller.
    #[n(1)]
    pub identity: Option<String>,
    /// Event in the history of the run that requested the cancellation; absent if an application requested the
    /// cancellation.
    #[n(2)]
    pub origin: Option<Origin>,
    /// True if the first turn was delayed (by `startAfter`, or by the backoff of a retry) and this request made it
    /// available at once. The run's timeouts then count from this event.
    #[n(3)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub releases_first_turn: bool,
}

/// Timeout of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum WorkflowTimeout {
    /// Execution timeout: limits the time from the first WorkflowStarted to the close, including all runs that continue
    /// the first one.
    #[n(0)]
    Execution,
    /// Run timeout: limits the time from WorkflowStarted to the close of a single run.
    #[n(1)]
    Run,
}

/// Decision that closes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum CloseDecision {
    /// Close as successful.
    #[n(0)]
    SucceedWorkflow,
    /// Close as failed.
    #[n(1)]
    FailWorkflow,
    /// Close as canceled.
    #[n(2)]
    CancelWorkflow,
    /// Close, and continue in a new run.
    #[n(3)]
    ContinueAsNew,
}

/// Reason why a closing decision was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum CloseFailedCause {
    /// New events had been recorded after the turn started.
    #[n(0)]
    UnhandledEvents,
    /// The workflow type of the new run is deprecated. Only in runs over SWF's protocol.
    #[n(1)]
    WorkflowTypeDeprecated,
    /// The workflow type of the new run is not registered. Only in runs over SWF's protocol.
    #[n(2)]
    WorkflowTypeUnknown,
    /// Neither the decision nor the workflow type sets an execution timeout. Only in runs over SWF's protocol.
    #[n(3)]
    DefaultExecutionTimeoutUndefined,
    /// Neither the decision nor the workflow type sets a task list for deciders. Only in runs over SWF's protocol.
    #[n(4)]
    DefaultTaskListUndefined,
    /// Neither the decision nor the workflow type sets a decider timeout. Only in runs over SWF's protocol.
    #[n(5)]
    DefaultDeciderTimeoutUndefined,
    /// Neither the decision nor the workflow type sets a child policy. Only in runs over SWF's protocol.
    #[n(6)]
    DefaultChildPolicyUndefined,
    /// The decider's credential does not permit the decision.
    #[n(7)]
    OperationNotPermitted,
}
