//! Matches tasks with pollers, list by list.

mod task_list;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, PollId, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use task_list::TaskList;
use task_list::dispatch::ListGate;
pub(crate) use task_list::dispatch::{Departure, Leaving, LeavingNode, Stays, ToHome, ToNode, ToPoll, ToWaiting};
use task_list::keys::PlaceOnList;

use crate::base::list_reports::{Behind, LimitHold};
use crate::base::list_settings::DomainLists;
use crate::lists::grant::Grant;
use crate::lists::limits::limiter::{Freed, Limiter, UncheckedSlot};
use crate::lists::limits::permit::{Permit, ReturnedSlots, SlotKey, TaskSlot};
use crate::lists::{IntoSlot, ListKey, OnList, PollAnswer, Poller, Side, Taker, TaskKey, WaitingTask};

/// Default maximum number of lists with waiting tasks in memory. Our choice: at some hundred bytes each, the lists
/// without their tasks take a few megabytes.
const LISTS_MAX: usize = 10_000;

/// Default maximum number of waiting tasks of one list in memory. Our choice: a task takes about 200 bytes, so that a
/// list takes at most 20 MB.
const LIST_TASKS_MAX: usize = 100_000;

/// Default maximum number of waiting tasks of all lists in memory. Our choice: these tasks take at most 100 MB. The
/// [`LIST_TASKS_ALWAYS`] tasks of each list may take 200 MB in addition.
const TASKS_MAX: usize = 500_000;

/// Default maximum number of runs that wait for a row in the backlog because memory had no space for their tasks. Our
/// choice: a run takes as much memory as a task.
const TO_WRITE_MAX: usize = 10_000;

/// Maximum numbers of waiting tasks in memory. Further tasks wait only in the store and are read when their list is
/// polled.
#[derive(Debug, Clone, Copy)]
pub struct WaitingBounds {
    /// Maximum number of lists. A list with pollers is added even if the maximum is reached.
    pub lists_max: usize,
    /// Maximum number of tasks of one list.
    pub list_tasks_max: usize,
    /// Maximum number of tasks of all lists together. Even if it is reached, each list may have a hundred tasks, so
    /// that lists with many tasks do not block other lists.
    pub tasks_max: usize,
    /// Maximum number of runs that wait for a row in the backlog because memory had no space for their tasks. If it is
    /// reached, the tasks of further runs are offered again a second later.
    pub to_write_max: usize,
}

impl Default for WaitingBounds {
    fn default() -> Self {
        Self { lists_max: LISTS_MAX, list_tasks_max: LIST_TASKS_MAX, tasks_max: TASKS_MAX, to_write_max: TO_WRITE_MAX }
    }
}

/// Number of tasks that a list may always have, regardless of the number of tasks on other lists. Our choice: equal to
/// the number of backlog rows that are read at once.
const LIST_TASKS_ALWAYS: usize = 100;

/// All lists that have a task or a poller.
pub(crate) struct Matching {
    bounds: WaitingBounds,
    lists: Mutex<HashMap<ListKey, TaskList>>,
    /// Limits of lists. Locked alone, or while `lists` is locked.
    limiter: Mutex<Limiter>,
    /// True if any list has settings, so that the limiter must be asked.
    has_limits: AtomicBool,
    /// Slots of limited lists whose tasks may not have started.
    pub(crate) returned_slots: Arc<ReturnedSlots>,
    /// Ids of pollers that are reserved by a commit and whose poll is ending. If the commit fails, they are not put
    /// back on their list. Locked only while `lists` is locked.
    leaving: Mutex<HashSet<u64>>,
    /// Number of tasks on all lists.
    all: Arc<AtomicUsize>,
    next_poller: AtomicU64,
    /// Notified when a poller finds no task on a list that has overflowed. Some tasks of such a list are only in the
    /// store.
    pub(crate) starving: tokio::sync::Notify,
}

/// Result of a poll for one task.
pub(crate) enum PollResult<'a> {
    /// A waiting task. The caller tries to start it, and polls again if another poller was faster.
    Task(Leaving),
    /// There is no task yet. Dropping the value ends the wait.
    Wait(WaitingPoll<'a>),
}

/// Result of a poll for several tasks.
pub(crate) enum SlotsPolled {
    /// Waiting tasks, each with its slot. The caller tries to start them.
    Tasks(Vec<(u32, Leaving)>),
    /// There is no task yet. Dropping the value ends the wait.
    Wait(WaitingSlots),
}

/// Slots that wait for tasks.
pub(crate) struct WaitingSlots {
    matching: Arc<Matching>,
    list: ListKey,
    id: u64,
    /// Number of slots that wait.
    pub(crate) free_slots: usize,
    pub(crate) granted: UnboundedReceiver<IntoSlot>,
    /// True if no other poller waited on the list when these slots began to wait.
    pub(crate) are_first: bool,
    is_standby: Arc<AtomicBool>,
}

impl WaitingSlots {
    /// Ends the standby of the slots. After this call, the slots are served in the same order as other pollers.
    pub(crate) fn end_standby(&self) {
        self.is_standby.store(false, Relaxed);
    }

    /// Takes the slots off their list and returns the free slots. The other slots are reserved by commits, whose
    /// results still arrive in `granted`. The channel is closed after the last result.
    pub(crate) fn withdraw(&self) -> Vec<u32> {
        self.matching.withdraw_poller(&self.list, self.id)
    }
}

impl Drop for WaitingSlots {
    fn drop(&mut self) {
        self.matching.forget_poller(&self.list, self.id);
    }
}

/// A poll that waits for a task.
pub(crate) struct WaitingPoll<'a> {
    matching: &'a Matching,
    list: ListKey,
    id: u64,
    pub(crate) answer: oneshot::Receiver<Box<Grant>>,
}

impl WaitingPoll<'_> {
    /// Ends the wait. If a commit has reserved the poller, waits for the outcome of the commit and returns the task
    /// that the commit has started.
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
        Self {
            bounds,
            lists: Mutex::default(),
            limiter: Mutex::default(),
            has_limits: AtomicBool::default(),
            returned_slots: Arc::default(),
            leaving: Mutex::default(),
            all: Arc::default(),
            next_poller: AtomicU64::default(),
            starving: tokio::sync::Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ListKey, TaskList>> {
        self.lists.lock().expect("no code panics while it holds this lock")
    }

    fn lock_leaving(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.leaving.lock().expect("no code panics while it holds this lock")
    }

    fn lock_limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the limits of a list.
    fn gate<'a>(&'a self, list: &'a ListKey) -> ListGate<'a> {
        let limiter = self.has_limits.load(Relaxed).then(|| self.lock_limiter()).filter(|limiter| limiter.has(list));
        ListGate::new(limiter, list, &self.returned_slots)
    }

    /// Removes a poller from its list and returns its free slots.
    fn remove_poller(lists: &mut HashMap<ListKey, TaskList>, key: &ListKey, id: u64) -> Vec<u32> {
        let mut free = Vec::new();
        let Some(list) = lists.get_mut(key) else { return free };
        for pollers in [&mut list.pollers, &mut list.of_runs] {
            // Pollers are sorted by id, except for the few that were put back in front.
            let mut may_have_others = true;
            while may_have_others && let Some(at) = pollers.iter().position(|poller| poller.id == id) {
                match pollers.remove(at).map(|poller| poller.answer) {
                    None | Some(PollAnswer::Task(_)) => may_have_others = false,
                    Some(PollAnswer::Slot(_, slot)) => free.push(slot),
                    Some(PollAnswer::Slots(_, slots, _)) => free.extend(slots),
                }
            }
        }
        if list.is_idle() {
            lists.remove(key);
        }
        free
    }

    /// Removes all state of a poller after its poll has ended.
    fn forget_poller(&self, key: &ListKey, id: u64) {
        let mut lists = self.lock();
        Self::remove_poller(&mut lists, key, id);
        self.lock_leaving().remove(&id);
    }

    /// Takes a poller whose poll is about to end off its list, so that no further commit reserves it. Also marks the
    /// poller, so that [`put_back`](Self::put_back) does not return it to the list if a commit has already reserved it.
    /// Returns the poller's free slots.
    fn withdraw_poller(&self, key: &ListKey, id: u64) -> Vec<u32> {
        let mut lists = self.lock();
        self.lock_leaving().insert(id);
        Self::remove_poller(&mut lists, key, id)
    }

    /// Takes a task off a list for its recipient, through [`TaskList::dispatch`].
    pub(crate) fn dispatch<D: Departure>(&self, key: &ListKey, departure: D) -> Result<D::Left, Stays> {
        let mut lists = self.lock();
        let list = lists.get_mut(key).ok_or(D::IF_EMPTY)?;
        let left = list.dispatch(departure, self.gate(key));
        if self.is_to_refill(list) {
            self.starving.notify_one();
        }
        if list.is_idle() {
            lists.remove(key);
        }
        left
    }

    /// Returns true if the list has a waiting poller for which `can` returns true.
    pub(crate) fn has_poller(&self, key: &ListKey, can: impl Fn(&Taker) -> bool) -> bool {
        let waits = |poller: &Poller| poller.is_waiting() && can(&poller.taker);
        self.lock().get(key).is_some_and(|list| list.pollers.iter().any(waits))
    }

    /// Returns the current maximum number of tasks per list.
    fn capacity(&self) -> usize {
        let is_full = self.all.load(Relaxed) >= self.bounds.tasks_max;
        if is_full { self.bounds.list_tasks_max.min(LIST_TASKS_ALWAYS) } else { self.bounds.list_tasks_max }
    }

    /// Returns true if a list accepts this task. A full list still accepts tasks of concurrency keys that have less
    /// than their share of it, so that a key with very many tasks does not move all others to the store, where they
    /// would wait behind it. Together these tasks take at most as much space again.
    fn has_room_for(&self, list: &TaskList, task: &OnList) -> bool {
        let capacity = self.capacity();
        let tasks = list.tasks.len();
        tasks < capacity || (tasks < 2 * capacity && list.has_less_than_share(task, capacity))
    }

    /// Returns true if a list has overflowed and at least half of its space is free again.
    fn is_to_refill(&self, list: &TaskList) -> bool {
        list.overflowed && list.tasks.len() < self.capacity().div_ceil(2)
    }

    /// Returns true if a list accepts no more tasks. Once there is space, its tasks in the store are read.
    pub(crate) fn is_full(&self, key: &ListKey) -> bool {
        let mut lists = self.lock();
        let Some(list) = lists.get_mut(key) else { return lists.len() >= self.bounds.lists_max };
        let is_full = list.tasks.len() >= self.capacity();
        list.overflowed |= is_full;
        is_full
    }

    /// Returns true if a list is in memory or can be added.
    pub(crate) fn has_room_for_list(&self, key: &ListKey) -> bool {
        let lists = self.lock();
        lists.len() < self.bounds.lists_max || lists.contains_key(key)
    }

    /// Adds a waiting task, unless the list already has the task or is full. If a poller waits for such a task, returns
    /// the poller instead, and the caller must give the task to the poller.
    pub(crate) fn offer(&self, key: &ListKey, task: impl Into<OnList>) -> Offered {
        let task = task.into();
        let mut lists = self.lock();
        if lists.len() >= self.bounds.lists_max && !lists.contains_key(key) {
            return Offered::Full;
        }
        let list = lists.entry(key.clone()).or_default();
        if list.known.contains_key(&task.known()) {
            return Offered::Known;
        }
        let place_of_riders = list.remove_riders_of(&task);
        let is_full = place_of_riders.is_none() && !self.has_room_for(list, &task);
        if is_full && list.of_runs.is_empty() {
            list.overflowed = true;
            return Offered::Full;
        }
        if let Ok(poller) = list.dispatch(ToWaiting::from(&task), self.gate(key)) {
            if list.is_idle() {
                lists.remove(key);
            }
            return Offered::Poller(Box::new(poller), task);
        }
        if is_full {
            list.overflowed = true;
            return Offered::Full;
        }
        list.insert(task, place_of_riders, &self.all);
        Offered::Waits
    }

    /// Takes a task off its list, because it must no longer be started.
    pub(crate) fn withdraw(&self, key: &ListKey, run_id: Uuid, scheduled_event_id: EventId) {
        let mut lists = self.lock();
        let Some(list) = lists.get_mut(key) else { return };
        list.withdraw(&TaskKey::Task(run_id, scheduled_event_id, None));
        if list.is_idle() {
            lists.remove(key);
        }
    }

    /// Polls a list for one task.
    pub(crate) fn poll(&self, key: &ListKey, taker: &Taker) -> PollResult<'_> {
        let mut lists = self.lock();
        // If memory had no space for the list before this poll, its tasks may be only in the store.
        let overflowed = lists.len() >= self.bounds.lists_max;
        let list = lists.entry(key.clone()).or_insert_with(|| TaskList::new(overflowed));
        if let Ok(task) = list.dispatch(ToPoll(taker), self.gate(key)) {
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
        let (taker, answer, permit) = (taker.clone(), PollAnswer::Task(answer), Permit::default());
        list.add_poller(Poller { taker, id, answer, permit }, false);
        PollResult::Wait(WaitingPoll { matching: self, list: key.clone(), id, answer: receiver })
    }

    /// Polls a list for one task per slot. Returns the waiting tasks, each with its slot. If no tasks are waiting, all
    /// slots begin to wait. A standby poller gets no task that was waiting before its poll.
    pub(crate) fn poll_slots(
        self: &Arc<Self>,
        key: &ListKey,
        taker: &Taker,
        slots: &mut Vec<u32>,
        is_standby: bool,
    ) -> SlotsPolled {
        let mut lists = self.lock();
        // If memory had no space for the list before this poll, its tasks may be only in the store.
        let overflowed = lists.len() >= self.bounds.lists_max;
        let has_tasks = |list: &TaskList| list.overflowed || !list.tasks.is_empty();
        if is_standby && lists.get(key).map_or(overflowed, has_tasks) {
            return SlotsPolled::Tasks(Vec::new());
        }
        let list = lists.entry(key.clone()).or_insert_with(|| TaskList::new(overflowed));
        let mut found = Vec::new();
        while let Some(slot) = slots.last().copied()
            && let Ok(task) = list.dispatch(ToPoll(taker), self.gate(key))
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
        let free_slots = slots.len();
        let are_first = taker.workflow_id.is_none() && !list.pollers.iter().any(Poller::is_waiting);
        let is_standby = Arc::new(AtomicBool::new(is_standby));
        let answer = PollAnswer::Slots(answer, std::mem::take(slots), Arc::clone(&is_standby));
        list.add_poller(Poller { taker: taker.clone(), id, answer, permit: Permit::default() }, false);
        let (matching, list) = (Arc::clone(self), key.clone());
        SlotsPolled::Wait(WaitingSlots { matching, list, id, free_slots, granted, are_first, is_standby })
    }

    /// Puts a poller back on its list, after it was reserved or given a task without success. It is placed in front of
    /// the other pollers. If a task now waits for it, returns the poller and the task instead, and the caller must give
    /// the task to the poller. A poller whose poll is ending or has ended is not put back.
    pub(crate) fn put_back(&self, key: &ListKey, mut poller: Poller) -> Option<(Poller, Leaving)> {
        // The slot of the task that the poller did not get is given back.
        poller.permit = Permit::default();
        let mut lists = self.lock();
        if self.lock_leaving().contains(&poller.id) {
            poller.end();
            return None;
        }
        if !poller.is_waiting() {
            // The poll has ended, so its poller must get no task. Otherwise, the failed delivery would be recorded in
            // the history.
            return None;
        }
        let list = lists.entry(key.clone()).or_default();
        if let Ok(task) = list.dispatch(ToPoll(&poller.taker), self.gate(key)) {
            if self.is_to_refill(list) {
                self.starving.notify_one();
            }
            if list.is_idle() {
                lists.remove(key);
            }
            return Some((poller, task));
        }
        list.add_poller(poller, true);
        None
    }

    /// Returns the lists that have overflowed and have space again, and clears their overflow flags.
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

    /// Ends the wait of this poll if it waits at this node.
    pub(crate) fn drop_poller(&self, poll: PollId) {
        for list in self.lock().values_mut() {
            list.pollers.retain_mut(|poller| poller.stop_waiting_for(poll));
            list.of_runs.retain_mut(|poller| poller.stop_waiting_for(poll));
        }
    }

    /// Returns the number of tasks on a list, without riders, and whether the list has further tasks that are only in
    /// the store.
    pub(crate) fn waiting(&self, key: &ListKey) -> (usize, bool) {
        let lists = self.lock();
        let has_others = lists.len() >= self.bounds.lists_max;
        lists.get(key).map_or((0, has_others), |list| (list.tasks.len() - list.riders, list.overflowed))
    }

    /// Returns the lists of a domain that have tasks. Examines only the first `examined_max` lists of the node.
    pub(crate) fn lists_with_tasks(&self, domain: &str, examined_max: usize) -> Vec<ListKey> {
        let lists = self.lock();
        let examined = lists.iter().take(examined_max);
        let waiting = examined.filter(|(key, list)| &*key.domain == domain && !list.tasks.is_empty());
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Adds the domain's lists to `to`. Examines only the first `examined_max` lists of the node, and returns true if
    /// there are more.
    pub(crate) fn add_lists(&self, domain: &str, examined_max: usize, to: &mut BTreeSet<(Arc<str>, Side)>) -> bool {
        let lists = self.lock();
        let examined = lists.iter().take(examined_max).filter(|(key, _)| &*key.domain == domain);
        to.extend(examined.map(|(key, _)| (Arc::clone(&key.name), key.side)));
        lists.len() > examined_max
    }

    /// Returns the time when the oldest waiting task of a list began to wait. Examines only the first task of each
    /// priority, and only the highest priorities.
    pub(crate) fn oldest(&self, key: &ListKey) -> Option<Timestamp> {
        let lists = self.lock();
        lists.get(key)?.oldest()
    }

    /// Returns the next tasks of a list in the order in which they are handed out if no limit holds them back, without
    /// riders. Each has the number of tasks of its key and priority that come before it.
    pub(crate) fn next(&self, key: &ListKey, most: usize) -> Vec<(WaitingTask, usize)> {
        let lists = self.lock();
        // The number of examined entries is limited, because the list is locked. Riders count toward the limit although
        // they are skipped.
        let tasks = lists.get(key).map(|list| list.next(most * 2)).unwrap_or_default().into_iter();
        tasks.filter_map(|(task, before)| Some((task.task()?.clone(), before))).take(most).collect()
    }

    /// Returns the limits that hold waiting tasks of a list back, each with the number of these tasks. Of keys, returns
    /// only those with the most waiting tasks.
    pub(crate) fn held_back(&self, key: &ListKey, keys_max: usize) -> Vec<Behind> {
        let lists = self.lock();
        let Some(list) = lists.get(key).filter(|list| list.has_tasks() && self.has_limits.load(Relaxed)) else {
            return Vec::new();
        };
        let (limiter, now) = (self.lock_limiter(), Instant::now());
        let of_list = limiter.holds(key, None, now).into_iter();
        let mut behind: Vec<Behind> =
            of_list.map(|hold| Behind { hold, tasks: list.tasks.len() - list.riders }).collect();
        for (of_key, tasks) in list.largest_keys(keys_max) {
            let holds = limiter.holds(key, Some(&of_key), now).into_iter().filter(LimitHold::is_of_key);
            behind.extend(holds.map(|hold| Behind { hold, tasks }));
        }
        behind
    }

    /// Returns each limited list with its running tasks and with the number of waiting tasks that its limits hold back.
    pub(crate) fn limited_depths(&self) -> Vec<LimitedDepth> {
        if !self.has_limits.load(Relaxed) {
            return Vec::new();
        }
        let lists = self.lock();
        let (limiter, now) = (self.lock_limiter(), Instant::now());
        let depth = |(key, running, max_running)| {
            let waiting = lists.get(&key).map_or(0, |list| list.tasks.len() - list.riders);
            let held_back = if waiting == 0 {
                0
            } else if limiter.holds(&key, None, now).is_empty() {
                let of_key = |of: Arc<str>| lists.get(&key).map_or(0, |list| list.tasks_of_key(of));
                limiter.held_keys(&key, now).into_iter().map(of_key).sum()
            } else {
                waiting
            };
            LimitedDepth { list: key, running, max_running, held_back }
        };
        limiter.running().into_iter().map(depth).collect()
    }

    /// Returns true if any list has limits.
    pub(crate) fn has_limits(&self) -> bool {
        self.has_limits.load(Relaxed)
    }

    /// Takes the next pair of a task and a poller that waits, on a list whose limits or keys let both wait. Riders are
    /// not considered, because they get a poller when they are offered. Pollers of single runs are included on request,
    /// because each of them must look through all tasks of the list. Only limits, and changes of limits, can let such a
    /// poller and a task of its run wait.
    pub(crate) fn next_pair(&self, key: &ListKey, includes_of_runs: bool) -> Option<(Poller, Leaving)> {
        let mut lists = self.lock();
        let list = lists.get_mut(key).filter(|list| list.has_tasks())?;
        let pair = list.takers(includes_of_runs).into_iter().find_map(|taker| {
            let leaving = list.dispatch(ToPoll(&taker), self.gate(key)).ok()?;
            Some((list.take_poller_of(&taker), leaving))
        });
        let pair = match pair {
            Some((Some(poller), leaving)) => Some((poller, leaving)),
            // The poller waited a moment ago, and the list is locked. It has disconnected since, so the task is put
            // back.
            Some((None, leaving)) => {
                list.insert(leaving.task, None, &self.all);
                None
            }
            None => None,
        };
        if list.is_idle() {
            lists.remove(key);
        }
        pair
    }

    /// Replaces the settings of the domain's lists, as [`Limiter::set`] does.
    pub(crate) fn set_limits(&self, domain: &Arc<str>, settings: &DomainLists) -> (Vec<ListKey>, Option<u64>) {
        let mut lists = self.lock();
        let mut limiter = self.lock_limiter();
        let (changed, must_count) = limiter.set(domain, settings, Instant::now());
        self.has_limits.store(!limiter.is_empty(), Relaxed);
        for list in &changed {
            lists.get_mut(list).into_iter().for_each(TaskList::readmit_all);
        }
        (changed, must_count)
    }

    /// Records that a commit has started a task.
    pub(crate) fn started(&self, task: &TaskSlot) {
        self.lock_limiter().started(task, Instant::now());
    }

    /// Puts a task back on its list. Unlike [`offer`](Self::offer), does not look for a poller.
    pub(crate) fn restore(&self, key: &ListKey, task: WaitingTask) {
        let mut lists = self.lock();
        let list = lists.entry(key.clone()).or_default();
        if !list.known.contains_key(&task.known()) {
            list.insert(task.into(), None, &self.all);
        }
    }

    /// Puts a task back to its place on its list, because no poller of another node took it.
    pub(crate) fn put_back_task(&self, key: &ListKey, task: WaitingTask, place: PlaceOnList) {
        self.lock().entry(key.clone()).or_default().put_back(task, place, &self.all);
    }

    /// Returns true if a list is limited and another node decides about its limits.
    pub(crate) fn is_away(&self, list: &ListKey) -> bool {
        self.has_limits.load(Relaxed) && self.lock_limiter().is_away(list)
    }

    /// Records that a task has ended. Returns the lists that may hand out a task now.
    pub(crate) fn ended(&self, list: &ListKey, slot: SlotKey) -> Vec<ListKey> {
        if !self.has_limits.load(Relaxed) {
            return Vec::new();
        }
        let freed = self.lock_limiter().ended(list, slot);
        self.readmit(freed)
    }

    /// Returns the permit of a task that the home node of the list's limits has permitted to start. If the task does
    /// not start, the home node is informed.
    pub(crate) fn permit_from_home(&self, list: &ListKey, task: &WaitingTask) -> Permit {
        Permit::new(&self.returned_slots, task.slot(list))
    }

    /// Takes a slot for a task that is not on its list.
    pub(crate) fn permit(&self, list: &ListKey, task: &WaitingTask) -> Result<Permit, Stays> {
        self.gate(list).take(task)
    }

    /// Frees the slot of a task that did not start. Returns the lists that may hand out a task now.
    pub(crate) fn give_back(&self, slot: SlotKey) -> Vec<ListKey> {
        let freed = self.lock_limiter().give_back(slot);
        self.readmit(freed)
    }

    /// Applies the result of reading the run of a slot. Returns the lists that may hand out a task now.
    pub(crate) fn checked(&self, slot: &UncheckedSlot, runs: bool) -> Vec<ListKey> {
        let freed = self.lock_limiter().checked(slot, runs);
        self.readmit(freed)
    }

    /// Frees the slots of a run's tasks that are not running. Returns the lists that may hand out a task now.
    pub(crate) fn reconcile(&self, run_id: Uuid, running: &[EventId]) -> Vec<ListKey> {
        if !self.has_limits.load(Relaxed) {
            return Vec::new();
        }
        let freed = self.lock_limiter().reconcile(run_id, running);
        freed.into_iter().flat_map(|freed| self.readmit(freed)).collect()
    }

    /// Lets the key of a freed slot take turns again.
    fn readmit(&self, Freed { list, key, lists }: Freed) -> Vec<ListKey> {
        if let (Some(list), Some(key)) = (list, key)
            && let Some(list) = self.lock().get_mut(&list)
        {
            list.readmit(&key);
        }
        lists
    }

    /// Applies `change` to the limits.
    pub(crate) fn with_limiter<T>(&self, change: impl FnOnce(&mut Limiter) -> T) -> T {
        change(&mut self.lock_limiter())
    }

    /// Returns the number of tasks that the pollers of a list wait for.
    pub(crate) fn pollers(&self, key: &ListKey) -> usize {
        let waiting =
            |list: &TaskList| list.pollers.iter().filter(|poller| poller.is_waiting()).map(Poller::free_slots).sum();
        self.lock().get(key).map_or(0, waiting)
    }

    /// Returns for each list the number of tasks, the number of tasks that pollers wait for, and the time when the
    /// list's oldest task began to wait.
    pub(crate) fn depths(&self) -> Vec<(ListKey, usize, usize, Option<Timestamp>)> {
        let depth = |(key, list): (&ListKey, &TaskList)| {
            (key.clone(), list.tasks.len(), list.pollers.iter().map(Poller::free_slots).sum(), list.oldest())
        };
        self.lock().iter().map(depth).collect()
    }
}

/// Use of a limited list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitedDepth {
    pub(crate) list: ListKey,
    /// Number of running tasks, including those that are about to start.
    pub(crate) running: u32,
    /// Maximum number of running tasks, if the list has one.
    pub(crate) max_running: Option<u32>,
    /// Number of waiting tasks that may not start now.
    pub(crate) held_back: usize,
}

/// Result of offering a task.
pub(crate) enum Offered {
    /// The task now waits on the list.
    Waits,
    /// The list already had the task.
    Known,
    /// Memory has no space for the task, so it waits only in the store.
    Full,
    /// This poller waits for such a task, and the caller must give it the task.
    Poller(Box<Poller>, OnList),
}

#[cfg(test)]
mod tests;
