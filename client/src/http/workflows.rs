//! Calls that start, list, read and change runs.

use std::time::Duration;

use history::{Event, EventId, Payload, Timestamp};
use uuid::Uuid;

use super::{Client, WAIT_AT_ONCE, encode, push_query, run_query};
use crate::Error;
use crate::body::{
    CancelWorkflow, Count, Described, Failures, History, Recorded, RunResult, SignalWorkflow, StartActivity,
    StartWorkflow, Started, TerminateWorkflow, Workflows,
};

/// A filter for lists of runs. A field that is `None` matches all runs.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Status of the run: `open`, `closed`, a condition of open runs (`paused`, `blocked`, `stuck`, `failing`,
    /// `retrying`, `repeating`), or a close status such as `failed`.
    pub status: Option<String>,
    /// Workflow type of the run.
    pub workflow_type: Option<String>,
    /// Workflow id of the run.
    pub workflow_id: Option<String>,
    /// Prefix of the workflow id.
    pub workflow_id_prefix: Option<String>,
    /// Tag that the run must have.
    pub tag: Option<String>,
    /// Complete reason of the run's failure or termination, or the timeout that ended it.
    pub reason: Option<String>,
    /// Lower bound of the start time, inclusive.
    pub started_from: Option<Timestamp>,
    /// Upper bound of the start time, exclusive.
    pub started_before: Option<Timestamp>,
    /// Lower bound of the close time, inclusive.
    pub closed_from: Option<Timestamp>,
    /// Upper bound of the close time, exclusive.
    pub closed_before: Option<Timestamp>,
    /// Order of the list; by default, the newest start is first. Counts ignore the order.
    pub order: Option<Order>,
    /// Maximum number of runs per page. If it is `None`, the service's default applies.
    pub limit: Option<usize>,
}

/// Order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The run that started last is first.
    NewestStart,
    /// The run that started first is first.
    OldestStart,
    /// The run that closed last is first. Open runs are excluded.
    NewestClose,
    /// The run that closed first is first. Open runs are excluded.
    OldestClose,
}

impl Order {
    /// Returns the value of the parameter `order`.
    fn word(self) -> &'static str {
        match self {
            Self::NewestStart => "-startedAt",
            Self::OldestStart => "startedAt",
            Self::NewestClose => "-closedAt",
            Self::OldestClose => "closedAt",
        }
    }
}

/// Selection of a page of a run's events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page {
    /// Event id after which the page begins.
    pub after: Option<EventId>,
    /// Event id before which the page ends.
    pub before: Option<EventId>,
    /// True to get the newest event first.
    pub reverse: bool,
    /// Maximum number of events per page. If it is `None`, the service's default applies.
    pub limit: Option<usize>,
    /// Maximum time to wait for an event if the page would be empty.
    pub wait: Option<Duration>,
}

impl Client {
    pub(super) fn workflow_url(&self, workflow_id: &str, rest: &str) -> String {
        self.domain_url(&format!("workflows/{}{rest}", encode(workflow_id)))
    }

    /// Starts a run. With a key, the call is safe to repeat, and is retried while the service is unavailable.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `workflow-already-open` if the workflow id has an open run.
    pub async fn start(&self, start: &StartWorkflow, key: Option<&str>) -> Result<Started, Error> {
        self.write(&self.domain_url("workflows"), start, key).await
    }

    /// Starts a run and waits up to `wait` until it closes, in as few requests as possible. With a key, the start is
    /// safe to repeat, and is retried while the service is unavailable.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn execute(
        &self,
        start: &StartWorkflow,
        key: Option<&str>,
        wait: impl Into<Duration>,
    ) -> Result<RunResult, Error> {
        let wait = wait.into();
        let began = tokio::time::Instant::now();
        let url = self.domain_url("workflows");
        let started: Started = self.write_and_wait(&url, start, key, Some(wait.min(WAIT_AT_ONCE))).await?;
        let (mut run_id, mut closed) = (started.run_id, started.closed);
        loop {
            match closed {
                // The workflow has ended only when a run has closed without a successor.
                Some(RunResult { continued_as: Some(next), .. }) => run_id = next,
                Some(closed) => return Ok(closed),
                None => {}
            }
            let left = wait.saturating_sub(began.elapsed());
            let result = self.result(&started.workflow_id, Some(run_id), left).await;
            match result {
                Ok(result) if result.continued_as.is_some() => closed = Some(result),
                // The successor is created shortly after the close of its predecessor.
                Err(error) if run_id != started.run_id && error.code() == Some("unknown-run") && !left.is_zero() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    closed = None;
                }
                result => return result,
            }
        }
    }

    /// Starts a run that consists of a single activity on the task list `list`. The run has no decider. With a key, the
    /// call is safe to repeat, and is retried while the service is unavailable. With a `wait`, which may have up to a
    /// minute, the response contains the outcome if the run closes in time.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `workflow-already-open` if the workflow id has an open run, `forbidden` if the credential may not
    /// schedule this activity.
    pub async fn start_activity(
        &self,
        list: &str,
        start: &StartActivity,
        key: Option<&str>,
        wait: Option<Duration>,
    ) -> Result<Started, Error> {
        let url = self.domain_url(&format!("task-lists/{}/activities", encode(list)));
        self.write_and_wait(&url, start, key, wait.map(|wait| wait.min(WAIT_AT_ONCE))).await
    }

    /// Returns a page of the runs that match the filter. `page` is the `nextPage` of the previous page.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn list(&self, filter: &Filter, page: Option<&str>) -> Result<Workflows, Error> {
        let mut query = filter_query(filter);
        push_query(&mut query, "order", filter.order.map(Order::word));
        push_query(&mut query, "page", page);
        self.get(&format!("{}{query}", self.domain_url("workflows")), None).await
    }

    /// Returns the number of runs that match the filter.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn count(&self, filter: &Filter) -> Result<Count, Error> {
        self.get(&format!("{}{}", self.domain_url("workflow-count"), filter_query(filter)), None).await
    }

    /// Groups the failures of blocked and failed runs by workflow type and reason.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn failures(&self) -> Result<Failures, Error> {
        self.get(&self.domain_url("failures"), None).await
    }

    /// Returns the state of a run (the newest run if there is no run id).
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn describe(&self, workflow_id: &str, run_id: Option<Uuid>) -> Result<Described, Error> {
        self.get(&self.workflow_url(workflow_id, &run_query(run_id)), None).await
    }

    /// Returns a page of a run's history.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn history(&self, workflow_id: &str, run_id: Option<Uuid>, page: &Page) -> Result<History, Error> {
        let mut query = run_query(run_id);
        push_page(&mut query, page);
        self.get(&self.workflow_url(workflow_id, &format!("/history{query}")), page.wait).await
    }

    /// Returns the whole history of a run.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn events(&self, workflow_id: &str, run_id: Option<Uuid>) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        let mut page = Page::default();
        loop {
            let read = self.history(workflow_id, run_id, &page).await?;
            events.extend(read.events);
            match read.next {
                Some(next) => page.after = Some(next),
                None => return Ok(events),
            }
        }
    }

    /// Returns the outcome of a run. Waits up to `wait` until the run closes, in as many requests as necessary.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn result(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        wait: impl Into<Duration>,
    ) -> Result<RunResult, Error> {
        let wait = wait.into();
        let url = self.workflow_url(workflow_id, &format!("/result{}", run_query(run_id)));
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let result: RunResult = self.get(&url, Some(left.min(WAIT_AT_ONCE))).await?;
            if result.status != history::Status::Open || left <= WAIT_AT_ONCE {
                return Ok(result);
            }
        }
    }

    /// Signals the newest run of a workflow id. With a key, the call is safe to repeat, and is retried while the
    /// service is unavailable.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `run-closed` if the run has closed.
    pub async fn signal(
        &self,
        workflow_id: &str,
        name: &str,
        input: Option<Payload>,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.signal_run(workflow_id, None, name, &SignalWorkflow { input, identity: None }, key).await
    }

    /// Signals a run of a workflow id (the newest run if there is no run id). With a key, the call is safe to repeat,
    /// and is retried while the service is unavailable.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `run-closed` if the run has closed, `run-not-current` if it is not the newest run of the workflow
    /// id.
    pub async fn signal_run(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        name: &str,
        signal: &SignalWorkflow,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        let url = self.workflow_url(workflow_id, &format!("/signals/{}{}", encode(name), run_query(run_id)));
        self.write(&url, signal, key).await
    }

    /// Requests the cancellation of a run (the newest run if there is no run id).
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn cancel(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        cancel: &CancelWorkflow,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/cancel{}", run_query(run_id))), cancel, key).await
    }

    /// Terminates a run (the newest run if there is no run id).
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn terminate(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        terminate: &TerminateWorkflow,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/terminate{}", run_query(run_id))), terminate, key).await
    }
}

pub(crate) fn push_page(query: &mut String, page: &Page) {
    push_query(query, "after", page.after.map(|id| id.to_string()).as_deref());
    push_query(query, "before", page.before.map(|id| id.to_string()).as_deref());
    push_query(query, "limit", page.limit.map(|limit| limit.to_string()).as_deref());
    push_query(query, "reverse", page.reverse.then_some("true"));
}

fn filter_query(filter: &Filter) -> String {
    let mut query = String::new();
    push_query(&mut query, "status", filter.status.as_deref());
    push_query(&mut query, "type", filter.workflow_type.as_deref());
    push_query(&mut query, "workflowId", filter.workflow_id.as_deref());
    push_query(&mut query, "workflowIdPrefix", filter.workflow_id_prefix.as_deref());
    push_query(&mut query, "tag", filter.tag.as_deref());
    push_query(&mut query, "reason", filter.reason.as_deref());
    push_query(&mut query, "startedFrom", filter.started_from.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "startedBefore", filter.started_before.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "closedFrom", filter.closed_from.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "closedBefore", filter.closed_before.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "limit", filter.limit.map(|limit| limit.to_string()).as_deref());
    query
}
