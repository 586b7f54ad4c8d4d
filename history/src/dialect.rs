//! What is different in runs that were started over SWF's wire: they speak its dialect, from their start to their end.
//!
//! Source: SWF's API reference; where the rules differ, they ask [`crate::RunStart::is_swf`].

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ChildPolicy;
use crate::limits;
use crate::time::Duration;

/// The task list where Lambda tasks wait, of every function: in SWF's dialect an activity on it is one. SWF's own lists have
/// no colon in their names.
pub const LAMBDA_LIST: &str = "lambda:";

/// Longest name of an activity in runs over SWF's wire, in characters. Source: SWF's 256, behind the mark of a Lambda task.
pub(crate) const SWF_ACTIVITY_ID_CHARS_MAX: usize = limits::NAME_CHARS_MAX + LAMBDA_LIST.len();

/// The name of the activity that is the Lambda task with this id, apart from those of other activities.
pub fn lambda_activity_id(id: &str) -> String {
    format!("{LAMBDA_LIST}{id}")
}

/// The id of the Lambda task that this activity is, by its name.
pub fn lambda_id(activity_id: &str) -> Option<&str> {
    activity_id.strip_prefix(LAMBDA_LIST)
}

/// The settings of a run of SWF's dialect that others do not have.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfRun {
    /// What becomes of its open children when it is terminated or times out; when it closes otherwise they go on.
    #[n(0)]
    pub child_policy: ChildPolicy,
    /// How its turns are preferred to others on their list: higher first; 0 when absent.
    #[n(1)]
    pub task_priority: Option<i32>,
    /// The role of its Lambda tasks.
    #[n(2)]
    pub lambda_role: Option<String>,
    /// What it is held to, and its children and the runs that go on for it.
    #[n(3)]
    pub limits: Option<SwfLimits>,
}

impl SwfRun {
    /// How long a run with these settings is open at most that is to be open for so long.
    pub fn execution_timeout(&self, wanted: Duration) -> Duration {
        self.limits.map_or(wanted, |limits| wanted.min(limits.time))
    }
}

/// What a run of SWF's dialect is held to where the service holds such runs to SWF's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfLimits {
    /// Most events: a run with more of them is terminated.
    #[n(0)]
    pub events: u64,
    /// From its start to its close, at most.
    #[n(1)]
    pub time: Duration,
}

impl Default for SwfLimits {
    fn default() -> Self {
        Self { events: limits::SWF_EVENTS_MAX, time: limits::SWF_RUN_TIME_MAX }
    }
}

/// The settings of the run that goes on for one of SWF's dialect: none of them is that of the run before it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SwfSuccessor {
    /// From its start to its close, at most.
    #[n(0)]
    pub execution_timeout: Duration,
    /// From its DeciderStarted to the answer, at most.
    #[n(1)]
    pub decider_start_to_close: Duration,
    /// The others.
    #[n(2)]
    pub run: SwfRun,
}
