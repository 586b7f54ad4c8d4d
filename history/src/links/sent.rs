//! To which polls the started tasks of a run went, so that a poll whose answer was lost gets its task again, and nobody
//! else's.

use minicbor::{Decode, Encode};

use crate::event::EventId;

/// One try of a poll, hashed to 64 bits with the list that it asks. No two tries of polls share one, so it names where a
/// task went as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct PollId(#[n(0)] pub u64);

impl PollId {
    /// The same try for one slot of several, each of which takes a task of its own.
    #[must_use]
    pub fn of_slot(self, slot: u32) -> Self {
        // SplitMix64: every bit of both changes about half of the result's. Source: Steele, Lea and Flood, "Fast Splittable
        // Pseudorandom Number Generators", 2014.
        let mixed = self.0.wrapping_add(u64::from(slot).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(mixed ^ (mixed >> 31))
    }
}

/// Started tasks that went to polls with an id, by the event that scheduled each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Sent(#[n(0)] Vec<(EventId, PollId)>);

impl Sent {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// To which poll this task went.
    pub fn poll_of(&self, scheduled_event_id: EventId) -> Option<PollId> {
        self.0.iter().find(|(id, _)| *id == scheduled_event_id).map(|(_, poll)| *poll)
    }

    /// Each task, and to which poll it went.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (EventId, PollId)> {
        self.0.iter().copied()
    }

    /// It went there now, or to a poll without an id.
    pub(crate) fn send(&mut self, scheduled_event_id: EventId, poll: Option<PollId>) {
        self.0.retain(|(id, _)| *id != scheduled_event_id);
        self.0.extend(poll.map(|poll| (scheduled_event_id, poll)));
    }

    pub(crate) fn retain(&mut self, mut is_started: impl FnMut(EventId) -> bool) {
        self.0.retain(|(id, _)| is_started(*id));
    }
}
