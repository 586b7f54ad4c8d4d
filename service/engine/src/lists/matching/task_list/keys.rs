//! Order of tasks with concurrency keys: the keys of a priority take turns, so that a key with many tasks delays the
//! tasks of another key by at most one task, or by the key's weight. Tasks without a key take turns like one key.
//!
//! The keys form a ring per priority. A key that may not start a task leaves the ring until it may again, so that
//! finding the next task does not depend on the number of keys that wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use crate::lists::OnList;

/// Position of a task on its list: higher priorities first, then the order of arrival.
pub(in crate::lists::matching) type PlaceOnList = (Reverse<i32>, u64);

/// Concurrency key of a task; `None` for tasks without one.
pub(super) type Key = Option<Arc<str>>;

/// Tasks of one key and priority.
#[derive(Default)]
struct KeyTasks {
    /// Numbers of the tasks, in the order of their arrival.
    numbers: BTreeSet<u64>,
    /// Number of tasks that the key got since its turn came.
    served: u32,
    is_in_ring: bool,
}

/// The keys of one priority.
#[derive(Default)]
struct Ring {
    /// Keys that take turns. The first one is next.
    ring: VecDeque<Key>,
    flows: HashMap<Key, KeyTasks>,
}

/// The order in which the tasks of a list with keys are taken.
#[derive(Default)]
pub(super) struct KeyOrder {
    rings: BTreeMap<Reverse<i32>, Ring>,
    /// Keys that left the rings until a rate allows another start.
    slow: BTreeSet<(Instant, Arc<str>)>,
}

/// Returns the key by which a task takes turns. Tasks that are already running, because their response was lost, and
/// riders have no key: they are not limited.
pub(super) fn key_of(task: &OnList) -> Key {
    task.task().filter(|task| task.lost.is_none())?.concurrency_key.clone()
}

/// Answer to whether a key may start a task now.
pub(super) enum MayStart {
    /// Now. The weight is the number of tasks that the key gets when its turn comes.
    Yes { weight: u32 },
    /// Not before one of the key's tasks ends.
    NotYet,
    /// Not before this time.
    NotBefore(Instant),
}

impl KeyOrder {
    /// Creates the order of these tasks.
    pub(super) fn of(tasks: impl Iterator<Item = (PlaceOnList, Key)>) -> Self {
        let mut order = Self::default();
        for (place, key) in tasks {
            order.add(place, key);
        }
        order
    }

    /// Adds a task.
    pub(super) fn add(&mut self, (priority, number): PlaceOnList, key: Key) {
        let ring = self.rings.entry(priority).or_default();
        if let Some(flow) = ring.flows.get_mut(&key) {
            flow.numbers.insert(number);
            return;
        }
        let flow = KeyTasks { numbers: BTreeSet::from([number]), served: 0, is_in_ring: true };
        ring.flows.insert(key.clone(), flow);
        ring.ring.push_back(key);
    }

    /// Removes a task that left the list.
    pub(super) fn remove(&mut self, (priority, number): PlaceOnList, key: &Key) {
        let Some(ring) = self.rings.get_mut(&priority) else { return };
        let Some(flow) = ring.flows.get_mut(key) else { return };
        flow.numbers.remove(&number);
        if !flow.numbers.is_empty() {
            return;
        }
        if flow.is_in_ring {
            // The key whose turn it was is the last or the first one in most cases.
            let at = ring.ring.iter().rposition(|other| other == key);
            at.map(|at| ring.ring.remove(at));
        }
        ring.flows.remove(key);
        if ring.flows.is_empty() {
            self.rings.remove(&priority);
        }
    }

    /// Gives a key the turn back that it has just had, because its task was not taken.
    pub(super) fn put_first(&mut self, (priority, _): PlaceOnList, key: &Key) {
        let Some(ring) = self.rings.get_mut(&priority) else { return };
        let Some(flow) = ring.flows.get_mut(key) else { return };
        flow.served = flow.served.saturating_sub(1);
        if flow.is_in_ring {
            let at = ring.ring.iter().rposition(|other| other == key);
            at.map(|at| ring.ring.remove(at));
        }
        flow.is_in_ring = true;
        ring.ring.push_front(key.clone());
    }

    /// Returns a key to the rings that it left, because one of its tasks may start again.
    pub(super) fn readmit(&mut self, key: &Arc<str>) {
        let key = Some(Arc::clone(key));
        for ring in self.rings.values_mut() {
            if let Some(flow) = ring.flows.get_mut(&key).filter(|flow| !flow.is_in_ring) {
                flow.is_in_ring = true;
                ring.ring.push_back(key.clone());
            }
        }
    }

    /// Returns all keys to the rings, because the limits have changed.
    pub(super) fn readmit_all(&mut self) {
        self.slow.clear();
        for ring in self.rings.values_mut() {
            for (key, flow) in ring.flows.iter_mut().filter(|(_, flow)| !flow.is_in_ring) {
                flow.is_in_ring = true;
                ring.ring.push_back(key.clone());
            }
        }
    }

    /// Returns keys to the rings for which a rate allows a start by now.
    fn readmit_slow(&mut self, now: Instant) {
        while self.slow.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, key)) = self.slow.pop_first()
        {
            self.readmit(&key);
        }
    }

    /// Returns the place of the next task that `can` accepts and whose key may start a task. The caller removes the
    /// task.
    pub(super) fn next(
        &mut self,
        now: Option<Instant>,
        can: impl Fn(PlaceOnList) -> bool,
        mut may_start: impl FnMut(&Key) -> MayStart,
    ) -> Option<PlaceOnList> {
        // A list without limits has no slow keys.
        if let Some(now) = now {
            self.readmit_slow(now);
        }
        for (priority, ring) in &mut self.rings {
            let mut unable = 0;
            while unable < ring.ring.len()
                && let Some(key) = ring.ring.pop_front()
            {
                let Some(flow) = ring.flows.get_mut(&key) else { continue };
                let weight = match may_start(&key) {
                    MayStart::Yes { weight } => weight,
                    MayStart::NotYet => {
                        flow.is_in_ring = false;
                        continue;
                    }
                    MayStart::NotBefore(at) => {
                        flow.is_in_ring = false;
                        self.slow.extend(key.map(|key| (at, key)));
                        continue;
                    }
                };
                // Only riders, which have no key, cannot be handled by every poller.
                let Some(number) = flow.numbers.iter().copied().find(|number| can((*priority, *number))) else {
                    ring.ring.push_back(key);
                    unable += 1;
                    continue;
                };
                flow.served += 1;
                if flow.served >= weight {
                    flow.served = 0;
                    ring.ring.push_back(key);
                } else {
                    ring.ring.push_front(key);
                }
                return Some((*priority, number));
            }
        }
        None
    }

    /// Returns true if fewer tasks of this key and priority wait than an equal share of `capacity`.
    pub(super) fn has_less_than_share(&self, priority: i32, key: &Key, capacity: usize) -> bool {
        let Some(ring) = self.rings.get(&Reverse(priority)) else { return true };
        let tasks = ring.flows.get(key).map_or(0, |flow| flow.numbers.len());
        tasks < capacity / ring.flows.len().max(1)
    }

    /// Returns the keys with the most waiting tasks, with the numbers of their tasks.
    pub(super) fn largest(&self, most: usize) -> Vec<(Arc<str>, usize)> {
        let mut tasks: HashMap<&Arc<str>, usize> = HashMap::new();
        for (key, flow) in self.rings.values().flat_map(|ring| &ring.flows) {
            if let Some(key) = key {
                *tasks.entry(key).or_default() += flow.numbers.len();
            }
        }
        let mut keys: Vec<(Arc<str>, usize)> = tasks.into_iter().map(|(key, tasks)| (Arc::clone(key), tasks)).collect();
        keys.sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        keys.truncate(most);
        keys
    }

    /// Returns the number of waiting tasks with this key.
    pub(super) fn tasks_of(&self, key: &Key) -> usize {
        self.rings.values().filter_map(|ring| ring.flows.get(key)).map(|flow| flow.numbers.len()).sum()
    }

    /// Returns the places of the next tasks in the order in which they are taken if no limit holds them back, each with
    /// the number of tasks of its key and priority that come before it.
    pub(super) fn shown(&self, most: usize) -> Vec<(PlaceOnList, usize)> {
        let mut next = Vec::new();
        for (priority, ring) in &self.rings {
            let in_ring = ring.ring.iter().filter_map(|key| ring.flows.get(key));
            let others = ring.flows.values().filter(|flow| !flow.is_in_ring);
            // Each key has at least one task, so no more keys than tasks are needed.
            let mut flows: Vec<_> = in_ring.chain(others).take(most).map(|flow| flow.numbers.iter()).collect();
            let mut round = 0;
            while !flows.is_empty() && next.len() < most {
                flows.retain_mut(|numbers| {
                    let number = numbers.next();
                    next.extend(number.map(|number| ((*priority, *number), round)));
                    number.is_some()
                });
                round += 1;
            }
        }
        next.truncate(most);
        next
    }
}
