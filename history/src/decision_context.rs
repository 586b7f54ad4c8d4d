//! Information that the service adds to a decider's decisions: registered types and available capacity. Separate types
//! ensure that this information cannot be confused with data from the decider.

use std::collections::BTreeMap;

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild};
use crate::dialect::LAMBDA_LIST;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::run::RunStart;

/// Registration of the workflow or activity type that a start or a decision names.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Registration<D> {
    /// Not registered.
    #[default]
    Unknown,
    /// Registered, but deprecated: new runs or activities of this type cannot start.
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
    /// Another run may start.
    #[default]
    Free,
    /// The domain is full for children of SWF runs. Other runs may start.
    FullForSwf,
    /// The domain is full.
    Full,
}

/// Context for the decisions of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionContext {
    /// Activity types used by the decisions, by name. A type without an entry is not registered.
    pub activity_types: BTreeMap<String, Registration<ActivityDefaults>>,
    /// Workflow types of children and of the successor, by name. A type without an entry is not registered.
    pub workflow_types: BTreeMap<String, Registration<WorkflowDefaults>>,
    /// True if the service can run Lambda tasks.
    pub has_functions: bool,
    /// Capacity of the domain for each child that the decisions start, in order. If entries are missing, the domain has
    /// capacity.
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

    /// Returns the registration of the successor's workflow type. If the decision names no type, the successor has the
    /// type of the current run, whose start attributes are `own`.
    pub(crate) fn of_successor(&self, it: &ContinueAsNew, own: &RunStart) -> &Registration<WorkflowDefaults> {
        let workflow_type = it.workflow_type.as_ref().unwrap_or(&own.workflow_type);
        self.workflow_types.get(workflow_type).unwrap_or(&Registration::Unknown)
    }
}
