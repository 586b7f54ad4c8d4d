//! Reads the state and history of current and earlier runs. Never changes a run.

use std::sync::Arc;
use std::time::Duration;

use history::{EventId, Timestamp, UpcomingChange, UpcomingKind};
use store::HeadKey;
use uuid::Uuid;

use crate::base::watch::{RunProgress, Watchers};
use crate::commit::StoredRun;
use crate::commit::read::RunReader;
use crate::lists::ListKey;
use crate::lists::pollers::Pollers;
use crate::nodes::Nodes;
use crate::run::runs::Runs;
use crate::{EventRange, HistoryPage, Refusal, Registry, RunRef, RunState, TurnWait};

/// If other nodes may write to a run: first and maximum interval at which this node reads the run for its watchers. Our
/// choice: each read costs one read unit for all watchers of the run together.
const CHECK_DELAY_FIRST: Duration = Duration::from_millis(50);
const CHECK_DELAY_MAX: Duration = Duration::from_secs(2);

/// Read access to runs.
pub(crate) struct RunLookup {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) pollers: Arc<Pollers>,
    pub(crate) watchers: Arc<Watchers>,
}

impl RunLookup {
    /// Fails if the domain is not registered.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub(crate) async fn must_know_domain(&self, domain: &str) -> Result<(), Refusal> {
        self.registry.must_know(domain).await.map(drop)
    }

    /// Returns the current state of a run. The newest run comes from memory or the store, an earlier run from the
    /// store.
    pub(crate) async fn look_up(&self, at: &RunRef) -> Result<StoredRun, Refusal> {
        self.look_up_with(at, 0).await
    }

    /// Returns the current state of a run, like [`look_up`](Self::look_up), but including the given event. If nodes
    /// share the store, always reads the store. This costs a read unit, but the result includes the commits of other
    /// nodes. Otherwise uses the state in memory if it includes the event.
    pub(crate) async fn look_up_with(&self, at: &RunRef, event_id: EventId) -> Result<StoredRun, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let key = at.key();
        let is_old = |loaded: &StoredRun| self.nodes.is_shared() || loaded.run().last_event_id < event_id;
        let current = self.runs.newest(&key, is_old).await?;
        match (current, at.run_id) {
            (None, None) => Err(Refusal::unknown_workflow(&key)),
            // An earlier run with a longer retention period may still exist after the newest run has expired.
            (None, Some(run_id)) => match self.reader.load_run(&key, run_id).await {
                Err(Refusal::UnknownRun { .. }) => Err(Refusal::unknown_workflow(&key)),
                found => found,
            },
            (Some(loaded), None) => Ok(loaded),
            (Some(loaded), Some(run_id)) if loaded.run().started.run_id == run_id => Ok(loaded),
            (Some(_), Some(run_id)) => self.reader.load_run(&key, run_id).await,
        }
    }

    /// Returns the state of a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], or an error of the store.
    pub(crate) async fn describe(&self, at: &RunRef) -> Result<RunState, Refusal> {
        let StoredRun { mut body, heartbeats, .. } = self.look_up(at).await?;
        self.reader.fill_notes(&at.key(), &mut body.run).await?;
        let closed_for = body.run.reset_by();
        let reset_as = closed_for.or(body.links.reset.map(|reset| reset.plan.new_run_id));
        Ok(RunState { run: *body.run, heartbeats, owed: body.links.outbox, reset_as })
    }

    /// Returns events of a run.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub(crate) async fn history(&self, at: &RunRef, page: &EventRange) -> Result<HistoryPage, Refusal> {
        let loaded = self.look_up(at).await?;
        self.reader.read_page(&at.key(), &loaded, page).await
    }

    /// Reads the newest run of a workflow id periodically and notifies the run's watchers of changes by other nodes.
    /// Never returns.
    pub(crate) async fn watch_others(&self, at: &RunRef) {
        if !self.nodes.is_shared() {
            return std::future::pending().await;
        }
        let (key, newest) = (at.key(), RunRef { run_id: None, ..at.clone() });
        let mut wait = CHECK_DELAY_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = CHECK_DELAY_MAX.min(wait * 2);
            if self.nodes.is_alone() {
                continue;
            }
            // Another watcher may have caused a read recently.
            if !self.watchers.is_check_due(&key, wait / 2) {
                continue;
            }
            match Box::pin(self.look_up(&newest)).await {
                Ok(loaded) => {
                    let run = loaded.run();
                    let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
                    self.watchers.notify(&key, RunProgress { run_id, last_event_id, closed }, Some(run));
                }
                Err(refusal) => tracing::debug!(%refusal, "a run that is watched could not be looked at"),
            }
        }
    }

    /// Returns the reason why the waiting turn of a run, on task list `list`, has not been started. Returns `None` if a
    /// decider has the turn.
    pub(crate) async fn turn_wait(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        list: &ListKey,
        now: Timestamp,
    ) -> Option<TurnWait> {
        let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
        let described = self.describe(&RunRef { domain, workflow_id, run_id: Some(run_id) }).await.ok()?;
        if described.run.turn.is_some() {
            return None;
        }
        match described.run.held_turn(now) {
            Some(UpcomingChange { at: until, what }) => {
                Some(TurnWait::HeldBack { is_first: matches!(what, UpcomingKind::FirstTurn { .. }), until })
            }
            None => self.pollers.unpolled_list(list).map(TurnWait::Unpolled),
        }
    }
}
