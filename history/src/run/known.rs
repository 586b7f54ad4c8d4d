//! Known requests: idempotency keys of requests that this run or earlier runs of its workflow id have recorded. A
//! repeated request gets its original outcome.
//!
//! The state contains the newest requests. For each older request, the store keeps a [`RequestMark`], and the state
//! only records that marks exist.
//!
//! Known requests cannot always be derived from the history, because they include requests of other runs and marks (ADR
//! 17).

use std::collections::{BTreeMap, VecDeque};

use minicbor::{Decode, Encode};
use uuid::Uuid;

use super::requests::{RequestEntry, Requests};
use crate::event::{EventId, RequestKey};
use crate::ids::RunId;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// Unit in which the age of a request is counted.
const HOUR: Duration = Duration::from_secs(3_600);

/// Interval at which a run records how many marks it has. Chosen: with these records, a run computes how many requests
/// are forgotten too early, with an error of up to one interval.
const NOTE_EVERY: Duration = HOUR.times(4);

/// Outcome of a request. Repetitions of the request get the same outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRequest {
    /// Run that recorded the request.
    pub run_id: RunId,
    /// Id of the first event that the request caused. For an update, the id of the event that answers it.
    pub event_id: EventId,
}

/// Record of a request in the store, outside the state of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RequestMark {
    /// Run that recorded the request.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Event of the request, as in [`KnownRequest::event_id`].
    #[n(1)]
    pub event_id: EventId,
    /// Number of marks that the workflow id had before this mark.
    #[n(2)]
    pub number: u64,
}

/// A mark that the store must keep for a request that is moved out of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpilledMark {
    /// Key of the request.
    pub key: RequestKey,
    /// Record of the request.
    pub mark: RequestMark,
    /// Time until which the store must keep the mark.
    pub until: Timestamp,
}

/// Requests that are moved out of the state by [`Run::spill`](crate::run::Run::spill).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Marks that the store must keep.
    pub marks: Vec<SpilledMark>,
    /// Number of older requests that are forgotten before the minimum time has passed, because there are too many.
    pub forgotten_early: u64,
}

/// Requests of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Earlier {
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    run_id: Uuid,
    #[n(1)]
    began: Timestamp,
    /// Time until which the earlier run is kept. The request that started the earlier run is known until then.
    #[n(2)]
    kept_until: Timestamp,
    #[n(3)]
    requests: Requests,
}

/// Information on the marks in the store.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Marked {
    /// Total number of marks.
    #[n(0)]
    count: u64,
    /// Time at which the last of the marks expires.
    #[n(1)]
    until: Timestamp,
    /// Total number of marks at certain times of the last day, oldest first.
    #[n(2)]
    notes: VecDeque<(Timestamp, u64)>,
}

/// Idempotency keys of the requests that a run recognizes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct KnownRequests {
    /// Key of the request that started the run. It is known as long as the run is kept.
    #[n(0)]
    start: Option<RequestKey>,
    /// Requests of this run.
    #[cbor(n(1), default, skip_if = "Requests::is_empty")]
    own: Requests,
    /// Requests of earlier runs, oldest run first.
    #[cbor(n(2), default, skip_if = "VecDeque::is_empty")]
    earlier: VecDeque<Earlier>,
    #[n(3)]
    marked: Option<Box<Marked>>,
    /// Marks that were read from the store. This field is not stored.
    #[cbor(skip)]
    recalled: BTreeMap<RequestKey, KnownRequest>,
}

impl KnownRequests {
    /// Creates the known requests of a new run.
    pub(crate) fn of_start(start: Option<RequestKey>) -> Self {
        Self { start, ..Self::default() }
    }

    /// Returns the key of the request that started the run.
    pub fn start(&self) -> Option<RequestKey> {
        self.start
    }

    /// Returns the number of requests in the state, without the request that started the run.
    pub fn len(&self) -> usize {
        self.own.len() + self.earlier.iter().map(|earlier| earlier.requests.len()).sum::<usize>()
    }

    /// Returns `true` if the state has no requests, apart from the request that started the run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of this run's requests in the state, with their event ids, oldest first.
    pub fn own(&self) -> impl ExactSizeIterator<Item = (RequestKey, EventId)> {
        self.own.iter().map(|entry| (entry.key, entry.event_id))
    }

    /// Removes everything that cannot always be derived from the history.
    pub(crate) fn keep_history_derived(&mut self) {
        *self = Self::of_start(self.start);
    }

    /// Returns `true` if the state has an entry for the request with this key.
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

    /// Returns the latest time until which a request in the state must be known.
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

/// Returns `true` if the entry is the request that started its run, which is recorded as event 1.
fn is_start(entry: &RequestEntry) -> bool {
    entry.event_id == 1
}

/// Returns the earliest time by which the request was certainly recorded.
fn recorded_by(began: Timestamp, entry: &RequestEntry) -> Timestamp {
    began.plus(HOUR.times(u64::from(entry.hours) + 1))
}

/// Returns `true` if the request may be forgotten.
fn is_over(began: Timestamp, kept_until: Timestamp, entry: &RequestEntry, now: Timestamp) -> bool {
    let is_old = recorded_by(began, entry).plus(limits::REQUESTS_KEPT) < now;
    is_old && !(is_start(entry) && kept_until >= now)
}

/// Returns the key of an update: a mixed FNV-1a hash of its update id. The function must never change, because these
/// keys are stored.
pub fn key_of_update(update_id: &str) -> RequestKey {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = b"update\0".iter().copied().chain(update_id.bytes()).fold(0xCBF2_9CE4_8422_2325, step);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    RequestKey(hash ^ (hash >> 31))
}

impl KnownRequests {
    /// Creates another mark and counts it. Returns the mark with the time until which the store must keep it.
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
        // The additional hour allows for differences between clocks.
        let until = now.plus(limits::REQUESTS_KEPT).plus(HOUR).max(kept_until);
        marked.count += 1;
        marked.until = marked.until.max(until);
        (mark, until)
    }

    /// Returns the number of requests that are forgotten because of the newest `count` marks, although they are less
    /// than a day old. Requests are forgotten early if there are more marks than [`limits::REQUESTS_MAX`].
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
