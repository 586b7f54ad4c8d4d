//! The newest activities of a run that succeeded, so that one which is scheduled again unchanged is noticed.
//!
//! Such a decision is legal. More often than not it comes from a decider that takes its window for the whole history
//! and begins again at its first step. The memory is state beside the history: a run that an earlier version wrote
//! has none of its older successes, and then nothing is noticed.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};

use crate::event::{ActivityScheduled, EventId};
use crate::limits;
use crate::mix::mix;
use crate::payload::Payload;

/// A hash of an activity's id, its type and its input. Stored, so it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Fingerprint(#[n(0)] u64);

impl Fingerprint {
    /// The one that takes the most bytes.
    #[cfg(test)]
    pub(crate) const LARGEST: Self = Self(u64::MAX);

    pub(crate) fn of(it: &ActivityScheduled) -> Self {
        let input = it.input.as_ref().and_then(Payload::text).unwrap_or_default();
        let parts = [it.activity_id.as_str(), it.activity_type.as_str(), input];
        Self(parts.into_iter().fold(0, |hash, part| of_text(hash, part.as_bytes())))
    }
}

/// Adds a text and its length, eight bytes at a time, so that no text begins where another ends.
fn of_text(hash: u64, text: &[u8]) -> u64 {
    let hash = mix(hash ^ (text.len() as u64).wrapping_add(1));
    text.chunks(8).fold(hash, |hash, chunk| {
        let word = chunk.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
        mix(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ word)
    })
}

/// Activities that were scheduled although they had succeeded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Repeated {
    /// How many times.
    #[n(0)]
    pub times: u32,
    /// The ActivityScheduled of the newest one.
    #[n(1)]
    pub scheduled_event_id: EventId,
}

/// Memory of the newest successes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Successes {
    /// Oldest first, each once.
    #[n(0)]
    newest: VecDeque<Fingerprint>,
    /// What was scheduled again.
    #[n(1)]
    repeated: Option<Repeated>,
}

impl Successes {
    /// Whether nothing has succeeded: then no byte is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.repeated.is_none()
    }

    /// What was scheduled although it had succeeded before.
    pub fn repeated(&self) -> Option<Repeated> {
        self.repeated
    }

    /// How many times an activity was scheduled that had succeeded before.
    pub(crate) fn times(&self) -> u32 {
        self.repeated.map_or(0, |repeated| repeated.times)
    }

    /// Nothing is scheduled any more: only what was repeated is of interest.
    pub(crate) fn close(&mut self) {
        self.newest.clear();
    }

    pub(crate) fn remember(&mut self, fingerprint: Fingerprint) {
        self.newest.retain(|known| *known != fingerprint);
        if self.newest.len() >= limits::SUCCESSES_REMEMBERED_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(fingerprint);
    }

    /// Counts it if the same has succeeded before.
    pub(crate) fn notice(&mut self, fingerprint: Fingerprint, scheduled_event_id: EventId) {
        if self.newest.contains(&fingerprint) {
            let times = self.times().saturating_add(1);
            self.repeated = Some(Repeated { times, scheduled_event_id });
        }
    }
}

#[cfg(test)]
mod tests;
