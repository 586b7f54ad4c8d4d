//! Decisions: the requests with which a decider answers a turn.

use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::bounded;
use crate::event::{ActivityTimeouts, ChildPolicy, CloseDecision};
use crate::ids::{NamedRun, ReusePolicy};
use crate::limits::TAGS_MAX;
use crate::payload::{self, Payload};
use crate::retry::RetryPolicy;
use crate::tagged::{self, Tagged};
use crate::time::Duration;

macro_rules! decisions {
    ($( $(#[doc = $doc:literal])+ $name:ident; )+) => {
        /// A decider's request. Its JSON form is one flat object with a `type` field. Unknown fields are rejected.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "type")]
        pub enum Decision {
            $( $(#[doc = $doc])+ $name($name), )+
        }

        $(
            impl From<$name> for Decision {
                fn from(decision: $name) -> Self {
                    Self::$name(decision)
                }
            }
        )+

        impl Decision {
            /// Names of all decisions.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// Returns the name, which is `type` in JSON.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )+ }
            }
        }

        impl Tagged for Decision {
            fn variant<'de, A: MapAccess<'de>>(name: &str, map: A) -> Result<Self, A::Error> {
                let read = match name {
                    $( stringify!($name) => tagged::attributes(map).map(Self::$name), )+
                    other => {
                        let known = Self::NAMES.join("`, `");
                        return Err(A::Error::custom(format_args!(
                            "unknown decision type `{other}`, expected one of `{known}`"
                        )));
                    }
                };
                read.map_err(|error| A::Error::custom(format_args!("decision `{name}`: {error}")))
            }
        }
    };
}

decisions! {
    /// Schedule an activity for a runner.
    ScheduleActivity;
    /// Request the cancellation of an open activity.
    CancelActivity;
    /// Set a timer.
    StartTimer;
    /// Cancel an open timer.
    CancelTimer;
    /// Record a marker, which is a value in the history.
    RecordMarker;
    /// Start a child, which is another run with this run as its parent.
    StartChild;
    /// Send a signal to another run.
    SignalExternal;
    /// Send a cancel request to another run.
    CancelExternal;
    /// Close the run as successful. A decision that closes the run must be the last decision of its turn.
    SucceedWorkflow;
    /// Close the run as failed.
    FailWorkflow;
    /// Close the run as canceled.
    CancelWorkflow;
    /// Close the run and continue it in a new run with a fresh history.
    ContinueAsNew;
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer).map(|((), decision)| decision)
    }
}

/// Schedules an activity for a runner.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleActivity {
    /// Activity id, unique among the run's open activities. 1 to 256 characters.
    pub activity_id: String,
    /// Activity type. 1 to 256 characters.
    pub activity_type: String,
    /// Task list on which the activity waits for a runner. When absent, the default task list of the activity type or,
    /// if the type has none, the task list of the run.
    pub task_list: Option<String>,
    /// Input for the runner, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Timeouts of the activity. For an absent timeout, the default of the activity type applies or, if the type has
    /// none, the default of the run.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub timeouts: ActivityTimeouts,
    /// Retry policy of the activity. When absent, the activity is not retried.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// Text that the service stores with the event for later use by the decider. At most 128 KiB.
    pub control: Option<String>,
    /// Priority of the activity. Its task list hands out tasks of a higher priority first. When absent, the priority of
    /// the activity type, or 0.
    pub task_priority: Option<i32>,
    /// Concurrency key, for example the name of a customer. The task list can limit how many tasks with the same key
    /// run at once, and it hands out the tasks of different keys in rotation. When absent, the key of the run. 1 to 256
    /// characters.
    pub concurrency_key: Option<String>,
}

/// Asks an open activity to stop. Its runner receives the request with its next heartbeat, or at once if a heartbeat
/// waits. An activity that has not started is canceled at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelActivity {
    /// Id of the activity.
    pub activity_id: String,
}

/// Sets a timer.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartTimer {
    /// Timer id, unique among the run's open timers. 1 to 256 characters.
    pub timer_id: String,
    /// Time until the timer expires, at most ten years. With zero, the timer expires at once.
    pub after: Duration,
    /// Text that the service stores with the event for later use by the decider. At most 128 KiB.
    pub control: Option<String>,
}

/// Cancels an open timer, which then never expires.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelTimer {
    /// Timer id.
    pub timer_id: String,
}

/// Records a marker.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordMarker {
    /// Name of the marker. Names that begin with `baton.` are reserved. 1 to 256 characters.
    pub name: String,
    /// Payload of the marker, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
}

/// Additional settings of a child or a successor that a run over SWF's protocol starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SwfSettings {
    /// Longest time from the start to the close of the new run. Not used for a child: `StartChild` has a separate
    /// field.
    pub execution_timeout: Option<Duration>,
    /// Longest time from DeciderStarted to the answer in the new run. Not used for a child: `StartChild` has a separate
    /// field.
    pub decider_start_to_close: Option<Duration>,
    /// Policy applied to the new run's children when the new run is terminated or times out.
    pub child_policy: Option<ChildPolicy>,
    /// Priority of the new run's turns.
    pub task_priority: Option<i32>,
    /// Role of the new run's Lambda tasks.
    pub lambda_role: Option<String>,
}

/// Starts a child: a separate run in the same domain whose outcome is reported to this run. The child starts exactly
/// once, or a failure with its cause is recorded. If the task list or the timeout `decider_start_to_close` is absent,
/// the default of the workflow type applies or, if the type has none, the value of this run. If another timeout of
/// turns or activities, the retention or the concurrency key is absent, the value of this run applies.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartChild {
    /// Workflow id of the child. 1 to 256 characters.
    pub workflow_id: String,
    /// Workflow type of the child. 1 to 256 characters.
    pub workflow_type: String,
    /// Task list of the child's deciders. When absent, the default of the child's workflow type or, if the type has
    /// none, the task list of this run.
    pub task_list: Option<String>,
    /// Input of the child, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Longest time from the start to the close of the child, including all of its successors. When absent, the default
    /// of the child's workflow type, or one year.
    pub execution_timeout: Option<Duration>,
    /// Longest time from DeciderStarted to the decider's answer in a turn of the child. When absent, the default of the
    /// child's workflow type or, if the type has none, the value of this run.
    pub decider_start_to_close: Option<Duration>,
    /// Longest time from DeciderScheduled to DeciderStarted in a turn of the child. When absent, the value of this run.
    pub decider_schedule_to_start: Option<Duration>,
    /// Default timeouts of the child's activities. For an absent timeout, the value of this run applies.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Vec<String>,
    /// Time for which the child stays readable after its close. When absent, the retention of this run.
    pub retention: Option<Duration>,
    /// Policy that decides whether the child may be started if a closed run has the same workflow id.
    #[serde(default)]
    pub reuse_policy: ReusePolicy,
    /// Effect on the child if this run closes before the child.
    #[serde(default)]
    pub child_policy: ChildPolicy,
    /// Longest time from the start to the close of a single run of the child; unlimited when absent. Each retry
    /// and each successor gets the full time.
    pub run_timeout: Option<Duration>,
    /// Retry policy of the child. When absent, the child is not retried. This run gets an event only for the outcome of
    /// the last attempt.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// Text that the service stores with the event for later use by the decider. At most 128 KiB.
    pub control: Option<String>,
    /// Concurrency key of the child's tasks. When absent, the key of this run. 1 to 256 characters.
    pub concurrency_key: Option<String>,
    /// Additional settings, only in runs over SWF's protocol.
    #[serde(skip)]
    pub swf: SwfSettings,
}

/// Sends a signal to another run of the same domain. The signal is delivered exactly once, or a failure with its cause
/// is recorded.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalExternal {
    /// Workflow id of the other run. 1 to 256 characters.
    pub workflow_id: String,
    /// Run id of the other run. When absent, the newest run of the workflow id.
    #[serde(default, deserialize_with = "NamedRun::by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<uuid::Uuid>"))]
    pub run_id: Option<NamedRun>,
    /// Name of the signal. 1 to 256 characters.
    pub name: String,
    /// Payload of the signal, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Text that the service stores with the event for later use by the decider. At most 128 KiB.
    pub control: Option<String>,
}

/// Asks another run of the same domain to cancel. The decider of the other run chooses how to react.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelExternal {
    /// Workflow id of the other run. 1 to 256 characters.
    pub workflow_id: String,
    /// Run id of the other run. When absent, the newest run of the workflow id.
    #[serde(default, deserialize_with = "NamedRun::by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<uuid::Uuid>"))]
    pub run_id: Option<NamedRun>,
    /// Reason, for people. At most 256 characters.
    pub reason: Option<String>,
    /// Text that the service stores with the event for later use by the decider. At most 128 KiB.
    pub control: Option<String>,
}

/// Closes the run as successful.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SucceedWorkflow {
    /// Result of the run, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// If `true`, closes the run even if new events were recorded after this turn started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Closes the run as failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailWorkflow {
    /// Failure code, for programs. 1 to 256 characters.
    pub reason: String,
    /// True if `reason` was sent as an empty string, false if it was not sent. Only in runs over SWF's protocol.
    #[serde(skip)]
    pub has_empty_reason: bool,
    /// Failure details, for people and programs. At most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// If `true`, closes the run even if new events were recorded after this turn started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Closes the run as canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelWorkflow {
    /// Details of the cancellation, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// If `true`, closes the run even if new events were recorded after this turn started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Closes the run and continues it in a new run with the same workflow id and a fresh history. The execution timeout
/// covers both runs. Absent fields take this run's values, except the input.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContinueAsNew {
    /// Input of the new run, at most 256 KiB. When absent, the new run has no input.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Workflow type of the new run. When absent, the workflow type of this run.
    pub workflow_type: Option<String>,
    /// Task list of the new run's deciders. When absent, the task list of this run's start.
    pub task_list: Option<String>,
    /// Tags of the new run. When absent, the tags of this run.
    #[serde(default, deserialize_with = "bounded::optional_list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// If `true`, closes the run even if new events were recorded after this turn started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Additional settings, only in runs over SWF's protocol.
    #[serde(skip)]
    pub swf: SwfSettings,
}

/// Close requested by a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// Kind of close.
    pub decision: CloseDecision,
    /// True if the run closes even if new events were recorded after the turn started.
    pub is_forced: bool,
}

impl Decision {
    /// Returns how the decision closes the run, or `None` if it does not.
    pub fn closes(&self) -> Option<Closing> {
        match self {
            Self::SucceedWorkflow(it) => {
                Some(Closing { decision: CloseDecision::SucceedWorkflow, is_forced: it.force })
            }
            Self::FailWorkflow(it) => Some(Closing { decision: CloseDecision::FailWorkflow, is_forced: it.force }),
            Self::CancelWorkflow(it) => Some(Closing { decision: CloseDecision::CancelWorkflow, is_forced: it.force }),
            Self::ContinueAsNew(it) => Some(Closing { decision: CloseDecision::ContinueAsNew, is_forced: it.force }),
            Self::ScheduleActivity(_)
            | Self::CancelActivity(_)
            | Self::StartTimer(_)
            | Self::CancelTimer(_)
            | Self::RecordMarker(_)
            | Self::StartChild(_)
            | Self::SignalExternal(_)
            | Self::CancelExternal(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_reads_what_it_writes() {
        let text = concat!(
            r#"{"type":"ScheduleActivity","activityId":"a","activityType":"A","input":{"n": 1.0},"#,
            r#""timeouts":{"heartbeat":"PT5S"}}"#,
        );
        let decision: Decision = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&decision).unwrap(), text);
    }

    #[test]
    fn a_malformed_decision_is_refused_with_the_mistake() {
        let cases = [
            (r#"{"type":"ShipIt"}"#, "unknown decision type `ShipIt`"),
            (r#"{"timerId":"t"}"#, "missing field `type`"),
            (r#"{"type":"StartTimer","timerId":"t"}"#, "decision `StartTimer`: missing field `after`"),
            (r#"{"type":"StartTimer","timerId":"t","after":1,"at":2}"#, "unknown field `at`"),
            (r#"{"type":"StartTimer","timerId":"t","after":1,"after":2}"#, "duplicate field `after`"),
            (
                r#"{"type":"ScheduleActivity","activityId":"a","activityType":"A","timeouts":{"heartBeat":1}}"#,
                "unknown field `heartBeat`",
            ),
            (r#"{"type":"CancelTimer","timerId":7}"#, "invalid type: integer `7`"),
            ("[]", "an object with a `type`"),
        ];
        for (text, expected) in cases {
            let error = serde_json::from_str::<Decision>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
