//! Reports about the task lists of a domain, as far as this node knows: waiting tasks, tasks in flight, and pollers.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use history::{EventId, LAMBDA_LIST, Run, Timestamp};
use store::HeadKey;
use tokio::time::Instant;

use crate::base::list_reports::{Behind, HomeReport, LimitHold, LimitUse, TaskReport};
use crate::base::list_settings::ListSettings;
use crate::lists::backlog::waiting;
use crate::lists::hand_out::TaskLists;
use crate::lists::pollers::PollerReport;
use crate::lists::{ListKey, Side, WaitingTask};
use crate::{Refusal, RunRef};

/// Maximum number of lists examined in each of the node's tables of lists. Our choice: equal to the maximum size of
/// such a table. Only lists with polls in progress can exceed this size, because their number is not limited.
const LISTS_EXAMINED_MAX: usize = 20_000;

/// Maximum number of tasks shown individually for one list. Our choice: as many as fit on one or two screens.
pub(crate) const TASKS_LISTED_MAX: usize = 100;

/// Maximum number of concurrency keys of a list that are shown. Our choice: one screen.
pub(crate) const KEYS_SHOWN_MAX: usize = 50;

/// A waiting task of a run that limits hold back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTask {
    /// Name of its list.
    pub list: Arc<str>,
    /// Id of the event that created the task.
    pub scheduled_event_id: EventId,
    /// Limits that hold it back; at least one.
    pub holds: Vec<LimitHold>,
}

impl From<WaitingTask> for TaskReport {
    fn from(task: WaitingTask) -> Self {
        let WaitingTask { key, run_id, scheduled_event_id, lost: _, priority, since, concurrency_key } = task;
        let (workflow_id, behind) = (key.workflow_id, Vec::new());
        Self { workflow_id, run_id, scheduled_event_id, priority, since, concurrency_key, behind }
    }
}

/// State of a list as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListReport {
    /// Name of the list.
    pub name: Arc<str>,
    /// True if the list is for decider tasks, false if for activity tasks.
    pub is_decider: bool,
    /// Number of tasks that wait in memory, without riders (queries and updates).
    pub waiting: usize,
    /// True if more tasks wait only in the store.
    pub has_more: bool,
    /// Time when the oldest waiting task began to wait.
    pub oldest_since: Option<Timestamp>,
    /// Number of started tasks; `None` if nodes share a store, because each node knows only some of them.
    pub in_flight: Option<usize>,
    /// Approximate number of tasks handed out in the last minute.
    pub handed_out: u64,
    /// Number of polls in progress.
    pub polls: usize,
    /// Current and recent pollers.
    pub pollers: Vec<PollerReport>,
    /// Other nodes with pollers waiting on the list.
    pub polling_nodes: Vec<String>,
    /// End of the list's last poll; `None` while it is polled.
    pub unpolled_since: Option<Timestamp>,
    /// Next tasks in the order in which they will be handed out. Empty unless a single list was requested.
    pub next: Vec<TaskReport>,
    /// Settings of the list; `None` if it has none.
    pub settings: Option<Arc<ListSettings>>,
    /// True while the running tasks of the list are being counted, after a restart or when it gets its first settings.
    pub is_counting: bool,
    /// Use of the list's limits, including those of its group and of the keys with the most running tasks.
    pub uses: Vec<LimitUse>,
    /// Limits that hold waiting tasks of the list back.
    pub behind: Vec<Behind>,
}

/// A page of the lists of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPage {
    /// Lists sorted by name. If a decider list and an activity list have the same name, the decider list comes first.
    pub lists: Vec<ListReport>,
    /// True if there are more lists after this page.
    pub has_next: bool,
    /// True if some lists were not examined.
    pub is_truncated: bool,
}

impl TaskLists {
    /// Returns the lists of a domain after the given one, as far as this node knows: lists that have settings, and
    /// lists that have tasks or pollers, or had some recently.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn report(
        &self,
        domain: &str,
        after: Option<(Arc<str>, bool)>,
        limit: usize,
    ) -> Result<ReportPage, Refusal> {
        self.registry.must_know(domain).await?;
        let mut names = BTreeSet::new();
        let matching_has_more = self.matching.add_lists(domain, LISTS_EXAMINED_MAX, &mut names);
        let pollers_has_more = self.pollers.add_lists(domain, LISTS_EXAMINED_MAX, &mut names);
        self.in_flight.add_lists(domain, self.clock.now(), &mut names);
        self.matching.with_limiter(|limiter| limiter.add_lists(domain, &mut names));
        let after = after.map(|(name, is_decider)| (name, Side::of(is_decider)));
        let mut rest = names.range((after.map_or(Unbounded, Excluded), Unbounded));
        let page: BTreeSet<_> = rest.by_ref().take(limit).cloned().collect();
        let has_next = rest.next().is_some();
        let is_truncated = matching_has_more || pollers_has_more;
        Ok(ReportPage { lists: self.report_lists(domain, &page, false).await, has_next, is_truncated })
    }

    /// Returns the decider list and the activity list with this name. Also starts reading the lists' backlog rows from
    /// the store, unless they were already read.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], a fault for an invalid name, or an error of the store.
    pub async fn report_of(self: &Arc<Self>, domain: &str, name: &str) -> Result<Vec<ListReport>, Refusal> {
        self.registry.must_know(domain).await?;
        history::admit::check_name("taskList", name)?;
        let name: Arc<str> = name.into();
        let names = BTreeSet::from([Side::Decider, Side::Activity].map(|side| (Arc::clone(&name), side)));
        for (name, side) in &names {
            self.seek(&ListKey { domain: domain.into(), side: *side, name: Arc::clone(name) });
        }
        Ok(self.report_lists(domain, &names, true).await)
    }

    /// Returns reports of these lists. Each list is locked separately, so the reports may be from slightly different
    /// moments. If another node decides about the limits of a list, that node knows the waiting tasks.
    async fn report_lists(
        &self,
        domain: &str,
        names: &BTreeSet<(Arc<str>, Side)>,
        with_tasks: bool,
    ) -> Vec<ListReport> {
        let (mut reports, mut away) = (self.own_reports(domain, names, with_tasks), Vec::new());
        for (at, report) in reports.iter().enumerate() {
            let side = Side::of(report.is_decider);
            let list = ListKey { domain: domain.into(), side, name: Arc::clone(&report.name) };
            if self.matching.is_away(&list) {
                away.push((at, (list, None)));
            }
        }
        if away.is_empty() {
            return reports;
        }
        let (places, lists): (Vec<usize>, Vec<_>) = away.into_iter().unzip();
        let from_home = self.reports_from_home(domain, &lists, with_tasks).await;
        for (at, home) in places.into_iter().zip(from_home) {
            let Some(report) = reports.get_mut(at) else { continue };
            report.waiting += home.waiting;
            report.has_more |= home.has_more;
            report.oldest_since = report.oldest_since.into_iter().chain(home.oldest_since).min();
            (report.is_counting, report.uses, report.behind) = (home.is_counting, home.uses, home.behind);
            report.next = home.next;
        }
        reports
    }

    fn own_reports(&self, domain: &str, names: &BTreeSet<(Arc<str>, Side)>, with_tasks: bool) -> Vec<ListReport> {
        let (domain, now): (Arc<str>, _) = (domain.into(), self.clock.now());
        let mut pollers = self.pollers.of_lists(&domain, names);
        let report = |(name, side): &(Arc<str>, Side)| {
            let list = ListKey { domain: Arc::clone(&domain), side: *side, name: Arc::clone(name) };
            let HomeReport { waiting, has_more, oldest_since, is_counting, uses, behind, next, holds: _ } =
                self.home_report(&list, with_tasks);
            let (held, handed_out) = self.in_flight.of(&list, now);
            let polling_nodes = self.elsewhere.waiting_at(&list);
            let settings = self.matching.with_limiter(|limiter| limiter.settings(&list));
            // The service itself calls Lambda functions, so their list has no pollers.
            let may_be_unpolled = polling_nodes.is_empty() && &**name != LAMBDA_LIST;
            ListReport {
                name: Arc::clone(name),
                is_decider: *side == Side::Decider,
                waiting,
                has_more,
                oldest_since,
                in_flight: (!self.nodes.is_shared()).then_some(held),
                handed_out,
                polls: self.pollers.polls(&list),
                pollers: pollers.remove(&list).unwrap_or_default(),
                polling_nodes,
                unpolled_since: self.pollers.unpolled_since(&list).filter(|_| may_be_unpolled),
                next,
                settings,
                is_counting,
                uses,
                behind,
            }
        };
        names.iter().map(report).collect()
    }

    /// Returns the tasks of a run that limits hold back, each with these limits.
    pub async fn held_back(&self, run: &RunRef, state: &Run) -> Vec<HeldTask> {
        if !self.matching.has_limits() {
            return Vec::new();
        }
        let (domain, now): (Arc<str>, _) = (Arc::clone(&run.domain), self.clock.now());
        let key = HeadKey { domain: Arc::clone(&domain), workflow_id: state.started.workflow_id.as_str().into() };
        let (mut held, mut away) = (Vec::new(), Vec::new());
        for (list, task, not_before) in waiting(&key, state) {
            if not_before.is_some_and(|at| at > now) {
                continue;
            }
            let (key, scheduled_event_id) = (task.concurrency_key, task.scheduled_event_id);
            if self.matching.is_away(&list) {
                away.push((scheduled_event_id, (list, key)));
            } else {
                let holds = self.holds(&list, key.as_ref());
                held.push(HeldTask { list: list.name, scheduled_event_id, holds });
            }
        }
        if !away.is_empty() {
            let (ids, lists): (Vec<EventId>, Vec<_>) = away.into_iter().unzip();
            let reports = self.reports_from_home(&domain, &lists, false).await;
            let tasks = ids.into_iter().zip(lists).zip(reports);
            held.extend(tasks.map(|((scheduled_event_id, (list, _)), HomeReport { holds, .. })| HeldTask {
                list: list.name,
                scheduled_event_id,
                holds,
            }));
        }
        held.retain(|task| !task.holds.is_empty());
        held
    }

    /// Returns a waiting task with the limits that hold it back. `before` is the number of tasks before it, and
    /// `before_of_key` the number of those that have the same key.
    pub(crate) fn explained(
        &self,
        list: &ListKey,
        task: WaitingTask,
        before: usize,
        before_of_key: usize,
    ) -> TaskReport {
        let key = task.concurrency_key.clone();
        let holds = self.matching.with_limiter(|limiter| limiter.holds(list, key.as_ref(), Instant::now()));
        let behind = holds.into_iter().map(|hold| {
            let tasks = if hold.is_of_key() { before_of_key } else { before };
            Behind { hold, tasks }
        });
        let behind = behind.collect();
        TaskReport { behind, ..TaskReport::from(task) }
    }
}
