//! Waiting for a run to change, for those who look and those who wait for its end.

use std::time::Duration;

use history::EventId;
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::shares::watch;
use crate::base::watch::RunProgress;
use crate::views::Views;
use crate::{Refusal, RunRef, RunState, SeenVersion};

/// Where other nodes may write to a run, how long after the wait has begun those who watch it here look at it, at first and at
/// most. One look is a read unit, however many watch.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);

impl Views {
    /// Returns once the run has an event after `after`, or has closed, or is another run, or `wait` is over.
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
        watch()?;
        tokio::select! {
            biased;
            () = watching.beyond(run_id, after) => {}
            () = self.watch_others(at) => {}
            () = self.background.stopped() => {}
            () = tokio::time::sleep(wait) => {}
        }
        Ok(())
    }

    /// The state of a run, once it is another version than was seen, or another run is meant; or as it is when `wait` is over.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn describe_unlike(&self, at: &RunRef, seen: SeenVersion, wait: Duration) -> Result<RunState, Refusal> {
        let key = at.key();
        let deadline = Instant::now() + wait;
        loop {
            // Anew each time: whoever watched when nodes came or went is told nothing any more.
            let mut watching = self.watchers.watch(&key);
            let described = self.describe(at).await?;
            let run = &described.run;
            let run_id = run.started.run_id;
            let is_seen = run_id == seen.run_id && run.version == seen.version;
            if !is_seen || Instant::now() >= deadline || self.background.is_stopping() {
                return Ok(described);
            }
            watch()?;
            // One that has closed can only be followed by another, and that only where it is not meant by its id.
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

    /// Tells those who watch the newest run of a workflow id here what other nodes have written. Never ends.
    pub(crate) async fn watch_others(&self, at: &RunRef) {
        if !self.nodes.is_shared() {
            return std::future::pending().await;
        }
        let (key, newest) = (at.key(), RunRef { run_id: None, ..at.clone() });
        let mut wait = LOOK_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = LOOK_EVERY_MAX.min(wait * 2);
            if self.nodes.is_alone() {
                continue;
            }
            // Others who watch it may have looked.
            if !self.watchers.is_time_to_look(&key, wait / 2) {
                continue;
            }
            match Box::pin(self.describe(&newest)).await {
                Ok(RunState { run, .. }) => {
                    let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
                    self.watchers.tell(&key, RunProgress { run_id, last_event_id, closed });
                }
                Err(refusal) => tracing::debug!(%refusal, "a run that is watched could not be looked at"),
            }
        }
    }
}
