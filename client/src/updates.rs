//! Updates, which a run's decider validates and applies.

use std::time::Duration;

use reqwest::header::{ETAG, HeaderMap, HeaderValue, IF_MATCH};
use reqwest::{Method, StatusCode};
use uuid::Uuid;

use crate::body::{StartWorkflow, UpdateWorkflow, Updated};
use crate::http::{WAIT_AT_ONCE, encode, run_query, to_bytes};
use crate::retry::Waits;
use crate::{Client, Error};

/// The outcome of an update, and the version of the run after the update.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateResponse {
    /// The outcome.
    pub updated: Updated,
    /// Entity tag of the run after the update, which can be the condition of the next update or signal. Absent until
    /// the update is completed.
    pub etag: Option<String>,
}

impl Client {
    /// Returns the entity tag of a run's current version, which can be the condition of an update or a signal.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn etag(&self, workflow_id: &str, run_id: Option<Uuid>) -> Result<String, Error> {
        let url = self.domain_url(&format!("workflows/{}{}", encode(workflow_id), run_query(run_id)));
        let response = self.call_once(Method::GET, &url, None, None, HeaderMap::new()).await?;
        let tag = response.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        tag.map(str::to_owned).ok_or_else(|| Error::Unexpected { url, what: "a response without an ETag".to_owned() })
    }

    /// Sends an update to a run's decider. If the workflow id has no open run, starts a run in the same call. The first
    /// turn of the new run then validates the update. The run stays open even if the update is rejected. Apart from the
    /// start, works like [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// As for [`update`](Self::update) and [`start`](Self::start). If a run was started, the problem's `startedRunId`
    /// is its run id.
    pub async fn update_with_start(
        &self,
        start: &StartWorkflow,
        name: &str,
        update: &UpdateWorkflow,
        wait: Duration,
    ) -> Result<UpdateResponse, Error> {
        let update = UpdateWorkflow { start: Some(Box::new(start.clone())), ..update.clone() };
        self.update(&start.workflow_id, name, &update, None, wait).await
    }

    /// Sends an update to a run's decider, and waits up to `wait` for the answer, in as many requests as necessary.
    /// With an `update_id`, the call is safe to repeat, and is retried while the service is unavailable. `if_match` is
    /// an entity tag: if it is given and the run has another version, the update is refused.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `update-rejected` if the decider rejects the update (with its `reason` among the problem's
    /// members), `version-mismatch` if `if_match` is outdated, `update-timed-out` if no decider has answered in time.
    pub async fn update(
        &self,
        workflow_id: &str,
        name: &str,
        update: &UpdateWorkflow,
        if_match: Option<&str>,
        wait: Duration,
    ) -> Result<UpdateResponse, Error> {
        let url = self.domain_url(&format!("workflows/{}/updates/{}", encode(workflow_id), encode(name)));
        let body = to_bytes(update)?;
        let mut headers = HeaderMap::new();
        if let Some(tag) = if_match {
            let bad = |_| Error::Setup {
                what: format!(
                    "the entity tag `{tag}` cannot be sent as an HTTP header; use visible ASCII characters only"
                ),
            };
            headers.insert(IF_MATCH, HeaderValue::try_from(tag).map_err(bad)?);
        }
        let deadline = tokio::time::Instant::now() + wait;
        let mut waits = Waits::new(self.patience);
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let at_once = Some(left.min(WAIT_AT_ONCE));
            let sent = self.call_once(Method::POST, &url, Some(body.clone()), at_once, headers.clone()).await;
            match sent {
                // The update is accepted but not completed. The next request with the same id waits for its completion.
                Ok(response)
                    if response.status == StatusCode::ACCEPTED && left > WAIT_AT_ONCE && update.update_id.is_some() => {
                }
                Ok(response) => {
                    let etag = response.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
                    return Ok(UpdateResponse { updated: self.read(&response.body)?, etag });
                }
                Err(error) if error.code() == Some("update-timed-out") && left > WAIT_AT_ONCE => {
                    if update.update_id.is_none() && !error.had_no_side_effect() {
                        return Err(error);
                    }
                }
                Err(error) if error.code() == Some("update-timed-out") => return Err(error),
                Err(error) if update.update_id.is_some() || error.had_no_side_effect() => match waits.after(&error) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
    }
}
