//! Decisions: the imperatives a decider answers a turn with.

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
        /// What a decider wants done. In JSON one flat object, told apart by `type`; unknown fields are refused.
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
            /// Every name.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// The name, as in JSON's `type`.
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
    /// Have an activity done by a runner.
    ScheduleActivity;
    /// Ask for an open activity to be stopped.
    CancelActivity;
    /// Set a timer.
    StartTimer;
    /// Take an open timer back.
    CancelTimer;
    /// Record a note.
    RecordMarker;
    /// Start a child.
    StartChild;
    /// Signal another run.
    SignalExternal;
    /// Ask another run to cancel.
    CancelExternal;
    /// Close the run as done. Must be the last decision of its turn, like every closing decision.
    SucceedWorkflow;
    /// Close the run as failed.
    FailWorkflow;
    /// Close the run as canceled.
    CancelWorkflow;
    /// Close the run, and go on in a new one with a history of its own.
    ContinueAsNew;
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer).map(|((), decision)| decision)
    }
}

/// Have an activity done by a runner.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleActivity {
    /// Your name for it, unique among the run's open activities. 1 to 256 characters.
    pub activity_id: String,
    /// What to do. 1 to 256 characters.
    pub activity_type: String,
    /// The task list where runners poll for it; the run's own list when absent.
    pub task_list: Option<String>,
    /// The input, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Its timeouts; an absent one is that of the run's start.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub timeouts: ActivityTimeouts,
    /// Whether and when it is tried again after a failure or a timeout; never when absent.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// A note, which comes back with the event. At most 128 KiB.
    pub control: Option<String>,
    /// How it is preferred to others on its list: higher first; that of its type, else 0, when absent.
    pub task_priority: Option<i32>,
}

/// Ask for an open activity to be stopped. Its runner learns of it with its next heartbeat; one that has not started is
/// canceled at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelActivity {
    /// The id it was scheduled with.
    pub activity_id: String,
}

/// Set a timer.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartTimer {
    /// Its name, unique among the run's open timers. 1 to 256 characters.
    pub timer_id: String,
    /// How long from now; zero expires at once. At most ten years.
    pub after: Duration,
    /// A note, which comes back with the event. At most 128 KiB.
    pub control: Option<String>,
}

/// Take an open timer back: it will not expire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelTimer {
    /// Its name.
    pub timer_id: String,
}

/// Record a note.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordMarker {
    /// Its name; names that begin with `baton.` are reserved. 1 to 256 characters.
    pub name: String,
    /// The note, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
}

/// What a decision in a run over SWF's wire says of the run that it starts, beside what others say too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SwfSettings {
    /// From its start to its close, at most. Of the run that goes on; a child has it in a field of its own.
    pub execution_timeout: Option<Duration>,
    /// From its DeciderStarted to the answer, at most. Of the run that goes on.
    pub decider_start_to_close: Option<Duration>,
    /// What becomes of its children when it is terminated or times out.
    pub child_policy: Option<ChildPolicy>,
    /// How its turns are preferred.
    pub task_priority: Option<i32>,
    /// The role of its Lambda tasks.
    pub lambda_role: Option<String>,
}

/// Start a child: a run of its own in the same domain, which tells this one how it closed. It is started exactly once, or
/// the reason why not is recorded. What is absent is as it is for this run.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartChild {
    /// Its workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// Its workflow type. 1 to 256 characters.
    pub workflow_type: String,
    /// The task list of its deciders.
    pub task_list: Option<String>,
    /// Its input, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// From its start to its close, at most; a year when absent.
    pub execution_timeout: Option<Duration>,
    /// From its DeciderStarted to the answer, at most.
    pub decider_start_to_close: Option<Duration>,
    /// From its DeciderScheduled to DeciderStarted, at most.
    pub decider_schedule_to_start: Option<Duration>,
    /// What applies to its activities whose decisions do not say.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Vec<String>,
    /// How long it stays readable after it closed.
    pub retention: Option<Duration>,
    /// Whether the id of a closed run may be used again.
    #[serde(default)]
    pub reuse_policy: ReusePolicy,
    /// What becomes of it when this run closes first.
    #[serde(default)]
    pub child_policy: ChildPolicy,
    /// From start to close of one run, at most; unlimited when absent.
    pub run_timeout: Option<Duration>,
    /// Whether and when it is tried again after it failed or took too long; never when absent. This run hears of the last
    /// try alone.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// A note, which comes back with the event. At most 128 KiB.
    pub control: Option<String>,
    /// In runs over SWF's wire: settings that others do not have.
    #[serde(skip)]
    pub swf: SwfSettings,
}

/// Signal another run of the same domain. It has the signal exactly once, or the reason why not is recorded.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalExternal {
    /// Its workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// The run; the newest one when absent.
    #[serde(default, deserialize_with = "NamedRun::by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<uuid::Uuid>"))]
    pub run_id: Option<NamedRun>,
    /// The signal's name. 1 to 256 characters.
    pub name: String,
    /// What it says, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// A note, which comes back with the event. At most 128 KiB.
    pub control: Option<String>,
}

/// Ask another run of the same domain to cancel; its decider chooses what that means.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelExternal {
    /// Its workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// The run; the newest one when absent.
    #[serde(default, deserialize_with = "NamedRun::by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<uuid::Uuid>"))]
    pub run_id: Option<NamedRun>,
    /// Why. At most 256 characters.
    pub reason: Option<String>,
    /// A note, which comes back with the event. At most 128 KiB.
    pub control: Option<String>,
}

/// Close the run as done.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SucceedWorkflow {
    /// The result, at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// Close even if there is news that this turn has not seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Close the run as failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailWorkflow {
    /// Why, for programs. 1 to 256 characters.
    pub reason: String,
    /// In runs over SWF's wire: whether an empty `reason` is given rather than none.
    #[serde(skip)]
    pub has_empty_reason: bool,
    /// Why, for people and programs; at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Close even if there is news that this turn has not seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Close the run as canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelWorkflow {
    /// What was done; at most 256 KiB.
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Close even if there is news that this turn has not seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Close the run, and go on in a new one of the same workflow id, with a history of its own. The execution timeout
/// goes on; everything that is not said here is as it was.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContinueAsNew {
    /// The new run's input, at most 256 KiB; none when absent.
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Its workflow type; this run's when absent.
    pub workflow_type: Option<String>,
    /// The task list of its deciders; this run's when absent.
    pub task_list: Option<String>,
    /// Its tags; this run's when absent.
    #[serde(default, deserialize_with = "bounded::optional_list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Close even if there is news that this turn has not seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// In runs over SWF's wire: settings that others do not have.
    #[serde(skip)]
    pub swf: SwfSettings,
}

impl Decision {
    /// Which closing decision this is, and whether it is forced; `None` when it does not close the run.
    pub fn closes(&self) -> Option<(CloseDecision, bool)> {
        match self {
            Self::SucceedWorkflow(it) => Some((CloseDecision::SucceedWorkflow, it.force)),
            Self::FailWorkflow(it) => Some((CloseDecision::FailWorkflow, it.force)),
            Self::CancelWorkflow(it) => Some((CloseDecision::CancelWorkflow, it.force)),
            Self::ContinueAsNew(it) => Some((CloseDecision::ContinueAsNew, it.force)),
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
        let text = r#"{"type":"ScheduleActivity","activityId":"a","activityType":"A","input":{"n": 1.0},"timeouts":{"heartbeat":"PT5S"}}"#;
        let decision: Decision = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&decision).unwrap(), text);
    }

    #[test]
    fn a_wrong_decision_is_refused_with_what_is_wrong() {
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
