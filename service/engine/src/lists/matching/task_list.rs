//! One list: its tasks and its pollers, in the order in which they are served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use history::Timestamp;

use crate::lists::grant::RiderKind;
use crate::lists::{OnList, Poller, Taker, TaskKey, WaitingTask};

/// Number of priorities of a list that are examined to find the oldest task. Ours: few lists have more than three, and
/// the list is locked meanwhile.
const PRIORITIES_EXAMINED: usize = 16;

/// Position of a task on its list: higher priorities first, then the order of arrival.
pub(super) type PlaceOnList = (Reverse<i32>, u64);

/// A task in memory. It is counted until it is dropped.
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
pub(super) struct TaskList {
    /// In the order in which they are taken.
    pub(super) tasks: BTreeMap<PlaceOnList, Kept>,
    /// Number of tasks that were ever added.
    pub(super) came: u64,
    /// Position of each task.
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

    pub(super) fn next_poller(&mut self) -> Option<Poller> {
        self.next_poller_that(|_| true)
    }

    /// Takes the next poller that can handle a task.
    pub(super) fn next_poller_for(&mut self, task: &OnList) -> Option<Poller> {
        if task.is_riders() { self.next_poller_that(|taker| task.is_for(taker)) } else { self.next_poller() }
    }

    pub(super) fn next_poller_that(&mut self, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        // Removes disconnected pollers from the front. Others are removed once they are in front.
        while self.pollers.front().is_some_and(|poller| !poller.is_waiting()) {
            self.pollers.pop_front();
        }
        let pollers = self.pollers.iter().enumerate();
        let mut able = pollers.filter(|(_, poller)| poller.is_waiting() && can(&poller.taker)).peekable();
        let first = able.peek()?.0;
        let at = able.find(|(_, poller)| !poller.is_standby()).map_or(first, |(at, _)| at);
        let poller = self.pollers.get_mut(at)?;
        let slot = poller.next_slot();
        if slot.is_none() || poller.room() == 0 {
            let whole = self.pollers.remove(at);
            return slot.or(whole);
        }
        slot
    }

    /// Takes the first entry that passes `can`.
    pub(super) fn pop_task(&mut self, can: impl Fn(&OnList) -> bool) -> Option<OnList> {
        let at = self.tasks.iter().find(|(_, kept)| can(&kept.task)).map(|(at, _)| *at)?;
        let task = self.tasks.remove(&at)?.task.clone();
        self.known.remove(&task.known());
        self.riders -= usize::from(task.is_riders());
        Some(task)
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

    /// Replaces the waiting riders of a run by its turn, which carries them: a run has only one of them on a list.
    pub(super) fn convert(&mut self, turn: &OnList) -> bool {
        let Some(WaitingTask { run_id, .. }) = turn.task().filter(|_| self.riders > 0) else { return false };
        let mut kinds = [RiderKind::Query, RiderKind::Update].into_iter().map(|kind| TaskKey::Riders(*run_id, kind));
        let Some(place) = kinds.find_map(|asks| self.known.remove(&asks)) else { return false };
        let Some(Kept { task, .. }) = self.tasks.get_mut(&place) else { return false };
        *task = turn.clone();
        self.known.insert(turn.known(), place);
        self.riders -= 1;
        true
    }
}
