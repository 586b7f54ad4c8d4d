//! Activities that have succeeded recently, remembered to detect that a decider schedules one of them again unchanged.
//!
//! Such a decision is legal. But it often comes from a decider that mistakes its window for the whole history and
//! begins again with its first step. The remembered activities are not part of the history. Earlier versions of Baton
//! did not remember activities. If an activity succeeded while such a version was in use, its repetition is not
//! detected.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};

use crate::event::{ActivityScheduled, EventId};
use crate::limits;
use crate::mix::mix;
use crate::payload::Payload;

/// Hash of an activity's id, type and input. It is stored, so the hash function must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Fingerprint(#[n(0)] u64);

impl Fingerprint {
    /// Value with the largest encoding.
    #[cfg(test)]
    pub(crate) const LARGEST: Self = Self(u64::MAX);

    pub(crate) fn of(it: &ActivityScheduled) -> Self {
        let input = it.input.as_ref().and_then(Payload::text).unwrap_or_default();
        let parts = [it.activity_id.as_str(), it.activity_type.as_str(), input];
        Self(parts.into_iter().fold(0, |hash, part| of_text(hash, part.as_bytes())))
    }
}

/// Adds a text to the hash, eight bytes at a time. The length is hashed first, so that the texts `ab` and `c` have a
/// different hash from the texts `a` and `bc`.
fn of_text(hash: u64, text: &[u8]) -> u64 {
    let hash = mix(hash ^ (text.len() as u64).wrapping_add(1));
    text.chunks(8).fold(hash, |hash, chunk| {
        let word = chunk.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
        mix(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ word)
    })
}

/// Activities that were scheduled again after they had succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Repeated {
    /// Number of repetitions.
    #[n(0)]
    pub times: u32,
    /// Id of the newest repetition's ActivityScheduled event.
    #[n(1)]
    pub scheduled_event_id: EventId,
}

/// Activities of a run that have succeeded recently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Successes {
    /// Fingerprints of the activities, without duplicates, oldest first.
    #[n(0)]
    newest: VecDeque<Fingerprint>,
    /// Detected repetitions.
    #[n(1)]
    repeated: Option<Repeated>,
}

impl Successes {
    /// Returns `true` if nothing is remembered. The field is then not stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.repeated.is_none()
    }

    /// Returns the detected repetitions, or `None` if there were none.
    pub fn repeated(&self) -> Option<Repeated> {
        self.repeated
    }

    /// Returns the number of detected repetitions.
    pub(crate) fn times(&self) -> u32 {
        self.repeated.map_or(0, |repeated| repeated.times)
    }

    /// Forgets the activities when the run closes, but keeps the detected repetitions.
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

    /// Counts a repetition if the activity with this fingerprint has succeeded before.
    pub(crate) fn notice(&mut self, fingerprint: Fingerprint, scheduled_event_id: EventId) {
        if self.newest.contains(&fingerprint) {
            let times = self.times().saturating_add(1);
            self.repeated = Some(Repeated { times, scheduled_event_id });
        }
    }
}

#[cfg(test)]
mod tests;
