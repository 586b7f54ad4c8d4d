//! Runs as callers see them: as they are, how they closed, and their events.

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

/// Before a run is looked for again that goes on for another.
const GO_ON_WAIT: Duration = Duration::from_millis(10);

/// Runs as callers see them.
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
    /// How many shards of the due index each node looks after that is alive, and how many there are.
    pub fn due_shards_by_node(&self) -> (std::collections::BTreeMap<String, u32>, u32) {
        let shards = self.store.limits().due_shards.max(1);
        (self.nodes.homes(shards), shards)
    }

    /// Watches a domain: what this node changes in its runs after this call is told.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn watch_domain(&self, domain: &str) -> Result<DomainWatch, Refusal> {
        self.registry.must_know(domain).await?;
        crate::base::shares::watch()?;
        let watching = self.watchers.watch_domain(domain);
        // Whoever comes later would wait for ever.
        if self.background.is_stopping() { Err(Refusal::Stopping) } else { Ok(watching) }
    }

    /// The run that is meant, and the event that closed it with the state that it left, waiting up to `wait` for them.
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
                // Who asks for the newest run waits for the one that goes on, too.
                Some((run, _)) if at.run_id.is_none() && run.has_successor() => {
                    if left.is_zero() || self.background.is_stopping() {
                        return Ok((run_id, None));
                    }
                    // It is there in a moment, or when what keeps it from beginning is over.
                    tokio::time::sleep(GO_ON_WAIT.min(left)).await;
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
            crate::base::shares::watch()?;
            tokio::select! {
                biased;
                () = watching.closed(run_id) => {}
                () = self.watch_others(at) => {}
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

    /// The state of a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or the store's.
    pub async fn describe(&self, at: &RunRef) -> Result<RunState, Refusal> {
        self.lookup.describe(at).await
    }

    /// Events of a run.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn history(&self, at: &RunRef, page: &EventRange) -> Result<HistoryPage, Refusal> {
        self.lookup.history(at, page).await
    }

    /// Runs, in the order that the query asks for.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.list(query, page).await?)
    }

    /// How many runs a list would have. Looks at no more runs than `at_most`, where they have to be looked at.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.count(query, at_most).await?)
    }
}
