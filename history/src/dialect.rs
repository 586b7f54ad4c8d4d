//! Special rules of SWF runs. An SWF run is started over SWF's protocol and follows SWF's rules until it closes.
//!
//! Source: SWF's API reference. Where SWF's rules differ, the rules in this crate call [`crate::RunStart::is_swf`].

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ChildPolicy;
use crate::limits;
use crate::time::Duration;

/// Task list of all Lambda tasks. In an SWF run, an activity on this list is a Lambda task. No other task list can have
/// this name, because SWF's names contain no colon.
pub const LAMBDA_LIST: &str = "lambda:";

/// Maximum length of an activity id in SWF runs, in characters. Source: SWF's limit of 256, plus the prefix of a Lambda
/// task.
pub(crate) const SWF_ACTIVITY_ID_CHARS_MAX: usize = limits::NAME_CHARS_MAX + LAMBDA_LIST.len();

/// Returns the activity id for a Lambda task with this id. The prefix keeps it distinct from other activity ids.
pub fn lambda_activity_id(id: &str) -> String {
    format!("{LAMBDA_LIST}{id}")
}

/// Returns the id of a Lambda task from its activity id, or `None` if the activity is no Lambda task.
pub fn lambda_id(activity_id: &str) -> Option<&str> {
    activity_id.strip_prefix(LAMBDA_LIST)
}

/// Additional settings of a run that was started over SWF's protocol.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfRun {
    /// Policy applied to open children when this run is terminated or times out. If the run closes in any other way,
    /// its children continue.
    #[n(0)]
    pub child_policy: ChildPolicy,
    /// Priority of the run's turns on the task list, which hands out tasks of a higher priority first; 0 when absent.
    #[n(1)]
    pub task_priority: Option<i32>,
    /// Role of the run's Lambda tasks.
    #[n(2)]
    pub lambda_role: Option<String>,
    /// Limits that apply to the run, its children and its successors.
    #[n(3)]
    pub limits: Option<SwfLimits>,
}

impl SwfRun {
    /// Returns the execution timeout, capped by the limits.
    pub fn execution_timeout(&self, wanted: Duration) -> Duration {
        self.limits.map_or(wanted, |limits| wanted.min(limits.time))
    }
}

/// Limits of an SWF run, if the service enforces SWF's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfLimits {
    /// Maximum number of events. A run that exceeds it is terminated.
    #[n(0)]
    pub events: u64,
    /// Maximum time from the start to the close.
    #[n(1)]
    pub time: Duration,
}

impl Default for SwfLimits {
    fn default() -> Self {
        Self { events: limits::SWF_EVENTS_MAX, time: limits::SWF_RUN_TIME_MAX }
    }
}

/// Settings of the successor of a run that was started over SWF's protocol. The successor inherits none of these
/// settings from this run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfSuccessor {
    /// Longest time from the start to the close.
    #[n(0)]
    pub execution_timeout: Duration,
    /// Longest time from DeciderStarted to the decider's answer.
    #[n(1)]
    pub decider_start_to_close: Duration,
    /// SWF settings.
    #[n(2)]
    pub run: SwfRun,
}
