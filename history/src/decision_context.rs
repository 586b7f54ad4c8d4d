//! Context that the service adds to a decider's decisions: registered types and available capacity. It is kept
//! apart from the decisions, so that the types show which data came from the decider.

use std::collections::BTreeMap;

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild};
use crate::dialect::LAMBDA_LIST;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::run::RunStart;

/// Registration of the type that a start or a decision refers to.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Registration<D> {
    /// Not registered.
    #[default]
    Unknown,
    /// Deprecated: nothing new of this type may start.
    Deprecated,
    /// Registered, with these defaults.
    Known(Box<D>),
}

impl<D> Registration<D> {
    /// Returns the defaults if the type is registered and not deprecated.
    pub fn defaults(&self) -> Option<&D> {
        match self {
            Self::Known(defaults) => Some(defaults),
            Self::Unknown | Self::Deprecated => None,
        }
    }
}

/// Capacity of a domain for another open run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DomainCapacity {
    /// Available, or there is no limit.
    #[default]
    Free,
    /// Exhausted for children of SWF runs.
    FullForSwf,
    /// Exhausted.
    Full,
}

/// Context for the decisions of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionContext {
    /// Activity types used by the decisions, by name. A missing type is not registered.
    pub activity_types: BTreeMap<String, Registration<ActivityDefaults>>,
    /// Types of children and of the successor, by name. A missing type is not registered.
    pub workflow_types: BTreeMap<String, Registration<WorkflowDefaults>>,
    /// True if the service can run Lambda tasks.
    pub has_functions: bool,
    /// Capacity of the domain for each child that the decisions start, in order. Missing entries mean that it is
    /// available.
    pub child_capacities: Vec<DomainCapacity>,
}

impl DecisionContext {
    /// Returns the registration of an activity's type. Lambda tasks have none.
    pub(crate) fn of_activity(&self, it: &ScheduleActivity) -> &Registration<ActivityDefaults> {
        if it.task_list.as_deref() == Some(LAMBDA_LIST) {
            return &Registration::Unknown;
        }
        self.activity_types.get(&it.activity_type).unwrap_or(&Registration::Unknown)
    }

    /// Returns the registration of a child's type.
    pub(crate) fn of_child(&self, it: &StartChild) -> &Registration<WorkflowDefaults> {
        self.workflow_types.get(&it.workflow_type).unwrap_or(&Registration::Unknown)
    }

    /// Returns the registration of the type of the successor of the run with start attributes `own`.
    pub(crate) fn of_successor(&self, it: &ContinueAsNew, own: &RunStart) -> &Registration<WorkflowDefaults> {
        let workflow_type = it.workflow_type.as_ref().unwrap_or(&own.workflow_type);
        self.workflow_types.get(workflow_type).unwrap_or(&Registration::Unknown)
    }
}
