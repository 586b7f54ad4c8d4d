//! Reports about the task lists of a domain, as far as this node knows: waiting tasks, tasks in flight, and pollers.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use history::{EventId, LAMBDA_LIST, Timestamp};
use uuid::Uuid;

use crate::Refusal;
use crate::lists::hand_out::TaskLists;
use crate::lists::pollers::PollerReport;
use crate::lists::{ListKey, Side, WaitingTask};

/// Maximum number of lists examined in each of the node's tables of lists. Our choice: equal to the maximum size of
/// such a table. Only lists with polls in progress can exceed this size, because their number is not limited.
const LISTS_EXAMINED_MAX: usize = 20_000;

/// Maximum number of tasks shown individually for one list. Our choice: as many as fit on one or two screens.
const TASKS_LISTED_MAX: usize = 100;

/// A task that waits in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Workflow id of the task.
    pub workflow_id: Arc<str>,
    /// Run id of the task.
    pub run_id: Uuid,
    /// Id of the event that created the task.
    pub scheduled_event_id: EventId,
    /// Priority of the task. Tasks with a higher priority are taken first.
    pub priority: i32,
    /// Time when the task began to wait, if known.
    pub since: Option<Timestamp>,
}

impl From<WaitingTask> for TaskReport {
    fn from(task: WaitingTask) -> Self {
        let WaitingTask { key, run_id, scheduled_event_id, lost: _, priority, since } = task;
        Self { workflow_id: key.workflow_id, run_id, scheduled_event_id, priority, since }
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
    /// Returns the lists of a domain that come after the given list by name. Includes lists that have tasks or pollers,
    /// or had some recently, as far as this node knows.
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
        let after = after.map(|(name, is_decider)| (name, Side::of(is_decider)));
        let mut rest = names.range((after.map_or(Unbounded, Excluded), Unbounded));
        let page: BTreeSet<_> = rest.by_ref().take(limit).cloned().collect();
        let has_next = rest.next().is_some();
        let is_truncated = matching_has_more || pollers_has_more;
        Ok(ReportPage { lists: self.report_lists(domain, &page), has_next, is_truncated })
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
        let mut reports = self.report_lists(domain, &names);
        for report in &mut reports {
            let side = Side::of(report.is_decider);
            let list = ListKey { domain: domain.into(), side, name: Arc::clone(&report.name) };
            report.next = self.matching.next(&list, TASKS_LISTED_MAX).into_iter().map(TaskReport::from).collect();
        }
        Ok(reports)
    }

    /// Returns reports of these lists. Each list is locked separately, so the reports may be from slightly different
    /// moments.
    fn report_lists(&self, domain: &str, names: &BTreeSet<(Arc<str>, Side)>) -> Vec<ListReport> {
        let (domain, now): (Arc<str>, _) = (domain.into(), self.clock.now());
        let mut pollers = self.pollers.of_lists(&domain, names);
        let report = |(name, side): &(Arc<str>, Side)| {
            let list = ListKey { domain: Arc::clone(&domain), side: *side, name: Arc::clone(name) };
            let (waiting, has_more) = self.matching.waiting(&list);
            let (held, handed_out) = self.in_flight.of(&list, now);
            let polling_nodes = self.elsewhere.waiting_at(&list);
            // Lambda functions are called by the service, so their list has no pollers.
            let may_be_unpolled = polling_nodes.is_empty() && &**name != LAMBDA_LIST;
            ListReport {
                name: Arc::clone(name),
                is_decider: *side == Side::Decider,
                waiting,
                has_more,
                oldest_since: self.matching.oldest(&list),
                in_flight: (!self.nodes.is_shared()).then_some(held),
                handed_out,
                polls: self.pollers.polls(&list),
                pollers: pollers.remove(&list).unwrap_or_default(),
                polling_nodes,
                unpolled_since: self.pollers.unpolled_since(&list).filter(|_| may_be_unpolled),
                next: Vec::new(),
            }
        };
        names.iter().map(report).collect()
    }
}
