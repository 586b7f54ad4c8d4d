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
    /// Task list that its deciders poll.
    #[n(3)]
    pub task_list: String,
    /// Input.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Longest time from the start to the close, over all runs of the execution.
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
    /// Event of the parent that started the run, if it is a child.
    #[n(13)]
    pub parent: Option<Origin>,
    /// Longest time from the first turn to the close of this run; unlimited when absent.
    #[n(14)]
    pub run_timeout: Option<Duration>,
    /// Id of the run that this run continues.
    #[cbor(n(15), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Time from which the execution timeout counts, if it is not the start of this run.
    #[n(16)]
    pub execution_from: Option<Timestamp>,
    /// Retry policy of the workflow: after a failure or timeout, a new run makes another attempt. No retries when
    /// absent.
    #[n(17)]
    pub retry: Option<RetryPolicy>,
    /// Number of the attempt that this run is (1, 2, 3, …), if there is a retry policy. `continuedFrom` is the
    /// previous attempt.
    #[n(18)]
    pub attempt: Option<u32>,
    /// Schedule that started this run or the run it continues.
    #[n(19)]
    pub schedule: Option<Scheduled>,
    /// SWF settings, present if the run was started over SWF's protocol.
    #[n(20)]
    pub swf: Option<SwfRun>,
    /// Priority of its turns on the task list: higher first; 0 when absent. Runs over SWF's protocol set it in
    /// `swf` instead.
    #[n(21)]
    pub task_priority: Option<i32>,
    /// W3C `traceparent` of the trace that the run belongs to: the caller's, or a new one if the run starts a
    /// trace.
    #[n(22)]
    pub traceparent: Option<Traceparent>,
    /// W3C `tracestate` with the vendors' part of the trace. At most 512 bytes.
    #[n(23)]
    pub tracestate: Option<String>,
}

/// The decider closed the run as successful.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSuccess {
    /// Result.
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
    /// Id of the run that makes the next attempt, if the retry policy allows one.
    #[cbor(n(3), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// Earliest time of that run's first turn.
    #[n(4)]
    pub next_attempt_at: Option<Timestamp>,
    /// True if `reason` was given as an empty string rather than not at all. Only runs started over SWF's protocol
    /// have either.
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
    /// Id of the run that makes the next attempt, if the retry policy allows one.
    #[cbor(n(1), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// Earliest time of that run's first turn.
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
    /// Details.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Identity of the caller.
    #[n(2)]
    pub identity: Option<String>,
    /// Event of the parent that started this run, if it was terminated because the parent closed.
    #[n(3)]
    pub origin: Option<Origin>,
    /// Child policy used instead of the run's own. Only in runs over SWF's protocol.
    #[n(4)]
    pub child_policy: Option<ChildPolicy>,
    /// Reset that terminated this run, with the run that continues from an earlier event.
    #[n(5)]
    pub reset: Option<ResetPlan>,
    /// Cause, for programs; absent if a caller asked for the termination or the parent closed.
    #[n(6)]
    pub cause: Option<TerminatedCause>,
}

/// Reason why the service terminated a run without a request.
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
    /// The closing decision.
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
    /// Event of another run that requested it; absent if an application did.
    #[n(2)]
    pub origin: Option<Origin>,
    /// True if this request made a delayed first turn (`startAfter`, or the backoff of a retry) available at once.
    /// The run's timeouts then count from this event.
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
    /// Execution timeout: from WorkflowStarted to the close, over all runs of the execution.
    #[n(0)]
    Execution,
    /// Run timeout: from WorkflowStarted to the close of one run.
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
    /// There is news that the turn had not seen.
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
    /// Neither sets a task list for deciders. Only in runs over SWF's protocol.
    #[n(4)]
    DefaultTaskListUndefined,
    /// Neither sets a decider timeout. Only in runs over SWF's protocol.
    #[n(5)]
    DefaultDeciderTimeoutUndefined,
    /// Neither sets a child policy. Only in runs over SWF's protocol.
    #[n(6)]
    DefaultChildPolicyUndefined,
    /// The decider's credential does not allow it.
    #[n(7)]
    OperationNotPermitted,
}
