//! Decisions permitted by a decider's credential. The service determines the credential.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::decision::Decision;
use crate::decision_context::DecisionContext;
use crate::run::RunStart;

/// Permissions of a decider. An absent list allows everything; an empty list allows nothing.
///
/// A type is listed with its version, as in `charge/2`, or without a version. Without a version, it covers all
/// versions.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Permissions {
    /// Names of permitted decisions.
    pub decisions: Option<Vec<String>>,
    /// Permitted task lists for activities, children, successors and later turns. A successor may always keep the list
    /// of the run that it continues.
    pub task_lists: Option<Vec<String>>,
    /// Permitted activity types.
    pub activity_types: Option<Vec<String>>,
    /// Permitted workflow types of children and successors. A successor may always keep the type of the run that it
    /// continues.
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
    /// Returns `true` if nothing is restricted.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if turns may wait on this list.
    pub fn allows_list(&self, list: &str) -> bool {
        has(self.task_lists.as_ref(), list)
    }

    /// Returns `true` if an activity of this type may be scheduled on this list.
    pub fn allows_activity(&self, activity_type: &str, list: &str) -> bool {
        has(self.decisions.as_ref(), "ScheduleActivity")
            && has_type(self.activity_types.as_ref(), activity_type)
            && self.allows_list(list)
    }

    /// Returns `true` if a decider may make this decision. `own` has the start attributes of the decider's run.
    pub fn allows(&self, decision: &Decision, own: &RunStart, context: &DecisionContext) -> bool {
        let is_listed = |list: Option<&String>| self.allows_list(list.unwrap_or(&own.task_list));
        has(self.decisions.as_ref(), decision.name())
            && match decision {
                Decision::ScheduleActivity(it) => {
                    let defaults = context.of_activity(it).defaults();
                    let list = it.task_list.as_ref().or_else(|| defaults.and_then(|it| it.task_list.as_ref()));
                    has_type(self.activity_types.as_ref(), &it.activity_type) && is_listed(list)
                }
                Decision::StartChild(it) => {
                    let defaults = context.of_child(it).defaults();
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
