//! Lookup and maintenance of the requests that a run recognizes.

use super::{
    Earlier, HOUR, KnownRequest, KnownRequests, RequestEntry, RequestMark, Requests, Spilled, SpilledMark, is_over,
    is_start, key_of_update,
};
use crate::event::{EventId, RequestKey};
use crate::ids::RunId;
use crate::limits;
use crate::run::{Run, UpdateStatus};
use crate::time::Timestamp;

/// Lookup of requests.
impl Run {
    /// Returns the outcome of the request with this key, which this run or an earlier run of its workflow id has
    /// recorded. Returns `None` if the state does not contain the request.
    pub fn request(&self, key: RequestKey) -> Option<KnownRequest> {
        self.known.find(key, self.started.run_id)
    }

    /// Returns the status of an update in this run.
    pub fn update_status(&self, update_id: &str) -> UpdateStatus {
        self.status_of_update(update_id, Some(self.started.run_id))
    }

    /// Returns the status of an update. If `run_id` is given, only an outcome in that run counts.
    pub fn status_of_update(&self, update_id: &str, run_id: Option<RunId>) -> UpdateStatus {
        if let Some(event_id) = self.updates.accepted(update_id) {
            return UpdateStatus::Accepted { event_id };
        }
        let known = self.request(key_of_update(update_id));
        match known.filter(|request| run_id.is_none_or(|run_id| request.run_id == run_id)) {
            Some(KnownRequest { run_id, event_id }) => UpdateStatus::Ended { run_id, event_id },
            None => UpdateStatus::New,
        }
    }

    /// Returns `true` if the store must be read to find out whether the request with this key is known.
    pub fn must_recall(&self, key: RequestKey, now: Timestamp) -> bool {
        self.known.marked.as_ref().is_some_and(|marked| marked.until >= now) && self.request(key).is_none()
    }

    /// Returns how many marks (records of requests in the store) have been created for the workflow id. A request
    /// without a mark can get one only when this number increases.
    pub fn marks(&self) -> u64 {
        self.known.marked.as_ref().map_or(0, |marked| marked.count)
    }

    /// Adds a mark that was read from the store, until [`forget_recalled`](Self::forget_recalled) is called. The mark
    /// is ignored if too many marks have been created after it. The mark of a start is never ignored, because a start
    /// is known as long as its run is kept.
    pub fn recall(&mut self, key: RequestKey, mark: RequestMark) {
        let Some(marked) = &self.known.marked else { return };
        let RequestMark { run_id, event_id, number } = mark;
        let is_young = number < marked.count && marked.count - number <= limits::REQUESTS_MAX;
        if is_young || event_id == 1 {
            self.known.recalled.insert(key, KnownRequest { run_id, event_id });
        }
    }

    /// Removes the marks added by [`recall`](Self::recall).
    pub fn forget_recalled(&mut self) {
        self.known.recalled.clear();
    }

    /// Forgets a request that was recorded by a run that no longer exists.
    pub fn forget_request(&mut self, key: RequestKey) {
        self.known.recalled.remove(&key);
        for earlier in &mut self.known.earlier {
            earlier.requests.retain(|entry| entry.key != key);
        }
    }

    /// Returns the time until which the state must be kept because of its known requests. Returns `None` if no request
    /// requires this.
    pub fn known_until(&self) -> Option<Timestamp> {
        let marked = self.known.marked.as_ref().map(|marked| marked.until);
        self.known.newest(self.started.at).into_iter().chain(marked).max()
    }
}

/// Adding, moving and forgetting requests.
impl Run {
    pub(crate) fn remember(&mut self, key: RequestKey, event_id: EventId, at: Timestamp) {
        let hours = at.since(self.started.at).as_millis() / HOUR.as_millis();
        self.known.own.push(RequestEntry { key, event_id, hours: u32::try_from(hours).unwrap_or(u32::MAX) });
    }

    /// Takes over the requests known to the earlier run `before`, which is kept until `kept_until`. If both runs have
    /// an entry for a key, the entry of this run counts.
    pub(crate) fn take_over(&mut self, before: &Self, kept_until: Timestamp, now: Timestamp) {
        let KnownRequests { start, own, earlier, marked, .. } = before.known.clone();
        let (run_id, began) = (before.started.run_id, before.started.at);
        let mut requests = Requests::default();
        // Both runs may have been started by the same request: a successor has the key of the first start.
        if let Some(key) = start.filter(|_| start != self.known.start) {
            requests.push(RequestEntry { key, event_id: 1, hours: 0 });
        }
        own.iter().for_each(|entry| requests.push(*entry));
        self.known.earlier = earlier;
        self.known.earlier.push_back(Earlier { run_id, began, kept_until, requests });
        self.forget_old(now);
        self.known.marked = marked.filter(|marked| marked.until >= now);
    }

    fn forget_old(&mut self, now: Timestamp) {
        let began = self.started.at;
        self.known.own.retain(|entry| !is_over(began, began, entry, now));
        for Earlier { began, kept_until, requests, .. } in &mut self.known.earlier {
            requests.retain(|entry| !is_over(*began, *kept_until, entry, now));
        }
        self.known.earlier.retain(|earlier| !earlier.requests.is_empty());
    }

    /// Keeps only the request with this key and event id as a request of this new run. All other requests belong to the
    /// run whose history was copied, and stay known as requests of that run.
    pub(crate) fn branch_requests(&mut self, key: Option<RequestKey>, event_id: EventId) {
        self.known.own.retain(|entry| entry.event_id == event_id && Some(entry.key) == key);
    }

    /// Moves the oldest requests out of the state if there are too many. The store must keep a mark for each moved
    /// request. Only requests up to the event `committed` are moved. Their events are already committed, so the marks
    /// stay valid even if the current commit fails.
    ///
    /// Requests that are old enough at `past` are forgotten. `past` is earlier than `now` if the clock seems to be
    /// ahead.
    pub fn spill(&mut self, committed: EventId, now: Timestamp, past: Timestamp) -> Spilled {
        let mut spilled = Spilled::default();
        if self.known.len() > limits::REQUESTS_IN_STATE_MAX {
            self.forget_old(past);
        }
        self.known.marked.take_if(|marked| marked.until < past);
        let is_crowded = self.known.len() > limits::REQUESTS_IN_STATE_MAX;
        let keeps = limits::REQUESTS_IN_STATE_MAX - limits::REQUESTS_SPILLED_MIN;
        let has_too_many = |known: &KnownRequests| {
            is_crowded && known.len() > keeps || known.earlier.len() > limits::REQUESTS_RUNS_MAX
        };
        while has_too_many(&self.known) && spilled.marks.len() < limits::REQUESTS_SPILLED_MAX {
            let (run_id, kept_until, requests) = match self.known.earlier.front_mut() {
                Some(it) => (it.run_id, it.kept_until, &mut it.requests),
                None => (self.started.run_id, Timestamp::default(), &mut self.known.own),
            };
            let is_own = run_id == self.started.run_id;
            match requests.oldest().copied() {
                Some(entry) if is_own && entry.event_id > committed => break,
                Some(entry) => {
                    requests.drop_oldest();
                    // A reset is recorded in the old run and in the new run, with the same key. Only the newer entry
                    // has the outcome. If both entries became marks, the order of writing would decide which outcome is
                    // found.
                    if !self.known.has(entry.key) {
                        let until = if is_start(&entry) { kept_until } else { Timestamp::default() };
                        let (mark, until) = self.known.mark(run_id, entry.event_id, until, now);
                        spilled.marks.push(SpilledMark { key: entry.key, mark, until });
                    }
                }
                None if is_own => break,
                None => {}
            }
            if self.known.earlier.front().is_some_and(|earlier| earlier.requests.is_empty()) {
                self.known.earlier.pop_front();
            }
        }
        spilled.forgotten_early = self.known.forgotten_early(spilled.marks.len() as u64, now);
        spilled
    }
}
