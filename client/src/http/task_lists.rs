//! Calls that describe task lists.

use super::{Client, encode, push_query};
use crate::Error;
use crate::body::ListedTaskLists;

impl Client {
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
