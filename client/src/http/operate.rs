//! Calls for operators of runs, activities, domains and the service.

use reqwest::Method;
use uuid::Uuid;

use super::{Client, encode, push_query, run_query, to_bytes};
use crate::Error;
use crate::body::{
    AuditEntries, ChangeActivity, ChangeDomain, CompleteActivityManually, ConfirmedClock, Deleted, Domain,
    FailActivityManually, LateRuns, NodeList, OperatorAction, PauseWorkflow, Recorded, RepairedDeadlines,
    ResetWorkflow, RotateSecret, RotatedSecret, WasReset,
};

/// An operator's action on an open activity.
#[derive(Debug, Clone, PartialEq)]
pub enum ActivityOperation {
    /// Completes the activity, even if a runner holds it.
    Complete(CompleteActivityManually),
    /// Fails the activity, regardless of its retry policy.
    Fail(FailActivityManually),
    /// Retries the activity at once.
    Retry(OperatorAction),
    /// Stops dispatching the activity.
    Pause(OperatorAction),
    /// Dispatches the activity again.
    Resume(OperatorAction),
    /// Changes the options of the activity.
    Change(ChangeActivity),
}

impl Client {
    /// Returns a page of the service's audit log: entries after number `after`.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `audit-log-disabled` if the service writes no audit log.
    pub async fn audit(&self, after: u64, limit: Option<usize>) -> Result<AuditEntries, Error> {
        let mut query = String::new();
        push_query(&mut query, "after", Some(&after.to_string()));
        push_query(&mut query, "limit", limit.map(|limit| limit.to_string()).as_deref());
        self.get(&format!("{}{query}", self.service_url("audit")), None).await
    }

    /// Returns the live nodes that share the store; none if the store is not shared.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn nodes(&self) -> Result<NodeList, Error> {
        self.get(&self.service_url("nodes"), None).await
    }

    /// Changes the client's domain.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn change_domain(&self, change: &ChangeDomain) -> Result<Domain, Error> {
        let url = self.service_url(&format!("domains/{}", encode(self.domain_name())));
        let (_, bytes) = self.send(Method::PATCH, &url, Some(to_bytes(change)?), None, None).await?;
        self.read(&bytes)
    }

    /// Deprecates the client's domain. Afterwards no run can be started and no type registered in the domain.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `domain-deprecated` if the domain is already deprecated.
    pub async fn deprecate_domain(&self) -> Result<Domain, Error> {
        let url = self.service_url(&format!("domains/{}/deprecate", encode(self.domain_name())));
        let (_, bytes) = self.send(Method::POST, &url, None, None, None).await?;
        self.read(&bytes)
    }

    /// Deletes the client's domain, which must be deprecated and empty.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `domain-in-use` if the domain is not deprecated or not empty.
    pub async fn delete_domain(&self) -> Result<(), Error> {
        let url = self.service_url(&format!("domains/{}", encode(self.domain_name())));
        self.send(Method::DELETE, &url, None, None, None).await.map(drop)
    }

    /// Confirms that the service's clock is right although it has jumped ahead. Afterwards, runs whose retention period
    /// has ended according to this clock are deleted.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn confirm_clock(&self) -> Result<ConfirmedClock, Error> {
        let (_, bytes) = self.send(Method::POST, &self.service_url("clock/confirm"), None, None, None).await?;
        self.read(&bytes)
    }

    /// Returns a page of the open runs of the client's domain with deadlines that are too late. Such deadlines were set
    /// while the service's clock was ahead. `page` is the `nextPage` of the previous page. If a workflow id is given,
    /// only its run is examined.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn late_runs(&self, workflow_id: Option<&str>, page: Option<&str>) -> Result<LateRuns, Error> {
        let mut query = String::new();
        push_query(&mut query, "workflowId", workflow_id);
        push_query(&mut query, "page", page);
        self.get(&format!("{}{query}", self.domain_url("late-runs")), None).await
    }

    /// Repairs the deadlines of a run that are too late, because they were set while the service's clock was ahead.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `clock-suspect` if the clock may be wrong.
    pub async fn repair_deadlines(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        repair: &OperatorAction,
    ) -> Result<RepairedDeadlines, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/repair-deadlines{}", run_query(run_id))), repair, None)
            .await
    }

    /// Creates a new secret for task tokens and for authentication between nodes.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn rotate_secret(&self, rotate: &RotateSecret) -> Result<RotatedSecret, Error> {
        self.write(&self.service_url("secret/rotate"), rotate, None).await
    }

    /// Deletes a run, or all runs of a workflow id if there is no run id. If `terminates` is true, an open run is
    /// terminated first. Otherwise the deletion of an open run fails.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete(&self, workflow_id: &str, run_id: Option<Uuid>, terminates: bool) -> Result<Deleted, Error> {
        let mut query = run_query(run_id);
        if terminates {
            query.push_str(if query.is_empty() { "?terminate=true" } else { "&terminate=true" });
        }
        let (_, bytes) = self.send(Method::DELETE, &self.workflow_url(workflow_id, &query), None, None, None).await?;
        self.read(&bytes)
    }

    /// Pauses a run.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn pause(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        pause: &PauseWorkflow,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/pause{}", run_query(run_id))), pause, key).await
    }

    /// Resumes a paused run.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn resume(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        resume: &OperatorAction,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/resume{}", run_query(run_id))), resume, key).await
    }

    /// Resets a run (the newest run if there is no run id): a new run continues from one of its events. If the newest
    /// run of the workflow id is open, it is terminated.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn reset(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        reset: &ResetWorkflow,
        key: Option<&str>,
    ) -> Result<WasReset, Error> {
        self.write(&self.workflow_url(workflow_id, &format!("/reset{}", run_query(run_id))), reset, key).await
    }

    /// Performs an operator's action on an open activity.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn act_on_activity(
        &self,
        workflow_id: &str,
        run_id: Option<Uuid>,
        activity_id: &str,
        act: &ActivityOperation,
        key: Option<&str>,
    ) -> Result<Recorded, Error> {
        let url = |verb: &str| {
            self.workflow_url(workflow_id, &format!("/activities/{}/{verb}{}", encode(activity_id), run_query(run_id)))
        };
        match act {
            ActivityOperation::Complete(body) => self.write(&url("success"), body, key).await,
            ActivityOperation::Fail(body) => self.write(&url("failure"), body, key).await,
            ActivityOperation::Retry(body) => self.write(&url("retry"), body, key).await,
            ActivityOperation::Pause(body) => self.write(&url("pause"), body, key).await,
            ActivityOperation::Resume(body) => self.write(&url("resume"), body, key).await,
            ActivityOperation::Change(body) => self.write(&url("options"), body, key).await,
        }
    }
}
