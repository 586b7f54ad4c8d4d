//! Waits until a run changes or ends.

use std::time::Duration;

use history::EventId;
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::admission::count_waiting;
use crate::base::watch::RunProgress;
use crate::views::Views;
use crate::{Refusal, RunRef, RunState, SeenVersion};

/// First interval at which this node reads a run for the run's watchers, if other nodes may write to it. The interval
/// grows up to [`CHECK_DELAY_MAX`]. Our choice: each read costs one read unit, regardless of the number of watchers of
/// the run.
const CHECK_DELAY_FIRST: Duration = Duration::from_millis(50);
const CHECK_DELAY_MAX: Duration = Duration::from_secs(2);

impl Views {
    /// Waits until the run has an event after `after`, has closed or has been replaced by another run, but at most for
    /// `wait`.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn wait_beyond(&self, at: &RunRef, run_id: Uuid, after: EventId, wait: Duration) -> Result<(), Refusal> {
        let key = at.key();
        let mut watching = self.watchers.watch(&key);
        let found = self.describe(&RunRef { run_id: Some(run_id), ..at.clone() }).await?.run;
        if found.last_event_id > after || !found.is_open() || self.background.is_stopping() {
            return Ok(());
        }
        count_waiting()?;
        tokio::select! {
            biased;
            () = watching.beyond(run_id, after) => {}
            () = self.watch_others(at) => {}
            () = self.background.stopped() => {}
            () = tokio::time::sleep(wait) => {}
        }
        Ok(())
    }

    /// Waits until the run's version differs from `seen` or another run is the newest, but at most for `wait`. Returns
    /// the current state of the run.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn describe_unlike(&self, at: &RunRef, seen: SeenVersion, wait: Duration) -> Result<RunState, Refusal> {
        let key = at.key();
        let deadline = Instant::now() + wait;
        loop {
            // Creates a new watcher in each iteration, because a change of the set of nodes drops existing watchers.
            let mut watching = self.watchers.watch(&key);
            let described = self.describe(at).await?;
            let run = &described.run;
            let run_id = run.started.run_id;
            let is_seen = run_id == seen.run_id && run.version == seen.version;
            if !is_seen || Instant::now() >= deadline || self.background.is_stopping() {
                return Ok(described);
            }
            count_waiting()?;
            // A closed run itself does not change. At most, another run takes its place as the newest run of the
            // workflow id. This matters only if the caller did not specify a run id.
            let changed = async {
                match at.run_id {
                    _ if run.is_open() => watching.beyond(run_id, run.last_event_id).await,
                    None => watching.another(run_id).await,
                    Some(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = self.watch_others(at) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
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
            // Another watcher may have caused a read a moment ago.
            if !self.watchers.is_check_due(&key, wait / 2) {
                continue;
            }
            match Box::pin(self.describe(&newest)).await {
                Ok(RunState { run, .. }) => {
                    let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
                    self.watchers.notify(&key, RunProgress { run_id, last_event_id, closed });
                }
                Err(refusal) => tracing::debug!(%refusal, "a watched run could not be read"),
            }
        }
    }
}
