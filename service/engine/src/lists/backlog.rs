//! Backlog of a list: rows in the store, one for each run whose tasks wait on the list and may be in no node's memory.
//! A row is written in two cases:
//!
//! * The pauses between the run's wakes are about to become [long](crate::commit::LATE_OFFERS).
//! * Memory has no space for a task of the run.
//!
//! When a list is polled on a node that has not read the list's rows, the node reads them. Thus a new poller finds
//! tasks that were created while the list had no poller.
//!
//! A row is a head without a body, in a domain whose name callers cannot use. The reader checks the run of each row. If
//! the run no longer waits on the list, the reader deletes the row. Rows are disposable: a lost row delays its run
//! until the next wake, and a superfluous row costs one read.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{EventId, Run, TaskRef, Timestamp};
use lru::LruCache;
use sha2::{Digest, Sha256};
use store::{Head, HeadKey, Row, RunId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lists::matching::WaitingBounds;
use crate::lists::{ListKey, Side, WaitingTask};

/// First character of the internal domain that has a list's rows. The name of a caller's domain cannot begin with it.
const PREFIX: char = '\u{2}';

/// Placeholder for the run id in the head of a row.
pub(crate) const NO_RUN: RunId = [0; 16];

/// Lifetime of a row. Our choice: long enough that the run is woken many times. Because the lifetime is limited, rows
/// of runs whose tasks were taken expire, which costs nothing on DynamoDB.
const KEPT_FOR: history::Duration = history::Duration::from_days(14);

/// Minimum remaining lifetime of a row. If a row has less, the run's next wake renews it.
pub(crate) const FRESH_FOR: history::Duration = history::Duration::from_days(7);

/// Maximum number of lists for which a node remembers that it has read their rows. Our choice: at about 200 bytes each,
/// the lists take at most 2 MB.
const LISTS_MAX: usize = 10_000;

/// Time after which the rows of a polled list are read again if nodes share a store. Nodes offer each other the tasks
/// that they have in memory, and this read finds tasks whose offer was lost. Our choice: two read units per hour for a
/// polled list.
pub(crate) const READ_AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// Progress of reading the rows of a list.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    /// True while a background task reads the rows.
    is_under_way: bool,
    /// True if the background task must start over when it reaches the end.
    again: bool,
    /// Time when all rows were last read.
    done_at: Option<Instant>,
}

/// Lists whose rows this node has read, and runs for which rows must be written.
pub(crate) struct Backlog {
    lists: Mutex<LruCache<ListKey, Reading>>,
    /// Runs whose tasks have no space in memory, each with the list of the task. Rows must be written for these runs.
    full: Mutex<BTreeSet<(ListKey, HeadKey)>>,
    /// Maximum size of `full`.
    full_max: usize,
    /// Notified when a run is added to `full`.
    news: Notify,
    /// Notified when a list that was full may have space again.
    pub(crate) has_space: Notify,
}

impl Backlog {
    pub(crate) fn new(bounds: WaitingBounds) -> Self {
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        let (full, full_max) = (Mutex::default(), bounds.to_write_max);
        Self { lists: Mutex::new(lists), full, full_max, news: Notify::new(), has_space: Notify::new() }
    }

    fn full(&self) -> MutexGuard<'_, BTreeSet<(ListKey, HeadKey)>> {
        self.full.lock().expect("no code panics while it holds this lock")
    }

    /// Queues a run that waits on a list, so that a row is written for the run. Returns false if the queue is full.
    pub(crate) fn push(&self, list: &ListKey, run: &HeadKey) -> bool {
        let (mut full, it) = (self.full(), (list.clone(), run.clone()));
        if full.len() >= self.full_max && !full.contains(&it) {
            return false;
        }
        if full.insert(it) {
            self.news.notify_one();
        }
        true
    }

    /// Waits until runs are queued, and takes all of them from the queue. If memory later lacks space for a task of a
    /// taken run, this run is queued again.
    pub(crate) async fn take(&self) -> BTreeSet<(ListKey, HeadKey)> {
        loop {
            let taken = std::mem::take(&mut *self.full());
            if !taken.is_empty() {
                return taken;
            }
            self.news.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ListKey, Reading>> {
        self.lists.lock().expect("no code panics while it holds this lock")
    }

    /// Returns true if the caller must read the rows of a list. Returns false if a task is already reading the rows, or
    /// if they were read within `again_after`.
    pub(crate) fn begin_reading(&self, list: &ListKey, again_after: Option<Duration>) -> bool {
        let mut lists = self.lock();
        let reading = lists.get_or_insert_mut(list.clone(), Reading::default);
        let is_known = reading.done_at.is_some_and(|at| again_after.is_none_or(|after| at.elapsed() < after));
        if reading.is_under_way || is_known {
            return false;
        }
        reading.is_under_way = true;
        true
    }

    /// Records that the rows of a list were read. `are_known` says whether the tasks of these rows are now in memory.
    /// Returns true if the rows must be read again at once.
    pub(crate) fn end_reading(&self, list: &ListKey, are_known: bool) -> bool {
        let mut lists = self.lock();
        let reading = lists.get_or_insert_mut(list.clone(), Reading::default);
        let again = std::mem::take(&mut reading.again);
        (reading.is_under_way, reading.done_at) = (again, are_known.then(Instant::now));
        again
    }

    /// Marks the rows of a list as not completely read, so that they are read again.
    pub(crate) fn forget(&self, list: &ListKey) {
        if let Some(reading) = self.lock().get_mut(list) {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }

    /// Marks the rows of all lists as not completely read, so that they are read again.
    pub(crate) fn forget_all(&self) {
        for (_, reading) in self.lock().iter_mut() {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }
}

/// Returns the internal domain that has a list's rows. Its name contains a hash, because the names of the list and its
/// domain together can be longer than a key of the store.
pub(crate) fn domain_of(list: &ListKey) -> Arc<str> {
    let mut digest = Sha256::new().chain_update([u8::from(list.side == Side::Decider)]);
    for name in [&*list.domain, &*list.name] {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
    }
    let number = digest.finalize().first_chunk().copied().map_or(0, u128::from_be_bytes);
    format!("{PREFIX}{number:032x}").into()
}

pub(crate) fn key_of(list: &ListKey, run: &HeadKey) -> HeadKey {
    HeadKey { domain: domain_of(list), workflow_id: Arc::clone(&run.workflow_id) }
}

/// Returns the stored form of a backlog row. `before` is the existing row that it will overwrite, if there is one.
pub(crate) fn row(before: Option<&Head>, now: Timestamp) -> Head {
    let row = before.and_then(|before| before.row.clone()).unwrap_or_else(|| Row {
        workflow_type: "".into(),
        status: "waiting".into(),
        flagged: false,
        // The store lists heads in descending order of `started_at`. The value is inverted, so that the run that has
        // waited longest is first.
        started_at: u64::MAX - now.as_millis(),
        closed_at: None,
        tags: Vec::new(),
        why: None,
    });
    Head {
        run: NO_RUN,
        version: before.map_or(1, |before| before.version + 1),
        body: bytes::Bytes::new(),
        due: None,
        row: Some(row),
        expires_at: Some(now.plus(KEPT_FOR).as_millis()),
    }
}

/// Returns all waiting tasks of a run. Each has its list and the time until which the task is held back, if it is.
pub(crate) fn waiting(key: &HeadKey, run: &Run) -> Vec<(ListKey, WaitingTask, Option<Timestamp>)> {
    let of = |task: TaskRef<'_>| {
        let (side, name, scheduled_event_id, priority, not_before, since): (_, &str, _, _, _, _) = match &task {
            TaskRef::Turn(task) => {
                let priority = run.started.priority();
                let list = run.list_of_turn(task);
                (Side::Decider, list, task.scheduled_event_id, priority, task.not_before, task.waits_since)
            }
            TaskRef::Activity(task) => {
                let activity = task.activity;
                let (id, not_before) = (task.scheduled_event_id, activity.not_before());
                let list = activity.task_list.as_str();
                (Side::Activity, list, id, activity.task_priority, not_before, activity.waits_since())
            }
        };
        let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
        let (key, run_id, priority) = (key.clone(), run.started.run_id, priority.unwrap_or(0));
        let since = Some(since.max(not_before.unwrap_or(since)));
        let concurrency_key = concurrency_key(run, &task);
        let task = WaitingTask { key, run_id, scheduled_event_id, lost: None, priority, since, concurrency_key };
        (list, task, not_before)
    };
    run.waiting_tasks().map(of).collect()
}

/// Returns the concurrency key of a task: of the activity, or of the run.
pub(crate) fn concurrency_key(run: &Run, task: &TaskRef<'_>) -> Option<Arc<str>> {
    let key = match task {
        TaskRef::Turn(_) => run.started.concurrency_key.as_deref(),
        TaskRef::Activity(task) => run.key_of(task.activity),
    };
    key.map(Arc::from)
}

/// Returns the tasks of a run that are running, each with its list.
pub(crate) fn running(run: &Run) -> impl Iterator<Item = (Side, &str, EventId)> {
    let turn = run.turn.as_ref().map(|turn| (Side::Decider, run.list_of_held_turn(), turn.scheduled_event_id));
    let activities = run.activities.iter().filter(|(_, activity)| activity.held_since().is_some());
    let activities = activities.map(|(id, activity)| (Side::Activity, activity.task_list.as_str(), *id));
    // A closed run has no running tasks.
    turn.into_iter().chain(activities).filter(|_| run.is_open())
}

/// Returns true if, after a commit, a task waits that did not wait before it in the same way: a task that is new, or
/// whose list, priority or earliest start has changed.
pub(crate) fn has_new_waiting_task(before: &Run, after: &Run) -> bool {
    // Merges two sequences that are in the same order: the turn, then activities in the order in which they were
    // scheduled. Merging avoids a quadratic comparison, because a run can have a thousand activities.
    let place = |task: &TaskRef<'_>| match task {
        TaskRef::Turn(task) => (Side::Decider, task.scheduled_event_id),
        TaskRef::Activity(task) => (Side::Activity, task.scheduled_event_id),
    };
    let is_same_run = before.started.run_id == after.started.run_id;
    let mut waited = before.waiting_tasks().peekable();
    after.waiting_tasks().any(|task| {
        while waited.next_if(|known| place(known) < place(&task)).is_some() {}
        let known = waited.peek().filter(|known| is_same_run && place(known) == place(&task));
        !known.is_some_and(|known| match (known, &task) {
            (TaskRef::Turn(known), TaskRef::Turn(task)) => {
                let is_held_back = known.not_before.is_some_and(|at| at > before.last_at());
                before.list_of_turn(known) == after.list_of_turn(task) && !is_held_back
            }
            (TaskRef::Activity(known), TaskRef::Activity(task)) => {
                let is_held_back = known.activity.not_before().is_some_and(|at| at > before.last_at());
                let (known, task) = (known.activity, task.activity);
                known.task_list == task.task_list && known.task_priority == task.task_priority && !is_held_back
            }
            (TaskRef::Turn(_), TaskRef::Activity(_)) | (TaskRef::Activity(_), TaskRef::Turn(_)) => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_has_separate_rows() {
        let mut domains = BTreeSet::new();
        for side in [Side::Decider, Side::Activity] {
            for (domain, name) in [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")] {
                assert!(domains.insert(domain_of(&ListKey { domain: domain.into(), side, name: name.into() })));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_read_once_until_there_may_be_others() {
        let (backlog, list) = (
            Backlog::new(WaitingBounds::default()),
            ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() },
        );
        let hour = Some(READ_AGAIN_AFTER);
        assert!(backlog.begin_reading(&list, hour));
        assert!(!backlog.begin_reading(&list, hour), "they are being read");
        assert!(!backlog.end_reading(&list, true));
        assert!(!backlog.begin_reading(&list, hour), "they are known");
        tokio::time::advance(READ_AGAIN_AFTER).await;
        assert!(!backlog.begin_reading(&list, None), "no other node writes");
        assert!(backlog.begin_reading(&list, hour));
        backlog.forget_all();
        assert!(!backlog.begin_reading(&list, hour), "the reader continues");
        assert!(backlog.end_reading(&list, true), "and must start over");
        assert!(!backlog.end_reading(&list, true));
        backlog.forget(&list);
        assert!(backlog.begin_reading(&list, None));
        assert!(!backlog.end_reading(&list, false));
        assert!(backlog.begin_reading(&list, None), "there was no space for the rows read");
    }
}
