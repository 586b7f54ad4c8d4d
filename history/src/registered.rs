//! Registered types, and the defaults that they provide for starts and decisions.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{ActivityTimeouts, ChildPolicy};
use crate::time::Duration;

/// Defaults for runs of a workflow type.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDefaults {
    /// Task list of the runs' deciders.
    pub task_list: Option<String>,
    /// Longest time from the start to the close.
    pub execution_timeout: Option<Duration>,
    /// Longest time from DeciderStarted to the decider's answer.
    pub decider_start_to_close: Option<Duration>,
    /// Priority of the runs' turns: higher first.
    pub task_priority: Option<i32>,
    /// Policy applied to a run's children when the run is terminated or times out. Only for SWF runs.
    pub child_policy: Option<ChildPolicy>,
    /// Role of the run's Lambda tasks. Only for SWF runs.
    pub lambda_role: Option<String>,
}

impl WorkflowDefaults {
    /// Removes timeouts of zero. Earlier versions accepted them, but no run can start with them.
    #[must_use]
    pub fn without_zero_timeouts(self) -> Self {
        let is_some_time = |timeout: &Duration| *timeout > Duration::ZERO;
        Self {
            execution_timeout: self.execution_timeout.filter(is_some_time),
            decider_start_to_close: self.decider_start_to_close.filter(is_some_time),
            ..self
        }
    }
}

/// Defaults for activities of a type.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivityDefaults {
    /// Task list that runners poll.
    pub task_list: Option<String>,
    /// Timeouts.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub timeouts: ActivityTimeouts,
    /// Priority on the task list: higher first.
    pub task_priority: Option<i32>,
}
