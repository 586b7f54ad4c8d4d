//! Queries to a run's decider, watching their results, and signals that are sent only if the run has not changed.

use std::fmt;
use std::time::Duration;

use history::Payload;
use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use crate::body::{Described, QueryAnswer, QueryWorkflow, Recorded, SignalWorkflow};
use crate::http::{RawResponse, WAIT_AT_ONCE, encode, push_query, run_query, to_bytes};
use crate::retry::Waits;
use crate::{Client, Error};

/// A version of a run or of a query result that the caller has seen. A tag is opaque. Pass it to [`Client::signal_if`]
/// or [`Client::watch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(String);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Tag {
    /// Restores a tag that was stored as text, for example in a web page.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&Described> for Tag {
    fn from(described: &Described) -> Self {
        Self(format!("\"{}-{}\"", described.run_id, described.version))
    }
}

/// The response to a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryResponse {
    /// Body of the response.
    pub body: QueryAnswer,
    /// Version of the run or of the query result that the response reflects.
    pub tag: Tag,
}

impl QueryResponse {
    /// Deserializes the result of the query as a `T`.
    ///
    /// # Errors
    ///
    /// If the result is not a `T`.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.body.result.as_ref().and_then(Payload::text).unwrap_or("null"))
    }
}

/// The kind of change to watch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// A new version of the run.
    Version,
    /// A new result of the query.
    Result,
}

/// The outcome of watching.
#[derive(Debug, Clone, PartialEq)]
pub enum Watched {
    /// The change happened. Contains the new response.
    Changed(QueryResponse),
    /// The change did not happen in time. To continue watching, use this tag.
    Unchanged(Tag),
}

impl Client {
    /// Queries the decider of a run (the newest run if there is no run id). Waits up to `wait` for the answer, in as
    /// many requests as necessary. The answer reflects everything that was recorded before the call.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `query-timed-out` if no decider answers in time, `unknown-query` or `query-failed` if the decider
    /// reports so.
    pub async fn query(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        name: &str,
        input: Option<Payload>,
        wait: Duration,
    ) -> Result<QueryResponse, Error> {
        let url = self.query_url(workflow_id, name, &run_query(run_id));
        let body = QueryWorkflow { input };
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            match self.send_query(&url, &body, left.min(WAIT_AT_ONCE), None).await {
                Err(error) if error.code() == Some("query-timed-out") && left > WAIT_AT_ONCE => {}
                answer => return answer.and_then(|response| self.read_answer(&response)),
            }
        }
    }

    /// Waits up to `wait` for a change since `seen`, in as many requests as necessary. The change is a newer version of
    /// the run, or a different result of the query.
    ///
    /// # Errors
    ///
    /// As for [`query`](Self::query).
    pub async fn watch(
        &self,
        workflow_id: &str,
        name: &str,
        input: Option<Payload>,
        seen: &Tag,
        what: Watch,
        wait: Duration,
    ) -> Result<Watched, Error> {
        let mut query = String::new();
        push_query(&mut query, "watch", (what == Watch::Result).then_some("result"));
        let url = self.query_url(workflow_id, name, &query);
        let (body, mut seen) = (QueryWorkflow { input }, seen.clone());
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let condition = Some((IF_NONE_MATCH, &seen));
            let response = self.send_query(&url, &body, left.min(WAIT_AT_ONCE), condition).await?;
            if response.status != StatusCode::NOT_MODIFIED {
                return self.read_answer(&response).map(Watched::Changed);
            }
            seen = tag(&response.headers).unwrap_or(seen);
            if left <= WAIT_AT_ONCE {
                return Ok(Watched::Unchanged(seen));
            }
        }
    }

    /// Returns the state of a run as soon as the run has a newer version than `seen`. Returns `None` after `wait`,
    /// which is at most one minute. If there is no run id, reads the newest run, and a newer run counts as a change.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn describe_unlike(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        seen: &Tag,
        wait: Duration,
    ) -> Result<Option<Described>, Error> {
        let url = self.domain_url(&format!("workflows/{}{}", encode(workflow_id), run_query(run_id)));
        let (headers, wait) = (condition(IF_NONE_MATCH, seen)?, Some(wait.min(WAIT_AT_ONCE)));
        let mut waits = Waits::new(self.patience);
        loop {
            match self.call_once(Method::GET, &url, None, wait, headers.clone()).await {
                Ok(response) if response.status == StatusCode::NOT_MODIFIED => return Ok(None),
                Ok(response) => return self.read(&response.body).map(Some),
                Err(error) => match waits.after(&error) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
            }
        }
    }

    /// Signals a run (the newest run if there is no run id) if it has no newer version than `seen`. With a key, the
    /// call is safe to repeat, and is retried while the service is unavailable.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `version-mismatch` if the run has a newer version, `run-not-current` if it is not the newest run.
    pub async fn signal_if(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        name: &str,
        signal: &SignalWorkflow,
        seen: &Tag,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        let path = format!("workflows/{}/signals/{}{}", encode(workflow_id), encode(name), run_query(run_id));
        let (url, body) = (self.domain_url(&path), to_bytes(signal)?);
        let mut headers = condition(IF_MATCH, seen)?;
        if let Some(key) = key {
            headers.insert("idempotency-key", header(key)?);
        }
        let mut waits = Waits::new(self.patience);
        loop {
            match self.call_once(Method::POST, &url, Some(body.clone()), None, headers.clone()).await {
                Ok(response) => return self.read(&response.body),
                Err(error) if key.is_some() || error.had_no_side_effect() => match waits.after(&error) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
    }

    fn query_url(&self, workflow_id: &str, name: &str, query: &str) -> String {
        self.domain_url(&format!("workflows/{}/queries/{}{query}", encode(workflow_id), encode(name)))
    }

    /// Sends a query. Retries while the service is unavailable; queries are safe to repeat because they change nothing.
    async fn send_query(
        &self,
        url: &str,
        body: &impl Serialize,
        wait: Duration,
        seen: Option<(HeaderName, &Tag)>,
    ) -> Result<RawResponse, Error> {
        let body = to_bytes(body)?;
        let headers = seen.map(|(name, seen)| condition(name, seen)).transpose()?.unwrap_or_default();
        let mut waits = Waits::new(self.patience);
        loop {
            match self.call_once(Method::POST, url, Some(body.clone()), Some(wait), headers.clone()).await {
                // The service has already waited for the maximum time that the caller permits. A retry would exceed
                // this time.
                Err(error) if error.code() == Some("query-timed-out") => return Err(error),
                Err(error) => match waits.after(&error) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
                answer => return answer,
            }
        }
    }

    fn read_answer(&self, response: &RawResponse) -> Result<QueryResponse, Error> {
        let missing =
            || Error::Unexpected { url: self.url().to_owned(), what: "a response without an ETag".to_owned() };
        Ok(QueryResponse { body: self.read(&response.body)?, tag: tag(&response.headers).ok_or_else(missing)? })
    }
}

fn tag(headers: &HeaderMap) -> Option<Tag> {
    headers.get(ETAG).and_then(|value| value.to_str().ok()).map(|text| Tag(text.to_owned()))
}

fn condition(name: HeaderName, seen: &Tag) -> Result<HeaderMap, Error> {
    Ok(HeaderMap::from_iter([(name, header(&seen.0)?)]))
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(text).map_err(|_| Error::Setup {
        what: format!("`{text}` cannot be sent as an HTTP header; use visible ASCII characters only"),
    })
}
