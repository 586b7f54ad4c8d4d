//! Runs as callers see them: as they are, how they closed, and their events.

pub(super) mod fsck;
pub(super) mod metrics_page;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use history::{Event, EventId, Run};
use store::{Count, HeadKey, ListPage, ListQuery, PageToken, Store};
use uuid::Uuid;

use crate::base::background::Background;
use crate::base::forms::head_key;
use crate::base::watch::Watchers;
use crate::base::watch::news::DomainWatch;
use crate::commit::StoredRun;
use crate::commit::read::RunReader;
use crate::lists::ListKey;
use crate::lists::pollers::Pollers;
use crate::nodes::Nodes;
use crate::run::runs::Runs;
use crate::{EventRange, HistoryPage, Refusal, Registry, RunRef, RunState, Unpolled};

/// Before a run is looked for again that goes on for another.
const GO_ON_WAIT: Duration = Duration::from_millis(10);

/// Runs as callers see them.
pub struct Views {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) pollers: Arc<Pollers>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) background: Arc<Background>,
}

impl Views {
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

    /// A run as it is now: the current one from memory or the store, an earlier one from the store.
    pub(crate) async fn look_up(&self, at: &RunRef) -> Result<StoredRun, Refusal> {
        self.look_up_with(at, 0).await
    }

    /// Like [`look_up`](Self::look_up), with this event at least: what is in memory may be older where the store is shared
    /// after all. Where it is known to be shared, every read goes to the store: a node that reads its own writes and misses
    /// those of others would be worse than a read unit.
    pub(crate) async fn look_up_with(&self, at: &RunRef, event_id: EventId) -> Result<StoredRun, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let key = head_key(at);
        let is_old = |loaded: &StoredRun| self.nodes.is_shared() || loaded.run().last_event_id < event_id;
        let current = self.runs.newest(&key, is_old).await?;
        match (current, at.run_id) {
            (None, None) => Err(Refusal::unknown_workflow(&key)),
            // The newest may have been forgotten before an earlier one that is kept for longer.
            (None, Some(run_id)) => match self.reader.load_run(&key, run_id).await {
                Err(Refusal::UnknownRun { .. }) => Err(Refusal::unknown_workflow(&key)),
                found => found,
            },
            (Some(loaded), None) => Ok(loaded),
            (Some(loaded), Some(run_id)) if loaded.run().started.run_id == run_id => Ok(loaded),
            (Some(_), Some(run_id)) => self.reader.load_run(&key, run_id).await,
        }
    }

    /// The state of a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or the store's.
    pub async fn describe(&self, at: &RunRef) -> Result<RunState, Refusal> {
        let StoredRun { mut body, beats, .. } = self.look_up(at).await?;
        self.reader.fill_notes(&head_key(at), &mut body.run).await?;
        let closed_for = body.run.reset_by();
        let reset_as = closed_for.or(body.links.reset.map(|reset| reset.plan.new_run_id));
        Ok(RunState { run: body.run, beats, owed: body.links.outbox, reset_as })
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
                Some((run, _)) if at.run_id.is_none() && run.goes_on() => {
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
        let key = head_key(at);
        let mut watching = self.watchers.watch(&key);
        let mut loaded = self.look_up(at).await?;
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
            loaded = self.look_up(&RunRef { run_id: Some(run_id), ..at.clone() }).await?;
        }
        drop(watching);
        if loaded.run().is_open() {
            return Ok((run_id, None));
        }
        let newest = EventRange { reverse: true, limit: 1, ..EventRange::default() };
        let closing = self.reader.read_page(&key, &loaded, &newest).await?.events.pop();
        let missing = || Refusal::Corrupt { what: format!("the last event of run {run_id} is missing") };
        Ok((run_id, Some((loaded.body.run, closing.ok_or_else(missing)?))))
    }

    /// Events of a run.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn history(&self, at: &RunRef, page: &EventRange) -> Result<HistoryPage, Refusal> {
        let loaded = self.look_up(at).await?;
        self.reader.read_page(&head_key(at), &loaded, page).await
    }

    /// The list where what somebody asks of a run waits, if nobody polls it and no decider has the run's turn.
    pub(crate) async fn unpolled_by(&self, key: &HeadKey, run_id: Uuid, list: &ListKey) -> Option<Unpolled> {
        let unpolled = self.pollers.unpolled_list(list)?;
        let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
        let described = self.describe(&RunRef { domain, workflow_id, run_id: Some(run_id) }).await.ok()?;
        described.run.turn.is_none().then_some(unpolled)
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

    /// How many runs a list would have; stops counting when there are `at_most`, or some more.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.count(query, at_most).await?)
    }
}
