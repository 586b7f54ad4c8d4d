//! Bringing tasks and pollers together, list by list.

mod task_list;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, PollId, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use uuid::Uuid;

use task_list::{Kept, TaskList};

use crate::lists::grant::{Grant, RiderKind};
use crate::lists::{IntoSlot, ListKey, OnList, PollAnswer, Poller, Side, Taker, TaskKey, WaitingTask};

/// Lists with waiting tasks in memory. Ours: a list takes some hundred bytes.
const LISTS_MAX: usize = 10_000;

/// Waiting tasks of one list in memory. Ours: a task takes about 200 bytes, so that a list takes at most 10 MB.
const LIST_TASKS_MAX: usize = 50_000;

/// Waiting tasks of all lists in memory. Ours: at most 100 MB, and 200 MB for the tasks that each list has room for in any case.
const TASKS_MAX: usize = 500_000;

/// Runs with tasks that had no room and are to be written to their lists. Ours: each takes as much as a task.
const TO_WRITE_MAX: usize = 10_000;

/// What waits in memory. What waits beyond that waits in the store alone, and is fetched when somebody polls for it.
#[derive(Debug, Clone, Copy)]
pub struct WaitingBounds {
    /// Lists, but for those that somebody polls.
    pub lists_max: usize,
    /// Tasks of one list.
    pub list_tasks_max: usize,
    /// Tasks of all lists; each list has room for a hundred all the same, so that none is ever kept out by others.
    pub tasks_max: usize,
    /// Runs with tasks that found no room and are about to be written down; what comes beyond is offered again a second later.
    pub to_write_max: usize,
}

impl Default for WaitingBounds {
    fn default() -> Self {
        Self { lists_max: LISTS_MAX, list_tasks_max: LIST_TASKS_MAX, tasks_max: TASKS_MAX, to_write_max: TO_WRITE_MAX }
    }
}

/// Tasks that a list has room for however many others wait. Ours: the rows that are read at once.
const LIST_TASKS_ALWAYS: usize = 100;

/// Every list that has a task or a poller.
pub(crate) struct Matching {
    bounds: WaitingBounds,
    lists: Mutex<HashMap<ListKey, TaskList>>,
    /// Pollers that are reserved and whose poll is ending: if nothing comes of the reservation, they are not put back on
    /// their list. Locked only while `lists` is.
    leaving: Mutex<HashSet<u64>>,
    /// Tasks of all lists.
    all: Arc<AtomicUsize>,
    next_poller: AtomicU64,
    /// Notified when a poller finds a list empty that has overflowed.
    pub(crate) starving: tokio::sync::Notify,
}

/// What a poll finds.
pub(crate) enum PollResult<'a> {
    /// A task; try to take it, and poll again when somebody else has.
    Task(OnList),
    /// Nothing yet. Dropping it ends the wait.
    Wait(WaitingPoll<'a>),
}

/// What a poll for several tasks finds.
pub(crate) enum SlotsPolled {
    /// Tasks; try to take them.
    Tasks(Vec<(u32, OnList)>),
    /// Nothing yet. Dropping it ends the wait.
    Wait(WaitingSlots),
}

/// Slots that wait.
pub(crate) struct WaitingSlots {
    matching: Arc<Matching>,
    list: ListKey,
    id: u64,
    /// How many.
    pub(crate) room: usize,
    pub(crate) granted: UnboundedReceiver<IntoSlot>,
    /// Nobody else waited when they came.
    pub(crate) are_first: bool,
    stands_by: Arc<AtomicBool>,
}

impl WaitingSlots {
    /// They wait as others do from now on.
    pub(crate) fn are_ready(&self) {
        self.stands_by.store(false, Relaxed);
    }

    /// Takes the slots off their list and returns those that were free. The rest are reserved: what comes of that still
    /// arrives in `granted`, which closes once all of it has.
    pub(crate) fn withdraw(&self) -> Vec<u32> {
        self.matching.withdraw_poller(&self.list, self.id)
    }
}

impl Drop for WaitingSlots {
    fn drop(&mut self) {
        self.matching.forget_poller(&self.list, self.id);
    }
}

/// A poll that waits.
pub(crate) struct WaitingPoll<'a> {
    matching: &'a Matching,
    list: ListKey,
    id: u64,
    pub(crate) answer: oneshot::Receiver<Box<Grant>>,
}

impl WaitingPoll<'_> {
    /// Ends the wait. If the poller is reserved by a commit that is under way, this waits for the commit's outcome and
    /// returns the task that comes of it.
    pub(crate) async fn end(mut self) -> Option<Box<Grant>> {
        self.matching.withdraw_poller(&self.list, self.id);
        (&mut self.answer).await.ok()
    }
}

impl Drop for WaitingPoll<'_> {
    fn drop(&mut self) {
        self.matching.forget_poller(&self.list, self.id);
    }
}

impl Matching {
    pub(crate) fn new(bounds: WaitingBounds) -> Self {
        let bounds = WaitingBounds { list_tasks_max: bounds.list_tasks_max.max(1), ..bounds };
        let (lists, leaving) = (Mutex::default(), Mutex::default());
        let (all, next_poller) = (Arc::default(), AtomicU64::default());
        Self { bounds, lists, leaving, all, next_poller, starving: tokio::sync::Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ListKey, TaskList>> {
        self.lists.lock().expect("no code panics while it holds this lock")
    }

    fn lock_leaving(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.leaving.lock().expect("no code panics while it holds this lock")
    }

    /// Removes a poller from its list and returns the slots that were free there.
    fn remove_poller(lists: &mut HashMap<ListKey, TaskList>, key: &ListKey, id: u64) -> Vec<u32> {
        let mut free = Vec::new();
        let Some(list) = lists.get_mut(key) else { return free };
        // Pollers stand in the order of their ids but for those put back; there are few of either.
        let mut may_have_others = true;
        while may_have_others && let Some(at) = list.pollers.iter().position(|poller| poller.id == id) {
            match list.pollers.remove(at).map(|poller| poller.answer) {
                None | Some(PollAnswer::Task(_)) => may_have_others = false,
                Some(PollAnswer::Slot(_, slot)) => free.push(slot),
                Some(PollAnswer::Slots(_, slots, _)) => free.extend(slots),
            }
        }
        if list.is_idle() {
            lists.remove(key);
        }
        free
    }

    /// Forgets a poller whose poll is over, with all its slots.
    fn forget_poller(&self, key: &ListKey, id: u64) {
        let mut lists = self.lock();
        Self::remove_poller(&mut lists, key, id);
        self.lock_leaving().remove(&id);
    }

    /// Takes a poller off its list whose poll is about to end, so that nothing reserves it any more. A poller that is
    /// reserved at this moment is marked: [`poll_for`](Self::poll_for) does not put it back. Returns its free slots.
    fn withdraw_poller(&self, key: &ListKey, id: u64) -> Vec<u32> {
        let mut lists = self.lock();
        self.lock_leaving().insert(id);
        Self::remove_poller(&mut lists, key, id)
    }

    /// Takes the poller that has waited longest, for a task that is about to be made.
    pub(crate) fn reserve(&self, key: &ListKey) -> Option<Poller> {
        let mut lists = self.lock();
        let list = lists.get_mut(key)?;
        // Tasks that wait go first; a poller beside them is on its way to one.
        let poller = if list.tasks.len() == list.asking { list.next_poller() } else { None };
        if list.is_idle() {
            lists.remove(key);
        }
        poller
    }

    /// Takes the poller that has waited longest of those that do what such riders ask.
    pub(crate) fn reserve_for_riders(&self, key: &ListKey, kind: RiderKind) -> Option<Poller> {
        let mut lists = self.lock();
        let list = lists.get_mut(key)?;
        let poller = match kind {
            RiderKind::Query if !list.tasks.is_empty() => None,
            // A run's updates are urgent to their callers; what waits beside them waits for a poller that can do it.
            RiderKind::Query | RiderKind::Update => list.next_poller_who(|taker| taker.takes(kind)),
        };
        if list.is_idle() {
            lists.remove(key);
        }
        poller
    }

    /// Whether somebody waits who can do what is to be done.
    pub(crate) fn has_poller(&self, key: &ListKey, can: impl Fn(&Taker) -> bool) -> bool {
        let waits = |poller: &Poller| poller.is_waiting() && can(&poller.taker);
        self.lock().get(key).is_some_and(|list| list.pollers.iter().any(waits))
    }

    /// Takes the task that has waited longest, to have it done elsewhere.
    pub(crate) fn pop_waiting(&self, key: &ListKey) -> Option<WaitingTask> {
        let mut lists = self.lock();
        let list = lists.get_mut(key)?;
        // What is only asked is asked at another node in another way, and so are updates judged.
        let task = list.pop_task(|task| !task.only_asks());
        if self.is_to_refill(list) {
            self.starving.notify_one();
        }
        if list.is_idle() {
            lists.remove(key);
        }
        match task? {
            OnList::Task(task) => Some(task),
            OnList::Riders(_) => None,
        }
    }

    /// How many tasks a list has room for just now.
    fn room(&self) -> usize {
        let is_full = self.all.load(Relaxed) >= self.bounds.tasks_max;
        if is_full { self.bounds.list_tasks_max.min(LIST_TASKS_ALWAYS) } else { self.bounds.list_tasks_max }
    }

    /// Whether there is much room again on a list that has overflowed.
    fn is_to_refill(&self, list: &TaskList) -> bool {
        list.overflowed && list.tasks.len() < self.room().div_ceil(2)
    }

    /// Whether there is room for no more tasks on a list. What else waits there is fetched once there is.
    pub(crate) fn is_full(&self, key: &ListKey) -> bool {
        let mut lists = self.lock();
        let Some(list) = lists.get_mut(key) else { return lists.len() >= self.bounds.lists_max };
        let is_full = list.tasks.len() >= self.room();
        list.overflowed |= is_full;
        is_full
    }

    /// Whether a list is in memory, or would be.
    pub(crate) fn has_room_for_list(&self, key: &ListKey) -> bool {
        let lists = self.lock();
        lists.len() < self.bounds.lists_max || lists.contains_key(key)
    }

    /// Adds a task that waits; false when it is known already or the list is full. Answers a poller if one waits, who
    /// then must be given the task.
    pub(crate) fn offer(&self, key: &ListKey, task: impl Into<OnList>) -> Offered {
        let task = task.into();
        let mut lists = self.lock();
        if lists.len() >= self.bounds.lists_max && !lists.contains_key(key) {
            return Offered::Full;
        }
        let list = lists.entry(key.clone()).or_default();
        if list.known.contains_key(&task.known()) || list.convert(&task) {
            return Offered::Known;
        }
        if list.tasks.len() >= self.room() {
            list.overflowed = true;
            return Offered::Full;
        }
        if let Some(poller) = list.next_poller_for(&task) {
            if list.is_idle() {
                lists.remove(key);
            }
            return Offered::Poller(Box::new(poller), task);
        }
        list.asking += usize::from(task.only_asks());
        list.came += 1;
        let place = (Reverse(task.priority()), list.came);
        list.known.insert(task.known(), place);
        list.tasks.insert(place, Kept::new(task, &self.all));
        Offered::Waits
    }

    /// Takes a task off its list that nobody is to take any more, if it is there.
    pub(crate) fn withdraw(&self, key: &ListKey, run_id: Uuid, scheduled_event_id: EventId) {
        let mut lists = self.lock();
        let Some(list) = lists.get_mut(key) else { return };
        if let Some(place) = list.known.remove(&TaskKey::Task(run_id, scheduled_event_id, None)) {
            list.tasks.remove(&place);
        }
        if list.is_idle() {
            lists.remove(key);
        }
    }

    /// Polls a list.
    pub(crate) fn poll(&self, key: &ListKey, taker: &Taker) -> PollResult<'_> {
        let mut lists = self.lock();
        // Where there was no room for a list, its tasks may be in the store.
        let overflowed = lists.len() >= self.bounds.lists_max;
        let list = lists.entry(key.clone()).or_insert_with(|| TaskList { overflowed, ..TaskList::default() });
        if let Some(task) = list.pop_task(|task| task.is_for(taker)) {
            if self.is_to_refill(list) {
                self.starving.notify_one();
            }
            if list.is_idle() {
                lists.remove(key);
            }
            return PollResult::Task(task);
        }
        if list.overflowed {
            self.starving.notify_one();
        }
        let id = self.next_poller.fetch_add(1, Relaxed);
        let (answer, receiver) = oneshot::channel();
        list.pollers.push_back(Poller { taker: taker.clone(), id, answer: PollAnswer::Task(answer) });
        PollResult::Wait(WaitingPoll { matching: self, list: key.clone(), id, answer: receiver })
    }

    /// Polls a list for as many tasks as there are slots: those that wait there, each with its slot, or where none does a wait
    /// for them all. Who stands by takes none of those that wait.
    pub(crate) fn poll_slots(
        self: &Arc<Self>,
        key: &ListKey,
        taker: &Taker,
        slots: &mut Vec<u32>,
        stands_by: bool,
    ) -> SlotsPolled {
        let mut lists = self.lock();
        // Where there was no room for a list, its tasks may be in the store.
        let overflowed = lists.len() >= self.bounds.lists_max;
        let has_tasks = |list: &TaskList| list.overflowed || !list.tasks.is_empty();
        if stands_by && lists.get(key).map_or(overflowed, has_tasks) {
            return SlotsPolled::Tasks(Vec::new());
        }
        let list = lists.entry(key.clone()).or_insert_with(|| TaskList { overflowed, ..TaskList::default() });
        let mut found = Vec::new();
        while let Some(slot) = slots.last().copied()
            && let Some(task) = list.pop_task(|task| task.is_for(taker))
        {
            slots.pop();
            found.push((slot, task));
        }
        let is_short = if found.is_empty() { list.overflowed } else { self.is_to_refill(list) };
        if is_short {
            self.starving.notify_one();
        }
        if !found.is_empty() {
            if list.is_idle() {
                lists.remove(key);
            }
            return SlotsPolled::Tasks(found);
        }
        let id = self.next_poller.fetch_add(1, Relaxed);
        let (answer, granted) = unbounded_channel();
        let (room, are_first) = (slots.len(), !list.pollers.iter().any(Poller::is_waiting));
        let stands_by = Arc::new(AtomicBool::new(stands_by));
        let answer = PollAnswer::Slots(answer, std::mem::take(slots), Arc::clone(&stands_by));
        list.pollers.push_back(Poller { taker: taker.clone(), id, answer });
        let (matching, list) = (Arc::clone(self), key.clone());
        SlotsPolled::Wait(WaitingSlots { matching, list, id, room, granted, are_first, stands_by })
    }

    /// Polls again for a poller that was reserved or handed a task in vain: it waits in front, unless there is a task,
    /// which then is answered while the poller is put in front of the others all the same. A poller whose poll is ending
    /// waits no longer.
    pub(crate) fn poll_for(&self, key: &ListKey, poller: Poller) -> Option<OnList> {
        let mut lists = self.lock();
        if self.lock_leaving().contains(&poller.id) {
            poller.end();
            return None;
        }
        let list = lists.entry(key.clone()).or_default();
        let task = list.pop_task(|task| task.is_for(&poller.taker));
        list.pollers.push_front(poller);
        task
    }

    /// The lists that have overflowed and have room again; the mark is taken off.
    pub(crate) fn take_overflowed(&self) -> Vec<ListKey> {
        let (mut lists, mut taken) = (self.lock(), Vec::new());
        lists.retain(|key, list| {
            if self.is_to_refill(list) {
                list.overflowed = false;
                taken.push(key.clone());
            }
            !list.is_idle()
        });
        taken
    }

    /// Ends the wait of this poll, if it waits here.
    pub(crate) fn drop_poller(&self, poll: PollId) {
        for list in self.lock().values_mut() {
            list.pollers.retain_mut(|poller| poller.goes_on_without(poll));
        }
    }

    /// How many tasks wait on a list, but for those that only ask something; and whether more of them wait in the store alone.
    pub(crate) fn waiting(&self, key: &ListKey) -> (usize, bool) {
        let lists = self.lock();
        let has_others = lists.len() >= self.bounds.lists_max;
        lists.get(key).map_or((0, has_others), |list| (list.tasks.len() - list.asking, list.overflowed))
    }

    /// Lists of a domain on which tasks wait, among so many lists as are looked at.
    pub(crate) fn lists_with_tasks(&self, domain: &str, looked_at_max: usize) -> Vec<ListKey> {
        let lists = self.lock();
        let looked_at = lists.iter().take(looked_at_max);
        let waiting = looked_at.filter(|(key, list)| &*key.domain == domain && !list.tasks.is_empty());
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Adds lists of a domain, of as many as are looked at; whether there are more.
    pub(crate) fn add_lists(&self, domain: &str, looked_at_max: usize, to: &mut BTreeSet<(Arc<str>, Side)>) -> bool {
        let lists = self.lock();
        let looked_at = lists.iter().take(looked_at_max).filter(|(key, _)| &*key.domain == domain);
        to.extend(looked_at.map(|(key, _)| (Arc::clone(&key.name), key.side)));
        lists.len() > looked_at_max
    }

    /// Since when the task waits on a list that has waited longest, of the first of each of the highest priorities.
    pub(crate) fn oldest(&self, key: &ListKey) -> Option<Timestamp> {
        let lists = self.lock();
        lists.get(key)?.oldest()
    }

    /// The tasks that are handed out next, as many as are wanted, in their order; those that only ask something aside.
    pub(crate) fn next(&self, key: &ListKey, most: usize) -> Vec<WaitingTask> {
        let lists = self.lock();
        let tasks = lists.get(key).into_iter().flat_map(|list| list.tasks.values());
        // Those that ask are passed over, and bound how many are looked at, for the list is locked meanwhile.
        tasks.take(most * 2).filter_map(|kept| kept.task.task().cloned()).take(most).collect()
    }

    /// How many pollers wait on a list.
    pub(crate) fn pollers(&self, key: &ListKey) -> usize {
        let room = |list: &TaskList| list.pollers.iter().filter(|poller| poller.is_waiting()).map(Poller::room).sum();
        self.lock().get(key).map_or(0, room)
    }

    /// Tasks and pollers that wait, by list, and since when the task does that has waited longest.
    pub(crate) fn depths(&self) -> Vec<(ListKey, usize, usize, Option<Timestamp>)> {
        let depth = |(key, list): (&ListKey, &TaskList)| {
            (key.clone(), list.tasks.len(), list.pollers.iter().map(Poller::room).sum(), list.oldest())
        };
        self.lock().iter().map(depth).collect()
    }
}

/// What became of a task that was offered.
pub(crate) enum Offered {
    /// It waits.
    Waits,
    /// It waited already.
    Known,
    /// There is no room; it waits in the store alone.
    Full,
    /// This poller waits for just such a task; give it to them.
    Poller(Box<Poller>, OnList),
}

#[cfg(test)]
mod tests;
