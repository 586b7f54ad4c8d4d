//! Origin of a run whose history was copied from another run in a reset.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::EventId;

/// Origin of a run whose history was copied from another run in a reset.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Branched {
    /// Id of the WorkflowReset event.
    #[n(0)]
    pub event_id: EventId,
    /// Id of the run whose history was copied.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the last copied event.
    #[n(2)]
    pub base_event_id: EventId,
    /// Workflow id of the run whose history was copied, if it differs from this run's.
    #[n(3)]
    pub workflow_id: Option<String>,
}
