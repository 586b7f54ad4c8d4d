//! Applies limits to the lists of this node: hands out tasks when a limit allows more, and counts the running tasks of
//! lists with new limits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use history::{EventId, Run, StoppedLists, Timestamp};
use store::{HeadKey, ListQuery, Listed};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Refusal;
use crate::base::list_settings::{DomainLists, ListSide};
use crate::commit::StoredRun;
use crate::lists::backlog::running;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::permit::TaskSlot;
use crate::lists::matching::Leaving;
use crate::lists::{ListKey, Side};
use crate::nodes::HOME_SETTLES_AFTER;
use crate::nodes::messages::SlotNews;

/// Number of runs that are read with one request to the store while running tasks are counted. Our choice.
const RUNS_AT_ONCE: usize = 100;

/// Maximum number of waiting tasks of a resumed list whose runs are woken at once, to compute when the tasks time out.
/// Our choice: the runs of other tasks are woken when they are due anyway.
const WOKEN_AFTER_RESUME_MAX: usize = 1_000;

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

    /// Hands out tasks of lists whose limits may allow more, to pollers of this node and of others.
    pub(crate) fn pair_all(self: &Arc<Self>, lists: &[ListKey]) {
        for list in lists {
            self.pair_with(list, true);
            self.offer_elsewhere(list);
        }
    }

    /// Records that a commit has started a task.
    pub(crate) fn slot_started(self: &Arc<Self>, task: impl FnOnce() -> TaskSlot) {
        if self.matching.has_limits() {
            let task = task();
            if self.matching.is_away(&task.list) {
                self.home.report(&task, SlotNews::Started);
            } else {
                self.matching.started(&task);
            }
        }
    }

    /// Frees the slot of a task that has ended.
    pub(crate) fn slot_freed(self: &Arc<Self>, task: impl FnOnce() -> TaskSlot) {
        if self.matching.has_limits() {
            let task = task();
            if self.matching.is_away(&task.list) {
                self.home.report(&task, SlotNews::Ended);
            } else {
                self.pair_all(&self.matching.ended(&task.list, task.key()));
            }
        }
    }

    /// Frees the slots of a run's tasks that are not running.
    pub(crate) fn reconcile_slots(self: &Arc<Self>, run_id: Uuid, running: &[EventId]) {
        self.settle_unknown();
        self.pair_all(&self.matching.reconcile(run_id, running));
    }

    /// Treats tasks of which it is unknown whether they have started as started, until the state of their run is known.
    fn settle_unknown(&self) {
        for task in self.matching.returned_slots.take_unknown() {
            if self.matching.is_away(&task.list) {
                self.home.report(&task, SlotNews::Unknown);
            } else {
                self.matching.with_limiter(|limiter| limiter.assume_started(task.key(), Instant::now()));
            }
        }
    }

    /// Frees the slots that were given back. Returns the lists that may hand out a task now.
    fn free_given_back(&self) -> Vec<ListKey> {
        self.settle_unknown();
        let mut lists = Vec::new();
        for task in self.matching.returned_slots.take() {
            if self.matching.is_away(&task.list) {
                self.home.report(&task, SlotNews::NotStarted);
            } else {
                lists.extend(self.matching.give_back(task.key()));
            }
        }
        lists
    }

    /// Until the service stops, hands out tasks when slots are given back and when a rate allows another start.
    pub(crate) async fn keep_pairing(self: &Arc<Self>) {
        let wakes_earlier = self.matching.with_limiter(|limiter| Arc::clone(&limiter.wakes_earlier));
        loop {
            let next = self.matching.with_limiter(|limiter| limiter.next_wake());
            tokio::select! {
                () = self.matching.returned_slots.news.notified() => {}
                () = wakes_earlier.notified() => {}
                () = sleep_until(next) => {}
            }
            let mut lists = self.free_given_back();
            lists.extend(self.matching.with_limiter(|limiter| limiter.take_due(Instant::now())));
            self.pair_all(&lists);
        }
    }

    /// Replaces the settings of the domain's lists. Lists with new settings hand out nothing until their running tasks
    /// are counted.
    pub(crate) fn set_limits(self: &Arc<Self>, domain: &Arc<str>, settings: &DomainLists) {
        let is_away = !self.nodes.is_home_of_lists(domain);
        let as_new_home = self.matching.with_limiter(|limiter| limiter.set_away(domain, is_away, Instant::now()));
        let (lists, of_new_lists) = self.matching.set_limits(domain, settings);
        self.pair_all(&lists);
        self.set_stopped(domain, settings, Instant::now());
        for list in &lists {
            self.forward_home(list);
        }
        for count in as_new_home.into_iter().chain(of_new_lists) {
            self.start_counting(domain, count);
        }
    }

    /// Counts the running tasks of the domain's lists for this count, in the background.
    pub(crate) fn start_counting(self: &Arc<Self>, domain: &Arc<str>, count: u64) {
        let (lists, domain) = (Arc::clone(self), Arc::clone(domain));
        self.background.spawn_until_stopped(async move { lists.count_running(&domain, count).await });
    }

    /// Counts the running tasks of the domain's lists with new settings, by reading all open runs of the domain.
    async fn count_running(self: Arc<Self>, domain: &Arc<str>, count: u64) {
        if self.nodes.is_shared() {
            // Until then, other nodes may start tasks of these lists without asking this node.
            tokio::time::sleep(HOME_SETTLES_AFTER).await;
        }
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
            join_all(read.rows.iter().map(|row| self.count_run(domain, count, row))).await;
            runs += read.rows.len();
            page = read.next;
            if page.is_none() {
                break;
            }
        }
        let lists = self.matching.with_limiter(|limiter| limiter.end_counting(count, Instant::now()));
        let took = began.elapsed();
        tracing::info!(%domain, runs, took_ms = took.as_millis(), "counted the running tasks of task lists with new limits");
        self.pair_all(&lists);
    }

    async fn count_run(&self, domain: &Arc<str>, count: u64, row: &Listed) {
        let key = HeadKey { domain: Arc::clone(domain), workflow_id: Arc::clone(&row.workflow_id) };
        loop {
            let read = self.store.load(&key).await.map_err(Refusal::from);
            match read.and_then(|found| found.map(StoredRun::decode).transpose()) {
                Ok(Some(loaded)) => return self.found_running(domain, count, loaded.run()),
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

    fn found_running(&self, domain: &Arc<str>, count: u64, run: &Run) {
        for (side, name, scheduled_event_id) in running(run) {
            let list = ListKey { domain: Arc::clone(domain), side, name: name.into() };
            let activity = run.activities.get(&scheduled_event_id).filter(|_| side == Side::Activity);
            let key = activity.map_or(run.started.concurrency_key.as_deref(), |it| run.key_of(it));
            let slot = TaskSlot {
                list,
                workflow_id: run.started.workflow_id.as_str().into(),
                run_id: run.started.run_id,
                scheduled_event_id,
                concurrency_key: key.map(Arc::from),
            };
            self.matching.with_limiter(|limiter| limiter.found(count, &slot, Instant::now()));
        }
    }
}

/// Pauses that stop the schedule-to-start timeouts of waiting tasks.
impl TaskLists {
    /// Returns the pauses of a domain's lists that stop schedule-to-start timeouts, as this node knows them.
    pub fn stopped(&self, domain: &str) -> Arc<StoppedLists> {
        self.stopped.get(domain)
    }

    /// Returns the pauses with which a wake of a run records timeouts.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub(crate) async fn stopped_for_wake(
        &self,
        domain: &Arc<str>,
        run: &Run,
        now: Timestamp,
    ) -> Result<Arc<StoppedLists>, Refusal> {
        // The pauses matter only for waits that are longer than their timeout. Known pauses are also read again, since
        // the list may have been resumed.
        if !self.nodes.is_shared() || !run.has_waited_too_long(now) {
            return Ok(self.stopped.get(domain));
        }
        let _guard = self.changing_limits.lock().await;
        if !self.stopped.is_fresh(domain) {
            let read_at = Instant::now();
            let settings = self.stored_settings(domain).await?;
            self.set_stopped(domain, &settings, read_at);
        }
        Ok(self.stopped.get(domain))
    }

    /// Replaces the known pauses of a domain's lists. Wakes the runs of waiting tasks of resumed lists, because the
    /// times of their next wakes assume that the lists are still paused.
    pub(crate) fn set_stopped(&self, domain: &Arc<str>, settings: &DomainLists, read_at: Instant) {
        let now = self.clock.now();
        for ListSide { name, is_decider } in self.stopped.set(domain, settings, read_at) {
            let side = if is_decider { Side::Decider } else { Side::Activity };
            let list = ListKey { domain: Arc::clone(domain), side, name: name.into() };
            for (task, _) in self.matching.next(&list, WOKEN_AFTER_RESUME_MAX) {
                self.agenda.set_by(&task.key, now);
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
