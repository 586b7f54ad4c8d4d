//! One task list: its tasks and its pollers, in the order in which they are served.

pub(super) mod dispatch;
pub(super) mod keys;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use history::Timestamp;

use crate::lists::grant::RiderKind;
use crate::lists::matching::task_list::keys::{KeyOrder, PlaceOnList, key_of};
use crate::lists::{OnList, Poller, Taker, TaskKey, WaitingTask};

/// Number of priorities of a list that are examined to find the oldest task. Our choice: few lists use more than three
/// priorities. The number is small because the list is locked during the search.
const PRIORITIES_EXAMINED: usize = 16;

/// A task in memory. The counter of all tasks includes it until it is dropped.
pub(super) struct Kept {
    pub(super) task: OnList,
    all: Arc<AtomicUsize>,
}

impl Kept {
    pub(super) fn new(task: OnList, all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Relaxed);
        Self { task, all: Arc::clone(all) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct TaskList {
    /// Tasks in the order in which they are taken.
    pub(super) tasks: BTreeMap<PlaceOnList, Kept>,
    /// Number of tasks that were ever added to this list.
    pub(super) came: u64,
    /// Position of each task on the list.
    pub(super) known: HashMap<TaskKey, PlaceOnList>,
    pub(super) pollers: VecDeque<Poller>,
    /// Pollers that take only tasks of the run that they name. They are kept apart from the others, so that they do not
    /// count as pollers for the tasks of other runs.
    pub(super) of_runs: VecDeque<Poller>,
    /// True if some tasks of this list wait only in the store.
    pub(super) overflowed: bool,
    /// Number of entries that are riders.
    pub(super) riders: usize,
    /// Order of the tasks by key; `None` while no task has a key, so that the tasks are taken in the order of `tasks`.
    order: Option<Box<KeyOrder>>,
}

impl TaskList {
    /// Creates a list without tasks and pollers in memory.
    pub(super) fn new(overflowed: bool) -> Self {
        Self { overflowed, ..Self::default() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.pollers.is_empty() && self.of_runs.is_empty() && !self.overflowed
    }

    /// Returns true if a turn or an activity waits.
    pub(super) fn has_tasks(&self) -> bool {
        self.tasks.len() > self.riders
    }

    /// Returns true if this task is on the list.
    fn has(&self, task: &WaitingTask) -> bool {
        self.known.contains_key(&task.known())
    }

    /// Adds a task at this position. If no position is given, adds the task after all others with its priority.
    pub(super) fn insert(&mut self, task: OnList, place: Option<PlaceOnList>, all: &Arc<AtomicUsize>) {
        let place = place.unwrap_or_else(|| {
            self.came += 1;
            (Reverse(task.priority()), self.came)
        });
        self.riders += usize::from(task.is_riders());
        self.known.insert(task.known(), place);
        let key = key_of(&task);
        if self.order.is_none() && key.is_some() {
            self.order =
                Some(Box::new(KeyOrder::of(self.tasks.iter().map(|(place, kept)| (*place, key_of(&kept.task))))));
        }
        if let Some(order) = &mut self.order {
            order.add(place, key);
        }
        self.tasks.insert(place, Kept::new(task, all));
    }

    /// Removes an entry.
    fn remove(&mut self, place: PlaceOnList) -> Option<OnList> {
        let task = self.tasks.remove(&place)?.task.clone();
        self.known.remove(&task.known());
        self.riders -= usize::from(task.is_riders());
        if self.tasks.is_empty() {
            self.order = None;
        } else if let Some(order) = &mut self.order {
            order.remove(place, &key_of(&task));
        }
        Some(task)
    }

    /// Puts a task back to the place that it has just left. It is the next one of its priority again.
    pub(super) fn put_back(&mut self, task: WaitingTask, place: PlaceOnList, all: &Arc<AtomicUsize>) {
        let task = OnList::from(task);
        if self.known.contains_key(&task.known()) {
            return;
        }
        // The list may have been removed since, and created again with new numbers.
        self.came = self.came.max(place.1);
        if self.tasks.contains_key(&place) {
            return self.insert(task, None, all);
        }
        let key = key_of(&task);
        self.insert(task, Some(place), all);
        if let Some(order) = &mut self.order {
            order.put_first(place, &key);
        }
    }

    /// Lets a key take turns again, because one of its tasks has ended.
    pub(super) fn readmit(&mut self, key: &Arc<str>) {
        if let Some(order) = &mut self.order {
            order.readmit(key);
        }
    }

    /// Lets all keys take turns again, because the limits have changed.
    pub(super) fn readmit_all(&mut self) {
        if let Some(order) = &mut self.order {
            order.readmit_all();
        }
    }

    /// Returns the next entries in the order in which they are taken if no limit holds them back, each with the number
    /// of tasks of its key and priority that come before it.
    pub(super) fn next(&self, most: usize) -> Vec<(&OnList, usize)> {
        match &self.order {
            Some(order) => {
                let places = order.shown(most).into_iter();
                places.filter_map(|(place, before)| Some((&self.tasks.get(&place)?.task, before))).collect()
            }
            None => self.tasks.values().take(most).enumerate().map(|(before, kept)| (&kept.task, before)).collect(),
        }
    }

    /// Returns true if the list has keys and fewer tasks of this task's key than an equal share of `capacity`.
    pub(super) fn has_less_than_share(&self, task: &OnList, capacity: usize) -> bool {
        self.order.as_ref().is_some_and(|order| order.has_less_than_share(task.priority(), &key_of(task), capacity))
    }

    /// Returns the keys with the most waiting tasks, with the numbers of their tasks.
    pub(super) fn largest_keys(&self, most: usize) -> Vec<(Arc<str>, usize)> {
        self.order.as_ref().map(|order| order.largest(most)).unwrap_or_default()
    }

    /// Returns the number of waiting tasks with this key.
    pub(super) fn tasks_of_key(&self, key: Arc<str>) -> usize {
        self.order.as_ref().map_or(0, |order| order.tasks_of(&Some(key)))
    }

    /// Adds a poller: behind the others, or in front of them if it is put back.
    pub(super) fn add_poller(&mut self, poller: Poller, is_put_back: bool) {
        let pollers = if poller.taker.workflow_id.is_some() { &mut self.of_runs } else { &mut self.pollers };
        if is_put_back { pollers.push_front(poller) } else { pollers.push_back(poller) }
    }

    /// Returns the takers of the pollers that wait: those of single runs first, if they are included, and those on
    /// standby last.
    pub(super) fn takers(&self, includes_of_runs: bool) -> Vec<Taker> {
        let of_runs = self.of_runs.iter().filter(|poller| includes_of_runs && poller.is_waiting());
        let waiting = || self.pollers.iter().filter(|poller| poller.is_waiting());
        let next = waiting().find(|poller| !poller.is_standby()).or_else(|| waiting().next());
        of_runs.chain(next).map(|poller| poller.taker.clone()).collect()
    }

    /// Removes the entry with this key, if it is on the list. Returns the position that it had.
    pub(super) fn withdraw(&mut self, task: &TaskKey) -> Option<PlaceOnList> {
        let place = *self.known.get(task)?;
        self.remove(place).map(|_| place)
    }

    /// Takes the first poller for which `can` returns true, among those that take the tasks of all runs.
    fn take_poller(&mut self, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        Self::take_from(&mut self.pollers, can)
    }

    /// Takes the first poller that takes only tasks of this run and for which `can` returns true.
    fn take_poller_of_run(&mut self, workflow_id: &str, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        if self.of_runs.is_empty() {
            return None;
        }
        let is_for = |taker: &Taker| taker.workflow_id.as_deref() == Some(workflow_id) && can(taker);
        Self::take_from(&mut self.of_runs, is_for)
    }

    fn take_from(pollers: &mut VecDeque<Poller>, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        // Removes disconnected pollers from the front. Those further back are removed once they reach the front.
        while pollers.front().is_some_and(|poller| !poller.is_waiting()) {
            pollers.pop_front();
        }
        let waiting = pollers.iter().enumerate();
        let mut able = waiting.filter(|(_, poller)| poller.is_waiting() && can(&poller.taker)).peekable();
        let first = able.peek()?.0;
        let at = able.find(|(_, poller)| !poller.is_standby()).map_or(first, |(at, _)| at);
        let poller = pollers.get_mut(at)?;
        let slot = poller.next_slot();
        if slot.is_none() || poller.free_slots() == 0 {
            let whole = pollers.remove(at);
            return slot.or(whole);
        }
        slot
    }

    /// Takes the poller with this taker from [`takers`](Self::takers), or one of its free slots.
    pub(super) fn take_poller_of(&mut self, taker: &Taker) -> Option<Poller> {
        match &taker.workflow_id {
            Some(workflow_id) => self.take_poller_of_run(workflow_id, |other| other == taker),
            None => self.take_poller(|_| true),
        }
    }

    /// Implements [`Matching::oldest`](super::Matching::oldest).
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let mut next = self.tasks.first_key_value();
        let firsts = std::iter::from_fn(|| {
            let (place, kept) = next?;
            next = self.tasks.range((Excluded((place.0, u64::MAX)), Unbounded)).next();
            Some(kept)
        });
        firsts.take(PRIORITIES_EXAMINED).filter_map(|kept| kept.task.task()?.since).min()
    }

    /// Removes the waiting riders of a run when the run's turn is added, because the turn carries them. Returns the
    /// position of the removed riders.
    pub(super) fn remove_riders_of(&mut self, turn: &OnList) -> Option<PlaceOnList> {
        let WaitingTask { run_id, .. } = turn.task().filter(|_| self.riders > 0)?;
        let mut kinds = [RiderKind::Query, RiderKind::Update].into_iter().map(|kind| TaskKey::Riders(*run_id, kind));
        kinds.find_map(|asks| self.withdraw(&asks))
    }
}
