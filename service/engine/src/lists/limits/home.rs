//! Limits of task lists if several nodes share the store. One node, the *home node* of a domain's limits, counts the
//! running tasks of all limited lists of the domain and decides which tasks start, as a single node does. The home node
//! is assigned by rendezvous hashing among the live nodes.
//!
//! * The other nodes forward waiting tasks of limited lists to the home node. It offers each task that may start to a
//!   node with a waiting poller. The offer contains the permission to start the task.
//! * The node that gets the offer commits the start, and reports what became of it. Each node reports the tasks whose
//!   end it commits.
//! * If reports are lost because a node has failed, the home node reads the runs of the tasks that it counts.
//! * A node decides only for [`DECIDES_FOR`](crate::nodes::DECIDES_FOR) after its last heartbeat. A new home node first
//!   waits for [`HOME_SETTLES_AFTER`](crate::nodes::HOME_SETTLES_AFTER), and then counts the running tasks in the
//!   store.
//!
//! Settings are read by all nodes. A node that changes them says so in its heartbeat.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use crate::base::list_reports::{HomeReport, LimitHold};
use crate::commit::StoredRun;
use crate::lists::ListKey;
use crate::lists::backlog::running;
use crate::lists::elsewhere::OFFER_PAUSE;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::limiter::UncheckedSlot;
use crate::lists::limits::permit::TaskSlot;
use crate::lists::matching::ToHome;
use crate::lists::report::{KEYS_SHOWN_MAX, TASKS_LISTED_MAX};
use crate::nodes::messages::{
    FORWARDED_MAX, ForwardedTasks, SLOT_REPORTS_MAX, ShowLimits, ShownList, SlotNews, SlotReport, SlotReports,
};
use crate::{ListName, Offer, Refusal};

/// Pause after reports that could not be delivered. Our choice: a new home node is known after a few seconds.
const REPORT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Interval at which each node reads the settings of limited lists again. Our choice: one read unit per minute, node
/// and domain.
const SETTINGS_READ_EVERY: Duration = Duration::from_secs(60);

/// Interval at which the home node looks for tasks whose runs must be read. Our choice: a list that runs one task at a
/// time must not stand still for long after a lost report.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of runs that are read at such a time. Our choice: 200 read units per second.
const CHECKED_AT_ONCE: usize = 200;

/// Number of these runs that are read concurrently. Our choice.
const CHECKS_IN_PARALLEL: usize = 16;

/// Work of a node that is not the home node.
impl TaskLists {
    /// Returns true if the other node is the home node of the list's limits, and this node is sure of it.
    pub(crate) fn is_ruled_by(&self, node: &str, list: &ListKey) -> bool {
        self.nodes.decides_until().is_none_or(|until| Instant::now() < until)
            && self.nodes.home_of_lists(&list.domain).as_deref() == Some(node)
    }

    /// Sends the tasks of a limited list to the home node of its limits, if this is another node.
    pub(crate) fn forward_home(self: &Arc<Self>, list: &ListKey) {
        let Some(peers) = self.elsewhere.peers().filter(|_| self.matching.is_away(list)) else { return };
        if !self.home.forwarded().insert(list.clone()) {
            return;
        }
        let (lists, peers, list) = (Arc::clone(self), Arc::clone(peers), list.clone());
        self.background.spawn(async move {
            loop {
                let home = lists.nodes.home_of_lists(&list.domain);
                let tasks = {
                    let mut forwarded = lists.home.forwarded();
                    let tasks = lists.matching.dispatch(&list, ToHome(FORWARDED_MAX)).unwrap_or_default();
                    if tasks.is_empty() {
                        forwarded.remove(&list);
                        return;
                    }
                    tasks
                };
                let message = ForwardedTasks { tasks: tasks.iter().map(|task| Offer::of(&list, task)).collect() };
                // The tasks stay here if this node has just become the home node.
                let is_taken = match home.as_deref().filter(|home| Some(*home) != lists.nodes.address()) {
                    Some(home) if lists.matching.is_away(&list) => peers.forward(home, &message).await,
                    _ => Ok(false),
                };
                if matches!(is_taken, Ok(true)) {
                    continue;
                }
                if let Err(error) = is_taken {
                    tracing::debug!(error, home, "tasks could not be forwarded to the home node of their limits");
                }
                for task in tasks {
                    lists.matching.restore(&list, task);
                }
                lists.home.forwarded().remove(&list);
                let (again, list) = (Arc::clone(&lists), list.clone());
                lists.background.after(OFFER_PAUSE, move || {
                    again.pair_all(std::slice::from_ref(&list));
                    again.forward_home(&list);
                });
                return;
            }
        });
    }

    /// Until the service stops, sends reports to home nodes.
    pub(crate) async fn keep_reporting_slots(self: &Arc<Self>) {
        loop {
            let mut are_delivered = true;
            for (domain, mut reports) in self.home.take() {
                while !reports.is_empty() {
                    let some: Vec<SlotReport> = reports.iter().take(SLOT_REPORTS_MAX).cloned().collect();
                    let count = some.len();
                    if !self.deliver_reports(SlotReports { domain: domain.clone(), reports: some }).await {
                        are_delivered = false;
                        break;
                    }
                    reports.drain(..count);
                }
                self.home.put_back(reports);
            }
            if are_delivered {
                self.home.news.notified().await;
            } else {
                tokio::time::sleep(REPORT_AGAIN_AFTER).await;
            }
        }
    }

    async fn deliver_reports(self: &Arc<Self>, reports: SlotReports) -> bool {
        let home = self.nodes.home_of_lists(&reports.domain);
        match (home, self.elsewhere.peers()) {
            (Some(home), Some(peers)) if Some(home.as_str()) != self.nodes.address() => {
                let delivered = peers.report_slots(&home, &reports).await;
                if let Err(error) = &delivered {
                    tracing::debug!(error, home, "reports about limited tasks could not be delivered");
                }
                matches!(delivered, Ok(true))
            }
            _ => self.take_reports(&reports),
        }
    }
}

/// Work of the home node.
impl TaskLists {
    /// Returns true if this node is the home node of the limits of a domain, and has begun its work.
    fn is_home(&self, domain: &str) -> bool {
        self.nodes.is_home_of_lists(domain) && !self.matching.with_limiter(|limiter| limiter.has_away(domain))
    }

    /// Handles tasks that another node forwards. Returns false if this node is not the home node of their limits.
    pub fn take_forwarded(self: &Arc<Self>, forwarded: &ForwardedTasks) -> bool {
        if !forwarded.tasks.iter().all(|offer| self.is_home(&offer.list.domain)) {
            return false;
        }
        for offer in &forwarded.tasks {
            self.offer(&ListKey::from(&offer.list), offer.task());
        }
        true
    }

    /// Handles reports of another node. Returns false if this node is not the home node of the limits.
    pub fn take_reports(self: &Arc<Self>, reports: &SlotReports) -> bool {
        if !self.is_home(&reports.domain) {
            return false;
        }
        for report in reports.reports.iter().filter(|report| report.list.domain == reports.domain) {
            let task = TaskSlot {
                list: ListKey::from(&report.list),
                workflow_id: report.workflow_id.as_str().into(),
                run_id: report.run_id,
                scheduled_event_id: report.scheduled_event_id,
                concurrency_key: report.concurrency_key.as_deref().map(Arc::from),
            };
            match report.news {
                SlotNews::Started => self.matching.started(&task),
                SlotNews::NotStarted => self.pair_all(&self.matching.give_back(task.key())),
                SlotNews::Unknown => {
                    self.matching.with_limiter(|limiter| limiter.assume_started(task.key(), Instant::now()));
                }
                SlotNews::Ended => self.pair_all(&self.matching.ended(&task.list, task.key())),
            }
        }
        true
    }

    /// Adjusts to a heartbeat of this node: to new home nodes, to changed settings, and to the time until which this
    /// node may decide.
    pub(crate) async fn heartbeat_sent(self: &Arc<Self>) {
        if self.nodes.take_list_changes()
            && let Err(refusal) = self.read_settings_again().await
        {
            tracing::warn!(%refusal, "changed settings of task lists could not be read yet");
            self.nodes.put_back_list_changes();
        }
        let (until, now) = (self.nodes.decides_until(), Instant::now());
        let had_passed = self.matching.with_limiter(|limiter| limiter.decide_until(until, now));
        for domain in self.matching.with_limiter(|limiter| limiter.domains()) {
            let is_away = !self.nodes.is_home_of_lists(&domain);
            let was_away = self.matching.with_limiter(|limiter| limiter.has_away(&domain));
            let must_count = self.matching.with_limiter(|limiter| limiter.set_away(&domain, is_away, now));
            let lists = self.matching.with_limiter(|limiter| limiter.lists_of(&domain));
            match must_count {
                Some(count) => {
                    tracing::info!(%domain, "this node is now the home node of limits of task lists");
                    self.start_counting(&domain, count);
                }
                None if is_away && !was_away => {
                    for list in &lists {
                        self.forward_home(list);
                    }
                }
                None if had_passed => self.pair_all(&lists),
                None => {}
            }
        }
    }

    /// Reads the settings of all domains again.
    async fn read_settings_again(self: &Arc<Self>) -> Result<(), Refusal> {
        let known = self.matching.with_limiter(|limiter| limiter.domains());
        let registered = self.registry.domains().await?;
        let all: BTreeSet<Arc<str>> =
            registered.iter().map(|domain| domain.name.as_str().into()).chain(known).collect();
        self.apply_stored(all).await
    }

    /// Reads the settings of all domains with limited lists again, in case a node has failed between a change and its
    /// announcement.
    async fn read_known_settings(self: &Arc<Self>) -> Result<(), Refusal> {
        self.apply_stored(self.matching.with_limiter(|limiter| limiter.domains())).await
    }

    /// Has the runs of all counted tasks read soon, because reports of a node that has gone may be lost.
    pub(crate) fn check_slots_soon(&self) {
        self.matching.with_limiter(|limiter| limiter.check_all(Instant::now()));
    }

    /// Until the service stops, reads the runs of counted tasks about which reports may be lost.
    pub(crate) async fn keep_checking_slots(self: &Arc<Self>) {
        let mut settings_read_at = Instant::now();
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            if settings_read_at.elapsed() >= SETTINGS_READ_EVERY {
                settings_read_at = Instant::now();
                if let Err(refusal) = self.read_known_settings().await {
                    tracing::warn!(%refusal, "the settings of task lists could not be read");
                }
            }
            let slots = self.matching.with_limiter(|limiter| limiter.take_unchecked(Instant::now(), CHECKED_AT_ONCE));
            stream::iter(slots)
                .for_each_concurrent(CHECKS_IN_PARALLEL, |slot| async move { self.check_slot(&slot).await })
                .await;
        }
    }

    async fn check_slot(self: &Arc<Self>, slot: &UncheckedSlot) {
        let read = self.store.load(&slot.task.run()).await.map_err(Refusal::from);
        let runs = match read.and_then(|found| found.map(StoredRun::decode).transpose()) {
            Ok(Some(loaded)) => {
                let run = loaded.run();
                run.started.run_id == slot.task.run_id
                    && running(run).any(|(side, name, id)| {
                        (side, name, id) == (slot.task.list.side, &slot.task.list.name, slot.task.scheduled_event_id)
                    })
            }
            Ok(None) => false,
            Err(refusal) => {
                let workflow_id = &slot.task.workflow_id;
                tracing::debug!(%refusal, %workflow_id, "a run with a limited task could not be read yet");
                return;
            }
        };
        self.pair_all(&self.matching.checked(slot, runs));
    }
}

/// Reports about limited lists, which the home node of their limits has.
impl TaskLists {
    /// Returns the state of limited lists of this node, for another node.
    pub fn show_limits_to_node(&self, request: &ShowLimits) -> Vec<HomeReport> {
        let show = |shown: &ShownList| {
            let list = ListKey::from(&shown.list);
            match &shown.key {
                Some(key) => {
                    HomeReport { holds: self.holds(&list, Some(&key.as_str().into())), ..HomeReport::default() }
                }
                None => self.home_report(&list, request.with_tasks),
            }
        };
        request.lists.iter().map(show).collect()
    }

    /// Returns the reasons why a task of a list with this key may not start now.
    pub(crate) fn holds(&self, list: &ListKey, key: Option<&Arc<str>>) -> Vec<LimitHold> {
        self.matching.with_limiter(|limiter| limiter.holds(list, key, Instant::now()))
    }

    /// Returns the state of a limited list at this node.
    pub(crate) fn home_report(&self, list: &ListKey, with_tasks: bool) -> HomeReport {
        let (waiting, has_more) = self.matching.waiting(list);
        let limits = self.matching.with_limiter(|limiter| limiter.shown(list, KEYS_SHOWN_MAX));
        let most = if with_tasks { TASKS_LISTED_MAX } else { 0 };
        let next = self.matching.next(list, most).into_iter().enumerate();
        HomeReport {
            waiting,
            has_more,
            oldest_since: self.matching.oldest(list),
            is_counting: self.matching.with_limiter(|limiter| limiter.is_counting(list)),
            uses: limits.map_or_else(Vec::new, |(_, uses)| uses),
            behind: self.matching.held_back(list, KEYS_SHOWN_MAX),
            next: next.map(|(at, (task, of_key))| self.explained(list, task, at, of_key)).collect(),
            holds: self.holds(list, None),
        }
    }

    /// Returns the states of limited lists of one domain, from the home node of their limits. Lists of which it is not
    /// known are counted there still.
    pub(crate) async fn reports_from_home(
        &self,
        domain: &str,
        lists: &[(ListKey, Option<Arc<str>>)],
        with_tasks: bool,
    ) -> Vec<HomeReport> {
        let of = |(list, key): &(ListKey, Option<Arc<str>>)| ShownList {
            list: ListName::from(list),
            key: key.as_deref().map(str::to_owned),
        };
        let request = ShowLimits { lists: lists.iter().map(of).collect(), with_tasks };
        let answer = match (self.nodes.home_of_lists(domain), self.elsewhere.peers()) {
            (Some(home), Some(peers)) if Some(home.as_str()) != self.nodes.address() => {
                peers.show_limits(&home, &request).await
            }
            _ => Ok(self.show_limits_to_node(&request)),
        };
        match answer {
            Ok(reports) if reports.len() == lists.len() => reports,
            answer => {
                let error = answer.err();
                tracing::debug!(error, domain, "the home node of limits did not report about its lists");
                let unknown =
                    HomeReport { is_counting: true, holds: vec![LimitHold::Counting], ..HomeReport::default() };
                vec![unknown; lists.len()]
            }
        }
    }
}
