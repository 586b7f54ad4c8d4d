//! What the service knows of what a decider's decisions name. It comes beside the decisions, never within: what a decider
//! says and what the service adds to it are told apart by their types.

use std::collections::BTreeMap;

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild};
use crate::dialect::LAMBDA_LIST;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::run::RunStart;

/// What the service knows of the type that a start or a decision names.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Registration<D> {
    /// It is not registered.
    #[default]
    Unknown,
    /// It is registered, and nothing new of it is to begin.
    Deprecated,
    /// It is registered, with these defaults.
    Known(Box<D>),
}

impl<D> Registration<D> {
    /// The defaults, where it is registered and in use.
    pub fn defaults(&self) -> Option<&D> {
        match self {
            Self::Known(defaults) => Some(defaults),
            Self::Unknown | Self::Deprecated => None,
        }
    }
}

/// Whether there is room in a domain for another open run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DomainRoom {
    /// There is, or nothing says how many there may be.
    #[default]
    Free,
    /// There is none for a child of a run over SWF's wire.
    FullForSwf,
    /// There is none.
    Full,
}

/// What the service knows of what a turn's decisions name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// The types of activities that the decisions name, by name. What is absent is not registered.
    pub activity_types: BTreeMap<String, Registration<ActivityDefaults>>,
    /// The types of children and of the run that goes on, by name. What is absent is not registered.
    pub workflow_types: BTreeMap<String, Registration<WorkflowDefaults>>,
    /// Whether there is anything that does Lambda tasks.
    pub has_functions: bool,
    /// Whether there is room in the domain for each child that the decisions start, in their order; there is for whichever
    /// is not here.
    pub rooms: Vec<DomainRoom>,
}

impl Surroundings {
    /// What is known of an activity's type. Lambda tasks have none.
    pub(crate) fn of_activity(&self, it: &ScheduleActivity) -> &Registration<ActivityDefaults> {
        if it.task_list.as_deref() == Some(LAMBDA_LIST) {
            return &Registration::Unknown;
        }
        self.activity_types.get(&it.activity_type).unwrap_or(&Registration::Unknown)
    }

    /// What is known of a child's type.
    pub(crate) fn of_child(&self, it: &StartChild) -> &Registration<WorkflowDefaults> {
        self.workflow_types.get(&it.workflow_type).unwrap_or(&Registration::Unknown)
    }

    /// What is known of the type of the run that goes on for `own`.
    pub(crate) fn of_successor(&self, it: &ContinueAsNew, own: &RunStart) -> &Registration<WorkflowDefaults> {
        let workflow_type = it.workflow_type.as_ref().unwrap_or(&own.workflow_type);
        self.workflow_types.get(workflow_type).unwrap_or(&Registration::Unknown)
    }
}
