//! What waits on a list and may be in nobody's memory: a row for each run in the store, by list. A run gets one before the
//! looks at it grow [far apart](crate::commit::LATE_OFFERS), and when its task found no room in memory. Who comes to a list
//! that this node has not read yet has its rows read, so that a new poller finds what nobody has polled for.
//!
//! A row is a head under a domain that no caller can name, with no body: who reads it looks at the run, and a row whose run
//! does not wait on the list any more is dropped. Rows are disposable: one that is lost costs a wait until the next look,
//! one too many a read.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{Run, TaskRef, Timestamp};
use lru::LruCache;
use sha2::{Digest, Sha256};
use store::{Head, HeadKey, Row, RunId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lists::matching::WaitingBounds;
use crate::lists::{ListKey, Side, WaitingTask};

/// The domain of a list's rows begins with this, which no caller's domain can.
const PREFIX: char = '\u{2}';

/// What stands in a row in place of a run.
pub(crate) const NO_RUN: RunId = [0; 16];

/// How long a row is kept: a run is looked at many times meanwhile. Ours: what is left of a run whose task was taken goes by
/// itself then, which costs nothing on DynamoDB.
const KEPT_FOR: history::Duration = history::Duration::from_days(14);

/// A row with less than this left is written anew by the next look.
pub(crate) const FRESH_FOR: history::Duration = history::Duration::from_days(7);

/// Lists of which a node remembers that it has read their rows: about 200 bytes each.
const LISTS_MAX: usize = 10_000;

/// Where nodes share a store: how old what was read of a list may be when somebody polls it. What one node has in memory is
/// offered to the others; this is for what got lost on that way. Ours: two read units an hour for a list that is polled.
pub(crate) const READ_AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// How far the rows of a list have been read.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    /// Somebody reads them.
    is_under_way: bool,
    /// Whoever does is to begin anew.
    again: bool,
    /// When they were last read to their end.
    done_at: Option<Instant>,
}

/// See the module.
pub(crate) struct Backlog {
    lists: Mutex<LruCache<ListKey, Reading>>,
    /// Runs that have tasks on a list without room in memory, and are about to be written down.
    full: Mutex<BTreeSet<(ListKey, HeadKey)>>,
    /// The most of them.
    full_max: usize,
    /// Notified when there is one more.
    news: Notify,
    /// Notified when a list that was full has room again.
    pub(crate) room: Notify,
}

impl Backlog {
    pub(crate) fn new(bounds: WaitingBounds) -> Self {
        // Bounded, but not allocated ahead.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        let (full, full_max) = (Mutex::default(), bounds.to_write_max);
        Self { lists: Mutex::new(lists), full, full_max, news: Notify::new(), room: Notify::new() }
    }

    fn full(&self) -> MutexGuard<'_, BTreeSet<(ListKey, HeadKey)>> {
        self.full.lock().expect("no code panics while it holds this lock")
    }

    /// Has it written down that a run waits on a list; false where too many are to be written down already.
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

    /// Takes what is to be written down. Whatever overflows from now on is to be written down anew.
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

    /// Whether the caller is to read a list's rows: nobody does, and what was read is older than this.
    pub(crate) fn begins(&self, list: &ListKey, again_after: Option<Duration>) -> bool {
        let mut lists = self.lock();
        let reading = lists.get_or_insert_mut(list.clone(), Reading::default);
        let is_known = reading.done_at.is_some_and(|at| again_after.is_none_or(|after| at.elapsed() < after));
        if reading.is_under_way || is_known {
            return false;
        }
        reading.is_under_way = true;
        true
    }

    /// The rows of a list were read, and are known from now on or not; whether they are to be read anew at once.
    pub(crate) fn ends(&self, list: &ListKey, are_known: bool) -> bool {
        let mut lists = self.lock();
        let reading = lists.get_or_insert_mut(list.clone(), Reading::default);
        let again = std::mem::take(&mut reading.again);
        (reading.is_under_way, reading.done_at) = (again, are_known.then(Instant::now));
        again
    }

    /// What was read of a list is no longer all.
    pub(crate) fn forget(&self, list: &ListKey) {
        if let Some(reading) = self.lock().get_mut(list) {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }

    /// The same for all lists.
    pub(crate) fn forget_all(&self) {
        for (_, reading) in self.lock().iter_mut() {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }
}

/// Where the rows of a list stand. Names of lists and domains together may be longer than a key.
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

/// A row, after the one that is there.
pub(crate) fn row(before: Option<&Head>, now: Timestamp) -> Head {
    let row = before.and_then(|before| before.row.clone()).unwrap_or_else(|| Row {
        workflow_type: "".into(),
        status: "waiting".into(),
        flagged: false,
        // Lists are newest first, and what has waited longest is to come first.
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

/// Every task of a run that waits, with its list, and until when it is held back.
pub(crate) fn waiting(key: &HeadKey, run: &Run) -> Vec<(ListKey, WaitingTask, Option<Timestamp>)> {
    let of = |task: TaskRef<'_>| {
        let (side, name, scheduled_event_id, priority, not_before, since): (_, &str, _, _, _, _) = match task {
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
        (list, WaitingTask { key, run_id, scheduled_event_id, lost: None, priority, since }, not_before)
    };
    run.waiting_tasks().map(of).collect()
}

/// Whether a task waits after a commit that did not wait before it, on its list and for nothing but a poller.
pub(crate) fn waits_anew(before: &Run, after: &Run) -> bool {
    // As the tasks of a run come: its turn, then activities in the order they were scheduled. There may be a thousand.
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
    fn every_list_has_rows_of_its_own() {
        let mut domains = BTreeSet::new();
        for side in [Side::Decider, Side::Activity] {
            for (domain, name) in [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")] {
                assert!(domains.insert(domain_of(&ListKey { domain: domain.into(), side, name: name.into() })));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rows_of_a_list_are_read_once_until_there_may_be_others() {
        let (backlog, list) = (
            Backlog::new(WaitingBounds::default()),
            ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() },
        );
        let hour = Some(READ_AGAIN_AFTER);
        assert!(backlog.begins(&list, hour));
        assert!(!backlog.begins(&list, hour), "somebody reads them");
        assert!(!backlog.ends(&list, true));
        assert!(!backlog.begins(&list, hour), "they are known");
        tokio::time::advance(READ_AGAIN_AFTER).await;
        assert!(!backlog.begins(&list, None), "nobody else writes");
        assert!(backlog.begins(&list, hour));
        backlog.forget_all();
        assert!(!backlog.begins(&list, hour), "whoever reads them goes on");
        assert!(backlog.ends(&list, true), "and begins anew");
        assert!(!backlog.ends(&list, true));
        backlog.forget(&list);
        assert!(backlog.begins(&list, None));
        assert!(!backlog.ends(&list, false));
        assert!(backlog.begins(&list, None), "what was read found no room");
    }
}
