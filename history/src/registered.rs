//! Types that are registered with the service: what a start or a decision leaves out, their defaults say.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{ActivityTimeouts, ChildPolicy};
use crate::time::Duration;

/// What applies to a run whose start does not say.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDefaults {
    /// The task list of its deciders.
    pub task_list: Option<String>,
    /// From its start to its close, at most.
    pub execution_timeout: Option<Duration>,
    /// From its DeciderStarted to the answer, at most.
    pub decider_start_to_close: Option<Duration>,
    /// How its turns are preferred to others on their list: higher first.
    pub task_priority: Option<i32>,
    /// What becomes of its children when it is terminated or times out. For runs over SWF's wire.
    pub child_policy: Option<ChildPolicy>,
    /// The role of its Lambda tasks. For runs over SWF's wire.
    pub lambda_role: Option<String>,
}

impl WorkflowDefaults {
    /// The same without timeouts of zero, which earlier versions took. No run could be started with them.
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

/// What applies to an activity whose decision does not say.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivityDefaults {
    /// The task list where runners poll for it.
    pub task_list: Option<String>,
    /// Its timeouts.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub timeouts: ActivityTimeouts,
    /// How it is preferred to others on its list: higher first.
    pub task_priority: Option<i32>,
}
