//! Deletes runs before their retention period ends: one run, or all runs of a workflow id.

use std::sync::Arc;

use history::{Author, Command};
use store::{HeadKey, ListQuery};
use uuid::Uuid;

use crate::commit::StoredRun;
use crate::run::context::RunContext;
use crate::run::worker::RunWorker;
use crate::{Deletion, Refusal};

/// Number of runs of a workflow id that are listed with one request to the store. Our choice.
const LIST_ROWS: usize = 1_000;

impl RunWorker<'_> {
    /// Deletes a run, or all runs of the workflow id. Returns `None` if runs have undelivered effects on other runs.
    /// The outbox of the newest run lists all these effects. But the content of an effect is in the history of the run
    /// that caused it. Therefore no run can be deleted before all effects are delivered (ADR 5).
    pub(crate) async fn run_delete(
        &mut self,
        run_id: Option<Uuid>,
        deletion: &Deletion,
    ) -> Result<Option<u64>, Refusal> {
        let (context, key) = (self.context, self.key);
        let mut attempt = 0;
        loop {
            // Reads the state from the store, because a deletion must not be based on a cached state, which may be
            // outdated.
            self.state.forget();
            self.start_successor().await?;
            let current = self.loaded().await?.map(|loaded| loaded.run().clone());
            let current_id = current.as_ref().map(|run| run.started.run_id);
            if let Some(run_id) = run_id.filter(|run_id| Some(*run_id) != current_id) {
                if context.store.load_run(key, *run_id.as_bytes()).await?.is_none() {
                    let workflow_id = key.workflow_id.to_string();
                    return Err(Refusal::UnknownRun { workflow_id, run_id });
                }
                let owes = |loaded: &StoredRun| loaded.body.links.outbox.iter().any(|effect| effect.of == Some(run_id));
                if self.state.known().is_some_and(owes) {
                    return Ok(None);
                }
                context.store.drop_run(key, *run_id.as_bytes()).await?;
                return Ok(Some(1));
            }
            if let Some(run) = current.clone().filter(history::Run::is_open) {
                if !deletion.terminates {
                    return Err(Refusal::RunOpen { run_id: run.started.run_id });
                }
                let (reason, identity) = (deletion.reason.clone(), deletion.identity.clone());
                let terminate = Command::Terminate { reason, details: None, identity, key: None, child_policy: None };
                // If another command has closed the run in the meantime, the next iteration finds the closed run.
                let author = Author::named(deletion.by.clone());
                self.run_command(run, Some((&terminate, &author)), &mut attempt).await?;
                continue;
            }
            if self.state.known().is_some_and(|loaded| !loaded.body.links.outbox.is_empty()) {
                return Ok(None);
            }
            // The newest run is deleted last. As long as it exists, an interrupted deletion can be repeated.
            let earlier = if run_id.is_none() { context.drop_earlier(key, current_id).await? } else { 0 };
            if let Some(current_id) = current_id {
                self.state.forget();
                context.store.drop_run(key, *current_id.as_bytes()).await?;
                context.agenda.set(key, None);
            } else if earlier == 0 {
                return Err(Refusal::unknown_workflow(key));
            }
            return Ok(Some(earlier + u64::from(current_id.is_some())));
        }
    }
}

impl RunContext {
    /// Deletes all runs of a workflow id except the current one.
    async fn drop_earlier(&self, key: &HeadKey, current: Option<Uuid>) -> Result<u64, Refusal> {
        let query = ListQuery {
            domain: Arc::clone(&key.domain),
            workflow_id: Some(key.workflow_id.to_string()),
            limit: LIST_ROWS,
            ..ListQuery::default()
        };
        let (mut count, mut page) = (0, None);
        loop {
            let read = self.store.list(&query, page.as_ref()).await?;
            for row in read.rows.iter().filter(|row| current.is_none_or(|current| row.run != *current.as_bytes())) {
                // The store's index may still list a run that was already deleted.
                if self.store.load_run(key, row.run).await?.is_some() {
                    self.store.drop_run(key, row.run).await?;
                    count += 1;
                }
            }
            page = read.next;
            if page.is_none() {
                return Ok(count);
            }
        }
    }
}
