//! Effects of other runs that a run has accepted, so that none is applied twice.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::{EventId, Origin};

/// An accepted effect.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SeenOrigin {
    /// Event of the other run that requested it.
    #[n(0)]
    pub origin: Origin,
    /// Id of the event that recorded it.
    #[n(1)]
    pub event_id: EventId,
    /// Run that accepted it.
    #[n(2)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
}

/// Accepted effects that may still be delivered again, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct TakenEffects(#[n(0)] Vec<SeenOrigin>);

impl TakenEffects {
    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the record of the effect with this origin.
    pub fn find(&self, origin: &Origin) -> Option<&SeenOrigin> {
        self.0.iter().find(|seen| seen.origin == *origin)
    }

    /// Returns the accepted effects, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SeenOrigin> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, seen: SeenOrigin) {
        self.0.push(seen);
    }

    /// Keeps only the effects whose requesting run may deliver them again. Dropping an effect that is still pending
    /// there would allow it to be applied twice.
    pub fn retain(&mut self, may_ask: impl FnMut(&SeenOrigin) -> bool) {
        self.0.retain(may_ask);
    }
}
