//! Background work of the engine: wakes due runs, and deletes runs whose retention period has ended.
//!
//! A waiting task is on a list in memory. Its run is in the due index, with the time when the task must be [offered to
//! its list again](OFFER_SOON_MAX). When a node starts, or when other nodes leave, the node takes over shards of the
//! due index. It immediately offers the tasks of its shards that are due within that time. No task therefore waits
//! longer because another node has left.
//!
//! Runs that are due later are not read, so the start of a node does not take longer if there are more open runs. Such
//! a run waits only for a deadline, or for a poller of a list without pollers. When that list is polled again, the
//! poller's node finds the run through the rows of the list (`lists/backlog.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use history::Timestamp;
use store::{Due, HeadKey, Store, UnixMs};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::base::agenda::{Agenda, ENTRIES_MAX, OFFER_SOON_MAX};
use crate::base::background::Background;
use crate::base::records::{domain_of_batch, domain_of_schedule};
use crate::base::watch::Watchers;
use crate::batches::Batches;
use crate::lists::hand_out::TaskLists;
use crate::nodes::Nodes;
use crate::run::runs::Runs;
use crate::schedules::Scheduler;
use crate::time::guard::{Guard, WATCH_EVERY};
use crate::{Clock, Metrics, Refusal};

/// Length of the period, from now, for which a node reads the due index when it takes over. The period covers all
/// waiting tasks that have no row in the backlog of their list, plus one second because clocks may differ.
const TAKE_OVER_AHEAD: history::Duration = history::Duration::from_millis(OFFER_SOON_MAX.as_millis() + 1_000);

/// Number of entries of the due index that are read with one request during a takeover. Our choice.
const TAKE_OVER_AT_ONCE: usize = 1_000;

/// Maximum number of runs that are woken concurrently. Our choice.
const WAKES_AT_ONCE: usize = 64;

/// Interval at which a node reads the due index of its shards from the beginning. Needed because the node does not see
/// the writes of other nodes and because an index may lag. Our choice: shorter than the delay before a waiting task is
/// offered to its list again.
pub(crate) const RESCAN_EVERY: history::Duration = history::Duration::from_secs(5);

/// Time for which a run of another node's shard must be overdue before this node wakes it. Our choice.
const FOREIGN_OVERDUE: history::Duration = history::Duration::from_secs(10);

/// Delay after a failed read of the store. Our choice.
const ERROR_WAIT: Duration = Duration::from_secs(1);

/// Delay after a failed read of the store during a takeover. Our choice: short, because runs make no progress in the
/// meantime.
const TAKE_OVER_ERROR_WAIT: Duration = Duration::from_millis(200);

/// Interval at which expired runs are deleted. Our choice.
const EXPIRE_EVERY: Duration = Duration::from_secs(30);

/// Number of expired runs that are deleted with one request to the store. Our choice.
const EXPIRE_AT_ONCE: usize = 500;

/// Wakes due runs and deletes expired runs.
pub(crate) struct Sweeper {
    pub(crate) runs: Arc<Runs>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) schedules: Arc<Scheduler>,
    pub(crate) batches: Arc<Batches>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: store::Limits,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Arc<Background>,
    /// Number of times that the due index was read.
    pub(crate) rescans: AtomicU32,
}

impl Sweeper {
    /// Starts the background tasks. They end when the engine shuts down.
    pub(crate) fn start_sweeping(self: &Arc<Self>) {
        let keep = |what, work: fn(Arc<Self>) -> BoxFuture<'static, ()>| {
            let sweep = Arc::clone(self);
            self.background.keep(what, move || work(Arc::clone(&sweep)));
        };
        keep("waking due runs", |sweep| Box::pin(async move { sweep.sweep().await }));
        keep("taking over runs of other nodes", |sweep| Box::pin(async move { sweep.take_over().await }));
        keep("refilling task lists", |sweep| Box::pin(async move { sweep.lists.keep_refilling().await }));
        keep("dispatching limited tasks", |sweep| Box::pin(async move { sweep.lists.keep_pairing().await }));
        keep("writing the backlog", |sweep| Box::pin(async move { sweep.lists.keep_writing_down().await }));
        keep("reporting to operators", |sweep| Box::pin(async move { sweep.lists.keep_reporting().await }));
        keep("deleting expired runs", |sweep| Box::pin(async move { sweep.expire().await }));
        keep("watching the clock", |sweep| Box::pin(async move { sweep.watch_clock().await }));
        keep("waking runs after the clock was set back", |sweep| {
            Box::pin(async move { sweep.wake_after_put_back().await })
        });
        if self.nodes.is_shared() {
            keep("sending heartbeats", |sweep| Box::pin(async move { sweep.keep_sending_heartbeats().await }));
        }
    }

    /// Sends heartbeats of this node until the service stops.
    async fn keep_sending_heartbeats(self: &Arc<Self>) {
        let mut began = Instant::now();
        loop {
            tokio::time::sleep_until(self.nodes.next_heartbeat(began)).await;
            began = Instant::now();
            match self.nodes.beat().await {
                Ok(false) => {}
                Ok(true) => self.nodes_have_changed(),
                Err(refusal) => tracing::warn!(%refusal, "the heartbeat of this node could not be written"),
            }
        }
    }

    /// Reacts to a change of the set of nodes: takes over tasks of nodes that have left, as at the start of this node.
    fn nodes_have_changed(self: &Arc<Self>) {
        self.agenda.read_again();
        self.nodes.changed.notify_one();
        self.lists.seek_all_again();
        // Nodes that have left no longer notify this node's watchers. Closing the watchers makes the callers read their
        // runs again.
        self.watchers.close();
        self.lists.announce_pollers();
        self.lists.send_lost_polls();
    }

    async fn sweep(self: &Arc<Self>) {
        // Wakes in progress. They run concurrently, so that a slow wake does not delay others.
        let mut looks = JoinSet::new();
        loop {
            let now = self.clock.now();
            let (wake_at, extend) = self.agenda.next(now);
            if extend && let Err(refusal) = self.extend_agenda(now).await {
                tracing::warn!(%refusal, "the due index could not be read");
                tokio::time::sleep(ERROR_WAIT).await;
                continue;
            }
            let due = self.agenda.take_due(now, WAKES_AT_ONCE);
            if due.is_empty() && !extend {
                tokio::select! {
                    biased;
                    () = self.agenda.earlier.notified() => {}
                    () = self.clock.sleep_until(wake_at) => {}
                }
            }
            for key in due {
                if looks.len() >= WAKES_AT_ONCE {
                    looks.join_next().await;
                }
                let sweep = Arc::clone(self);
                looks.spawn(async move { sweep.wake_or_retry(&key).await });
            }
            while looks.try_join_next().is_some() {}
        }
    }

    /// Offers waiting tasks that may be only in the memory of other nodes. Called at the start of this node, and
    /// whenever the set of nodes changes.
    async fn take_over(self: &Arc<Self>) {
        loop {
            self.wake_due_ahead().await;
            self.nodes.changed.notified().await;
        }
    }

    /// Wakes the runs that are due soon. All shards are read concurrently, so that a slow shard or run does not delay
    /// the others.
    async fn wake_due_ahead(self: &Arc<Self>) {
        let until = self.clock.now().plus(TAKE_OVER_AHEAD).as_millis();
        let looks = Arc::new(Semaphore::new(WAKES_AT_ONCE));
        let mut shards = JoinSet::new();
        for shard in (0..self.limits.due_shards.max(1)).filter(|shard| self.nodes.is_home(*shard)) {
            shards.spawn(Arc::clone(self).wake_each(shard, until, |_| true, Arc::clone(&looks)));
        }
        while shards.join_next().await.is_some() {}
    }

    /// Wakes the runs of a shard that are due before `until` and for which `is_wanted` returns true.
    async fn wake_each(
        self: Arc<Self>,
        shard: u32,
        until: UnixMs,
        is_wanted: impl Fn(&Due) -> bool,
        looks: Arc<Semaphore>,
    ) {
        let (mut after, mut under_way) = (None, JoinSet::new());
        loop {
            let due = match self.store.due(shard, until, after.as_ref(), TAKE_OVER_AT_ONCE).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "the due index could not be read");
                    tokio::time::sleep(TAKE_OVER_ERROR_WAIT).await;
                    continue;
                }
            };
            let Some(last) = due.last() else { break };
            after = Some(last.clone());
            for due in due.into_iter().filter(&is_wanted) {
                let Ok(look) = Arc::clone(&looks).acquire_owned().await else { return };
                let sweep = Arc::clone(&self);
                under_way.spawn(async move {
                    sweep.wake_or_retry(&due.key).await;
                    drop(look);
                });
                while under_way.try_join_next().is_some() {}
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    async fn extend_agenda(self: &Arc<Self>, now: Timestamp) -> Result<(), Refusal> {
        let (before, horizon) = self.agenda.extend(now);
        let shards = self.limits.due_shards.max(1);
        let limit = (ENTRIES_MAX / 2 / shards as usize).max(1);
        let overdue = now.as_millis().saturating_sub(FOREIGN_OVERDUE.as_millis());
        // Also reads one shard of another node, in each call a different one. The home node of that shard may not know
        // that it is the home.
        let foreign = self.rescans.fetch_add(1, Ordering::Relaxed) % shards;
        // Shards are read concurrently, so that a slow shard does not delay the others.
        let mut reads = JoinSet::new();
        for shard in 0..shards {
            let is_home = self.nodes.is_home(shard);
            if is_home || shard == foreign {
                let (store, until) = (Arc::clone(&self.store), if is_home { horizon.as_millis() } else { overdue });
                reads.spawn(async move { (is_home, store.due(shard, until, None, limit).await) });
            }
        }
        let mut outcome = Ok(());
        while let Some(read) = reads.join_next().await {
            let failed =
                |_| (true, Err(store::Error::NotApplied { why: "the read panicked".into(), retry_after: None }));
            let (is_home, due) = read.unwrap_or_else(failed);
            match due {
                Ok(due) => {
                    let complete = due.len() < limit || !is_home;
                    self.agenda.fill(due, complete);
                }
                Err(error) => {
                    self.agenda.retract(before);
                    outcome = Err(error.into());
                }
            }
        }
        outcome
    }

    /// Wakes a run. If the wake fails, schedules another attempt soon.
    async fn wake_or_retry(self: &Arc<Self>, key: &HeadKey) {
        self.metrics.looks.inc();
        let looked = if domain_of_schedule(key).is_some() {
            self.schedules.wake(key).await
        } else if domain_of_batch(key).is_some() {
            self.batches.wake(key).await
        } else {
            self.runs.wake(key).await
        };
        if let Err(refusal) = looked {
            // A full disk is logged elsewhere, so it is not logged for each run.
            if !matches!(refusal, Refusal::DiskFull { .. }) {
                tracing::warn!(%refusal, workflow_id = %key.workflow_id, "a due run could not be woken; it is retried");
            }
            // The run is still in the due index, but the agenda will not read that part of the index again soon.
            self.agenda.wake_again(key, self.clock.now());
        }
    }

    async fn watch_clock(self: &Arc<Self>) {
        loop {
            if let Err(refusal) = self.guard.watch().await {
                tracing::warn!(%refusal, "a jump of the clock could not be recorded");
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    /// Wakes runs and schedules again after the clock was set back or confirmed. If they were woken while the clock was
    /// ahead, their next wake is too far in the future.
    async fn wake_after_put_back(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            if !self.guard.take_put_back() {
                continue;
            }
            if let Err(refusal) = self.schedules.wake_all().await {
                tracing::warn!(%refusal, "schedules could not be woken after the clock was set back");
                self.guard.put_back_again();
            }
            let from = self.clock.now().as_millis();
            for shard in (0..self.limits.due_shards.max(1)).filter(|shard| self.nodes.is_home(*shard)) {
                let is_ahead = move |due: &Due| due.at > from && domain_of_schedule(&due.key).is_none();
                Arc::clone(self).wake_each(shard, UnixMs::MAX, is_ahead, Arc::new(Semaphore::new(WAKES_AT_ONCE))).await;
            }
        }
    }

    async fn expire(self: &Arc<Self>) {
        loop {
            let now = self.guard.believed_now().await.unwrap_or_else(|refusal| {
                tracing::warn!(%refusal, "the clock could not be checked; retention deletes nothing");
                None
            });
            if let Some(now) = now {
                match self.store.expire(now.as_millis(), EXPIRE_AT_ONCE).await {
                    Ok(count) => {
                        self.metrics.expired.inc_by(count as u64);
                        if count >= EXPIRE_AT_ONCE {
                            continue;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "expired runs could not be deleted"),
                }
            }
            tokio::time::sleep(EXPIRE_EVERY).await;
        }
    }
}
