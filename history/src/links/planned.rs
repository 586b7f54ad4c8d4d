//! A planned reset: the run that continues in place of another.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::{Event, EventKind, OperatorAction, RequestKey, ResetPlan};
use crate::time::Timestamp;

/// A reset that was accepted, with everything needed to create the new run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlannedReset {
    /// Run that continues, and the event from which it does.
    #[n(0)]
    pub plan: ResetPlan,
    /// Operator, and the reason.
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
