//! What waits on a list and may be in nobody's memory: a row for each run in the store, by list. A run gets one before the
//! looks at it grow [far apart](super::commit::LATE_OFFERS), and when its task found no room in memory. Who comes to a list
//! that this node has not read yet has its rows read, so that a new poller finds what nobody has polled for.
//!
//! A row is a head under a domain that no caller can name, with no body: who reads it looks at the run, and a row whose run
//! does not wait on the list any more is dropped. Rows are disposable: one that is lost costs a wait until the next look,
//! one too many a read.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{LAMBDA_LIST, Run, TaskRef, Timestamp};
use lru::LruCache;
use sha2::{Digest, Sha256};
use store::{Expect, Head, HeadKey, ListQuery, Row, RunId};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::commit::Loaded;
use super::matching::{ListKey, Side, WaitingTask};
use super::{Engine, Refusal};

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

/// Tasks that found no room in memory and are about to be written down. Ours: beyond it their runs are looked at soon.
const FULL_MAX: usize = 10_000;

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
pub(super) struct Backlog {
    lists: Mutex<LruCache<ListKey, Reading>>,
    full: Sender<(ListKey, HeadKey)>,
    /// For the one who writes them down.
    to_write: Mutex<Option<Receiver<(ListKey, HeadKey)>>>,
}

impl Default for Backlog {
    fn default() -> Self {
        // Bounded, but not allocated ahead.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        let (full, to_write) = channel(FULL_MAX);
        Self { lists: Mutex::new(lists), full, to_write: Mutex::new(Some(to_write)) }
    }
}

impl Backlog {
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
pub(super) fn waiting(key: &HeadKey, run: &Run) -> Vec<(ListKey, WaitingTask, Option<Timestamp>)> {
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
pub(super) fn waits_anew(key: &HeadKey, before: &Run, after: &Run) -> bool {
    let waited = waiting(key, before);
    let waited = |list: &ListKey, task: &WaitingTask| {
        waited.iter().any(|(known, it, not_before)| {
            let is_held_back = not_before.is_some_and(|at| at > before.last_timestamp);
            known == list && it == task && !is_held_back
        })
    };
    waiting(key, after).iter().any(|(list, task, _)| !waited(list, task))
}

impl Engine {
    /// Writes down that a run waits, on each list where it does; answers whether it stands there now.
    pub(super) async fn write_down(&self, key: &HeadKey, run: &Run, now: Timestamp) -> bool {
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

    /// A task found no room in memory: has it written down.
    pub(super) fn write_down_full(&self, list: &ListKey, run: &HeadKey) {
        // Beyond the bound it is left to the next look at its run.
        drop(self.backlog.full.try_send((list.clone(), run.clone())));
    }

    /// Writes down what finds no room in memory, until the service stops.
    pub(super) async fn keep_writing_down(self: &Arc<Self>) {
        let to_write = self.backlog.to_write.lock().expect("no code panics while it holds this lock").take();
        let Some(mut to_write) = to_write else { return };
        let mut some = Vec::with_capacity(AT_ONCE);
        while to_write.recv_many(&mut some, AT_ONCE).await > 0 {
            let mut writes = JoinSet::new();
            for (list, run) in some.drain(..) {
                let engine = Arc::clone(self);
                writes.spawn(async move {
                    let (key, now) = (key_of(&list, &run), engine.clock.now());
                    if let Err(error) = engine.store.commit(&key, Expect::Absent, &row(None, now), &[]).await {
                        tracing::debug!(%error, workflow_id = %run.workflow_id, "that a run waits could not be written down");
                        return;
                    }
                    // Its list may not be in memory at all: whoever polls it, or has come meanwhile, is to look into the store.
                    engine.backlog.forget(&list);
                    if engine.matching.pollers(&list) > 0 {
                        engine.seek(&list);
                    }
                });
            }
            while writes.join_next().await.is_some() {}
        }
    }

    /// Somebody asks for what waits on a list: reads what the store has of it, unless this node has done so.
    pub(super) fn seek(self: &Arc<Self>, list: &ListKey) {
        let again_after = self.nodes.is_shared().then_some(READ_AGAIN_AFTER);
        if self.backlog.begins(list, again_after) {
            let (engine, list) = (Arc::clone(self), list.clone());
            tokio::spawn(async move {
                tokio::select! { biased; () = engine.stopped() => {} () = engine.read_rows(&list) => {} }
            });
        }
    }

    /// Others have come or gone, and with them what they had in memory: reads what the store has of every list where
    /// somebody waits, and of the others when somebody comes.
    pub(super) fn seek_anew(self: &Arc<Self>) {
        self.backlog.forget_all();
        for (list, _, pollers) in self.matching.depths() {
            if pollers > 0 {
                self.seek(&list);
            }
        }
        self.seek_lambda_tasks();
    }

    /// Nobody polls for Lambda tasks before one waits: reads what the store has of them in every domain.
    pub(super) fn seek_lambda_tasks(self: &Arc<Self>) {
        if self.lambda.get().is_none() {
            return;
        }
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let domains = loop {
                match engine.domains().await {
                    Ok(domains) => break domains,
                    Err(_) if engine.is_stopping() => return,
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
    pub(super) async fn keep_refilling(self: &Arc<Self>) {
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
        let loaded = self.store.load(key).await?.map(Loaded::decode).transpose()?;
        let mut tasks = loaded.map(|loaded| waiting(key, loaded.run())).unwrap_or_default();
        tasks.retain(|(on, ..)| on == list);
        if tasks.is_empty() {
            return Ok(self.store.drop_run(&key_of(list, key), NO_RUN).await?);
        }
        let now = self.clock.now();
        for (_, task, _) in tasks.into_iter().filter(|(.., not_before)| not_before.is_none_or(|at| at <= now)) {
            self.put_on_list(list, task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_rows_of_its_own() {
        let mut domains = std::collections::HashSet::new();
        for side in [Side::Decider, Side::Activity] {
            for (domain, name) in [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")] {
                assert!(domains.insert(domain_of(&ListKey { domain: domain.into(), side, name: name.into() })));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rows_of_a_list_are_read_once_until_there_may_be_others() {
        let (backlog, list) =
            (Backlog::default(), ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() });
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
