//! Heartbeats of runners. A heartbeat is recorded at once, and its response can wait until the activity should stop.

use std::pin::pin;
use std::time::Duration;

use history::admit::{HeldState, check_payload, held_state};
use history::{Fault, Payload};
use tokio::time::Instant;

use crate::run::request::Alone;
use crate::tasks::Tasks;
use crate::{ActivityToken, Refusal, RunRef};

impl Tasks {
    /// Records a heartbeat. Returns true if the activity should stop.
    ///
    /// # Errors
    ///
    /// [`Fault::ActivityClosed`], [`Fault::RunClosed`], a fault for details that are too large, or an error of the
    /// store.
    pub async fn heartbeat(&self, token: &ActivityToken, details: Option<Payload>) -> Result<bool, Refusal> {
        self.record_heartbeat(token, details).await.map(|state| state.cancel_requested)
    }

    async fn record_heartbeat(&self, token: &ActivityToken, details: Option<Payload>) -> Result<HeldState, Refusal> {
        check_payload("details", details.as_ref())?;
        let key = token.key();
        let (run_id, task) = (token.run_id, token.task);
        match self.runs.submit(&key, |reply| Alone::Heartbeat { run_id, task, details, reply }).await {
            Ok(state) => Ok(state),
            Err(refusal) => Err(self.refusal_of_its_task(&key, token, refusal).await),
        }
    }

    /// Records a heartbeat at once. Then waits until the activity should stop, is paused or is lost, but at most for
    /// `wait` and until `left` completes. A pause that began before the call does not end the wait, because the runner
    /// may continue. While it waits, the call reads nothing unless other nodes share the store.
    ///
    /// # Errors
    ///
    /// As for [`heartbeat`](Self::heartbeat).
    pub async fn heartbeat_and_wait(
        &self,
        token: &ActivityToken,
        details: Option<Payload>,
        wait: Duration,
        left: impl Future<Output = ()>,
    ) -> Result<HeldState, Refusal> {
        if wait.is_zero() {
            return self.record_heartbeat(token, details).await;
        }
        let deadline = Instant::now() + wait;
        let key = token.key();
        let at =
            RunRef { domain: key.domain.clone(), workflow_id: key.workflow_id.clone(), run_id: Some(token.run_id) };
        let mut watching = self.watchers.watch_holder(&key, token.run_id, token.task);
        let mut state = Box::pin(self.record_heartbeat(token, details)).await?;
        let mut left = pin!(left);
        loop {
            if state.cancel_requested || self.background.is_stopping() {
                return Ok(state);
            }
            tokio::select! {
                biased;
                news = watching.news(state) => if let Some(news) = news {
                    return Ok(news);
                },
                () = self.lookup.watch_others(&at) => {}
                () = self.background.stopped() => return Ok(state),
                () = &mut left => return Ok(state),
                () = tokio::time::sleep_until(deadline) => return Ok(state),
            }
            // Creates a new watcher, because the old one is no longer notified after a change of the set of nodes.
            watching = self.watchers.watch_holder(&key, token.run_id, token.task);
            let now = Box::pin(self.held_now(token, &at)).await?;
            if now.is_news_to(state) {
                return Ok(now);
            }
            state = now;
        }
    }

    /// Returns the current state of the token's activity.
    async fn held_now(&self, token: &ActivityToken, at: &RunRef) -> Result<HeldState, Refusal> {
        match self.lookup.look_up(at).await {
            Ok(loaded) => held_state(loaded.run(), token.task).map_err(Into::into),
            // The run was deleted.
            Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => Err(Fault::ActivityClosed.into()),
            Err(refusal) => Err(refusal),
        }
    }
}
