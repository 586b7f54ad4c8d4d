//! Calls about batches.

use reqwest::Method;

use super::{Client, encode, push_query};
use crate::Error;
use crate::body::{BatchDryRun, Batches, ChangePace, CreateBatch, DescribedBatch, ResumeBatch, StopBatch};

impl Client {
    fn batch_url(&self, batch_id: &str, rest: &str) -> String {
        self.domain_url(&format!("batches/{}{rest}", encode(batch_id)))
    }

    /// Creates a batch. With a key the call is safe to repeat.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `limit-exceeded` if the domain has too many batches that are not completed.
    pub async fn create_batch(&self, create: &CreateBatch, key: Option<&str>) -> Result<DescribedBatch, Error> {
        self.write(&self.domain_url("batches"), &CreateBatch { dry_run: false, ..create.clone() }, key).await
    }

    /// Counts and lists the runs that a batch would select. Changes nothing.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn dry_run_batch(&self, create: &CreateBatch) -> Result<BatchDryRun, Error> {
        self.write(&self.domain_url("batches"), &CreateBatch { dry_run: true, ..create.clone() }, None).await
    }

    /// Returns a page of batches, newest first. `page` is the `nextPage` of the previous page.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn batches(&self, limit: Option<usize>, page: Option<&str>) -> Result<Batches, Error> {
        let mut query = String::new();
        push_query(&mut query, "limit", limit.map(|limit| limit.to_string()).as_deref());
        push_query(&mut query, "page", page);
        self.get(&format!("{}{query}", self.domain_url("batches")), None).await
    }

    /// Returns a batch with its progress.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn describe_batch(&self, batch_id: &str) -> Result<DescribedBatch, Error> {
        self.get(&self.batch_url(batch_id, ""), None).await
    }

    /// Stops a batch.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `batch-completed` if it is completed.
    pub async fn stop_batch(&self, batch_id: &str) -> Result<DescribedBatch, Error> {
        self.write(&self.batch_url(batch_id, "/stop"), &StopBatch {}, None).await
    }

    /// Resumes a stopped batch.
    ///
    /// # Errors
    ///
    /// As for [`stop_batch`](Self::stop_batch).
    pub async fn resume_batch(&self, batch_id: &str) -> Result<DescribedBatch, Error> {
        self.write(&self.batch_url(batch_id, "/resume"), &ResumeBatch {}, None).await
    }

    /// Changes the pace of a batch, in runs per second.
    ///
    /// # Errors
    ///
    /// As for [`stop_batch`](Self::stop_batch).
    pub async fn change_batch_pace(&self, batch_id: &str, pace: u32) -> Result<DescribedBatch, Error> {
        let body = super::to_bytes(&ChangePace { pace })?;
        let (_, bytes) = self.send(Method::PUT, &self.batch_url(batch_id, "/pace"), Some(body), None, None).await?;
        self.read(&bytes)
    }

    /// Deletes a stopped or completed batch.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `batch-running` if it is running.
    pub async fn delete_batch(&self, batch_id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &self.batch_url(batch_id, ""), None, None, None).await.map(drop)
    }
}
