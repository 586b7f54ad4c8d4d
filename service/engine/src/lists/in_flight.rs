//! Tasks that somebody has, by list, and how many were handed out lately. In memory only, from what this node commits: what was
//! before the service started, and what other nodes commit, is not known.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, Timestamp};
use lru::LruCache;
use uuid::Uuid;

use crate::lists::{ListKey, Side};

/// Lists of which it is known: those whose tasks moved last. About 300 bytes each.
const LISTS_MAX: usize = 10_000;

/// Tasks in flight that are known, of all lists; what comes beyond is not counted. About 50 bytes each.
const TASKS_MAX: usize = 200_000;

/// What the pace is measured over, in milliseconds.
const MINUTE: u64 = 60_000;

/// Names a task: its run, and the event that scheduled it.
type FlightKey = (Uuid, EventId);

#[derive(Default)]
struct ListFlow {
    held: HashSet<FlightKey>,
    /// The minute that `now` counts, since the epoch.
    minute: u64,
    /// Handed out in that minute.
    now: u64,
    /// Handed out in the minute before it.
    before: u64,
}

impl ListFlow {
    fn turn_to(&mut self, minute: u64) {
        // A clock that goes back is taken to stand still.
        if minute > self.minute {
            self.before = if minute == self.minute + 1 { self.now } else { 0 };
            (self.minute, self.now) = (minute, 0);
        }
    }

    /// Handed out in the last minute, about: of the minute before, its share that is not over.
    fn lately(&mut self, at: Timestamp) -> u64 {
        self.turn_to(at.as_millis() / MINUTE);
        self.now + self.before * (MINUTE - at.as_millis() % MINUTE) / MINUTE
    }
}

struct Flows {
    lists: LruCache<ListKey, ListFlow>,
    /// Tasks of all lists.
    held: usize,
}

/// See the module.
pub(crate) struct InFlight(Mutex<Flows>);

impl Default for InFlight {
    fn default() -> Self {
        // Bounded, but not allocated ahead.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        Self(Mutex::new(Flows { lists, held: 0 }))
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Flows> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Somebody has a task.
    pub(crate) fn begin(&self, list: &ListKey, task: FlightKey, at: Timestamp) {
        let flows = &mut *self.lock();
        if !flows.lists.contains(list)
            && let Some((_, forgotten)) = flows.lists.push(list.clone(), ListFlow::default())
        {
            flows.held -= forgotten.held.len();
        }
        let Some(flow) = flows.lists.get_mut(list) else { return };
        flow.turn_to(at.as_millis() / MINUTE);
        flow.now += 1;
        if flows.held < TASKS_MAX && flow.held.insert(task) {
            flows.held += 1;
        }
    }

    /// Nobody has it any more.
    pub(crate) fn end(&self, list: &ListKey, task: FlightKey) {
        let flows = &mut *self.lock();
        if let Some(flow) = flows.lists.peek_mut(list)
            && flow.held.remove(&task)
        {
            flows.held -= 1;
        }
    }

    /// Tasks of a list that somebody has, and how many were handed out in the last minute, about.
    pub(crate) fn of(&self, list: &ListKey, at: Timestamp) -> (usize, u64) {
        let mut flows = self.lock();
        flows.lists.peek_mut(list).map_or((0, 0), |flow| (flow.held.len(), flow.lately(at)))
    }

    /// Adds the lists of a domain of which tasks are in flight, or were handed out lately.
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
        // Handed out again after its runner was lost.
        flights.begin(&list("a"), task(2), at(1));
        assert_eq!(flights.of(&list("a"), at(1)), (2, 3));
        flights.end(&list("a"), task(2));
        flights.end(&list("a"), task(2));
        flights.end(&list("b"), task(1));
        assert_eq!(flights.of(&list("a"), at(1)).0, 1);
        assert_eq!(flights.lock().held, 1);
    }

    #[test]
    fn the_pace_is_that_of_the_last_minute_and_is_forgotten_after_another() {
        let flights = InFlight::default();
        for number in 0..60 {
            flights.begin(&list("a"), task(number), at(number));
        }
        let lately = |seconds| flights.of(&list("a"), at(seconds)).1;
        assert_eq!([lately(59), lately(60), lately(75), lately(119), lately(120)], [60, 60, 45, 1, 0]);
        assert_eq!(lately(30), 0, "a clock that goes back stands still");
    }

    #[test]
    fn no_more_lists_and_tasks_are_known_than_there_is_room_for() {
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
        assert_eq!(flights.of(&list("1"), at(0)).1, TASKS_MAX as u64 + 1, "the pace goes on");
    }
}
