//! Runs that go from one service to another.

use history::EventId;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Client, push_query, run_query};
use crate::Error;
use crate::body::{ImportRun, ImportedRun, RawHistory, SessionInfo};

impl Client {
    /// Who asks, as the service sees it, and what they may do.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn session(&self) -> Result<SessionInfo, Error> {
        self.get(&self.service_url("session"), None).await
    }

    /// The state of a run, as the text that the service gives.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn raw_description(&self, workflow_id: &str, run_id: Uuid) -> Result<Box<RawValue>, Error> {
        self.get(&self.workflow_url(workflow_id, &run_query(Some(run_id))), None).await
    }

    /// A page of a run's history, as the texts that the service gives.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn raw_history(
        &self,
        workflow_id: &str,
        run_id: Uuid,
        after: Option<EventId>,
    ) -> Result<RawHistory, Error> {
        let mut query = run_query(Some(run_id));
        push_query(&mut query, "after", after.map(|after| after.to_string()).as_deref());
        self.get(&self.workflow_url(workflow_id, &format!("/history{query}")), None).await
    }

    /// Has the service take over a closed run of another one. Asked again it changes nothing.
    ///
    /// # Errors
    ///
    /// See [`Error`]; `bad-history` where it is none that the service takes, `run-differs` where the run is there with another one.
    pub async fn import(&self, import: &ImportRun) -> Result<ImportedRun, Error> {
        self.write(&self.domain_url("imported-runs"), import, None).await
    }
}
