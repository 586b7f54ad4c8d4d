//! Calls of deciders and runners: polling task lists and answering tasks.

use std::time::Duration;

use history::{EventId, Payload};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{
    ActivityTask, Answered, AppendOutput, AppendedOutput, CancelActivity, CompleteTurn, DeciderTask, FailActivity,
    FailTurn, Heartbeat, HeartbeatResult, History, PollActivity, PollDecider, SucceedActivity, Warning,
};
use crate::http::{encode, push_page, to_bytes};
use crate::retry::Waits;
use crate::{Client, Error, Page, Patience};

/// Header with which an empty poll response names the lists that have waiting tasks and no pollers. Source:
/// docs/delivery.md.
const UNPOLLED: &str = "baton-no-pollers";

/// Outcome of answering a task.
#[derive(Debug)]
pub enum Outcome {
    /// The answer was recorded.
    Recorded,
    /// An earlier attempt of the answer was recorded, but its response was lost.
    RecordedBefore,
    /// The answer was not recorded, because the task no longer belongs to this caller. A retry cannot succeed.
    Lost(Error),
}

/// Logs warnings about decisions that were recorded but are probably mistakes.
pub(crate) fn log_warnings(warnings: &[Warning]) {
    for Warning { code, detail, advice, .. } in warnings {
        tracing::warn!(code, "{detail}: {advice}");
    }
}

impl Client {
    /// Polls a list for a turn and waits up to `wait` for it. Sends one request; use [`Waits`] to retry.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn poll_decider(
        &self,
        list: &str,
        poll: &PollDecider,
        wait: Duration,
    ) -> Result<Option<DeciderTask>, Error> {
        let url = self.domain_url(&format!("task-lists/{}/decider/poll", encode(list)));
        self.poll(&url, poll, wait).await
    }

    /// Polls a list for an activity and waits up to `wait` for it. Sends one request; use [`Waits`] to retry.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn poll_activity(
        &self,
        list: &str,
        poll: &PollActivity,
        wait: Duration,
    ) -> Result<Option<ActivityTask>, Error> {
        let url = self.domain_url(&format!("task-lists/{}/activity/poll", encode(list)));
        self.poll(&url, poll, wait).await
    }

    async fn poll<T: DeserializeOwned>(
        &self,
        url: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<Option<T>, Error> {
        let body = to_bytes(body)?;
        let response = self.call_once(Method::POST, url, Some(body), Some(wait), HeaderMap::new()).await?;
        if response.status != StatusCode::NO_CONTENT {
            return self.read(&response.body).map(Some);
        }
        let unpolled = response.headers.get(UNPOLLED).and_then(|value| value.to_str().ok());
        if let Some(lists) = unpolled.filter(|lists| self.unpolled.replace(lists)) {
            tracing::info!(
                polled = url,
                lists,
                "no task received, but tasks wait in other lists, which have no pollers; check the list's name"
            );
        }
        Ok(None)
    }

    /// Completes a turn. While the service is unavailable, retries within `patience`.
    ///
    /// # Errors
    ///
    /// See [`Error`]. The answer was refused, for example because of an invalid decision, or `patience` has expired.
    pub async fn complete_turn(
        &self,
        token: &str,
        complete: &CompleteTurn,
        patience: Patience,
    ) -> Result<Outcome, Error> {
        let url = self.service_url(&format!("decider-tasks/{token}/complete"));
        self.answer(&url, complete, patience).await
    }

    /// Gives a turn back without deciding it.
    ///
    /// # Errors
    ///
    /// As for [`complete_turn`](Self::complete_turn).
    pub async fn fail_turn(&self, token: &str, fail: &FailTurn, patience: Patience) -> Result<Outcome, Error> {
        let url = self.service_url(&format!("decider-tasks/{token}/fail"));
        self.answer(&url, fail, patience).await
    }

    /// Returns a page of that part of a run's history that a turn's decider may see.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn turn_history(&self, token: &str, page: &Page) -> Result<History, Error> {
        let mut query = String::new();
        push_page(&mut query, page);
        let url = self.service_url(&format!("decider-tasks/{token}/history{query}"));
        self.clone().patience(Patience::For(Duration::from_secs(10))).get(&url, None).await
    }

    /// Returns all events before event `before` that the decider of a turn may see.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn look_back(&self, token: &str, before: EventId) -> Result<Vec<history::Event>, Error> {
        let mut events = Vec::new();
        if before <= 1 {
            return Ok(events);
        }
        let mut page = Page { before: Some(before), ..Page::default() };
        loop {
            let read = self.turn_history(token, &page).await?;
            events.extend(read.events);
            match read.next {
                Some(next) => page.after = Some(next),
                None => return Ok(events),
            }
        }
    }

    /// Reports that an activity succeeded.
    ///
    /// # Errors
    ///
    /// As for [`complete_turn`](Self::complete_turn).
    pub async fn succeed_activity(
        &self,
        token: &str,
        succeed: &SucceedActivity,
        patience: Patience,
    ) -> Result<Outcome, Error> {
        let url = self.service_url(&format!("activity-tasks/{token}/success"));
        self.answer(&url, succeed, patience).await
    }

    /// Reports that an activity failed.
    ///
    /// # Errors
    ///
    /// As for [`complete_turn`](Self::complete_turn).
    pub async fn fail_activity(&self, token: &str, fail: &FailActivity, patience: Patience) -> Result<Outcome, Error> {
        let url = self.service_url(&format!("activity-tasks/{token}/failure"));
        self.answer(&url, fail, patience).await
    }

    /// Reports that an activity stopped after a cancel request.
    ///
    /// # Errors
    ///
    /// As for [`complete_turn`](Self::complete_turn).
    pub async fn cancel_activity(
        &self,
        token: &str,
        cancel: &CancelActivity,
        patience: Patience,
    ) -> Result<Outcome, Error> {
        let url = self.service_url(&format!("activity-tasks/{token}/canceled"));
        self.answer(&url, cancel, patience).await
    }

    /// Sends a heartbeat of an activity. Returns true if the activity should stop.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `activity-closed` or `run-closed` if the activity's result is no longer needed.
    pub async fn heartbeat(&self, token: &str, details: Option<Payload>) -> Result<bool, Error> {
        self.send_heartbeat(token, details, None).await.map(|result| result.cancel_requested)
    }

    /// Sends a heartbeat of an activity, which the service records at once. Waits up to `wait` until the activity
    /// should stop, is paused or is lost.
    ///
    /// # Errors
    ///
    /// As for [`heartbeat`](Self::heartbeat).
    pub async fn heartbeat_and_wait(
        &self,
        token: &str,
        details: Option<Payload>,
        wait: Duration,
    ) -> Result<HeartbeatResult, Error> {
        self.send_heartbeat(token, details, Some(wait)).await
    }

    async fn send_heartbeat(
        &self,
        token: &str,
        details: Option<Payload>,
        wait: Option<Duration>,
    ) -> Result<HeartbeatResult, Error> {
        let url = self.service_url(&format!("activity-tasks/{token}/heartbeat"));
        let body = to_bytes(&Heartbeat { details })?;
        let (_, bytes) = self.send_once(Method::POST, &url, Some(body), wait, None).await?;
        self.read(&bytes)
    }

    /// Appends output to an activity. Sends one request; with a `sequence`, it can be repeated.
    ///
    /// # Errors
    ///
    /// As for [`heartbeat`](Self::heartbeat), and `output-limit-exceeded` if there is no room for the output.
    pub async fn append_output(&self, token: &str, output: &AppendOutput) -> Result<AppendedOutput, Error> {
        let url = self.service_url(&format!("activity-tasks/{token}/output"));
        let (_, bytes) = self.send_once(Method::POST, &url, Some(to_bytes(output)?), None, None).await?;
        self.read(&bytes)
    }

    async fn answer(&self, url: &str, body: &impl Serialize, patience: Patience) -> Result<Outcome, Error> {
        let body = to_bytes(body)?;
        let mut waits = Waits::new(patience);
        let mut may_be_recorded = false;
        loop {
            let error = match self.send_once(Method::POST, url, Some(body.clone()), None, None).await {
                Ok((_, bytes)) => {
                    log_warnings(&self.read::<Answered>(&bytes)?.warnings);
                    return Ok(Outcome::Recorded);
                }
                Err(error) => error,
            };
            match error.code() {
                // An earlier attempt of the answer was recorded, but its response was lost.
                Some("turn-completed" | "query-task-lost" | "activity-closed" | "run-closed") if may_be_recorded => {
                    return Ok(Outcome::RecordedBefore);
                }
                _ if error.is_task_lost() => return Ok(Outcome::Lost(error)),
                _ => {}
            }
            may_be_recorded |= !error.had_no_side_effect();
            match waits.after(&error) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        }
    }
}
