//! Exchanges, which are polls for several tasks at once. An exchange has slots. Each slot gets one task, as tasks
//! arrive.

use std::future::poll_fn;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use history::{Payload, PollId};
use tokio::time::Instant;

use crate::Refusal;
use crate::base::admission::count_waiting;
use crate::base::background::Background;
use crate::lists::grant::Grant;
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::{Leaving, SlotsPolled, WaitingSlots};
use crate::lists::pollers::Polling;
use crate::lists::polls::{EVENTS_BYTES_MAX, Poll, SLOTS_MAX, TaskEvents, taker};
use crate::lists::{ListKey, Side, Taker};
use crate::riders::carrier::TASK_RIDER_BYTES_MAX;
use crate::tasks::{ActivityTask, DeciderTask, Delivery, Receipt, Tasks, pass_over, poll_seeking};

/// Maximum size in bytes of the tasks that are returned together, in the response to an exchange or in one line of a
/// streamed response. Our choice: the maximum size of a request, as documented in `docs/exchanges.md`.
pub const EXCHANGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum size of a single task in bytes: a full window, its riders (queries and updates), and the context of the run.
const TASK_BYTES_MAX: usize = EVENTS_BYTES_MAX + TASK_RIDER_BYTES_MAX + 2 * history::limits::PAYLOAD_BYTES_MAX;

/// Returns true if one more task of any size can be added to tasks of this total size.
fn has_room(bytes: usize) -> bool {
    bytes + TASK_BYTES_MAX <= EXCHANGE_BYTES_MAX
}

/// Slots of an exchange that wait for tasks of one list. Drop this value only if the caller has disconnected, because
/// tasks that are being sent to a slot are then returned to the list. Otherwise end the wait with [`Tasks::last_turns`]
/// or [`Tasks::last_activities`].
pub struct Slots {
    lists: Arc<TaskLists>,
    background: Arc<Background>,
    list: ListKey,
    taker: Taker,
    /// Ids of earlier attempts of the poll.
    earlier: Vec<PollId>,
    events: TaskEvents,
    deadline: Instant,
    /// Free slots in descending order: slots that are not on the list, and slots that are on the list on standby.
    free: Vec<u32>,
    /// Number of slots that wait on the list or are reserved by a commit.
    waits: usize,
    waiting: Option<WaitingSlots>,
    /// True if the slots in `waiting` were taken off their list. Afterwards only slots that a commit has reserved can
    /// get tasks.
    is_withdrawn: bool,
    /// Started tasks that did not fit into the previous response. The next call returns them.
    held_over: Vec<(u32, Grant)>,
    _polling: Option<Polling>,
}

impl Tasks {
    /// Begins a poll for several tasks at once. If the poll is a repetition, `slots` contains only the slots that have
    /// received no task.
    ///
    /// # Errors
    ///
    /// As for [`poll_decider`](Self::poll_decider), and a fault for too many slots or duplicate slots.
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
        // A request without slots does not count as a poll.
        let polling = if free.is_empty() { None } else { Some(self.lists.pollers.polling(&list, &taker)?) };
        if polling.is_some() {
            if !poll.wait.is_zero() {
                count_waiting()?;
            }
            self.lists.seek(&list);
            if poll.wait.is_zero() {
                Box::pin(self.lists.seek_run_once(&list, &taker)).await;
            }
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

    /// Waits for decider tasks and returns each with its slot. The result is empty if the wait has ended or all slots
    /// have a task. The total size of the tasks is at most [`EXCHANGE_BYTES_MAX`]; the next call returns tasks beyond
    /// this size.
    ///
    /// If a task cannot be read, its slot stays free and the task is returned to the list. If the cause is damaged data
    /// of the task's run, the task is left to time out instead.
    ///
    /// # Errors
    ///
    /// An error of the store if no task could be taken.
    pub async fn next_turns(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<DeciderTask>)>, Refusal> {
        slots.next_read(self).await
    }

    /// Waits for activity tasks, like [`next_turns`](Self::next_turns) for decider tasks.
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn next_activities(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<ActivityTask>)>, Refusal> {
        slots.next_read(self).await
    }

    /// Waits like [`next_turns`](Self::next_turns) and then ends the wait. Returns the decider tasks that have arrived,
    /// including the tasks of commits that had already reserved a slot. To get the tasks beyond [`EXCHANGE_BYTES_MAX`],
    /// repeat [`next_turns`](Self::next_turns) until [`are_filled`](Slots::are_filled) returns true.
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn last_turns(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<DeciderTask>)>, Refusal> {
        slots.last_read(self).await
    }

    /// Ends the wait for activity tasks, like [`last_turns`](Self::last_turns) for decider tasks.
    ///
    /// # Errors
    ///
    /// As for [`next_turns`](Self::next_turns).
    pub async fn last_activities(&self, slots: &mut Slots) -> Result<Vec<(u32, Delivery<ActivityTask>)>, Refusal> {
        slots.last_read(self).await
    }
}

/// A task that a slot can get.
trait SlotsTask: Sized {
    /// Reads a started task with the content that its poller gets.
    fn read<'a>(tasks: &'a Tasks, grant: &'a Grant, events: TaskEvents) -> BoxFuture<'a, Result<Self, Refusal>>;

    /// Returns the size of the task's content in bytes.
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
    /// Returns the size of the task's content in bytes: events, context and riders.
    pub fn bytes(&self) -> usize {
        let of = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
        let queries: usize = self.queries.iter().map(|query| query.name.len() + of(&query.input)).sum();
        let updates: usize = self.updates.iter().map(|update| update.name.len() + of(&update.input)).sum();
        self.events_bytes + of(&self.context) + queries + updates
    }
}

impl ActivityTask {
    /// Returns the size of the task's content in bytes: input and heartbeat details.
    pub fn bytes(&self) -> usize {
        let brought = [&self.input, &self.heartbeat_details];
        brought.into_iter().flatten().map(Payload::len).sum()
    }
}

/// Returns the tasks if there are any, otherwise the error. Thus an error of one task does not delay the other tasks.
fn or_refused<T>(tasks: Vec<T>, refused: Option<Refusal>) -> Result<Vec<T>, Refusal> {
    match refused {
        Some(refusal) if tasks.is_empty() => Err(refusal),
        Some(_) | None => Ok(tasks),
    }
}

/// Sorts the slots in descending order, because the last slot is filled first. Fails for duplicate slots.
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
    /// Returns true if each slot has received its task, or if there are no slots.
    pub fn are_filled(&self) -> bool {
        self.free.is_empty() && self.waits == 0 && self.held_over.is_empty()
    }

    /// Returns true if one of these slots will get the list's next task, because a slot waits and no other poller has
    /// waited longer.
    pub fn are_next(&self) -> bool {
        match &self.waiting {
            Some(waiting) => waiting.are_first,
            None => !self.are_filled() && !self.lists.matching.has_poller(&self.list, |_| true),
        }
    }

    /// Puts the slots on standby until the next call. They then receive only tasks that are created during the standby
    /// and for which no other poller waits. Tasks that were waiting before stay on the list.
    pub fn stand_by(&mut self) {
        let is_polled = !self.earlier.is_empty() || self.waiting.is_some();
        if !is_polled && !self.are_filled() && !self.background.is_stopping() {
            drop(self.poll(true));
        }
    }

    /// Takes the slots off the list until the next call. The next call returns the tasks that have arrived in the
    /// meantime, including the tasks of commits that had already reserved a slot.
    pub fn stand_down(&mut self) {
        if let Some(waiting) = &self.waiting {
            let free = waiting.withdraw();
            self.waits = self.waits.saturating_sub(free.len());
            self.free = free;
            self.free.sort_unstable_by(|one, other| other.cmp(one));
            self.is_withdrawn = true;
        }
    }

    /// Ends the wait of all slots at once. Tasks that are being sent to the slots return to the list.
    pub fn give_up(&mut self) {
        self.free.clear();
        self.held_over.clear();
        (self.waiting, self.waits, self.is_withdrawn) = (None, 0, false);
    }

    /// Takes waiting tasks off the list. If there are none, the slots begin to wait.
    fn poll(&mut self, is_standby: bool) -> Vec<(u32, Leaving)> {
        let standby_slots = if is_standby { self.free.clone() } else { Vec::new() };
        match self.lists.matching.poll_slots(&self.list, &self.taker, &mut self.free, is_standby) {
            SlotsPolled::Tasks(tasks) => tasks,
            SlotsPolled::Wait(waiting) => {
                if self.deadline > Instant::now() && self.taker.workflow_id.is_none() {
                    self.lists.seek_waiting(&self.list);
                }
                (self.free, self.waits) = (standby_slots, waiting.free_slots);
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
            waiting.end_standby();
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

    /// Starts waiting tasks concurrently. If another poller was faster, the slot is free again.
    async fn take(&mut self, tasks: Vec<(u32, Leaving)>) -> Result<Vec<(u32, Grant)>, Refusal> {
        let (lists, list, taker) = (&self.lists, &self.list, &self.taker);
        let take =
            |(slot, task): (u32, Leaving)| async move { (slot, lists.take(list, task, taker.of_slot(slot)).await) };
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
        // Tasks that were started are returned even if other tasks had errors. The tasks with errors are offered again.
        or_refused(taken, refused)
    }

    /// Takes the tasks that were started for earlier attempts of the poll.
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
        // Tasks that were found are returned even if other tasks had errors. A later attempt of the poll finds the
        // tasks with errors.
        or_refused(found, refused)
    }

    /// Returns the next tasks that can be read. If the data of a task's run is damaged, the other slots continue to
    /// wait.
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

    /// Returns the next tasks that can be read, including the tasks of commits that have reserved a slot. Afterwards no
    /// slot waits.
    async fn last_read<T: SlotsTask>(&mut self, from: &Tasks) -> Result<Vec<(u32, Delivery<T>)>, Refusal> {
        let mut tasks = self.next_read(from).await?;
        self.stand_down();
        let mut granted = std::mem::take(&mut self.held_over);
        granted.extend(self.take_reserved().await);
        self.free.clear();
        self.read(granted, &mut tasks, from).await;
        Ok(tasks)
    }

    /// Reads tasks as long as they fit into a response. Keeps the other tasks for the next call.
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

    /// Waits until tasks arrive, and takes all tasks that have arrived. The result is empty if the wait has ended.
    async fn wait(&mut self) -> Vec<(u32, Grant)> {
        let mut granted = Vec::new();
        let mut seeking = self.lists.seek_run(&self.list, &self.taker);
        while let (Some(waiting), true) = (&mut self.waiting, granted.is_empty()) {
            let first = tokio::select! {
                biased;
                first = waiting.granted.recv() => first,
                () = tokio::time::sleep_until(self.deadline) => None,
                () = poll_fn(|context| poll_seeking(&mut seeking, context)) => None,
                () = self.background.stopped() => None,
            };
            let Some(first) = first else {
                self.stand_down();
                granted = self.take_reserved().await;
                // The wait has ended, so the free slots will get no task.
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

    /// Waits for the commits that have reserved slots, and returns the tasks of these slots. The slots are already off
    /// the list.
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
    fn a_task_is_added_while_the_largest_one_still_fits() {
        let most = EXCHANGE_BYTES_MAX - TASK_BYTES_MAX;
        assert!(has_room(0) && has_room(most) && !has_room(most + 1));
    }

    #[test]
    fn slots_are_filled_in_order_without_duplicates() {
        assert_eq!(in_order(vec![3, 0, 7]).unwrap(), [7, 3, 0]);
        assert!(in_order(Vec::new()).unwrap().is_empty());
        let many = |count: u32| in_order((0..count).collect());
        assert_eq!(many(256).unwrap().len(), SLOTS_MAX);
        let said = |refused: Result<Vec<u32>, Refusal>| refused.unwrap_err().to_string();
        assert!(said(many(257)).contains("at most 256"), "{}", said(many(257)));
        assert!(said(in_order(vec![1, 2, 1])).contains("slot 1 twice"));
    }
}
