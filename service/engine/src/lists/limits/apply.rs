//! Applies limits to the lists of this node: hands out tasks when a limit allows more, and counts the running tasks of
//! lists with new limits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use history::{EventId, Run};
use store::{HeadKey, ListQuery, Listed};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Refusal;
use crate::base::list_settings::DomainLists;
use crate::commit::StoredRun;
use crate::lists::backlog::running;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::permit::SlotKey;
use crate::lists::matching::Leaving;
use crate::lists::{ListKey, Side};

/// Number of runs that are read with one request to the store while running tasks are counted. Our choice.
const RUNS_AT_ONCE: usize = 100;

/// Pause after a failed read of the store. Our choice.
const RETRY_WAIT: Duration = Duration::from_secs(1);

impl TaskLists {
    /// Hands out tasks of a list to pollers that wait, as long as limits allow it. Only lists with limits or with
    /// concurrency keys can have both.
    pub(crate) fn pair(self: &Arc<Self>, list: &ListKey) {
        self.pair_with(list, self.matching.has_limits());
    }

    fn pair_with(self: &Arc<Self>, list: &ListKey, of_runs: bool) {
        while let Some((mut poller, Leaving { task, permit })) = self.matching.next_pair(list, of_runs) {
            poller.permit = permit;
            self.start_hand_over(list, poller, task);
        }
    }

    fn pair_all(self: &Arc<Self>, lists: &[ListKey]) {
        for list in lists {
            self.pair_with(list, true);
        }
    }

    /// Frees the slot of a task that has ended.
    pub(crate) fn slot_freed(self: &Arc<Self>, list: &ListKey, slot: SlotKey) {
        self.pair_all(&self.matching.ended(list, slot));
    }

    /// Frees the slots of a run's tasks that are not running.
    pub(crate) fn reconcile_slots(self: &Arc<Self>, run_id: Uuid, running: &[EventId]) {
        self.pair_all(&self.matching.reconcile(run_id, running));
    }

    /// Until the service stops, hands out tasks when slots are given back and when a rate allows another start.
    pub(crate) async fn keep_pairing(self: &Arc<Self>) {
        let wakes_earlier = self.matching.with_limiter(|limiter| Arc::clone(&limiter.wakes_earlier));
        loop {
            let next = self.matching.with_limiter(|limiter| limiter.next_wake());
            tokio::select! {
                () = self.matching.given_back.news.notified() => {}
                () = wakes_earlier.notified() => {}
                () = sleep_until(next) => {}
            }
            let mut lists = self.matching.free_given_back();
            lists.extend(self.matching.with_limiter(|limiter| limiter.take_due(Instant::now())));
            self.pair_all(&lists);
        }
    }

    /// Replaces the settings of the domain's lists. Lists with new settings hand out nothing until their running tasks
    /// are counted.
    pub(crate) fn set_limits(self: &Arc<Self>, domain: &Arc<str>, settings: &DomainLists) {
        let (lists, must_count) = self.matching.set_limits(domain, settings);
        self.pair_all(&lists);
        if let Some(count) = must_count {
            let (lists, domain) = (Arc::clone(self), Arc::clone(domain));
            self.background.spawn_until_stopped(async move { lists.count_running(&domain, count).await });
        }
    }

    /// Counts the running tasks of the domain's lists with new settings, by reading all open runs of the domain.
    async fn count_running(self: Arc<Self>, domain: &Arc<str>, count: u64) {
        tracing::info!(%domain, "counting the running tasks of task lists with new limits");
        let (began, mut runs) = (Instant::now(), 0);
        let query =
            ListQuery { domain: Arc::clone(domain), open: Some(true), limit: RUNS_AT_ONCE, ..ListQuery::default() };
        let mut page = None;
        loop {
            let read = match self.store.list(&query, page.as_ref()).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(%error, %domain, "running tasks could not be counted yet");
                    tokio::time::sleep(RETRY_WAIT).await;
                    continue;
                }
            };
            join_all(read.rows.iter().map(|row| self.count_run(domain, row))).await;
            runs += read.rows.len();
            page = read.next;
            if page.is_none() {
                break;
            }
        }
        let lists = self.matching.with_limiter(|limiter| limiter.end_counting(count, Instant::now()));
        let took = began.elapsed();
        tracing::info!(%domain, runs, ?took, "counted the running tasks of task lists with new limits");
        self.pair_all(&lists);
    }

    async fn count_run(&self, domain: &Arc<str>, row: &Listed) {
        let key = HeadKey { domain: Arc::clone(domain), workflow_id: Arc::clone(&row.workflow_id) };
        loop {
            let read = self.store.load(&key).await.map_err(Refusal::from);
            match read.and_then(|found| found.map(StoredRun::decode).transpose()) {
                Ok(Some(loaded)) => return self.found_running(domain, loaded.run()),
                Ok(None) => return,
                Err(refusal @ Refusal::Corrupt { .. }) => {
                    tracing::error!(%refusal, workflow_id = %key.workflow_id, "a broken run counts as having no tasks");
                    return;
                }
                Err(refusal) => {
                    tracing::warn!(%refusal, workflow_id = %key.workflow_id, "a run could not be counted yet");
                    tokio::time::sleep(RETRY_WAIT).await;
                }
            }
        }
    }

    fn found_running(&self, domain: &Arc<str>, run: &Run) {
        for (side, name, scheduled_event_id) in running(run) {
            let list = ListKey { domain: Arc::clone(domain), side, name: name.into() };
            let activity = run.activities.get(&scheduled_event_id).filter(|_| side == Side::Activity);
            let key = activity.map_or(run.started.concurrency_key.as_deref(), |it| run.started.key_of(it));
            let (key, slot) = (key.map(Arc::from), (run.started.run_id, scheduled_event_id));
            self.matching.with_limiter(|limiter| limiter.found(&list, key.as_ref(), slot, Instant::now()));
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
