//! Batches: one operation on many runs. Their records in the store, and the commands that callers send to them.
//! `batches/wake.rs` makes the steps that are due, `batches/select.rs` reads the list of runs, and `batches/operate.rs`
//! operates on one run. The crate `history` decides what the next step of a batch is.
//!
//! A batch is stored as a head in an internal domain that callers cannot use. The time of its next step is in the due
//! index, so that any node finds it, and it has a row, so that it can be listed.

mod operate;
mod record;
mod select;
mod wake;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::{
    Batch, BatchCursor, BatchPhase, BatchState, CallerName, RequestKey, Timestamp, check_batch_pace, limits,
};
use sha2::{Digest, Sha256};
use store::{Cas, Expect, Head, HeadKey, ListQuery, Listed, PageToken, Store};
use uuid::Uuid;

use crate::base::agenda::Agenda;
use crate::base::clock::Ids;
use crate::base::records::{batch_key, open_batches};
use crate::run::commands::Commands;
use crate::run::lookup::RunLookup;
use crate::run::runs::Runs;
use crate::{Clock, Limited, Metrics, Refusal, Registry};

use record::{BatchRecord, Estimate};
pub use select::status_query;

/// Maximum number of attempts of a change that conflicts with other changes. Our choice.
const TRIES_MAX: u32 = 16;

/// Delay after an attempt that the store did not accept. Our choice.
const TRY_WAIT: Duration = Duration::from_millis(20);

/// Maximum number of runs that are examined to estimate the number of runs of a batch. Source: that of a count of runs.
const ESTIMATE_EXAMINED_MAX: u64 = 100_000;

/// Maximum number of runs that a dry run lists. Our choice: as many as a batch has refusals.
const DRY_RUN_LISTED_MAX: usize = limits::BATCH_REFUSALS_MAX;

/// Maximum number of pages that a dry run reads to list runs. Our choice.
const DRY_RUN_PAGES_MAX: usize = 100;

/// A batch to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// Definition of the batch.
    pub batch: Batch,
    /// Runs per second; [`BATCH_PACE_DEFAULT`](limits::BATCH_PACE_DEFAULT) if `None`.
    pub pace: Option<u32>,
    /// Name of the caller's credential.
    pub by: Option<CallerName>,
}

/// A batch, as returned to callers.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchView {
    /// Id of the batch.
    pub id: String,
    /// Definition of the batch.
    pub batch: Batch,
    /// Name of the credential that created the batch.
    pub by: Option<CallerName>,
    /// Time when the batch was created.
    pub created_at: Timestamp,
    /// Number of runs that matched the filter when the batch was created.
    pub estimate: u64,
    /// True if more runs may have matched than `estimate` states, because not all runs were examined.
    pub is_estimate_cut: bool,
    /// State of the batch.
    pub state: BatchState,
}

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRow {
    /// Id of the batch.
    pub id: String,
    /// Kind of operation.
    pub operation: String,
    /// Phase of the batch.
    pub phase: String,
    /// Time when the batch was created.
    pub created_at: Timestamp,
    /// Time when the batch completed.
    pub completed_at: Option<Timestamp>,
}

/// Runs that a batch would select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Number of runs that match the filter.
    pub count: u64,
    /// True if there may be more runs, because not all were examined.
    pub is_cut: bool,
    /// The first of these runs.
    pub rows: Vec<Listed>,
}

/// Batches with a step in progress on this node.
#[derive(Debug, Default)]
pub(crate) struct BusyBatches(Mutex<HashSet<HeadKey>>);

impl BusyBatches {
    fn lock(&self) -> MutexGuard<'_, HashSet<HeadKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a batch as busy until the returned value is dropped. Returns `None` if it is already busy.
    fn begin(&self, key: &HeadKey) -> Option<BusyBatch<'_>> {
        self.lock().insert(key.clone()).then(|| BusyBatch { of: self, key: key.clone() })
    }
}

/// Mark of a busy batch.
struct BusyBatch<'a> {
    of: &'a BusyBatches,
    key: HeadKey,
}

impl Drop for BusyBatch<'_> {
    fn drop(&mut self) {
        self.of.lock().remove(&self.key);
    }
}

/// Batches of all domains.
pub struct Batches {
    pub(crate) runs: Arc<Runs>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) busy: BusyBatches,
}

impl Batches {
    /// Creates a batch. If the `request` key is repeated, returns the batch that was created first.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], a fault for an invalid part of the batch, [`Refusal::LimitExceeded`], or an error of
    /// the store.
    pub async fn create(&self, domain: &str, new: NewBatch, request: Option<RequestKey>) -> Result<BatchView, Refusal> {
        let NewBatch { batch, pace, by } = new;
        let pace = pace.unwrap_or(limits::BATCH_PACE_DEFAULT);
        self.registry.must_know(domain).await?;
        batch.check()?;
        check_batch_pace(pace)?;
        let now = self.clock.now();
        let id = request.map_or_else(|| self.ids.run_id(now), |request| id_of_request(domain, request));
        let key = batch_key(domain, &id.to_string());
        if request.is_some() && self.store.load(&key).await?.is_some() {
            return self.describe(domain, &key.workflow_id).await;
        }
        let max = limits::BATCHES_OPEN_MAX;
        if open_batches(&*self.store, domain, max).await? >= max {
            return Err(Refusal::LimitExceeded { what: Limited::Batches, max });
        }
        let estimate = self.estimate(domain, &batch).await?;
        let record = BatchRecord::new(batch, by, estimate, BatchState::begin(pace, now));
        let head = record.head(id, None)?;
        match self.store.commit(&key, Expect::Absent, &head, &[]).await? {
            Cas::Won => self.agenda.set(&key, head.due.map(Timestamp::from_millis)),
            // The same request is repeated, or the store repeated the write.
            Cas::Lost(_) => {}
        }
        self.describe(domain, &key.workflow_id).await
    }

    /// Counts the runs that a batch would select and lists the first of them. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], a fault for an invalid part of the batch, or an error of the store.
    pub async fn dry_run(&self, domain: &str, new: NewBatch) -> Result<DryRun, Refusal> {
        let NewBatch { batch, pace, .. } = new;
        self.registry.must_know(domain).await?;
        batch.check()?;
        pace.map_or(Ok(()), check_batch_pace)?;
        let (mut rows, mut cursor) = (Vec::new(), BatchCursor::default());
        for _ in 0..DRY_RUN_PAGES_MAX {
            let query = select::query(domain, &batch, None, DRY_RUN_LISTED_MAX - rows.len());
            let selection = select::read(&*self.store, &query, &batch.filter.workflow_ids, &cursor).await?;
            rows.extend(selection.rows);
            cursor = selection.next;
            if cursor.is_at_end || rows.len() >= DRY_RUN_LISTED_MAX {
                break;
            }
        }
        if cursor.is_at_end {
            return Ok(DryRun { count: rows.len() as u64, is_cut: false, rows });
        }
        let Estimate { total, is_cut } = self.estimate(domain, &batch).await?;
        Ok(DryRun { count: total.max(rows.len() as u64), is_cut, rows })
    }

    /// Estimates the number of runs that a batch selects.
    async fn estimate(&self, domain: &str, batch: &Batch) -> Result<Estimate, Refusal> {
        if !batch.filter.workflow_ids.is_empty() {
            return Ok(Estimate { total: batch.filter.workflow_ids.len() as u64, is_cut: false });
        }
        let count = self.store.count(&select::query(domain, batch, None, 1), ESTIMATE_EXAMINED_MAX).await?;
        Ok(Estimate { total: count.total(), is_cut: count.is_cut })
    }

    /// Returns a batch.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownBatch`], or an error of the store.
    pub async fn describe(&self, domain: &str, id: &str) -> Result<BatchView, Refusal> {
        self.registry.must_know(domain).await?;
        let head = self.store.load(&batch_key(domain, id)).await?.ok_or_else(|| unknown(domain, id))?;
        let BatchRecord { batch, by, created_at, estimate, state, .. } = BatchRecord::decode(&head)?;
        let (id, Estimate { total, is_cut }) = (id.to_owned(), estimate);
        Ok(BatchView { id, batch, by, created_at, estimate: total, is_estimate_cut: is_cut, state })
    }

    /// Lists batches, newest first.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn list(
        &self,
        domain: &str,
        limit: usize,
        page: Option<&PageToken>,
    ) -> Result<(Vec<BatchRow>, Option<PageToken>), Refusal> {
        self.registry.must_know(domain).await?;
        let query = ListQuery { domain: batch_key(domain, "").domain, limit, ..ListQuery::default() };
        let found = self.store.list(&query, page).await?;
        let rows = found.rows.into_iter().map(|listed| BatchRow {
            id: listed.workflow_id.to_string(),
            operation: listed.row.workflow_type.to_string(),
            phase: listed.row.status.to_string(),
            created_at: Timestamp::from_millis(listed.row.started_at),
            completed_at: listed.row.closed_at.map(Timestamp::from_millis),
        });
        Ok((rows.collect(), found.next))
    }

    /// Stops a batch. The step in progress finishes.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe), and [`Refusal::BatchCompleted`].
    pub async fn stop(&self, domain: &str, id: &str) -> Result<BatchView, Refusal> {
        self.alter(domain, id, |state, _| state.stop()).await
    }

    /// Resumes a stopped batch.
    ///
    /// # Errors
    ///
    /// As for [`stop`](Self::stop).
    pub async fn resume(&self, domain: &str, id: &str) -> Result<BatchView, Refusal> {
        self.alter(domain, id, BatchState::resume).await
    }

    /// Changes the pace of a batch, in runs per second.
    ///
    /// # Errors
    ///
    /// As for [`stop`](Self::stop), and a fault for an invalid pace.
    pub async fn set_pace(&self, domain: &str, id: &str, pace: u32) -> Result<BatchView, Refusal> {
        check_batch_pace(pace)?;
        self.alter(domain, id, |state, _| state.set_pace(pace)).await
    }

    /// Deletes a batch that is stopped or completed. Its runs are not affected.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe), and [`Refusal::BatchRunning`].
    pub async fn delete(&self, domain: &str, id: &str) -> Result<(), Refusal> {
        if self.describe(domain, id).await?.state.phase == BatchPhase::Running {
            return Err(Refusal::BatchRunning { batch: id.to_owned() });
        }
        let key = batch_key(domain, id);
        let head = self.store.load(&key).await?.ok_or_else(|| unknown(domain, id))?;
        self.store.drop_run(&key, head.run).await?;
        self.agenda.set(&key, None);
        Ok(())
    }

    /// Changes the state of a batch that is not completed, and retries after conflicts. The closure may be called
    /// several times, each time with the newest state.
    async fn alter(
        &self,
        domain: &str,
        id: &str,
        change: impl Fn(&mut BatchState, Timestamp),
    ) -> Result<BatchView, Refusal> {
        self.registry.must_know(domain).await?;
        let key = batch_key(domain, id);
        for _ in 0..TRIES_MAX {
            let head = self.store.load(&key).await?.ok_or_else(|| unknown(domain, id))?;
            let mut record = BatchRecord::decode(&head)?;
            if record.state.phase == BatchPhase::Completed {
                return Err(Refusal::BatchCompleted { batch: id.to_owned() });
            }
            let before = record.state.clone();
            change(&mut record.state, self.clock.now());
            if record.state == before {
                return self.describe(domain, id).await;
            }
            if let Some(head) = self.write(&key, &head, &record).await? {
                self.agenda.set(&key, head.due.map(Timestamp::from_millis));
                return self.describe(domain, id).await;
            }
        }
        Err(contended())
    }

    /// Writes a batch, unless it was changed since it was read. Returns the new head, or `None` if the batch was or may
    /// have been changed. The caller must then read it again. It must also put the batch on the agenda.
    async fn write(&self, key: &HeadKey, before: &Head, record: &BatchRecord) -> Result<Option<Head>, Refusal> {
        let head = record.head(Uuid::from_bytes(before.run), Some(before))?;
        let expect = Expect::Exactly { run: before.run, version: before.version };
        match self.store.commit(key, expect, &head, &[]).await {
            Ok(Cas::Won) => Ok(Some(head)),
            Ok(Cas::Lost(_)) => {
                self.metrics.conflict();
                Ok(None)
            }
            // The caller reads the batch again and can tell whether the change was applied.
            Err(store::Error::NotApplied { .. } | store::Error::Unknown { .. }) => {
                tokio::time::sleep(TRY_WAIT).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn unknown(domain: &str, id: &str) -> Refusal {
    Refusal::UnknownBatch { domain: domain.to_owned(), batch: id.to_owned() }
}

fn contended() -> Refusal {
    Refusal::Unavailable { why: "too many others write to this batch".to_owned(), retry_after: None }
}

/// Returns the id of the batch that a request with this key creates. A repeated request finds the batch by this id.
fn id_of_request(domain: &str, request: RequestKey) -> Uuid {
    let digest = Sha256::new().chain_update(domain).chain_update([0]).chain_update(request.0.to_be_bytes()).finalize();
    uuid::Builder::from_custom_bytes(digest.first_chunk().copied().unwrap_or_default()).into_uuid()
}
