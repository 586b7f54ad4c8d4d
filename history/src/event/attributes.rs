//! The attributes of each kind of event: what is stored (by number) and shown (by camel-case name).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ByHand, ChildPolicy, EventId, Origin};
use crate::dialect::{SwfRun, SwfSuccessor};
use crate::payload::{self, Payload};
use crate::retry::{LastFailure, RetryPolicy};
use crate::schedule::Scheduled;
use crate::time::{Duration, Timestamp};

/// The run began.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStarted {
    /// The workflow id, chosen by the caller.
    #[n(0)]
    pub workflow_id: String,
    /// The run's id, given by the service.
    #[n(1)]
    #[cbor(with = "crate::codec::uuid")]
    pub run_id: Uuid,
    /// The workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// The task list where its deciders poll.
    #[n(3)]
    pub task_list: String,
    /// The input.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// From start to close, at most.
    #[n(5)]
    pub execution_timeout: Duration,
    /// From DeciderStarted to the answer, at most.
    #[n(6)]
    pub decider_start_to_close: Duration,
    /// From DeciderScheduled to DeciderStarted, at most; unlimited when absent (D13).
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decider_schedule_to_start: Option<Duration>,
    /// What applies to an activity whose decision does not say (D9).
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How long the first turn waits; the execution timeout counts from then.
    #[n(12)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after: Option<Duration>,
    /// The event of the parent that wanted it, where the run is a child.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Origin>,
    /// From the first turn to close of this one run, at most; unlimited when absent (S2.28).
    #[n(14)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout: Option<Duration>,
    /// The run that this one goes on for.
    #[cbor(n(15), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Since when the execution timeout counts, where that is not this run's own beginning (S2.27).
    #[n(16)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_from: Option<Timestamp>,
    /// Whether and when the workflow is tried again, by a run of its own, after it failed or took too long (S2.30); never
    /// when absent.
    #[n(17)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// With a retry policy: which try this run is, 1, 2, 3, …; `continued_from` is the one before it.
    #[n(18)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The schedule that started it, or the run that it goes on for.
    #[n(19)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Scheduled>,
    /// Present where the run speaks SWF's dialect: it was started over SWF's wire.
    #[n(20)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swf: Option<SwfRun>,
}

/// The decider closed the run as done.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSuccess {
    /// The result.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run as failed.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowFailed {
    /// Why, for programs.
    #[n(0)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
    /// The run that tries again, where the retry policy has another try.
    #[cbor(n(3), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// When its first turn is handed out at the earliest.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Timestamp>,
}

/// The decider closed the run as canceled.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCanceled {
    /// What was done.
    #[n(0)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(1)]
    pub decision_event_id: EventId,
}

/// The decider closed the run, and another one goes on.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowContinuedAsNew {
    /// The run that goes on.
    #[n(0)]
    #[cbor(with = "crate::codec::uuid")]
    pub new_run_id: Uuid,
    /// Its input.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swf: Option<SwfSuccessor>,
}

/// The run took too long.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTimedOut {
    /// Which timeout.
    #[n(0)]
    pub timeout: WorkflowTimeout,
    /// The run that tries again, where the retry policy has another try.
    #[cbor(n(1), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    /// When its first turn is handed out at the earliest.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Timestamp>,
}

/// Somebody ended the run from outside.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTerminated {
    /// Why.
    #[n(0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More of it.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// Who.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The event of the parent that wanted the run, where it was terminated because the parent closed.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// In runs over SWF's wire: what becomes of the children, where that is not what the run's policy says.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_policy: Option<ChildPolicy>,
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
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowCancelRequested {
    /// Why.
    #[n(0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The event of the other run that it comes from, if one decided it.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A turn is waiting for a decider.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderScheduled {
    /// The task list where it waits.
    #[n(0)]
    pub task_list: String,
    /// From DeciderStarted to the answer, at most.
    #[n(1)]
    pub start_to_close: Duration,
    /// From here to DeciderStarted, at most; unlimited when absent.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_to_start: Option<Duration>,
    /// 1, and one more for every turn in a row that failed or timed out before it.
    #[n(3)]
    pub attempt: u32,
    /// Not handed out before this instant: deciders that keep failing are asked less and less often.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

/// A decider took the turn.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderStarted {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who took it.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// The decider answered.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderCompleted {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// What the decider wants to be told on the next turn.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Payload>,
    /// The signals that the decider says it waits for; `baton.cancel` for a cancel request (N8).
    #[n(3)]
    #[cbor(skip_if = "Vec::is_empty")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
}

/// The decider did not answer, or none came, in time.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderTimedOut {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted; absent when none came.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_event_id: Option<EventId>,
    /// Which timeout.
    #[n(2)]
    pub timeout: DeciderTimeout,
}

/// The decider gave the turn back.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeciderFailed {
    /// The turn's DeciderScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// The turn's DeciderStarted.
    #[n(1)]
    pub started_event_id: EventId,
    /// Why.
    #[n(2)]
    pub cause: DeciderFailedCause,
    /// Why, in the decider's words.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More of it.
    #[n(4)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The next turn, which waits already, is not handed out before this instant: deciders that keep failing are asked
    /// less and less often, however much news there is.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_not_before: Option<Timestamp>,
}

/// A decider wants an activity done.
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
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The decider's note, which comes back with the event.
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// How it is preferred to others on its list: higher first; 0 when absent.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityStarted {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Who took it.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// With a retry policy: which try it was.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// With a retry policy: when the runner took it.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// How the try before it ended.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// The runner did it, or somebody says that it is done.
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
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Who said so, where it was not the runner.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

/// The runner could not do it, or somebody says that it cannot be done.
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
    /// Why, for programs: the fail code (S3.17).
    #[n(2)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The runner says that another try cannot help.
    #[n(4)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_retryable: bool,
    /// Who said so, where it was not the runner.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

/// The activity was canceled.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityCanceled {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted; absent when it never started.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_event_id: Option<EventId>,
    /// The newest ActivityTaskCancel; 0 in a run over SWF's wire where nobody asked.
    #[n(2)]
    pub cancel_event_id: EventId,
    /// What was done.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
}

/// The activity took too long.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimedOut {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted; absent when it never started.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_event_id: Option<EventId>,
    /// Which timeout.
    #[n(2)]
    pub timeout: ActivityTimeout,
    /// The details of the last heartbeat (D6).
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// Present when the runner was already gone when the activity was handed to it.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ActivityTimedOutCause>,
    /// How the newest try ended, where the activity waited for another.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// No runner took the activity in time (schedule to start).
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityScheduledTimeout {
    /// Its ActivityScheduled.
    #[n(0)]
    pub scheduled_event_id: EventId,
    /// How the newest try ended, where the activity waited for another.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
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

/// A decider set a timer.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// News from outside.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// What it says.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Who sent it.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The event of the other run that it comes from, if one decided it.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A decider's note to itself.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// The note.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A note could not be recorded.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MarkerFailed {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// Why.
    #[n(1)]
    pub cause: MarkerFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// The timeouts of an activity: four, independent of each other (S3.34). An absent one does not apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTimeouts {
    /// From ActivityScheduled to ActivityStarted, at most.
    #[n(0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_to_start: Option<Duration>,
    /// From ActivityStarted to the answer, at most.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_to_close: Option<Duration>,
    /// From ActivityScheduled to the answer, at most.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_to_close: Option<Duration>,
    /// From ActivityStarted or a heartbeat to the next heartbeat or the answer, at most.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    struct Strict {
        schedule_to_start: Option<Duration>,
        start_to_close: Option<Duration>,
        schedule_to_close: Option<Duration>,
        heartbeat: Option<Duration>,
    }
    let Strict { schedule_to_start, start_to_close, schedule_to_close, heartbeat } = Strict::deserialize(deserializer)?;
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

/// The timeouts of a turn (D13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderTimeout {
    /// From DeciderStarted to the answer.
    #[n(0)]
    StartToClose,
    /// From DeciderScheduled to DeciderStarted.
    #[n(1)]
    ScheduleToStart,
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
    /// The runner's connection was gone when the activity was handed to it (S3.46).
    #[n(0)]
    DeliveryFailed,
}

/// Why a turn was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum DeciderFailedCause {
    /// The decider said so.
    #[n(0)]
    Reported,
    /// The decider's connection was gone when the turn was handed to it (S3.46).
    #[n(1)]
    DeliveryFailed,
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
    /// There is news that the decider had not seen (D8).
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
}

/// Why an activity could not be asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ActivityTaskCancelFailedCause {
    /// No activity with this id is open.
    #[n(0)]
    ActivityIdUnknown,
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
}

/// Why a timer could not be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum TimerCancelFailedCause {
    /// No timer with this name is open, e.g. because it has expired.
    #[n(0)]
    TimerIdUnknown,
}

/// Why a marker could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum MarkerFailedCause {
    /// Names that begin with `baton.` are reserved.
    #[n(0)]
    NameReserved,
}
