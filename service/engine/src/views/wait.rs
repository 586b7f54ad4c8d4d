//! Waits until a run changes or ends.

use std::time::Duration;

use history::EventId;
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::admission::count_waiting;
use crate::views::Views;
use crate::{Refusal, RunRef, RunState, SeenVersion};

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
            () = self.lookup.watch_others(at) => {}
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
                () = self.lookup.watch_others(at) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}
