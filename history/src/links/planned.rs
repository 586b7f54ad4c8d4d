//! A planned reset: a new run continues in place of a closed run.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::{Event, EventKind, OperatorAction, RequestKey, ResetPlan};
use crate::time::Timestamp;

/// An accepted reset, with everything needed to create the new run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlannedReset {
    /// Ids of the new run and of the event from which it continues.
    #[n(0)]
    pub plan: ResetPlan,
    /// Identity of the operator, and the reason.
    #[n(1)]
    pub operator: OperatorAction,
    /// Time of the request.
    #[n(2)]
    pub at: Timestamp,
    /// Idempotency key of the request.
    #[n(3)]
    pub key: Option<RequestKey>,
    /// Name of the operator's credential.
    #[n(4)]
    pub by: Option<CallerName>,
}

impl PlannedReset {
    /// Returns the plan recorded in the event that closed an open run for a reset.
    pub fn of(closing: &Event) -> Option<Self> {
        let EventKind::WorkflowTerminated(it) = &closing.kind else { return None };
        let operator = OperatorAction { identity: it.identity.clone(), reason: it.reason.clone() };
        it.reset.map(|plan| Self { plan, operator, at: closing.at(), key: closing.key, by: closing.by.clone() })
    }
}
