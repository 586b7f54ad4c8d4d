//! A run that branched off the history of another.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::EventId;

/// Where a run comes from that began with the history of another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Branched {
    /// Its WorkflowReset.
    #[n(0)]
    pub event_id: EventId,
    /// The other run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// The last of that one's events that this one has.
    #[n(2)]
    pub base_event_id: EventId,
    /// The other run's workflow id, where that is another one.
    #[n(3)]
    pub workflow_id: Option<String>,
}
