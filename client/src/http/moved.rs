//! Calls for the export and import of closed runs.

use history::EventId;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Client, push_query, run_query};
use crate::Error;
use crate::body::{ImportRun, ImportedRun, RawHistory, SessionInfo};

impl Client {
    /// Returns the identity and permissions of the caller.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn session(&self) -> Result<SessionInfo, Error> {
        self.get(&self.service_url("session"), None).await
    }

    /// Returns the state of a run as raw JSON, unchanged from the response.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn raw_description(&self, workflow_id: &str, run_id: Uuid) -> Result<Box<RawValue>, Error> {
        self.get(&self.workflow_url(workflow_id, &run_query(Some(run_id))), None).await
    }

    /// Returns a page of a run's history as raw JSON, unchanged from the response.
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

    /// Imports a closed run of another service. Importing the same run again changes nothing.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `bad-history` if the history is invalid, `history-mismatch` if the run exists with another
    /// history.
    pub async fn import(&self, import: &ImportRun) -> Result<ImportedRun, Error> {
        self.write(&self.domain_url("imported-runs"), import, None).await
    }
}
