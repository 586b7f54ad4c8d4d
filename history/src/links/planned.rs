//! That another run goes on in place of one that was reset.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::{ByHand, Event, EventKind, RequestKey, ResetPlan};
use crate::time::Timestamp;

/// A reset that was decided, with all that the new run is made of.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlannedReset {
    /// Which run goes on, and from where.
    #[n(0)]
    pub plan: ResetPlan,
    /// Who did it, and why.
    #[n(1)]
    pub by_hand: ByHand,
    /// When.
    #[n(2)]
    pub at: Timestamp,
    /// The key of the request.
    #[n(3)]
    pub key: Option<RequestKey>,
    /// With what credential.
    #[n(4)]
    pub by: Option<CallerName>,
}

impl PlannedReset {
    /// The one that an open run was closed for, by its last event.
    pub fn of(closing: &Event) -> Option<Self> {
        let EventKind::WorkflowTerminated(it) = &closing.kind else { return None };
        let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
        it.reset.map(|plan| Self { plan, by_hand, at: closing.at(), key: closing.key, by: closing.by.clone() })
    }
}
