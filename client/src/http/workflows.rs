//! The calls about runs: starting them, listing and reading them, and what callers do to them.

use std::time::Duration;

use history::{Event, EventId, Payload, Timestamp};
use uuid::Uuid;

use super::{Client, WAIT_AT_ONCE, encode, push_query, run_query};
use crate::Error;
use crate::body::{
    CancelWorkflow, Count, Described, History, Recorded, RunResult, SignalWorkflow, StartWorkflow, Started,
    TerminateWorkflow, Workflows,
};

/// Which runs to list. `None` and empty mean any.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// `open`, `closed`, how open ones stand (`paused`, `blocked`, `stuck`, `failing`, `retrying`, `repeating`), or one way of closing, e.g.
    /// `failed`.
    pub status: Option<String>,
    /// The workflow type.
    pub workflow_type: Option<String>,
    /// The workflow id.
    pub workflow_id: Option<String>,
    /// What the workflow id begins with.
    pub workflow_id_prefix: Option<String>,
    /// A tag.
    pub tag: Option<String>,
    /// Reason that a run failed or was terminated with, or the timeout that ended it; the whole of it.
    pub reason: Option<String>,
    /// Only runs that closed at this instant or later.
    pub closed_from: Option<Timestamp>,
    /// Only runs that closed before this instant.
    pub closed_before: Option<Timestamp>,
    /// Which come first; the newest start when `None`. A count has no order.
    pub order: Option<Order>,
    /// Runs a page; the service's default when `None`.
    pub limit: Option<usize>,
}

/// Which runs of a list come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those that started last.
    NewestStart,
    /// Those that started first.
    OldestStart,
    /// Those that closed last; open ones are not listed.
    NewestClose,
    /// Those that closed first; open ones are not listed.
    OldestClose,
}

impl Order {
    /// The value of `order`.
    fn word(self) -> &'static str {
        match self {
            Self::NewestStart => "-startedAt",
            Self::OldestStart => "startedAt",
            Self::NewestClose => "-closedAt",
            Self::OldestClose => "closedAt",
        }
    }
}

/// Which events to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page {
    /// Only events after this one.
    pub after: Option<EventId>,
    /// Only events before this one.
    pub before: Option<EventId>,
    /// Newest first.
    pub reverse: bool,
    /// Events a page; the service's default when `None`.
    pub limit: Option<usize>,
    /// How long to wait for an event when there is none.
    pub wait: Option<Duration>,
}

impl Client {
    pub(super) fn workflow_url(&self, workflow_id: &str, rest: &str) -> String {
        self.domain_url(&format!("workflows/{}{rest}", encode(workflow_id)))
    }

    /// Starts a run. With a key the call is safe to repeat, and is repeated while the service is away.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `workflow-already-open` when a run with this id is open.
    pub async fn start(&self, start: &StartWorkflow, key: Option<&str>) -> Result<Started, Error> {
        self.write(&self.domain_url("workflows"), start, key).await
    }

    /// Starts a run and waits up to `wait` for its end, in as few requests as it takes. With a key the start is safe to
    /// repeat, and is repeated while the service is away.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn execute(&self, start: &StartWorkflow, key: Option<&str>, wait: Duration) -> Result<RunResult, Error> {
        let began = tokio::time::Instant::now();
        let url = self.domain_url("workflows");
        let started: Started = self.write_and_wait(&url, start, key, Some(wait.min(WAIT_AT_ONCE))).await?;
        let (mut run_id, mut closed) = (started.run_id, started.closed);
        loop {
            match closed {
                // What was started goes on until a run closes in another way.
                Some(RunResult { continued_as: Some(next), .. }) => run_id = next,
                Some(closed) => return Ok(closed),
                None => {}
            }
            let left = wait.saturating_sub(began.elapsed());
            let result = self.result(&started.workflow_id, Some(run_id), left).await;
            match result {
                Ok(result) if result.continued_as.is_some() => closed = Some(result),
                // The run that goes on is there in a moment.
                Err(error) if run_id != started.run_id && error.code() == Some("unknown-run") && !left.is_zero() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    closed = None;
                }
                result => return result,
            }
        }
    }

    /// A page of runs; `page` is what the page before named.
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

    /// How many runs there are.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn count(&self, filter: &Filter) -> Result<Count, Error> {
        self.get(&format!("{}{}", self.domain_url("workflow-count"), filter_query(filter)), None).await
    }

    /// The state of a run; of the newest without a run id.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn describe(&self, workflow_id: &str, run_id: Option<Uuid>) -> Result<Described, Error> {
        self.get(&self.workflow_url(workflow_id, &run_query(run_id)), None).await
    }

    /// A page of a run's history.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn history(&self, workflow_id: &str, run_id: Option<Uuid>, page: &Page) -> Result<History, Error> {
        let mut query = run_query(run_id);
        push_page(&mut query, page);
        self.get(&self.workflow_url(workflow_id, &format!("/history{query}")), page.wait).await
    }

    /// The whole history of a run.
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

    /// How a run ended; waits for it for up to `wait`, in as many requests as it takes.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn result(&self, workflow_id: &str, run_id: Option<Uuid>, wait: Duration) -> Result<RunResult, Error> {
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

    /// Signals a run. With a key the call is safe to repeat, and is repeated while the service is away.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `run-closed` when it has.
    pub async fn signal(
        &self,
        workflow_id: &str,
        name: &str,
        input: Option<Payload>,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.signal_run(workflow_id, None, name, &SignalWorkflow { input, identity: None }, key).await
    }

    /// Signals this run of a workflow id, the newest one unless given. With a key the call is safe to repeat, and is repeated
    /// while the service is away.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `run-closed` when it has, `run-not-current` when it is not the newest.
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

    /// Asks for a run to be canceled, the newest one unless given.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `run-closed` when it has, `run-not-current` when it is not the newest.
    pub async fn cancel(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        cancel: &CancelWorkflow,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/cancel{}", run_query(run_id))), cancel, key).await
    }

    /// Ends a run, the newest one unless given.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `run-closed` when it has, `run-not-current` when it is not the newest.
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
    push_query(&mut query, "closedFrom", filter.closed_from.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "closedBefore", filter.closed_before.map(|at| at.to_string()).as_deref());
    push_query(&mut query, "limit", filter.limit.map(|limit| limit.to_string()).as_deref());
    query
}
