//! Commands that callers send to runs: start, signal, cancel, terminate, reset, import and delete.

use std::sync::Arc;
use std::time::Duration;

use history::admit::check_operator;
use history::{Author, Command, ImportedRun, RequestKey, Start, StartActivity, StartWorkflow};
use store::HeadKey;

use crate::base::clock::Ids;
use crate::commit::read::RunReader;
use crate::run::request::{Alone, RunRequest};
use crate::run::runs::Runs;
use crate::run::start::{start_of, start_of_activity};
use crate::{Admitted, Deletion, Refusal, Registry, Reset, RunRef, Started, WasImported, WasReset};

/// Maximum number of times that a deletion checks whether the runs have delivered their effects on other runs.
const CHECKS_MAX: u32 = 10;

/// Number of the check after which the deletion wakes the run. The wake begins another round of deliveries. The run is
/// woken only once, because a new round ends the deliveries of the previous round.
const CHECK_WITH_ROUND: u32 = 4;

/// Pause between two checks of a deletion.
const CHECK_WAIT: Duration = Duration::from_millis(50);

/// Commands that callers send to runs.
pub struct Commands {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ids: Arc<Ids>,
}

impl Commands {
    /// Returns the parameters of the start that a request body describes. Missing fields get the defaults of the domain
    /// and the workflow type.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::TypeDeprecated`], or an error of the store.
    pub async fn start_of(&self, domain: &str, body: StartWorkflow, key: Option<RequestKey>) -> Result<Start, Refusal> {
        start_of(&self.registry, domain, body, key).await
    }

    /// Returns the parameters of the start of a run that consists of a single activity on the task list `at.1` of the
    /// domain `at.0`. Missing fields get the defaults of the domain and the activity type. Without a workflow id, the
    /// run gets an id that depends only on `key`, or a random one if there is no key.
    ///
    /// # Errors
    ///
    /// The errors of [`start_of`](Self::start_of).
    pub async fn start_of_activity(
        &self,
        at: (&str, &str),
        body: StartActivity,
        key: Option<RequestKey>,
    ) -> Result<Start, Refusal> {
        let workflow_id = || match key {
            Some(RequestKey(key)) => format!("activity-{key:016x}"),
            None => format!("activity-{:016x}{:016x}", self.ids.op(), self.ids.op()),
        };
        start_of_activity(&self.registry, at, body, workflow_id, key).await
    }

    /// Starts a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainDeprecated`], a [`Fault`](history::Fault) if the start is not
    /// allowed, or an error of the store. Nothing is recorded, but after [`Refusal::OutcomeUnknown`] the start may be
    /// recorded.
    pub async fn start(&self, domain: &str, start: Start) -> Result<Started, Refusal> {
        let domain = self.registry.domain_in_use(domain).await?.name;
        let key = HeadKey::new(&*domain, &*start.workflow_id);
        let start = Box::new(start);
        self.runs.submit(&key, |reply| Alone::Start { start, reply }).await
    }

    /// Submits a command to a run, for example a signal, a cancel request or a termination.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start). In addition, an error if there is no such run or if it is not the newest run.
    pub async fn submit(&self, at: &RunRef, command: Command) -> Result<Admitted, Refusal> {
        self.submit_as(at, command, Author::default()).await
    }

    /// Submits a command of the given author to a run.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit).
    pub async fn submit_as(&self, at: &RunRef, command: Command, author: Author) -> Result<Admitted, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let admitted =
            self.runs.submit(&at.key(), |reply| RunRequest::command(at.run_id, command, author, reply)).await;
        if let (Err(Refusal::RunNotCurrent { .. }), Some(run_id)) = (&admitted, at.run_id) {
            // If the run does not exist, this fails with the error for an unknown run, instead of the error for a run
            // that is not the newest.
            self.reader.load_run(&at.key(), run_id).await?;
        }
        admitted
    }

    /// Starts a new run that continues another run from one of its events. If `at` has no run id, the new run continues
    /// the newest run. If the newest run is open, it is terminated.
    ///
    /// # Errors
    ///
    /// [`InvalidResetPoint`](history::Fault::InvalidResetPoint), [`ResetNotPossible`](history::Fault::ResetNotPossible)
    /// or another fault, [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or an error of the store. Nothing is
    /// recorded, but after [`Refusal::OutcomeUnknown`] the reset may be recorded.
    pub async fn reset(&self, at: &RunRef, reset: Reset) -> Result<WasReset, Refusal> {
        self.registry.must_know(&at.domain).await?;
        check_operator(&reset.operator)?;
        let reset = Box::new(reset);
        self.runs.submit(&at.key(), |reply| Alone::Reset { run_id: at.run_id, reset, reply }).await
    }

    /// Imports a closed run of another service with its history unchanged. If the store already has the run with the
    /// same history, nothing changes.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::HistoryMismatch`], [`Refusal::InsufficientStorage`], or an error of the
    /// store. After an error of the store, a repeated request continues the import.
    pub async fn import(&self, domain: &str, imported: ImportedRun) -> Result<WasImported, Refusal> {
        let domain = self.registry.domain(domain).await?.name;
        let key = HeadKey::new(&*domain, imported.workflow_id());
        let imported = Box::new(imported);
        self.runs.submit(&key, |reply| Alone::Import { imported, reply }).await
    }

    /// Deletes a run. If `at` has no run id, deletes all runs of the workflow id. Before a deletion, waits until the
    /// runs have delivered their effects on other runs. Returns the number of deleted runs.
    ///
    /// # Errors
    ///
    /// [`Refusal::RunOpen`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], [`Refusal::Unavailable`] if the
    /// effects are not delivered in time, or an error of the store. After an error of the store, a repeated request
    /// continues the deletion.
    pub async fn delete(&self, at: &RunRef, deletion: &Deletion) -> Result<u64, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let key = at.key();
        for check in 0..CHECKS_MAX {
            let (run_id, deletion) = (at.run_id, deletion.clone());
            if let Some(count) = self.runs.submit(&key, |reply| Alone::Delete { run_id, deletion, reply }).await? {
                return Ok(count);
            }
            if check == CHECK_WITH_ROUND {
                self.runs.wake(&key).await?;
            }
            tokio::time::sleep(CHECK_WAIT).await;
        }
        let why = "the run has undelivered effects on other runs".to_owned();
        Err(Refusal::Unavailable { why, retry_after: Some(CHECK_WAIT * CHECKS_MAX) })
    }
}
