//! Polls for several tasks at once: slots, each of which is filled by one task, as they come.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use history::{Payload, PollId};
use tokio::time::Instant;

use crate::Refusal;
use crate::base::background::Background;
use crate::base::shares::watch;
use crate::lists::grant::Grant;
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::{SlotsPolled, WaitingSlots};
use crate::lists::pollers::Polling;
use crate::lists::polls::{EVENTS_BYTES_MAX, Poll, SLOTS_MAX, TaskEvents, taker};
use crate::lists::{ListKey, OnList, Side, Taker};
use crate::riders::carrier::TASK_RIDER_BYTES_MAX;
use crate::tasks::{ActivityTask, DeciderTask, Delivery, Receipt, Tasks, pass_over};

/// Most bytes of tasks that come into slots at once, and so of an exchange's answer or of one line of it. Ours: as many as a request
/// may bring. Source: `docs/exchanges.md`.
pub const EXCHANGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Room that there must be for one more task: a whole window, what rides with it, and the context of the run.
const TASK_BYTES_MAX: usize = EVENTS_BYTES_MAX + TASK_RIDER_BYTES_MAX + 2 * history::limits::PAYLOAD_BYTES_MAX;

/// Whether one more task may come with those that have so many bytes.
fn has_room(bytes: usize) -> bool {
    bytes + TASK_BYTES_MAX <= EXCHANGE_BYTES_MAX
}

/// Slots of a list that wait for their tasks. Dropping them is for callers whose connection is gone: tasks on their way
/// into a slot are given back. To end the wait otherwise, call [`Tasks::last_turns`] or [`Tasks::last_activities`].
pub struct Slots {
    lists: Arc<TaskLists>,
    background: Arc<Background>,
    list: ListKey,
    taker: Taker,
    /// Earlier tries of the poll.
    earlier: Vec<PollId>,
    events: TaskEvents,
    deadline: Instant,
    /// Those that are not on the list, or stand by there, the next one last.
    free: Vec<u32>,
    /// How many are on the list, or reserved.
    waits: usize,
    waiting: Option<WaitingSlots>,
    /// The slots in `waiting` are off their list: nothing comes but what they are reserved for.
    is_withdrawn: bool,
    /// Tasks that are taken and come next: there was no room for them beside others.
    held_over: Vec<(u32, Grant)>,
    _polling: Option<Polling>,
}

impl Tasks {
    /// Polls for several tasks at once. Of a later try of the poll `slots` are those into which nothing had come.
    ///
    /// # Errors
    ///
    /// As for [`poll_decider`](Self::poll_decider), and a fault for more slots than there may be, or one that is there twice.
    pub async fn slots(
        &self,
        is_decider: bool,
        (domain, list): (&str, &str),
        poll: &Poll,
        slots: Vec<u32>,
    ) -> Result<Slots, Refusal> {
        self.registry.must_know(domain).await?;
        history::admit::check_name("taskList", list)?;
        let free = in_order(slots)?;
        let list = ListKey { domain: domain.into(), side: Side::of(is_decider), name: list.into() };
        let (taker, earlier) = taker(&list, poll)?;
        // Without a slot it is no poll.
        let polling = if free.is_empty() { None } else { Some(self.lists.pollers.polling(&list, &taker)?) };
        if polling.is_some() {
            if !poll.wait.is_zero() {
                watch()?;
            }
            self.lists.seek(&list);
        }
        let events = poll.task_events();
        let (lists, background) = (Arc::clone(&self.lists), Arc::clone(&self.background));
        let (deadline, waits, waiting) = (Instant::now() + poll.wait, 0, None);
        Ok(Slots {
            lists,
            background,
            list,
            taker,
            earlier,
            events,
            deadline,
            free,
            waits,
            waiting,
            is_withdrawn: false,
            held_over: Vec::new(),
            _polling: polling,
        })
    }

    /// The next turns that come into slots, with the slot of each: one at least, and none when the wait is over or each has its own.
    /// Together they have at most [`EXCHANGE_BYTES_MAX`]; those beyond come with the next call. The slot of a turn that cannot be
    /// read stays empty: its turn is given back, or left to its timeout if its run is broken.
    ///
    /// # Errors
    ///
    /// The store's, if no task could be taken.
    pub async fn next_turns(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<DeciderTask>)>, Refusal> {
        slots.next_read(self).await
    }

    /// The same for activities.
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn next_activities(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<ActivityTask>)>, Refusal> {
        slots.next_read(self).await
    }

    /// Waits as [`next_turns`](Self::next_turns) does, and then ends the wait: returns the next turns together with
    /// those for which slots were reserved when they came. Those beyond [`EXCHANGE_BYTES_MAX`] come with the next calls
    /// of [`next_turns`](Self::next_turns), until [`are_filled`](Slots::are_filled).
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn last_turns(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<DeciderTask>)>, Refusal> {
        slots.last_read(self).await
    }

    /// The same for activities.
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn last_activities(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<ActivityTask>)>, Refusal> {
        slots.last_read(self).await
    }
}

/// What comes into a slot.
trait SlotsTask: Sized {
    /// What was granted, with what its taker is to see.
    fn read<'a>(tasks: &'a Tasks, grant: &'a Grant, events: TaskEvents) -> BoxFuture<'a, Result<Self, Refusal>>;

    /// How many bytes it brings.
    fn size(&self) -> usize;
}

impl SlotsTask for DeciderTask {
    fn read<'a>(tasks: &'a Tasks, grant: &'a Grant, events: TaskEvents) -> BoxFuture<'a, Result<Self, Refusal>> {
        Box::pin(tasks.decider_task(grant, events))
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

impl SlotsTask for ActivityTask {
    fn read<'a>(tasks: &'a Tasks, grant: &'a Grant, _: TaskEvents) -> BoxFuture<'a, Result<Self, Refusal>> {
        Box::pin(tasks.activity_task(grant))
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

impl DeciderTask {
    /// Bytes of what it brings: its window, the context, and what rides with it.
    pub fn bytes(&self) -> usize {
        let of = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
        let queries: usize = self.queries.iter().map(|query| query.name.len() + of(&query.input)).sum();
        let updates: usize = self.updates.iter().map(|update| update.name.len() + of(&update.input)).sum();
        self.events_bytes + of(&self.context) + queries + updates
    }
}

impl ActivityTask {
    /// Bytes of what it brings: its input, and what the last heartbeat said.
    pub fn bytes(&self) -> usize {
        let brought = [&self.input, &self.heartbeat_details];
        brought.into_iter().flatten().map(Payload::len).sum()
    }
}

/// The tasks there are, or if there are none, why not. One that fails does not hold up the others.
fn or_refused<T>(tasks: Vec<T>, refused: Option<Refusal>) -> Result<Vec<T>, Refusal> {
    match refused {
        Some(refusal) if tasks.is_empty() => Err(refusal),
        Some(_) | None => Ok(tasks),
    }
}

/// The slots in the order in which they are filled, the last one first.
fn in_order(mut slots: Vec<u32>) -> Result<Vec<u32>, Refusal> {
    let problem = if slots.len() > SLOTS_MAX {
        Some(format!("has {} slots, at most {SLOTS_MAX} are allowed", slots.len()))
    } else {
        slots.sort_unstable_by(|one, other| other.cmp(one));
        let twice = slots.windows(2).find(|pair| pair.first() == pair.last()).and_then(|pair| pair.first());
        twice.map(|slot| format!("has slot {slot} twice"))
    };
    match problem {
        Some(problem) => Err(history::Fault::Invalid { field: "slots".to_owned(), problem }.into()),
        None => Ok(slots),
    }
}

impl Slots {
    /// Whether each slot has had its task, or none was asked for.
    pub fn are_filled(&self) -> bool {
        self.free.is_empty() && self.waits == 0 && self.held_over.is_empty()
    }

    /// Whether the next task of the list comes here: there is a slot, and nobody else has waited longer.
    pub fn are_next(&self) -> bool {
        match &self.waiting {
            Some(waiting) => waiting.are_first,
            None => !self.are_filled() && !self.lists.matching.has_poller(&self.list, |_| true),
        }
    }

    /// Has them wait from now on, for a task that is made before the next ones are asked for, and that nobody else waits for. What waits on its
    /// list already stays there until then.
    pub fn stand_by(&mut self) {
        let is_polled = !self.earlier.is_empty() || self.waiting.is_some();
        if !is_polled && !self.are_filled() && !self.background.is_stopping() {
            drop(self.poll(true));
        }
    }

    /// Has those that stand by wait no more until the next tasks are asked for. Tasks that have come into them, or for
    /// which they are reserved, are among those.
    pub fn stand_down(&mut self) {
        if let Some(waiting) = &self.waiting {
            let free = waiting.withdraw();
            self.waits = self.waits.saturating_sub(free.len());
            self.free = free;
            self.free.sort_unstable_by(|one, other| other.cmp(one));
            self.is_withdrawn = true;
        }
    }

    /// Ends the wait of all slots at once. Tasks on their way to them go back to the list.
    pub fn give_up(&mut self) {
        self.free.clear();
        self.held_over.clear();
        (self.waiting, self.waits, self.is_withdrawn) = (None, 0, false);
    }

    /// Tasks that wait, or where none does has the slots wait.
    fn poll(&mut self, stands_by: bool) -> Vec<(u32, OnList)> {
        let standing_by = if stands_by { self.free.clone() } else { Vec::new() };
        match self.lists.matching.poll_slots(&self.list, &self.taker, &mut self.free, stands_by) {
            SlotsPolled::Tasks(tasks) => tasks,
            SlotsPolled::Wait(waiting) => {
                if self.deadline > Instant::now() {
                    self.lists.seek_waiting(&self.list);
                }
                (self.free, self.waits) = (standing_by, waiting.room);
                self.waiting = Some(waiting);
                Vec::new()
            }
        }
    }

    async fn next(&mut self) -> Result<Vec<(u32, Grant)>, Refusal> {
        if !self.held_over.is_empty() {
            return Ok(std::mem::take(&mut self.held_over));
        }
        if self.is_withdrawn {
            let granted = self.take_reserved().await;
            if !granted.is_empty() {
                return Ok(granted);
            }
        }
        if let Some(waiting) = &self.waiting {
            waiting.are_ready();
            self.free.clear();
        }
        if !self.earlier.is_empty() {
            let lost = Box::pin(self.take_lost()).await?;
            if !lost.is_empty() {
                return Ok(lost);
            }
        }
        loop {
            if self.background.is_stopping() || self.are_filled() {
                return Ok(Vec::new());
            }
            if self.waiting.is_none() {
                let tasks = self.poll(false);
                if self.waiting.is_none() {
                    let taken = Box::pin(self.take(tasks)).await?;
                    if !taken.is_empty() {
                        return Ok(taken);
                    }
                    continue;
                }
            }
            return Ok(self.wait().await);
        }
    }

    /// Takes tasks that wait, all at once; slots of those that somebody else has are free again.
    async fn take(&mut self, tasks: Vec<(u32, OnList)>) -> Result<Vec<(u32, Grant)>, Refusal> {
        let (lists, list, taker) = (&self.lists, &self.list, &self.taker);
        let take =
            |(slot, task): (u32, OnList)| async move { (slot, lists.take(list, task, taker.of_slot(slot)).await) };
        let tried = join_all(tasks.into_iter().map(take)).await;
        let (mut taken, mut refused) = (Vec::new(), None);
        for (slot, outcome) in tried {
            match outcome {
                Ok(Some(grant)) => taken.push((slot, grant)),
                Ok(None) => self.free.push(slot),
                Err(refusal) => refused = Some(refusal),
            }
        }
        self.free.sort_unstable_by(|one, other| other.cmp(one));
        // What was taken is worth more than what is wrong with the rest, which is offered again.
        or_refused(taken, refused)
    }

    /// What had been started for earlier tries of the poll.
    async fn take_lost(&mut self) -> Result<Vec<(u32, Grant)>, Refusal> {
        let earlier = std::mem::take(&mut self.earlier);
        let (lists, list) = (&self.lists, &self.list);
        let find = |slot: u32| {
            let earlier: Vec<PollId> = earlier.iter().map(|poll| poll.of_slot(slot)).collect();
            let taker = self.taker.of_slot(slot);
            async move { (slot, lists.take_lost(list, &earlier, &taker).await) }
        };
        let (mut found, mut refused) = (Vec::new(), None);
        for (slot, outcome) in join_all(self.free.iter().copied().map(find)).await {
            match outcome {
                Ok(Some(grant)) => found.push((slot, grant)),
                Ok(None) => {}
                Err(refusal) => refused = Some(refusal),
            }
        }
        self.free.retain(|slot| found.iter().all(|(other, _)| other != slot));
        // What was found is not held up by what could not be; that is found by a later try.
        or_refused(found, refused)
    }

    /// The next tasks that can be read. Others wait on meanwhile: what is wrong with one run does not end a wait.
    async fn next_read<T: SlotsTask>(&mut self, from: &Tasks) -> Result<Vec<(u32, Delivery<T>)>, Refusal> {
        let mut tasks = Vec::new();
        loop {
            let granted = self.next().await?;
            let is_over = granted.is_empty();
            self.read(granted, &mut tasks, from).await;
            if is_over || !tasks.is_empty() {
                return Ok(tasks);
            }
        }
    }

    /// The next tasks that can be read, and those for which slots are reserved when they come; nothing waits afterwards.
    async fn last_read<T: SlotsTask>(&mut self, from: &Tasks) -> Result<Vec<(u32, Delivery<T>)>, Refusal> {
        let mut tasks = self.next_read(from).await?;
        self.stand_down();
        let mut granted = std::mem::take(&mut self.held_over);
        granted.extend(self.take_reserved().await);
        self.free.clear();
        self.read(granted, &mut tasks, from).await;
        Ok(tasks)
    }

    /// Reads tasks, to come with others, while there is room; those beyond are held over.
    async fn read<T: SlotsTask>(
        &mut self,
        granted: Vec<(u32, Grant)>,
        tasks: &mut Vec<(u32, Delivery<T>)>,
        from: &Tasks,
    ) {
        let mut bytes = tasks.iter().map(|(_, delivery)| delivery.task().size()).sum();
        let mut granted = granted.into_iter();
        while has_room(bytes)
            && let Some((slot, grant)) = granted.next()
        {
            match T::read(from, &grant, self.events).await {
                Ok(task) => {
                    bytes += task.size();
                    tasks.push((slot, Delivery { task: Box::new(task), receipt: Receipt(Box::new(grant)) }));
                }
                Err(refusal) => drop(pass_over(Box::new(grant), &refusal)),
            }
        }
        self.held_over.extend(granted);
    }

    /// Waits until tasks come, and takes all that are there; none when the wait is over.
    async fn wait(&mut self) -> Vec<(u32, Grant)> {
        let mut granted = Vec::new();
        while let (Some(waiting), true) = (&mut self.waiting, granted.is_empty()) {
            let first = tokio::select! {
                biased;
                first = waiting.granted.recv() => first,
                () = tokio::time::sleep_until(self.deadline) => None,
                () = self.background.stopped() => None,
            };
            let Some(first) = first else {
                self.stand_down();
                granted = self.take_reserved().await;
                // The wait is over for all of them.
                self.free.clear();
                break;
            };
            let others = std::iter::from_fn(|| waiting.granted.try_recv().ok());
            for (slot, grant) in std::iter::once(first).chain(others) {
                self.waits = self.waits.saturating_sub(1);
                granted.extend(grant.map(|grant| (slot, *grant)));
            }
            if self.waits == 0 {
                self.waiting = None;
            }
        }
        granted
    }

    /// What came into slots that wait no longer: waits for each commit that had reserved one.
    async fn take_reserved(&mut self) -> Vec<(u32, Grant)> {
        let mut granted = Vec::new();
        if let Some(mut waiting) = self.waiting.take() {
            while let Some((slot, grant)) = waiting.granted.recv().await {
                granted.extend(grant.map(|grant| (slot, *grant)));
            }
        }
        (self.waits, self.is_withdrawn) = (0, false);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_comes_with_others_while_the_largest_still_fits() {
        let most = EXCHANGE_BYTES_MAX - TASK_BYTES_MAX;
        assert!(has_room(0) && has_room(most) && !has_room(most + 1));
    }

    #[test]
    fn slots_are_filled_from_the_first_on_and_none_is_there_twice() {
        assert_eq!(in_order(vec![3, 0, 7]).unwrap(), [7, 3, 0]);
        assert!(in_order(Vec::new()).unwrap().is_empty());
        let many = |count: u32| in_order((0..count).collect());
        assert_eq!(many(256).unwrap().len(), SLOTS_MAX);
        let said = |refused: Result<Vec<u32>, Refusal>| refused.unwrap_err().to_string();
        assert!(said(many(257)).contains("at most 256"), "{}", said(many(257)));
        assert!(said(in_order(vec![1, 2, 1])).contains("slot 1 twice"));
    }
}
