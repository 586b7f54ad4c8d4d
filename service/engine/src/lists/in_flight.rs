//! Started tasks per list, and the rate at which each list hands out tasks. These figures are only in memory. They
//! cover the commits of this node since the service started.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, Timestamp};
use lru::LruCache;
use uuid::Uuid;

use crate::lists::{ListKey, Side};

/// Maximum number of lists in memory. The lists with the most recent changes are kept. Our choice: at about 300 bytes
/// each, the lists take at most 3 MB.
const LISTS_MAX: usize = 10_000;

/// Maximum number of tasks in flight that are counted on all lists. Our choice: at about 50 bytes each, they take at
/// most 10 MB.
const TASKS_MAX: usize = 200_000;

/// Period over which the rate is measured, in milliseconds.
const MINUTE: u64 = 60_000;

/// Identifies a task by its run and the event that scheduled it.
type FlightKey = (Uuid, EventId);

#[derive(Default)]
struct ListFlow {
    held: HashSet<FlightKey>,
    /// Current minute, in minutes since the Unix epoch. `now` is the count for this minute.
    minute: u64,
    /// Number of tasks handed out in the current minute.
    now: u64,
    /// Number of tasks handed out in the previous minute.
    before: u64,
}

impl ListFlow {
    fn advance_to(&mut self, minute: u64) {
        // If the clock is set back, the current minute stays the same.
        if minute > self.minute {
            self.before = if minute == self.minute + 1 { self.now } else { 0 };
            (self.minute, self.now) = (minute, 0);
        }
    }

    /// Returns approximately how many tasks were handed out in the last 60 seconds. The previous minute is weighted by
    /// the fraction of it that lies within these 60 seconds.
    fn lately(&mut self, at: Timestamp) -> u64 {
        self.advance_to(at.as_millis() / MINUTE);
        self.now + self.before * (MINUTE - at.as_millis() % MINUTE) / MINUTE
    }
}

struct Flows {
    lists: LruCache<ListKey, ListFlow>,
    /// Number of tasks in flight on all lists.
    held: usize,
}

/// Tasks in flight and hand-out rates of the lists of this node.
pub(crate) struct InFlight(Mutex<Flows>);

impl Default for InFlight {
    fn default() -> Self {
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        Self(Mutex::new(Flows { lists, held: 0 }))
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Flows> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Records that a task was handed out.
    pub(crate) fn begin(&self, list: &ListKey, task: FlightKey, at: Timestamp) {
        let flows = &mut *self.lock();
        if !flows.lists.contains(list)
            && let Some((_, forgotten)) = flows.lists.push(list.clone(), ListFlow::default())
        {
            flows.held -= forgotten.held.len();
        }
        let Some(flow) = flows.lists.get_mut(list) else { return };
        flow.advance_to(at.as_millis() / MINUTE);
        flow.now += 1;
        if flows.held < TASKS_MAX && flow.held.insert(task) {
            flows.held += 1;
        }
    }

    /// Records that a task is no longer in flight.
    pub(crate) fn end(&self, list: &ListKey, task: FlightKey) {
        let flows = &mut *self.lock();
        if let Some(flow) = flows.lists.peek_mut(list)
            && flow.held.remove(&task)
        {
            flows.held -= 1;
        }
    }

    /// Returns the number of tasks in flight on a list, and the approximate number of tasks handed out in the last
    /// minute.
    pub(crate) fn of(&self, list: &ListKey, at: Timestamp) -> (usize, u64) {
        let mut flows = self.lock();
        flows.lists.peek_mut(list).map_or((0, 0), |flow| (flow.held.len(), flow.lately(at)))
    }

    /// Adds the lists of a domain that have tasks in flight, or that handed out tasks in the last two minutes.
    pub(crate) fn add_lists(&self, domain: &str, at: Timestamp, to: &mut BTreeSet<(Arc<str>, Side)>) {
        for (list, flow) in self.lock().lists.iter_mut().filter(|(list, _)| &*list.domain == domain) {
            if !flow.held.is_empty() || flow.lately(at) > 0 {
                to.insert((Arc::clone(&list.name), list.side));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str) -> ListKey {
        ListKey { domain: "d".into(), side: Side::Activity, name: name.into() }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn task(number: u64) -> FlightKey {
        (Uuid::nil(), number)
    }

    #[test]
    fn a_task_is_in_flight_once_from_its_start_to_its_end() {
        let flights = InFlight::default();
        assert_eq!(flights.of(&list("a"), at(0)), (0, 0));
        flights.begin(&list("a"), task(1), at(0));
        flights.begin(&list("a"), task(2), at(0));
        // The task is handed out again after its runner was lost.
        flights.begin(&list("a"), task(2), at(1));
        assert_eq!(flights.of(&list("a"), at(1)), (2, 3));
        flights.end(&list("a"), task(2));
        flights.end(&list("a"), task(2));
        flights.end(&list("b"), task(1));
        assert_eq!(flights.of(&list("a"), at(1)).0, 1);
        assert_eq!(flights.lock().held, 1);
    }

    #[test]
    fn the_rate_covers_the_last_minute_only() {
        let flights = InFlight::default();
        for number in 0..60 {
            flights.begin(&list("a"), task(number), at(number));
        }
        let lately = |seconds| flights.of(&list("a"), at(seconds)).1;
        assert_eq!([lately(59), lately(60), lately(75), lately(119), lately(120)], [60, 60, 45, 1, 0]);
        assert_eq!(lately(30), 0, "a clock that goes back stands still");
    }

    #[test]
    fn lists_and_tasks_are_bounded() {
        let flights = InFlight::default();
        for number in 0..=LISTS_MAX {
            flights.begin(&list(&number.to_string()), task(1), at(0));
        }
        assert_eq!(flights.lock().lists.len(), LISTS_MAX);
        assert_eq!(flights.lock().held, LISTS_MAX);
        assert_eq!(flights.of(&list("0"), at(0)), (0, 0));
        for number in 0..TASKS_MAX as u64 {
            flights.begin(&list("1"), task(number), at(0));
        }
        assert_eq!(flights.lock().held, TASKS_MAX);
        assert_eq!(flights.of(&list("1"), at(0)).1, TASKS_MAX as u64 + 1, "the rate still counts");
    }
}
