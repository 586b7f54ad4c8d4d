//! One task list: its tasks and its pollers, in the order in which they are served.

pub(super) mod dispatch;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use history::Timestamp;

use crate::lists::grant::RiderKind;
use crate::lists::{OnList, Poller, Taker, TaskKey, WaitingTask};

/// Number of priorities of a list that are examined to find the oldest task. Our choice: few lists use more than three
/// priorities. The number is small because the list is locked during the search.
const PRIORITIES_EXAMINED: usize = 16;

/// Position of a task on its list: higher priorities first, then the order of arrival.
pub(super) type PlaceOnList = (Reverse<i32>, u64);

/// A task in memory. It is included in the count of all tasks until this value is dropped.
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
    /// True if some tasks of this list wait only in the store.
    pub(super) overflowed: bool,
    /// Number of entries that are riders.
    pub(super) riders: usize,
}

impl TaskList {
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.pollers.is_empty() && !self.overflowed
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
        self.tasks.insert(place, Kept::new(task, all));
    }

    /// Takes the first poller for which `can` returns true. Only [`dispatch`](Self::dispatch) calls this.
    fn take_poller(&mut self, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        // Removes disconnected pollers from the front. Other disconnected pollers are removed once they reach the
        // front.
        while self.pollers.front().is_some_and(|poller| !poller.is_waiting()) {
            self.pollers.pop_front();
        }
        let pollers = self.pollers.iter().enumerate();
        let mut able = pollers.filter(|(_, poller)| poller.is_waiting() && can(&poller.taker)).peekable();
        let first = able.peek()?.0;
        let at = able.find(|(_, poller)| !poller.is_standby()).map_or(first, |(at, _)| at);
        let poller = self.pollers.get_mut(at)?;
        let slot = poller.next_slot();
        if slot.is_none() || poller.free_slots() == 0 {
            let whole = self.pollers.remove(at);
            return slot.or(whole);
        }
        slot
    }

    /// Takes the first entry for which `copy` returns a value, and returns that value. Only
    /// [`dispatch`](Self::dispatch) calls this.
    fn take_first<T>(&mut self, copy: impl Fn(&OnList) -> Option<T>) -> Option<T> {
        let (place, taken) = self.tasks.iter().find_map(|(place, kept)| Some((*place, copy(&kept.task)?)))?;
        let Kept { task, .. } = &self.tasks.remove(&place)?;
        self.known.remove(&task.known());
        self.riders -= usize::from(task.is_riders());
        Some(taken)
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
        let place = kinds.find_map(|asks| self.known.remove(&asks))?;
        self.tasks.remove(&place)?;
        self.riders -= 1;
        Some(place)
    }
}
