//! Effects of other runs that a run has accepted. They are remembered so that none is applied twice.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::{EventId, Origin};

/// An effect that a run has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SeenOrigin {
    /// Event of the other run that requested the effect.
    #[n(0)]
    pub origin: Origin,
    /// Id of the event with which the accepting run recorded the effect.
    #[n(1)]
    pub event_id: EventId,
    /// Run that accepted the effect.
    #[n(2)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
}

/// Accepted effects that may still be delivered again, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct TakenEffects(#[n(0)] Vec<SeenOrigin>);

impl TakenEffects {
    /// Returns `true` if no effects are remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the accepted effect with this origin.
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

    /// Keeps only the effects for which `may_ask` returns `true`, because the other run may deliver them again. If such
    /// an effect were dropped, it could be applied twice.
    pub fn retain(&mut self, may_ask: impl FnMut(&SeenOrigin) -> bool) {
        self.0.retain(may_ask);
    }
}
