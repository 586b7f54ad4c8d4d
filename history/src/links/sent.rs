//! Polls that received the started tasks of a run. If a response is lost, its poll gets the same task again.

use minicbor::{Decode, Encode};

use crate::event::EventId;

/// Id of one attempt of a poll: a 64-bit hash of the attempt and its task list. Each attempt has a different id, so the
/// id also tells to which attempt a task was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct PollId(#[n(0)] pub u64);

impl PollId {
    /// Returns the id for one of the slots of a poll that takes several tasks.
    #[must_use]
    pub fn of_slot(self, slot: u32) -> Self {
        // SplitMix64: every input bit changes about half of the output bits. Source: Steele, Lea and Flood, "Fast
        // Splittable Pseudorandom Number Generators", 2014.
        let mixed = self.0.wrapping_add(u64::from(slot).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(mixed ^ (mixed >> 31))
    }
}

/// Started tasks that were sent to a poll with an id. Each task is identified by the id of the event that scheduled it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Sent(#[n(0)] Vec<(EventId, PollId)>);

impl Sent {
    /// Returns `true` if no task is recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the poll that received this task.
    pub fn poll_of(&self, scheduled_event_id: EventId) -> Option<PollId> {
        self.0.iter().find(|(id, _)| *id == scheduled_event_id).map(|(_, poll)| *poll)
    }

    /// Returns each task with the poll that received it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (EventId, PollId)> {
        self.0.iter().copied()
    }

    /// Records that the task was sent to this poll; `None` stands for a poll without an id.
    pub(crate) fn send(&mut self, scheduled_event_id: EventId, poll: Option<PollId>) {
        self.0.retain(|(id, _)| *id != scheduled_event_id);
        self.0.extend(poll.map(|poll| (scheduled_event_id, poll)));
    }

    pub(crate) fn retain(&mut self, mut is_started: impl FnMut(EventId) -> bool) {
        self.0.retain(|(id, _)| is_started(*id));
    }
}
