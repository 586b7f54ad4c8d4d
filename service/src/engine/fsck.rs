//! Holding stored runs against their histories (S4.9): the state must be the fold of the events, and the events must
//! keep the invariants.

use history::{Run, check};
use store::{ListQuery, Listed};
use uuid::Uuid;

use super::{Engine, Page, Refusal, RunRef};

/// Something that is wrong with a stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The workflow id.
    pub workflow_id: String,
    /// The run.
    pub run_id: Uuid,
    /// What is wrong.
    pub problem: String,
}

/// What was looked at, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Runs looked at.
    pub runs: u64,
    /// Events looked at.
    pub events: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Engine {
    /// Checks every run of a domain; `progress` hears of each page.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's. A run that cannot be read is a finding, not an error.
    pub async fn fsck(&self, domain: &str, mut progress: impl FnMut(&FsckReport)) -> Result<FsckReport, Refusal> {
        let query = ListQuery { domain: domain.into(), limit: 1_000, ..ListQuery::default() };
        let mut report = FsckReport::default();
        let mut page = None;
        loop {
            let read = self.list(&query, page.as_ref()).await?;
            for row in &read.rows {
                report.runs += 1;
                match self.check_run(domain, row).await {
                    Ok((events, problem)) => {
                        report.events += events;
                        let (workflow_id, run_id) = (row.workflow_id.to_string(), Uuid::from_bytes(row.run));
                        report.findings.extend(problem.map(|problem| Finding { workflow_id, run_id, problem }));
                    }
                    // Forgotten while we read.
                    Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {}
                    Err(refusal) => {
                        let (workflow_id, run_id) = (row.workflow_id.to_string(), Uuid::from_bytes(row.run));
                        report.findings.push(Finding { workflow_id, run_id, problem: refusal.to_string() });
                    }
                }
            }
            progress(&report);
            page = read.next;
            if page.is_none() {
                return Ok(report);
            }
        }
    }

    async fn check_run(&self, domain: &str, row: &Listed) -> Result<(u64, Option<String>), Refusal> {
        let run_id = Some(Uuid::from_bytes(row.run));
        let at = RunRef { domain: domain.into(), workflow_id: row.workflow_id.clone(), run_id };
        let stored = self.describe(&at).await?.run;
        let mut events = Vec::new();
        let mut after = 0;
        loop {
            let before = Some(stored.last_event_id + 1);
            let page = self.history(&at, &Page { after, before, ..Page::default() }).await?;
            events.extend(page.events);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        let count = events.len() as u64;
        if let Err(violation) = check::history(&events) {
            return Ok((count, Some(violation.to_string())));
        }
        let is_fold = Run::replay(&events).is_some_and(|run| run == stored.told());
        Ok((count, (!is_fold).then(|| "the stored state is not the fold of the history".to_owned())))
    }
}
