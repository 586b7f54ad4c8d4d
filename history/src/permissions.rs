//! What a decider may decide, where its credential says so. The rule alone: whose credential it is, others know.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::decision::Decision;
use crate::run::RunStart;
use crate::surroundings::Surroundings;

/// What a decider may decide. What is absent is not limited; a list that is empty allows nothing of its kind.
///
/// A type is named with its version, `charge/2`, or without, which is every version.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Permissions {
    /// Decisions by their names.
    pub decisions: Option<Vec<String>>,
    /// Task lists on which it has activities, children, runs that go on and later turns wait. A run that goes on may keep its
    /// own.
    pub task_lists: Option<Vec<String>>,
    /// Types of activities.
    pub activity_types: Option<Vec<String>>,
    /// Types of children, and of runs that go on; these may keep their own.
    pub child_types: Option<Vec<String>>,
}

fn has(allowed: Option<&Vec<String>>, name: &str) -> bool {
    allowed.is_none_or(|allowed| allowed.iter().any(|entry| entry == name))
}

fn has_type(allowed: Option<&Vec<String>>, full: &str) -> bool {
    let name = full.split('/').next().unwrap_or(full);
    has(allowed, full) || has(allowed, name)
}

impl Permissions {
    /// Whether nothing is limited.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether turns may wait on this list.
    pub fn allows_list(&self, list: &str) -> bool {
        has(self.task_lists.as_ref(), list)
    }

    /// Whether a decider of this run may decide this, in these surroundings.
    pub fn allows(&self, decision: &Decision, own: &RunStart, around: &Surroundings) -> bool {
        let is_listed = |list: Option<&String>| self.allows_list(list.unwrap_or(&own.task_list));
        has(self.decisions.as_ref(), decision.name())
            && match decision {
                Decision::ScheduleActivity(it) => {
                    let defaults = around.of_activity(it).defaults();
                    let list = it.task_list.as_ref().or_else(|| defaults.and_then(|it| it.task_list.as_ref()));
                    has_type(self.activity_types.as_ref(), &it.activity_type) && is_listed(list)
                }
                Decision::StartChild(it) => {
                    let defaults = around.of_child(it).defaults();
                    let list = it.task_list.as_ref().or_else(|| defaults.and_then(|it| it.task_list.as_ref()));
                    has_type(self.child_types.as_ref(), &it.workflow_type) && is_listed(list)
                }
                Decision::ContinueAsNew(it) => {
                    let to = it.workflow_type.as_ref().filter(|to| **to != own.workflow_type);
                    let list = it.task_list.as_ref().filter(|list| **list != own.task_list);
                    to.is_none_or(|to| has_type(self.child_types.as_ref(), to))
                        && list.is_none_or(|list| self.allows_list(list))
                }
                Decision::CancelActivity(_)
                | Decision::StartTimer(_)
                | Decision::CancelTimer(_)
                | Decision::RecordMarker(_)
                | Decision::SignalExternal(_)
                | Decision::CancelExternal(_)
                | Decision::SucceedWorkflow(_)
                | Decision::FailWorkflow(_)
                | Decision::CancelWorkflow(_) => true,
            }
    }
}
