//! Read access to runs: their state, closing event and history.

pub(super) mod failures;
pub(super) mod fsck;
pub(super) mod metrics_page;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use history::{Event, Run};
use store::{Count, ListPage, ListQuery, PageToken, Store};
use uuid::Uuid;

use crate::base::background::Background;
use crate::base::watch::Watchers;
use crate::base::watch::news::DomainWatch;
use crate::commit::read::RunReader;
use crate::nodes::Nodes;
use crate::run::lookup::RunLookup;
use crate::{EventRange, HistoryPage, Refusal, Registry, RunRef, RunState};

/// Delay before the service looks again for the successor of a run. Our choice.
const SUCCESSOR_WAIT: Duration = Duration::from_millis(10);

/// Read access to runs.
pub struct Views {
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) background: Arc<Background>,
}

impl Views {
    /// Returns for each live node the number of due-index shards of which it is the home. Also returns the total number
    /// of shards.
    pub fn due_shards_by_node(&self) -> (std::collections::BTreeMap<String, u32>, u32) {
        let shards = self.store.limits().due_shards.max(1);
        (self.nodes.homes(shards), shards)
    }

    /// Watches a domain. The watcher is notified of changes that this node makes to the domain's runs after this call.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn watch_domain(&self, domain: &str) -> Result<DomainWatch, Refusal> {
        self.registry.must_know(domain).await?;
        crate::base::admission::count_waiting()?;
        let watching = self.watchers.watch_domain(domain);
        // A watcher that is added after shutdown has begun would never be notified.
        if self.background.is_stopping() { Err(Refusal::Stopping) } else { Ok(watching) }
    }

    /// Waits up to `wait` for a run to close. Returns the run's id. If the run has closed, also returns its state and
    /// closing event.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn closing_event(&self, at: &RunRef, wait: Duration) -> Result<(Uuid, Option<(Run, Event)>), Refusal> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let (run_id, closed) = self.closing_event_of(at, left).await?;
            match closed {
                // If the caller did not specify a run id, it also waits for the successor of the run.
                Some((run, _)) if at.run_id.is_none() && run.has_successor() => {
                    if left.is_zero() || self.background.is_stopping() {
                        return Ok((run_id, None));
                    }
                    // The successor is about to start, unless something prevents it.
                    tokio::time::sleep(SUCCESSOR_WAIT.min(left)).await;
                }
                closed => return Ok((run_id, closed)),
            }
        }
    }

    async fn closing_event_of(&self, at: &RunRef, wait: Duration) -> Result<(Uuid, Option<(Run, Event)>), Refusal> {
        let key = at.key();
        let mut watching = self.watchers.watch_end(&key);
        let mut loaded = self.lookup.look_up(at).await?;
        let run_id = loaded.run().started.run_id;
        if loaded.run().is_open() && !wait.is_zero() {
            crate::base::admission::count_waiting()?;
            tokio::select! {
                biased;
                () = watching.closed(run_id) => {}
                () = self.lookup.watch_others(at) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep(wait) => {}
            }
            loaded = self.lookup.look_up(&RunRef { run_id: Some(run_id), ..at.clone() }).await?;
        }
        drop(watching);
        if loaded.run().is_open() {
            return Ok((run_id, None));
        }
        let newest = EventRange { reverse: true, limit: 1, ..EventRange::default() };
        let closing = self.reader.read_page(&key, &loaded, &newest).await?.events.pop();
        let missing = || Refusal::Corrupt { what: format!("the last event of run {run_id} is missing") };
        Ok((run_id, Some((*loaded.body.run, closing.ok_or_else(missing)?))))
    }

    /// Returns the state of a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or an error of the store.
    pub async fn describe(&self, at: &RunRef) -> Result<RunState, Refusal> {
        self.lookup.describe(at).await
    }

    /// Returns events of a run.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn history(&self, at: &RunRef, page: &EventRange) -> Result<HistoryPage, Refusal> {
        self.lookup.history(at, page).await
    }

    /// Lists runs in the order that the query requests.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.list(query, page).await?)
    }

    /// Counts the runs that match a list query. If the store must read runs for the count, it reads at most `at_most`
    /// runs.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.count(query, at_most).await?)
    }
}
