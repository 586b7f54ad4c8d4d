//! Calls about schedules.

use reqwest::Method;

use super::{Client, encode, push_query};
use crate::Error;
use crate::body::{
    BackfillSchedule, CreateSchedule, DescribedSchedule, NextTimes, PauseSchedule, ResumeSchedule, Schedule, Schedules,
    TriggerSchedule,
};

impl Client {
    fn schedule_url(&self, schedule_id: &str, rest: &str) -> String {
        self.domain_url(&format!("schedules/{}{rest}", encode(schedule_id)))
    }

    /// Creates a schedule. With a key, the call is safe to repeat.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `schedule-exists` if a schedule with this id exists.
    pub async fn create_schedule(
        &self,
        create: &CreateSchedule,
        key: Option<&str>,
    ) -> Result<DescribedSchedule, Error> {
        self.write(&self.domain_url("schedules"), create, key).await
    }

    /// Returns a page of schedules, newest first. `page` is the `nextPage` of the previous page.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn schedules(&self, limit: Option<usize>, page: Option<&str>) -> Result<Schedules, Error> {
        let mut query = String::new();
        push_query(&mut query, "limit", limit.map(|limit| limit.to_string()).as_deref());
        push_query(&mut query, "page", page);
        self.get(&format!("{}{query}", self.domain_url("schedules")), None).await
    }

    /// Returns a schedule with its past and next actions.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn describe_schedule(&self, schedule_id: &str) -> Result<DescribedSchedule, Error> {
        self.get(&self.schedule_url(schedule_id, ""), None).await
    }

    /// Replaces a schedule.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn change_schedule(&self, schedule_id: &str, schedule: &Schedule) -> Result<DescribedSchedule, Error> {
        let body = super::to_bytes(schedule)?;
        let (_, bytes) = self.send(Method::PUT, &self.schedule_url(schedule_id, ""), Some(body), None, None).await?;
        self.read(&bytes)
    }

    /// Deletes a schedule. The runs that it has started continue.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_schedule(&self, schedule_id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &self.schedule_url(schedule_id, ""), None, None, None).await.map(drop)
    }

    /// Pauses a schedule.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn pause_schedule(&self, schedule_id: &str, pause: &PauseSchedule) -> Result<DescribedSchedule, Error> {
        self.write(&self.schedule_url(schedule_id, "/pause"), pause, None).await
    }

    /// Resumes a schedule. Actions whose scheduled times were during the pause are not executed later.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn resume_schedule(&self, schedule_id: &str) -> Result<DescribedSchedule, Error> {
        self.write(&self.schedule_url(schedule_id, "/resume"), &ResumeSchedule {}, None).await
    }

    /// Executes an action of a schedule now. With a key, the call is safe to repeat.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn trigger_schedule(
        &self,
        schedule_id: &str,
        trigger: &TriggerSchedule,
        key: Option<&str>,
    ) -> Result<DescribedSchedule, Error> {
        self.write(&self.schedule_url(schedule_id, "/trigger"), trigger, key).await
    }

    /// Executes the actions of a schedule for all its scheduled times in the given interval. With a key, the call is
    /// safe to repeat.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn backfill_schedule(
        &self,
        schedule_id: &str,
        backfill: &BackfillSchedule,
        key: Option<&str>,
    ) -> Result<DescribedSchedule, Error> {
        self.write(&self.schedule_url(schedule_id, "/backfill"), backfill, key).await
    }

    /// Returns the next times at which a schedule starts runs.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn next_times(&self, schedule_id: &str, limit: usize) -> Result<NextTimes, Error> {
        self.get(&self.schedule_url(schedule_id, &format!("/next?limit={limit}")), None).await
    }
}
