//! Writes rows to the backlog in the store (see `backlog.rs`) for tasks that have no space in memory. Reads the rows of
//! lists, and puts the tasks of their runs on the lists.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, StreamExt as _};
use history::{LAMBDA_LIST, Run, Timestamp};
use store::{Expect, HeadKey, ListQuery, Listed};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Refusal;
use crate::commit::StoredRun;
use crate::lists::backlog::{FRESH_FOR, NO_RUN, READ_AGAIN_AFTER, domain_of, key_of, row, waiting};
use crate::lists::hand_out::TaskLists;
use crate::lists::{ListKey, Taker};

/// Number of rows that are read with one request to the store. Our choice.
const ROWS_AT_ONCE: usize = 100;

/// Maximum number of runs that are read, or for which rows are written, concurrently. Our choice.
const AT_ONCE: usize = 64;

/// Pause after a failed read of the store. Our choice.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Interval at which a run that a waiting poller names is read, if nodes share the store. Our choice: a poll that names
/// a run is for debugging, and each read costs about one read unit.
const RUN_SEEK_EVERY: Duration = Duration::from_secs(2);

impl TaskLists {
    /// Writes a row for a run to the backlog of each list on which the run's tasks wait. Returns true if all rows are
    /// in the store.
    pub(crate) async fn write_down(&self, key: &HeadKey, run: &Run, now: Timestamp) -> bool {
        let mut lists: Vec<ListKey> = Vec::new();
        for (list, _, not_before) in waiting(key, run) {
            if not_before.is_none_or(|at| at <= now) && !lists.contains(&list) {
                lists.push(list);
            }
        }
        for list in lists {
            if let Err(refusal) = self.write_row(&list, key, now).await {
                tracing::debug!(
                    %refusal, workflow_id = %key.workflow_id,
                    "the backlog row of a run could not be written"
                );
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
        // A write can only conflict with another node's write of the same row.
        self.store.commit(&key, expect, &row(found.as_ref(), now), &[]).await?;
        Ok(())
    }

    /// Queues a row for a run whose task has no space in memory.
    pub(crate) fn write_down_full(&self, list: &ListKey, run: &HeadKey) {
        if !self.backlog.push(list, run) {
            self.agenda.wake_again(run, self.clock.now());
        }
    }

    /// Until the service stops, writes rows for the queued runs.
    pub(crate) async fn keep_writing_down(self: &Arc<Self>) {
        loop {
            let full = stream::iter(self.backlog.take().await);
            full.for_each_concurrent(AT_ONCE, |(list, run)| async move { self.write_full_row(&list, &run).await })
                .await;
        }
    }

    async fn write_full_row(self: &Arc<Self>, list: &ListKey, run: &HeadKey) {
        let (key, now) = (key_of(list, run), self.clock.now());
        if let Err(error) = self.store.commit(&key, Expect::Absent, &row(None, now), &[]).await {
            tracing::debug!(%error, workflow_id = %run.workflow_id, "the backlog row of a run could not be written");
            return self.agenda.wake_again(run, self.clock.now());
        }
        // Memory may have no space for the list itself. The list's next poller, or a poller that has arrived meanwhile,
        // must read the rows from the store.
        self.backlog.forget(list);
        if self.matching.pollers(list) > 0 {
            self.seek(list);
        }
    }

    /// Starts reading the backlog rows of a list, unless this node has already read them.
    pub(crate) fn seek(self: &Arc<Self>, list: &ListKey) {
        let again_after = self.nodes.is_shared().then_some(READ_AGAIN_AFTER);
        if self.backlog.begin_reading(list, again_after) {
            let (lists, list) = (Arc::clone(self), list.clone());
            let read = move || Box::pin(Arc::clone(&lists).read_rows(list.clone())) as _;
            self.background.keep("reading the backlog of a list", read);
        }
    }

    /// Offers the waiting tasks of the run that a poller names, if it names one: tasks of the run may wait only in the
    /// store or in the memory of another node.
    pub(crate) async fn seek_run_once(&self, list: &ListKey, taker: &Taker) {
        let Some(workflow_id) = &taker.workflow_id else { return };
        let key = HeadKey { domain: Arc::clone(&list.domain), workflow_id: Arc::clone(workflow_id) };
        if let Err(refusal) = self.runs.wake(&key).await {
            tracing::debug!(%refusal, %workflow_id, "a run that a poll names could not be read");
        }
    }

    /// Looks for tasks of the run that a waiting poller names: at once and, if nodes share the store, periodically,
    /// because other nodes do not know of the poller. Returns `None` if the poller names no run.
    pub(crate) fn seek_run(self: &Arc<Self>, list: &ListKey, taker: &Taker) -> Option<BoxFuture<'static, ()>> {
        taker.workflow_id.as_ref()?;
        let (lists, list, taker) = (Arc::clone(self), list.clone(), taker.clone());
        Some(Box::pin(async move {
            lists.seek_run_once(&list, &taker).await;
            while lists.nodes.is_shared() {
                tokio::time::sleep(RUN_SEEK_EVERY).await;
                lists.seek_run_once(&list, &taker).await;
            }
            std::future::pending::<()>().await;
        }))
    }

    /// Reads the backlog rows again after nodes have joined or left, because tasks in the memory of other nodes may be
    /// lost. The rows of lists with a waiting poller are read at once, and those of all other lists at the next poll.
    pub(crate) fn seek_all_again(self: &Arc<Self>) {
        self.backlog.forget_all();
        for (list, _, pollers, _) in self.matching.depths() {
            if pollers > 0 {
                self.seek(&list);
            }
        }
        self.seek_lambda_tasks();
    }

    /// Enables Lambda tasks and returns a channel that receives the domain of each waiting Lambda task. A second call
    /// returns a channel that receives nothing.
    pub fn lambda_tasks(self: &Arc<Self>) -> UnboundedReceiver<Arc<str>> {
        let (sender, receiver) = unbounded_channel();
        drop(self.lambda.set(sender));
        self.seek_lambda_tasks();
        receiver
    }

    /// Reads the backlog rows of Lambda tasks in every domain. No poll would read them, because their lists have no
    /// pollers.
    pub(crate) fn seek_lambda_tasks(self: &Arc<Self>) {
        if self.lambda.get().is_none() {
            return;
        }
        let lists = Arc::clone(self);
        self.background.spawn_until_stopped(async move {
            let domains = loop {
                match lists.registry.domains().await {
                    Ok(domains) => break domains,
                    Err(_) => tokio::time::sleep(RETRY_WAIT).await,
                }
            };
            for domain in domains {
                lists.seek(&ListKey::new(&domain.name, false, LAMBDA_LIST));
            }
        });
    }

    /// Reads the remaining rows of lists that were full, once they have space again.
    pub(crate) async fn keep_refilling(self: &Arc<Self>) {
        loop {
            self.matching.starving.notified().await;
            self.backlog.has_space.notify_waiters();
            for list in self.matching.take_overflowed() {
                self.backlog.forget(&list);
                self.seek(&list);
            }
        }
    }

    async fn read_rows(self: Arc<Self>, list: ListKey) {
        loop {
            self.read_rows_once(&list).await;
            // If memory had no space for the list itself, its rows are not recorded as read, so that they are read
            // again later.
            if !self.backlog.end_reading(&list, self.matching.has_room_for_list(&list)) {
                return;
            }
        }
    }

    /// Reads all rows of a list. While memory has no space for the tasks of the list, waits.
    async fn read_rows_once(self: &Arc<Self>, list: &ListKey) {
        let query =
            ListQuery { domain: domain_of(list), open: Some(true), limit: ROWS_AT_ONCE, ..ListQuery::default() };
        let mut page = None;
        loop {
            let read = match self.store.list(&query, page.as_ref()).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(%error, "the backlog of a list could not be read");
                    tokio::time::sleep(RETRY_WAIT).await;
                    continue;
                }
            };
            for rows in read.rows.chunks(AT_ONCE) {
                let mut have_room = false;
                while !have_room {
                    if !self.has_room(list).await {
                        return;
                    }
                    have_room = self.restore_all(list, rows).await;
                }
            }
            page = read.next;
            if page.is_none() {
                return;
            }
        }
    }

    /// Waits until there is space for more tasks on a list. Returns false if there is no space for the list itself.
    async fn has_room(&self, list: &ListKey) -> bool {
        loop {
            let mut has_space = pin!(self.backlog.has_space.notified());
            // Registers for the notification before the check, so that no notification is missed.
            has_space.as_mut().enable();
            if !self.matching.has_room_for_list(list) {
                return false;
            }
            if !self.matching.is_full(list) {
                return true;
            }
            has_space.await;
        }
    }

    /// Puts the waiting tasks of these runs on a list. Returns true if there was space for all of them.
    async fn restore_all(self: &Arc<Self>, list: &ListKey, rows: &[Listed]) -> bool {
        let restored = rows.iter().map(async |row| {
            let key = HeadKey { domain: Arc::clone(&list.domain), workflow_id: Arc::clone(&row.workflow_id) };
            self.restore_tasks(list, &key).await.unwrap_or_else(|refusal| {
                tracing::warn!(%refusal, workflow_id = %key.workflow_id, "a run of the backlog could not be read");
                self.agenda.wake_again(&key, self.clock.now());
                true
            })
        });
        join_all(restored).await.into_iter().all(|has_room| has_room)
    }

    /// Puts the waiting tasks of a run on a list. Returns true if there was space for all of them. If no task of the
    /// run waits on the list, deletes the run's row and returns true.
    async fn restore_tasks(self: &Arc<Self>, list: &ListKey, key: &HeadKey) -> Result<bool, Refusal> {
        if let Some(has_room) = self.put_waiting(list, key).await? {
            return Ok(has_room);
        }
        self.store.drop_run(&key_of(list, key), NO_RUN).await?;
        // Meanwhile, a task may have been created for which memory had no space. The task relied on the row that was
        // just deleted, so the row must be written again.
        if self.put_waiting(list, key).await?.is_some() {
            self.write_down_full(list, key);
        }
        Ok(true)
    }

    /// Reads a run from the store and puts its waiting tasks on a list. Returns `Some(true)` if there was space for all
    /// of them, and `None` if no task of the run waits on the list.
    async fn put_waiting(self: &Arc<Self>, list: &ListKey, key: &HeadKey) -> Result<Option<bool>, Refusal> {
        let loaded = self.store.load(key).await?.map(StoredRun::decode).transpose()?;
        let mut tasks = loaded.map(|loaded| waiting(key, loaded.run())).unwrap_or_default();
        tasks.retain(|(on, ..)| on == list);
        let (now, waits, mut has_room) = (self.clock.now(), !tasks.is_empty(), true);
        for (_, task, _) in tasks.into_iter().filter(|(.., not_before)| not_before.is_none_or(|at| at <= now)) {
            has_room &= self.put_on_list(list, task);
        }
        Ok(waits.then_some(has_room))
    }
}
