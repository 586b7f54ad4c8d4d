//! What this node knows of a domain's task lists, for people who look: what waits, what is in flight, who polls.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use history::{EventId, LAMBDA_LIST, Timestamp};
use uuid::Uuid;

use crate::Refusal;
use crate::lists::hand_out::TaskLists;
use crate::lists::pollers::PollerReport;
use crate::lists::{ListKey, Side, WaitingTask};

/// Lists of a node that are looked at in each of its memories. Ours: as many as have room there, those that are polled aside.
const LOOKED_AT_MAX: usize = 20_000;

/// Tasks of one list that are told one by one. Ours: a screen or two.
const TASKS_TOLD_MAX: usize = 100;

/// A task that waits in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Of which workflow.
    pub workflow_id: Arc<str>,
    /// Of which run.
    pub run_id: Uuid,
    /// The event that made it.
    pub scheduled_event_id: EventId,
    /// Those of higher ones are taken first.
    pub priority: i32,
    /// Since when it waits, where that is known.
    pub since: Option<Timestamp>,
}

impl From<WaitingTask> for TaskReport {
    fn from(task: WaitingTask) -> Self {
        let WaitingTask { key, run_id, scheduled_event_id, lost: _, priority, since } = task;
        Self { workflow_id: key.workflow_id, run_id, scheduled_event_id, priority, since }
    }
}

/// What this node knows of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListReport {
    /// Its name.
    pub name: Arc<str>,
    /// Whether deciders poll it, or runners.
    pub is_decider: bool,
    /// Tasks that wait in memory, but for those that only ask something.
    pub waiting: usize,
    /// Whether more of them wait in the store alone.
    pub has_more: bool,
    /// Since when the one that has waited longest waits.
    pub oldest_since: Option<Timestamp>,
    /// Tasks that somebody has; `None` where nodes share a store, for each of them sees a part.
    pub in_flight: Option<usize>,
    /// Tasks that were handed out in the last minute, about.
    pub handed_out: u64,
    /// Polls under way.
    pub polls: usize,
    /// Who polls, or did lately.
    pub pollers: Vec<PollerReport>,
    /// Other nodes where somebody waits on it.
    pub polled_at: Vec<String>,
    /// When the last poll ended; `None` while somebody polls.
    pub unpolled_since: Option<Timestamp>,
    /// The tasks that are handed out next, where one list was asked for.
    pub next: Vec<TaskReport>,
}

/// Some lists of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPage {
    /// By name, deciders' first.
    pub lists: Vec<ListReport>,
    /// Whether there are lists after these.
    pub has_next: bool,
    /// Whether there are lists that were not looked at.
    pub is_truncated: bool,
}

impl TaskLists {
    /// Lists of a domain after this one, as this node knows them: those with tasks or pollers, and those that had lately.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn report(
        &self,
        domain: &str,
        after: Option<(Arc<str>, bool)>,
        limit: usize,
    ) -> Result<ReportPage, Refusal> {
        self.registry.must_know(domain).await?;
        let mut names = BTreeSet::new();
        let matching_has_more = self.matching.add_lists(domain, LOOKED_AT_MAX, &mut names);
        let pollers_has_more = self.pollers.add_lists(domain, LOOKED_AT_MAX, &mut names);
        self.in_flight.add_lists(domain, self.clock.now(), &mut names);
        let after = after.map(|(name, is_decider)| (name, Side::of(is_decider)));
        let mut rest = names.range((after.map_or(Unbounded, Excluded), Unbounded));
        let page: BTreeSet<_> = rest.by_ref().take(limit).cloned().collect();
        let has_next = rest.next().is_some();
        let is_truncated = matching_has_more || pollers_has_more;
        Ok(ReportPage { lists: self.look_at(domain, &page), has_next, is_truncated })
    }

    /// The lists of this name: the deciders', and the runners'. What the store has of them is read meanwhile, unless it was.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], a fault for a name that is not acceptable, or the store's.
    pub async fn report_of(self: &Arc<Self>, domain: &str, name: &str) -> Result<Vec<ListReport>, Refusal> {
        self.registry.must_know(domain).await?;
        history::admit::check_name("taskList", name)?;
        let name: Arc<str> = name.into();
        let names = BTreeSet::from([Side::Decider, Side::Activity].map(|side| (Arc::clone(&name), side)));
        for (name, side) in &names {
            self.seek(&ListKey { domain: domain.into(), side: *side, name: Arc::clone(name) });
        }
        let mut reports = self.look_at(domain, &names);
        for report in &mut reports {
            let side = Side::of(report.is_decider);
            let list = ListKey { domain: domain.into(), side, name: Arc::clone(&report.name) };
            report.next = self.matching.next(&list, TASKS_TOLD_MAX).into_iter().map(TaskReport::from).collect();
        }
        Ok(reports)
    }

    /// Each list is locked for itself, so that what is said of two of them may be of two instants.
    fn look_at(&self, domain: &str, names: &BTreeSet<(Arc<str>, Side)>) -> Vec<ListReport> {
        let (domain, now): (Arc<str>, _) = (domain.into(), self.clock.now());
        let mut pollers = self.pollers.of_lists(&domain, names);
        let report = |(name, side): &(Arc<str>, Side)| {
            let list = ListKey { domain: Arc::clone(&domain), side: *side, name: Arc::clone(name) };
            let (waiting, has_more) = self.matching.waiting(&list);
            let (held, handed_out) = self.in_flight.of(&list, now);
            let polled_at = self.elsewhere.waiting_at(&list);
            // Functions are called by the service itself.
            let may_be_unpolled = polled_at.is_empty() && &**name != LAMBDA_LIST;
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
                polled_at,
                unpolled_since: self.pollers.unpolled_since(&list).filter(|_| may_be_unpolled),
                next: Vec::new(),
            }
        };
        names.iter().map(report).collect()
    }
}
