//! One list: what waits on it and who waits for it, in the order in which they are served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use history::Timestamp;

use crate::lists::grant::RiderKind;
use crate::lists::{OnList, Poller, Taker, TaskKey, WaitingTask};

/// Priorities of a list that are looked at for the task that has waited longest. Ours: few have more than three, and the list is
/// locked meanwhile.
const PRIORITIES_LOOKED_AT: usize = 16;

/// Where a task stands on its list: higher priorities first, and of equals the one that came first.
pub(super) type PlaceOnList = (Reverse<i32>, u64);

/// A task that is kept in memory, counted as long as it is.
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
    /// How many have ever waited.
    pub(super) came: u64,
    /// Where each of them stands.
    pub(super) known: HashMap<TaskKey, PlaceOnList>,
    pub(super) pollers: VecDeque<Poller>,
    /// Some tasks of this list wait in the store alone.
    pub(super) overflowed: bool,
    /// How many of the tasks only ask something.
    pub(super) asking: usize,
}

impl TaskList {
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.pollers.is_empty() && !self.overflowed
    }

    pub(super) fn next_poller(&mut self) -> Option<Poller> {
        self.next_poller_who(|_| true)
    }

    /// The same for a task that not every poller can do.
    pub(super) fn next_poller_for(&mut self, task: &OnList) -> Option<Poller> {
        if task.only_asks() { self.next_poller_who(|taker| task.is_for(taker)) } else { self.next_poller() }
    }

    pub(super) fn next_poller_who(&mut self, can: impl Fn(&Taker) -> bool) -> Option<Poller> {
        // Those in front who have gone; others of them go when their turn comes.
        while self.pollers.front().is_some_and(|poller| !poller.is_waiting()) {
            self.pollers.pop_front();
        }
        let pollers = self.pollers.iter().enumerate();
        let mut able = pollers.filter(|(_, poller)| poller.is_waiting() && can(&poller.taker)).peekable();
        let first = able.peek()?.0;
        let at = able.find(|(_, poller)| !poller.stands_by()).map_or(first, |(at, _)| at);
        let poller = self.pollers.get_mut(at)?;
        let slot = poller.next_slot();
        if slot.is_none() || poller.room() == 0 {
            let whole = self.pollers.remove(at);
            return slot.or(whole);
        }
        slot
    }

    /// The task that comes first, of those that such a taker can do.
    pub(super) fn pop_task(&mut self, can: impl Fn(&OnList) -> bool) -> Option<OnList> {
        let at = self.tasks.iter().find(|(_, kept)| can(&kept.task)).map(|(at, _)| *at)?;
        let task = self.tasks.remove(&at)?.task.clone();
        self.known.remove(&task.known());
        self.asking -= usize::from(task.only_asks());
        Some(task)
    }

    /// See [`Matching::oldest`].
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let mut next = self.tasks.first_key_value();
        let firsts = std::iter::from_fn(|| {
            let (place, kept) = next?;
            next = self.tasks.range((Excluded((place.0, u64::MAX)), Unbounded)).next();
            Some(kept)
        });
        firsts.take(PRIORITIES_LOOKED_AT).filter_map(|kept| kept.task.task()?.since).min()
    }

    /// A turn of a run of which a query waits already becomes the task that waits: there are not two of one run.
    pub(super) fn convert(&mut self, turn: &OnList) -> bool {
        let Some(WaitingTask { run_id, .. }) = turn.task().filter(|_| self.asking > 0) else { return false };
        let mut kinds = [RiderKind::Query, RiderKind::Update].into_iter().map(|kind| TaskKey::Riders(*run_id, kind));
        let Some(place) = kinds.find_map(|asks| self.known.remove(&asks)) else { return false };
        let Some(Kept { task, .. }) = self.tasks.get_mut(&place) else { return false };
        *task = turn.clone();
        self.known.insert(turn.known(), place);
        self.asking -= 1;
        true
    }
}
