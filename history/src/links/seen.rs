//! What of other runs' effects a run has, so that it takes none of them twice.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::{EventId, Origin};

/// An effect that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SeenOrigin {
    /// Where it comes from.
    #[n(0)]
    pub origin: Origin,
    /// The event that it became.
    #[n(1)]
    pub event_id: EventId,
    /// The run that took it.
    #[n(2)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
}

/// Effects that were taken and that their sources may not know to have been; oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct TakenEffects(#[n(0)] Vec<SeenOrigin>);

impl TakenEffects {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What became of the effect that comes from here.
    pub fn find(&self, origin: &Origin) -> Option<&SeenOrigin> {
        self.0.iter().find(|seen| seen.origin == *origin)
    }

    /// Each of them, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SeenOrigin> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, seen: SeenOrigin) {
        self.0.push(seen);
    }

    /// Keeps only those whose source may still ask. Dropping one whose source still owes the effect would let it happen
    /// twice.
    pub fn retain(&mut self, may_ask: impl FnMut(&SeenOrigin) -> bool) {
        self.0.retain(may_ask);
    }
}
