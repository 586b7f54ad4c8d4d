//! What callers have done to runs: start one, have a command admitted, reset, delete.

use std::sync::Arc;
use std::time::Duration;

use history::admit::check_by_hand;
use history::{Author, Command, ImportedRun, RequestKey, Start, StartWorkflow};
use store::HeadKey;

use crate::commit::read::RunReader;
use crate::run::request::RunRequest;
use crate::run::runs::Runs;
use crate::run::start::start_of;
use crate::{Admitted, Deletion, Refusal, Registry, Reset, RunRef, Started, WasImported, WasReset};

/// How often a deletion looks again whether what the runs owe to others is delivered.
const LOOKS_MAX: u32 = 10;

/// Before which of those looks it no longer trusts that somebody delivers, and begins another round. Once, as a round ends the
/// deliveries of the one before it.
const LOOK_WITH_ROUND: u32 = 4;

/// The wait between such looks.
const LOOK_WAIT: Duration = Duration::from_millis(50);

/// See the module.
pub struct Commands {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) registry: Arc<Registry>,
}

impl Commands {
    /// The start that a body asks for, with the defaults of its domain and its type.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::TypeDeprecated`], or the store's.
    pub async fn start_of(&self, domain: &str, body: StartWorkflow, key: Option<RequestKey>) -> Result<Start, Refusal> {
        start_of(&self.registry, domain, body, key).await
    }

    /// Starts a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainDeprecated`], a fault of the rules, or the store's. Nothing was recorded,
    /// but for [`Refusal::OutcomeUnknown`].
    pub async fn start(&self, domain: &str, start: Start) -> Result<Started, Refusal> {
        let domain = self.registry.domain_in_use(domain).await?.name;
        let key = HeadKey::new(&*domain, &*start.workflow_id);
        let start = Box::new(start);
        self.runs.ask(&key, |reply| RunRequest::Start { start, reply }).await
    }

    /// Has a command admitted to a run: a signal, a cancel request, a termination.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start); also when there is no such run, or it is not the current one.
    pub async fn tell(&self, at: &RunRef, command: Command) -> Result<Admitted, Refusal> {
        self.tell_of(at, command, Author::default()).await
    }

    /// The same, of this author.
    ///
    /// # Errors
    ///
    /// As for [`tell`](Self::tell).
    pub async fn tell_of(&self, at: &RunRef, command: Command, author: Author) -> Result<Admitted, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let told = self.runs.tell_of(&at.key(), at.run_id, command, author).await;
        if let (Err(Refusal::RunNotCurrent { .. }), Some(run_id)) = (&told, at.run_id) {
            // An earlier run, or none at all?
            self.reader.load_run(&at.key(), run_id).await?;
        }
        told
    }

    /// Has a new run go on from an event of a run, the newest one unless said. The newest is terminated if it is open.
    ///
    /// # Errors
    ///
    /// [`NotAResetPoint`](history::Fault::NotAResetPoint), [`ResetRefused`](history::Fault::ResetRefused) or another fault,
    /// [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or the store's. Nothing was recorded, but for
    /// [`Refusal::OutcomeUnknown`].
    pub async fn reset(&self, at: &RunRef, reset: Reset) -> Result<WasReset, Refusal> {
        self.registry.must_know(&at.domain).await?;
        check_by_hand(&reset.by_hand)?;
        let reset = Box::new(reset);
        self.runs.ask(&at.key(), |reply| RunRequest::Reset { run_id: at.run_id, reset, reply }).await
    }

    /// Takes over a closed run that another service has recorded, with its history as it is. One that is there already with this
    /// history is left as it is.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::RunDiffers`], [`Refusal::DiskLow`], or the store's. Asked again after an error of the
    /// store, it goes on where it was.
    pub async fn import(&self, domain: &str, imported: ImportedRun) -> Result<WasImported, Refusal> {
        let domain = self.registry.domain(domain).await?.name;
        let key = HeadKey::new(&*domain, imported.workflow_id());
        let imported = Box::new(imported);
        self.runs.ask(&key, |reply| RunRequest::Import { imported, reply }).await
    }

    /// Deletes a run, or without a run id all runs of the workflow id; how many there were. What a run owes to others is
    /// delivered before.
    ///
    /// # Errors
    ///
    /// [`Refusal::RunOpen`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or the store's. Asked again after an error of
    /// the store, it goes on where it was.
    pub async fn delete(&self, at: &RunRef, deletion: &Deletion) -> Result<u64, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let key = at.key();
        for look in 0..LOOKS_MAX {
            let (run_id, deletion) = (at.run_id, deletion.clone());
            if let Some(count) = self.runs.ask(&key, |reply| RunRequest::Delete { run_id, deletion, reply }).await? {
                return Ok(count);
            }
            if look == LOOK_WITH_ROUND {
                self.runs.look(&key).await?;
            }
            tokio::time::sleep(LOOK_WAIT).await;
        }
        let why = "the run has yet to tell others what it owes them".to_owned();
        Err(Refusal::Unavailable { why, retry_after: Some(LOOK_WAIT * LOOKS_MAX) })
    }
}
