//! Which requests of callers are known: those of the run, and those of the runs of its workflow id before it, so that whoever
//! repeats one hears what came of it the first time. State beside the history, as far as it is about other runs and about what
//! is kept elsewhere (ADR 17).
//!
//! The newest are in the state. For an older one the store keeps a [`RequestMark`]; that there are any is in the state.

use std::collections::{BTreeMap, VecDeque};

use minicbor::{Decode, Encode};
use uuid::Uuid;

use super::requests::{RequestEntry, Requests};
use crate::event::{EventId, RequestKey};
use crate::ids::RunId;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// In what the age of a request is counted.
const HOUR: Duration = Duration::from_secs(3_600);

/// Between two notes of how many marks there were at a time. Ours: it is how far off the count of requests is that were
/// forgotten too soon.
const NOTE_EVERY: Duration = HOUR.times(4);

/// What came of a request the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRequest {
    /// The run that recorded it.
    pub run_id: RunId,
    /// The first event that it caused; of an update the one that answers it.
    pub event_id: EventId,
}

/// What the store keeps of a request for which the state has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RequestMark {
    /// The run that recorded it.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// See [`KnownRequest::event_id`].
    #[n(1)]
    pub event_id: EventId,
    /// How many marks there were before it.
    #[n(2)]
    pub number: u64,
}

/// Requests that leave the state; see [`Run::spill`](crate::run::Run::spill).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spilled {
    /// What the store is to keep of each, and until when.
    pub marks: Vec<(RequestKey, RequestMark, Timestamp)>,
    /// How many older ones do not count any more, although they are not old enough to be forgotten.
    pub forgotten_early: u64,
}

/// The requests of a run before this one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Earlier {
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    run_id: Uuid,
    #[n(1)]
    began: Timestamp,
    /// Until when that run is kept, and the request that started it is known.
    #[n(2)]
    kept_until: Timestamp,
    #[n(3)]
    requests: Requests,
}

/// That the store has marks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Marked {
    /// How many there have been.
    #[n(0)]
    count: u64,
    /// When the last of them is forgotten.
    #[n(1)]
    until: Timestamp,
    /// How many there were at some times of the last day; oldest first.
    #[n(2)]
    notes: VecDeque<(Timestamp, u64)>,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct KnownRequests {
    /// The request that started the run. It is known for as long as the run is there.
    #[n(0)]
    start: Option<RequestKey>,
    /// The run's own.
    #[cbor(n(1), default, skip_if = "Requests::is_empty")]
    own: Requests,
    /// Those of the runs before it, the first of them first.
    #[cbor(n(2), default, skip_if = "VecDeque::is_empty")]
    earlier: VecDeque<Earlier>,
    #[n(3)]
    marked: Option<Box<Marked>>,
    /// What the store was asked for. Not stored.
    #[cbor(skip)]
    recalled: BTreeMap<RequestKey, KnownRequest>,
}

impl KnownRequests {
    /// Of a run that begins.
    pub(crate) fn of_start(start: Option<RequestKey>) -> Self {
        Self { start, ..Self::default() }
    }

    /// The request that started the run.
    pub fn start(&self) -> Option<RequestKey> {
        self.start
    }

    /// How many requests are in the state, beside the one that started the run.
    pub fn len(&self) -> usize {
        self.own.len() + self.earlier.iter().map(|earlier| earlier.requests.len()).sum::<usize>()
    }

    /// Whether no request is in the state, but for the one that started the run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The run's own that are in the state, each with its event; oldest first.
    pub fn own(&self) -> impl ExactSizeIterator<Item = (RequestKey, EventId)> {
        self.own.iter().map(|entry| (entry.key, entry.event_id))
    }

    /// Only what the history tells of the run at any time.
    pub(crate) fn told(&mut self) {
        *self = Self::of_start(self.start);
    }

    /// Whether the state has an entry of this request.
    fn has(&self, key: RequestKey) -> bool {
        let is_earlier = || self.earlier.iter().any(|earlier| earlier.requests.find(key).is_some());
        self.own.find(key).is_some() || self.start == Some(key) || is_earlier()
    }

    fn find(&self, key: RequestKey, run_id: RunId) -> Option<KnownRequest> {
        let own = |event_id| KnownRequest { run_id, event_id };
        let first = || self.start.filter(|start| *start == key).map(|_| own(1));
        let earlier = || {
            let found = |earlier: &Earlier| Some((earlier.run_id, earlier.requests.find(key)?));
            self.earlier.iter().rev().find_map(found).map(|(run_id, event_id)| KnownRequest { run_id, event_id })
        };
        let own_request = self.own.find(key).map(own);
        own_request.or_else(first).or_else(earlier).or_else(|| self.recalled.get(&key).copied())
    }

    /// When the newest request in the state was recorded, or the run that it started is not kept any more.
    fn newest(&self, began: Timestamp) -> Option<Timestamp> {
        let own = self.own.newest().map(|entry| recorded_by(began, entry));
        let earlier = self.earlier.iter().flat_map(|earlier| {
            let newest = earlier.requests.newest().map(|entry| recorded_by(earlier.began, entry));
            let starts = earlier.requests.iter().any(is_start);
            newest.map(|at| at.plus(limits::REQUESTS_KEPT)).into_iter().chain(starts.then_some(earlier.kept_until))
        });
        own.map(|at| at.plus(limits::REQUESTS_KEPT)).into_iter().chain(earlier).max()
    }
}

/// The first event of a run is what came of the request that started it.
fn is_start(entry: &RequestEntry) -> bool {
    entry.event_id == 1
}

/// An instant at which the request was recorded for sure.
fn recorded_by(began: Timestamp, entry: &RequestEntry) -> Timestamp {
    began.plus(HOUR.times(u64::from(entry.hours) + 1))
}

/// Whether nobody has to know a request any more.
fn is_over(began: Timestamp, kept_until: Timestamp, entry: &RequestEntry, now: Timestamp) -> bool {
    let is_old = recorded_by(began, entry).plus(limits::REQUESTS_KEPT) < now;
    is_old && !(is_start(entry) && kept_until >= now)
}

/// The key of an update: FNV-1a of its id, well mixed, which never changes: such keys are stored.
pub fn key_of_update(update_id: &str) -> RequestKey {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = b"update\0".iter().copied().chain(update_id.bytes()).fold(0xCBF2_9CE4_8422_2325, step);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    RequestKey(hash ^ (hash >> 31))
}

impl KnownRequests {
    /// Counts one more mark.
    fn mark(
        &mut self,
        run_id: RunId,
        event_id: EventId,
        kept_until: Timestamp,
        now: Timestamp,
    ) -> (RequestMark, Timestamp) {
        let none = || Box::new(Marked { count: 0, until: now, notes: VecDeque::new() });
        let marked = self.marked.get_or_insert_with(none);
        if marked.notes.back().is_none_or(|(at, _)| at.plus(NOTE_EVERY) <= now) {
            marked.notes.push_back((now, marked.count));
        }
        while marked.notes.front().is_some_and(|(at, _)| at.plus(limits::REQUESTS_KEPT) < now) {
            marked.notes.pop_front();
        }
        let mark = RequestMark { run_id, event_id, number: marked.count };
        // An hour for clocks that differ.
        let until = now.plus(limits::REQUESTS_KEPT).plus(HOUR).max(kept_until);
        marked.count += 1;
        marked.until = marked.until.max(until);
        (mark, until)
    }

    /// How many of those that the newest `count` marks have made too old by their number are not old by their time.
    fn forgotten_early(&self, count: u64, now: Timestamp) -> u64 {
        let Some(marked) = &self.marked else { return 0 };
        let last_day = marked.notes.iter().find(|(at, _)| at.plus(limits::REQUESTS_KEPT) >= now);
        let Some((_, first_of_day)) = last_day else { return 0 };
        let known_from = marked.count.saturating_sub(limits::REQUESTS_MAX);
        let before = (marked.count - count).saturating_sub(limits::REQUESTS_MAX);
        known_from.saturating_sub(before.max(*first_of_day))
    }
}

mod of_run;
#[cfg(test)]
mod tests;
