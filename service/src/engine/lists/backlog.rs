//! What waits on a list and may be in nobody's memory: a row for each run in the store, by list. A run gets one before the
//! looks at it grow [far apart](crate::engine::commit::LATE_OFFERS), and when its task found no room in memory. Who comes to a list
//! that this node has not read yet has its rows read, so that a new poller finds what nobody has polled for.
//!
//! A row is a head under a domain that no caller can name, with no body: who reads it looks at the run, and a row whose run
//! does not wait on the list any more is dropped. Rows are disposable: one that is lost costs a wait until the next look,
//! one too many a read.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{LAMBDA_LIST, Run, TaskRef, Timestamp};
use lru::LruCache;
use sha2::{Digest, Sha256};
use store::{Expect, Head, HeadKey, ListQuery, Row, RunId};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::commit::Loaded;
use crate::engine::lists::{ListKey, Side, WaitingBounds, WaitingTask};
use crate::engine::{Engine, Refusal};

/// The domain of a list's rows begins with this, which no caller's domain can.
const PREFIX: char = '\u{2}';

/// What stands in a row in place of a run.
const NO_RUN: RunId = [0; 16];

/// How long a row is kept: a run is looked at many times meanwhile. Ours: what is left of a run whose task was taken goes by
/// itself then, which costs nothing on DynamoDB.
const KEPT_FOR: history::Duration = history::Duration::from_days(14);

/// A row with less than this left is written anew by the next look.
const FRESH_FOR: history::Duration = history::Duration::from_days(7);

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 100;

/// Runs that are looked at, or written down, at the same time.
const AT_ONCE: usize = 64;

/// Lists of which a node remembers that it has read their rows: about 200 bytes each.
const LISTS_MAX: usize = 10_000;

/// Where nodes share a store: how old what was read of a list may be when somebody polls it. What one node has in memory is
/// offered to the others; this is for what got lost on that way. Ours: two read units an hour for a list that is polled.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// The wait after the store could not be read.
const TROUBLE_WAIT: Duration = Duration::from_secs(1);

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
}

impl Backlog {
    pub(crate) fn new(bounds: WaitingBounds) -> Self {
        // Bounded, but not allocated ahead.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        let (full, news) = (Mutex::default(), Notify::new());
        Self { lists: Mutex::new(lists), full, full_max: bounds.to_write_max, news }
    }

    fn full(&self) -> MutexGuard<'_, BTreeSet<(ListKey, HeadKey)>> {
        self.full.lock().expect("no code panics while it holds this lock")
    }

    /// Has it written down that a run waits on a list; false where too many are to be written down already.
    fn push(&self, list: &ListKey, run: &HeadKey) -> bool {
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
    async fn take(&self) -> BTreeSet<(ListKey, HeadKey)> {
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
    fn begins(&self, list: &ListKey, again_after: Option<Duration>) -> bool {
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
    fn ends(&self, list: &ListKey, are_known: bool) -> bool {
        let mut lists = self.lock();
        let reading = lists.get_or_insert_mut(list.clone(), Reading::default);
        let again = std::mem::take(&mut reading.again);
        (reading.is_under_way, reading.done_at) = (again, are_known.then(Instant::now));
        again
    }

    /// What was read of a list is no longer all.
    fn forget(&self, list: &ListKey) {
        if let Some(reading) = self.lock().get_mut(list) {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }

    /// The same for all lists.
    fn forget_all(&self) {
        for (_, reading) in self.lock().iter_mut() {
            (reading.again, reading.done_at) = (reading.is_under_way, None);
        }
    }
}

/// Where the rows of a list stand. Names of lists and domains together may be longer than a key.
fn domain_of(list: &ListKey) -> Arc<str> {
    let mut digest = Sha256::new().chain_update([u8::from(list.side == Side::Decider)]);
    for name in [&*list.domain, &*list.name] {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
    }
    let number = digest.finalize().first_chunk().copied().map_or(0, u128::from_be_bytes);
    format!("{PREFIX}{number:032x}").into()
}

fn key_of(list: &ListKey, run: &HeadKey) -> HeadKey {
    HeadKey { domain: domain_of(list), workflow_id: Arc::clone(&run.workflow_id) }
}

/// A row, after the one that is there.
fn row(before: Option<&Head>, now: Timestamp) -> Head {
    let row = before.and_then(|before| before.row.clone()).unwrap_or_else(|| Row {
        workflow_type: "".into(),
        status: "waiting".into(),
        flagged: false,
        // Lists are newest first, and what has waited longest is to come first.
        started_at: u64::MAX - now.as_millis(),
        closed_at: None,
        tags: Vec::new(),
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
        let (side, name, scheduled_event_id, priority, not_before): (_, &str, _, _, _) = match task {
            TaskRef::Turn(task) => {
                let priority = run.started.priority();
                (Side::Decider, run.list_of_turn(task), task.scheduled_event_id, priority, task.not_before)
            }
            TaskRef::Activity(task) => {
                let activity = task.activity;
                let (id, not_before) = (task.scheduled_event_id, activity.not_before());
                (Side::Activity, activity.task_list.as_str(), id, activity.task_priority, not_before)
            }
        };
        let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
        let (key, run_id, priority) = (key.clone(), run.started.run_id, priority.unwrap_or(0));
        (list, WaitingTask { key, run_id, scheduled_event_id, lost: None, priority }, not_before)
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
                let is_held_back = known.not_before.is_some_and(|at| at > before.last_timestamp);
                before.list_of_turn(known) == after.list_of_turn(task) && !is_held_back
            }
            (TaskRef::Activity(known), TaskRef::Activity(task)) => {
                let is_held_back = known.activity.not_before().is_some_and(|at| at > before.last_timestamp);
                let (known, task) = (known.activity, task.activity);
                known.task_list == task.task_list && known.task_priority == task.task_priority && !is_held_back
            }
            (TaskRef::Turn(_), TaskRef::Activity(_)) | (TaskRef::Activity(_), TaskRef::Turn(_)) => false,
        })
    })
}

impl Engine {
    /// Writes down that a run waits, on each list where it does; answers whether it stands there now.
    pub(crate) async fn write_down(&self, key: &HeadKey, run: &Run, now: Timestamp) -> bool {
        let mut lists: Vec<ListKey> = Vec::new();
        for (list, _, not_before) in waiting(key, run) {
            if not_before.is_none_or(|at| at <= now) && !lists.contains(&list) {
                lists.push(list);
            }
        }
        for list in lists {
            if let Err(refusal) = self.write_row(&list, key, now).await {
                tracing::debug!(%refusal, workflow_id = %key.workflow_id, "that a run waits could not be written down");
                return false;
            }
        }
        true
    }

    async fn write_row(&self, list: &ListKey, run: &HeadKey, now: Timestamp) -> Result<(), Refusal> {
        let key = key_of(list, run);
        let found = self.store.load(&key).await?;
        let fresh_until = now.plus(FRESH_FOR).as_millis();
        if found.as_ref().is_some_and(|found| found.expires_at.is_none_or(|at| at >= fresh_until)) {
            return Ok(());
        }
        let expect = match &found {
            Some(found) => Expect::Exactly { run: found.run, version: found.version },
            None => Expect::Absent,
        };
        // Whoever wins writes the same.
        self.store.commit(&key, expect, &row(found.as_ref(), now), &[]).await?;
        Ok(())
    }

    /// A task found no room in memory: has it written down that its run waits.
    pub(crate) fn write_down_full(&self, list: &ListKey, run: &HeadKey) {
        if !self.backlog.push(list, run) {
            self.look_again(run);
        }
    }

    /// Writes down what finds no room in memory, until the service stops.
    pub(crate) async fn keep_writing_down(self: &Arc<Self>) {
        loop {
            let (mut rest, mut writes) = (self.backlog.take().await.into_iter(), JoinSet::new());
            loop {
                while writes.len() < AT_ONCE
                    && let Some((list, run)) = rest.next()
                {
                    let engine = Arc::clone(self);
                    writes.spawn(async move { engine.write_full_row(&list, &run).await });
                }
                if writes.join_next().await.is_none() {
                    break;
                }
            }
        }
    }

    async fn write_full_row(self: &Arc<Self>, list: &ListKey, run: &HeadKey) {
        let (key, now) = (key_of(list, run), self.clock.now());
        if let Err(error) = self.store.commit(&key, Expect::Absent, &row(None, now), &[]).await {
            tracing::debug!(%error, workflow_id = %run.workflow_id, "that a run waits could not be written down");
            return self.look_again(run);
        }
        // Its list may not be in memory at all: whoever polls it, or has come meanwhile, is to look into the store.
        self.backlog.forget(list);
        if self.matching.pollers(list) > 0 {
            self.seek(list);
        }
    }

    /// Somebody asks for what waits on a list: reads what the store has of it, unless this node has done so.
    pub(crate) fn seek(self: &Arc<Self>, list: &ListKey) {
        let again_after = self.nodes.is_shared().then_some(READ_AGAIN_AFTER);
        if self.backlog.begins(list, again_after) {
            let (engine, list) = (Arc::clone(self), list.clone());
            self.background.spawn_until_stopped(async move { engine.read_rows(&list).await });
        }
    }

    /// Others have come or gone, and with them what they had in memory: reads what the store has of every list where
    /// somebody waits, and of the others when somebody comes.
    pub(crate) fn seek_anew(self: &Arc<Self>) {
        self.backlog.forget_all();
        for (list, _, pollers) in self.matching.depths() {
            if pollers > 0 {
                self.seek(&list);
            }
        }
        self.seek_lambda_tasks();
    }

    /// Nobody polls for Lambda tasks before one waits: reads what the store has of them in every domain.
    pub(crate) fn seek_lambda_tasks(self: &Arc<Self>) {
        if self.lambda.get().is_none() {
            return;
        }
        let engine = Arc::clone(self);
        self.background.spawn_until_stopped(async move {
            let domains = loop {
                match engine.registry.domains().await {
                    Ok(domains) => break domains,
                    Err(_) => tokio::time::sleep(TROUBLE_WAIT).await,
                }
            };
            for domain in domains {
                let (domain, name) = (domain.name.into(), LAMBDA_LIST.into());
                engine.seek(&ListKey { domain, side: Side::Activity, name });
            }
        });
    }

    /// Lists that were full have room again: reads what the store has of them.
    pub(crate) async fn keep_refilling(self: &Arc<Self>) {
        loop {
            self.matching.starving.notified().await;
            for list in self.matching.take_overflowed() {
                self.backlog.forget(&list);
                self.seek(&list);
            }
        }
    }

    async fn read_rows(self: &Arc<Self>, list: &ListKey) {
        loop {
            self.read_rows_once(list).await;
            // Of a list that found no room in memory nothing is known.
            if !self.backlog.ends(list, self.matching.has_room_for_list(list)) {
                return;
            }
        }
    }

    /// Reads the rows of a list, as many as there is room for in memory.
    async fn read_rows_once(self: &Arc<Self>, list: &ListKey) {
        let query =
            ListQuery { domain: domain_of(list), open: Some(true), limit: ROWS_AT_ONCE, ..ListQuery::default() };
        let mut page = None;
        loop {
            let read = match self.store.list(&query, page.as_ref()).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(%error, "what waits on a list could not be read");
                    tokio::time::sleep(TROUBLE_WAIT).await;
                    continue;
                }
            };
            for rows in read.rows.chunks(AT_ONCE) {
                // What is left is read once there is room again.
                if self.matching.is_full(list) {
                    return;
                }
                let mut runs = JoinSet::new();
                for row in rows {
                    let (engine, list) = (Arc::clone(self), list.clone());
                    let key = HeadKey { domain: Arc::clone(&list.domain), workflow_id: Arc::clone(&row.workflow_id) };
                    runs.spawn(async move {
                        if let Err(refusal) = engine.bring_back(&list, &key).await {
                            tracing::warn!(%refusal, workflow_id = %key.workflow_id, "a run that waits could not be read");
                            engine.look_again(&key);
                        }
                    });
                }
                while runs.join_next().await.is_some() {}
            }
            page = read.next;
            if page.is_none() {
                return;
            }
        }
    }

    /// Puts on a list what waits there of a run. Where nothing does, its row is dropped.
    async fn bring_back(self: &Arc<Self>, list: &ListKey, key: &HeadKey) -> Result<(), Refusal> {
        if self.put_waiting(list, key).await? {
            return Ok(());
        }
        self.store.drop_run(&key_of(list, key), NO_RUN).await?;
        // A task that came meanwhile and found no room took that row for its own.
        if self.put_waiting(list, key).await? {
            self.write_down_full(list, key);
        }
        Ok(())
    }

    /// Puts on a list what waits there of a run, as the store has it; false when nothing does.
    async fn put_waiting(self: &Arc<Self>, list: &ListKey, key: &HeadKey) -> Result<bool, Refusal> {
        let loaded = self.store.load(key).await?.map(Loaded::decode).transpose()?;
        let mut tasks = loaded.map(|loaded| waiting(key, loaded.run())).unwrap_or_default();
        tasks.retain(|(on, ..)| on == list);
        let (now, waits) = (self.clock.now(), !tasks.is_empty());
        for (_, task, _) in tasks.into_iter().filter(|(.., not_before)| not_before.is_none_or(|at| at <= now)) {
            self.put_on_list(list, task);
        }
        Ok(waits)
    }
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
