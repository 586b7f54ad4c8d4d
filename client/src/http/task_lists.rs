//! Calls that describe task lists, and set their limits and pauses.

use reqwest::Method;

use super::{Client, encode, push_query, to_bytes};
use crate::Error;
use crate::body::{
    LimitGroup, LimitGroups, ListedTaskLists, PauseTaskList, SetListLimits, SetTaskLimits, TaskListSettings,
};

/// Kind of tasks of a list. A list of deciders and a list of runners may have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskListKind {
    /// Tasks for deciders.
    Decider,
    /// Tasks for runners.
    Activity,
}

impl TaskListKind {
    /// Returns the name of the kind in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Decider => "decider",
            Self::Activity => "activity",
        }
    }
}

impl Client {
    fn list_url(&self, name: &str, kind: TaskListKind, verb: &str) -> String {
        self.domain_url(&format!("task-lists/{}/{}/{verb}", encode(name), kind.word()))
    }

    fn group_url(&self, group: &str) -> String {
        self.domain_url(&format!("limit-groups/{}", encode(group)))
    }

    /// Replaces the limits of a task list. Without any limit in `limits`, removes them.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `unknown-limit-group` if the group does not exist.
    pub async fn limit_list(
        &self,
        name: &str,
        kind: TaskListKind,
        limits: &SetListLimits,
    ) -> Result<TaskListSettings, Error> {
        let (url, body) = (self.list_url(name, kind, "limits"), to_bytes(limits)?);
        let (_, bytes) = self.send(Method::PUT, &url, Some(body), None, None).await?;
        self.read(&bytes)
    }

    /// Pauses a task list: none of its tasks is dispatched.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `task-list-already-paused` if it is paused.
    pub async fn pause_list(
        &self,
        name: &str,
        kind: TaskListKind,
        pause: &PauseTaskList,
    ) -> Result<TaskListSettings, Error> {
        self.write(&self.list_url(name, kind, "pause"), pause, None).await
    }

    /// Resumes a paused task list.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `task-list-not-paused` if it is not paused.
    pub async fn resume_list(&self, name: &str, kind: TaskListKind) -> Result<TaskListSettings, Error> {
        let url = self.list_url(name, kind, "resume");
        let (_, bytes) = self.send(Method::POST, &url, None, None, None).await?;
        self.read(&bytes)
    }

    /// Returns the limit groups of this client's domain.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn limit_groups(&self) -> Result<LimitGroups, Error> {
        self.get(&self.domain_url("limit-groups"), None).await
    }

    /// Returns a limit group.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `unknown-limit-group` if it does not exist.
    pub async fn limit_group(&self, group: &str) -> Result<LimitGroup, Error> {
        self.get(&self.group_url(group), None).await
    }

    /// Creates a limit group or replaces its limits.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn set_limit_group(&self, group: &str, limits: &SetTaskLimits) -> Result<LimitGroup, Error> {
        let body = to_bytes(limits)?;
        let (_, bytes) = self.send(Method::PUT, &self.group_url(group), Some(body), None, None).await?;
        self.read(&bytes)
    }

    /// Deletes a limit group.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `limit-group-in-use` if a task list uses it.
    pub async fn delete_limit_group(&self, group: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &self.group_url(group), None, None, None).await.map(drop)
    }

    /// Returns a page of the task lists of this client's domain, sorted by name, as known to the node that responds.
    /// `page` is the `nextPage` of the previous page.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn task_lists(&self, limit: Option<usize>, page: Option<&str>) -> Result<ListedTaskLists, Error> {
        let mut query = String::new();
        push_query(&mut query, "limit", limit.map(|limit| limit.to_string()).as_deref());
        push_query(&mut query, "page", page);
        self.get(&format!("{}{query}", self.domain_url("task-lists")), None).await
    }

    /// Returns both task lists with this name: the list of decider tasks and the list of activity tasks.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn task_list(&self, name: &str) -> Result<ListedTaskLists, Error> {
        self.get(&self.domain_url(&format!("task-lists/{}", encode(name))), None).await
    }
}
