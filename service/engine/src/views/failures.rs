//! Failures of a domain: blocked runs by the failures of their activities, and failed runs by the reason of their
//! close.

use std::collections::{BTreeMap, BTreeSet};

use history::{Run, RunCondition, Status, Timestamp};
use store::{ListQuery, Listed, Order};
use uuid::Uuid;

use crate::views::Views;
use crate::{Refusal, RunRef};

/// Maximum number of blocked runs whose failures are read, the newest first. Our choice: the state of each is read.
const BLOCKED_READ_MAX: usize = 1_000;

/// Maximum number of failed runs that are counted, the newest close first. Our choice: ten pages of a list.
const FAILED_READ_MAX: usize = 10_000;

/// Number of runs that are listed with one request to the store. Our choice.
const LISTED_AT_ONCE: usize = 1_000;

/// Maximum number of groups. Our choice: a screen or two.
const GROUPS_MAX: usize = 100;

/// Runs of a workflow type with the same failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// `Blocked`, or `Closed` for failed runs.
    pub condition: RunCondition,
    /// Workflow type.
    pub workflow_type: String,
    /// Reason of the failure. `None` if there is none, for example after a timeout.
    pub reason: Option<String>,
    /// Number of runs.
    pub runs: u64,
    /// Time of the earliest failure.
    pub first_at: Timestamp,
    /// Time of the latest failure.
    pub last_at: Timestamp,
}

/// Failures of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// Groups, those with the most runs first.
    pub groups: Vec<FailureGroup>,
    /// True if not all runs were examined, or if there are more groups.
    pub is_cut: bool,
}

/// Groups under construction, by blocked or not, workflow type and reason.
#[derive(Default)]
struct FailureGroups(BTreeMap<(bool, String, Option<String>), GroupTotals>);

/// Number of runs of a group, and the times of its first and last failure.
struct GroupTotals {
    runs: u64,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl FailureGroups {
    fn add(&mut self, is_blocked: bool, workflow_type: &str, reason: Option<&str>, at: Timestamp) {
        let key = (is_blocked, workflow_type.to_owned(), reason.map(str::to_owned));
        let totals = self.0.entry(key).or_insert(GroupTotals { runs: 0, first_at: at, last_at: at });
        totals.runs += 1;
        (totals.first_at, totals.last_at) = (totals.first_at.min(at), totals.last_at.max(at));
    }

    fn finish(self) -> Vec<FailureGroup> {
        let group = |((is_blocked, workflow_type, reason), totals)| {
            let GroupTotals { runs, first_at, last_at } = totals;
            let condition = if is_blocked { RunCondition::Blocked } else { RunCondition::Closed(Status::Failed) };
            FailureGroup { condition, workflow_type, reason, runs, first_at, last_at }
        };
        let mut groups: Vec<FailureGroup> = self.0.into_iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.runs));
        groups
    }
}

impl Views {
    /// Groups the failures of blocked and of failed runs by workflow type and reason. Examines a bounded number of
    /// runs, the newest first.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn failures(&self, domain: &str) -> Result<Failures, Refusal> {
        self.registry.must_know(domain).await?;
        let mut groups = FailureGroups::default();
        let status = |condition: RunCondition| Some(condition.word().to_owned());
        let blocked = ListQuery {
            domain: domain.into(),
            open: Some(true),
            flagged: Some(true),
            status: status(RunCondition::Blocked),
            ..ListQuery::default()
        };
        let failed = ListQuery {
            domain: domain.into(),
            open: Some(false),
            status: status(RunCondition::Closed(Status::Failed)),
            order: Order::NewestClose,
            ..ListQuery::default()
        };
        let (rows, is_blocked_cut) = self.first_rows(blocked, BLOCKED_READ_MAX).await?;
        for row in rows {
            let run_id = Some(Uuid::from_bytes(row.run));
            let at = RunRef { domain: domain.into(), workflow_id: row.workflow_id, run_id };
            match self.lookup.look_up(&at).await {
                Ok(loaded) => add_blocked(&mut groups, loaded.run()),
                // The run was deleted after it was listed.
                Err(Refusal::UnknownRun { .. } | Refusal::UnknownWorkflow { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let (rows, is_failed_cut) = self.first_rows(failed, FAILED_READ_MAX).await?;
        for Listed { row, .. } in rows {
            let reason = row.why.as_ref().and_then(|why| why.reason.as_deref());
            let at = Timestamp::from_millis(row.closed_at.unwrap_or(row.started_at));
            groups.add(false, &row.workflow_type, reason, at);
        }
        let mut groups = groups.finish();
        let is_cut = is_blocked_cut || is_failed_cut || groups.len() > GROUPS_MAX;
        groups.truncate(GROUPS_MAX);
        Ok(Failures { groups, is_cut })
    }

    /// Returns the first rows of a list, and true if there are more.
    async fn first_rows(&self, query: ListQuery, max: usize) -> Result<(Vec<Listed>, bool), Refusal> {
        let (mut rows, mut page) = (Vec::new(), None);
        loop {
            let limit = LISTED_AT_ONCE.min(max - rows.len());
            let found = self.store.list(&ListQuery { limit, ..query.clone() }, page.as_ref()).await?;
            rows.extend(found.rows);
            page = found.next;
            if page.is_none() || rows.len() >= max {
                return Ok((rows, page.is_some()));
            }
        }
    }
}

/// Adds a blocked run to the groups: once for each reason of its blocked activities.
fn add_blocked(groups: &mut FailureGroups, run: &Run) {
    let blocked = run.activities.values().filter(|activity| activity.is_blocked());
    let mut seen = BTreeSet::new();
    // An activity that an operator paused may have no failure.
    for failure in blocked.filter_map(|activity| activity.last_failure()) {
        let reason = failure.reason.as_deref();
        if seen.insert(reason) {
            groups.add(true, &run.started.workflow_type, reason, failure.at);
        }
    }
}
