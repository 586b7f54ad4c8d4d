//! A run: how it begins, how it ends, and what is asked of it.

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

/// The run began.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStarted {
    /// The workflow id, chosen by the caller.
    #[n(0)]
    pub workflow_id: String,
    /// The run's id, given by the service.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// The workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// The task list where its deciders poll.
    #[n(3)]
    pub task_list: String,
    /// The input.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// From start to close, at most.
    #[n(5)]
    pub execution_timeout: Duration,
    /// From DeciderStarted to the answer, at most.
    #[n(6)]
    pub decider_start_to_close: Duration,
    /// From DeciderScheduled to DeciderStarted, at most; unlimited when absent.
    #[n(7)]
    pub decider_schedule_to_start: Option<Duration>,
    /// What applies to an activity whose decision does not say.
    #[n(8)]
    #[serde(default)]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, for lists.
    #[n(9)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How long the run stays readable after it closed.
    #[n(10)]
    pub retention: Duration,
    /// Who started it.
    #[n(11)]
    pub identity: Option<String>,
    /// How long the first turn waits; the execution timeout counts from then.
    #[n(12)]
    pub start_after: Option<Duration>,
    /// The event of the parent that wanted it, where the run is a child.
    #[n(13)]
    pub parent: Option<Origin>,
    /// From the first turn to close of this one run, at most; unlimited when absent.
    #[n(14)]
    pub run_timeout: Option<Duration>,
    /// The run that this one goes on for.
    #[cbor(n(15), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Since when the execution timeout counts, where that is not this run's own beginning.
    #[n(16)]
    pub execution_from: Option<Timestamp>,
    /// Whether and when the workflow is tried again, by a run of its own, after it failed or took too long; never
    /// when absent.
    #[n(17)]
    pub retry: Option<RetryPolicy>,
    /// With a retry policy: which try this run is, 1, 2, 3, …; `continuedFrom` is the one before it.
    #[n(18)]
    pub attempt: Option<u32>,
    /// The schedule that started it, or the run that it goes on for.
    #[n(19)]
    pub schedule: Option<Scheduled>,
    /// Present where the run speaks SWF's dialect: it was started over SWF's wire.
    #[n(20)]
    pub swf: Option<SwfRun>,
    /// How its turns are preferred to others on their list: higher first; 0 when absent. In SWF's dialect `swf` says it.
    #[n(21)]
    pub task_priority: Option<i32>,
    /// The trace that it belongs to, as W3C's `traceparent`: that of whoever started it; its own where it begins one.
    #[n(22)]
    pub traceparent: Option<Traceparent>,
    /// What vendors say of the trace, as W3C's `tracestate`. At most 512 bytes.
    #[n(23)]
    pub tracestate: Option<String>,
}

/// The decider closed the run as done.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSuccess {
    /// The result.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run as failed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowFailed {
    /// Why, for programs.
    #[n(0)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
    /// The run that tries again, where the retry policy has another try.
    #[cbor(n(3), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// When its first turn is handed out at the earliest.
    #[n(4)]
    pub next_try_at: Option<Timestamp>,
    /// Whether an empty `reason` was given rather than none. Only runs that were started over SWF's wire have either.
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
    /// What was done.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run, and another one goes on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowContinuedAsNew {
    /// The run that goes on.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub new_run_id: Uuid,
    /// Its input.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Its workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// The task list of its deciders.
    #[n(3)]
    pub task_list: String,
    /// Its tags.
    #[n(4)]
    #[cbor(skip_if = "Vec::is_empty")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(5)]
    pub decision_event_id: EventId,
    /// In runs over SWF's wire: the settings of the run that goes on.
    #[n(6)]
    pub swf: Option<SwfSuccessor>,
}

/// The run took too long.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTimedOut {
    /// Which timeout.
    #[n(0)]
    pub timeout: WorkflowTimeout,
    /// The run that tries again, where the retry policy has another try.
    #[cbor(n(1), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// When its first turn is handed out at the earliest.
    #[n(2)]
    pub next_try_at: Option<Timestamp>,
}

/// Somebody ended the run from outside.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTerminated {
    /// Why.
    #[n(0)]
    pub reason: Option<String>,
    /// More of it.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Who.
    #[n(2)]
    pub identity: Option<String>,
    /// The event of the parent that wanted the run, where it was terminated because the parent closed.
    #[n(3)]
    pub origin: Option<Origin>,
    /// In runs over SWF's wire: what becomes of the children, where that is not what the run's policy says.
    #[n(4)]
    pub child_policy: Option<ChildPolicy>,
    /// The run that goes on from an earlier event, where that is why this one was terminated.
    #[n(5)]
    pub reset: Option<ResetPlan>,
    /// Why, for programs; absent where somebody asked for it, or its parent closed.
    #[n(6)]
    pub cause: Option<TerminatedCause>,
}

/// Why a run was terminated though nobody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TerminatedCause {
    /// Its history has more events than may be. In runs over SWF's wire.
    #[n(0)]
    EventLimit,
}

/// A closing decision was refused.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCloseFailed {
    /// Which decision.
    #[n(0)]
    pub decision: CloseDecision,
    /// Why.
    #[n(1)]
    pub cause: CloseFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Somebody asked for the run to be canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCancelRequested {
    /// Why.
    #[n(0)]
    pub reason: Option<String>,
    /// Who.
    #[n(1)]
    pub identity: Option<String>,
    /// The event of the other run that it comes from, if one decided it.
    #[n(2)]
    pub origin: Option<Origin>,
    /// True if the run's first turn was held back (`startAfter`, or the wait before another try) and this request made
    /// it available at once. The run's timeouts then count from this event.
    #[n(3)]
    #[cbor(default, skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub releases_first_turn: bool,
}

/// The timeouts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum WorkflowTimeout {
    /// From WorkflowStarted to close, of all runs that go on for each other.
    #[n(0)]
    Execution,
    /// From WorkflowStarted to close, of one run.
    #[n(1)]
    Run,
}

/// A decision that closes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum CloseDecision {
    /// It did what it should.
    #[n(0)]
    SucceedWorkflow,
    /// It failed.
    #[n(1)]
    FailWorkflow,
    /// It was canceled.
    #[n(2)]
    CancelWorkflow,
    /// Another run goes on.
    #[n(3)]
    ContinueAsNew,
}

/// Why a closing decision was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum CloseFailedCause {
    /// There is news that the decider had not seen.
    #[n(0)]
    UnhandledEvents,
    /// The type of the run that is to go on is deprecated. In runs over SWF's wire.
    #[n(1)]
    WorkflowTypeDeprecated,
    /// It is not registered. In runs over SWF's wire.
    #[n(2)]
    WorkflowTypeUnknown,
    /// Neither the decision nor the type says the execution timeout. In runs over SWF's wire.
    #[n(3)]
    DefaultExecutionTimeoutUndefined,
    /// Neither says on which task list its deciders poll. In runs over SWF's wire.
    #[n(4)]
    DefaultTaskListUndefined,
    /// Neither says how long its deciders may take. In runs over SWF's wire.
    #[n(5)]
    DefaultDeciderTimeoutUndefined,
    /// Neither says what becomes of its children. In runs over SWF's wire.
    #[n(6)]
    DefaultChildPolicyUndefined,
    /// The decider's credential does not allow it.
    #[n(7)]
    OperationNotPermitted,
}
