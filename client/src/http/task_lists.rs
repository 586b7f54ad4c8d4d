//! The calls about task lists, for people who look at them.

use super::{Client, encode, push_query};
use crate::Error;
use crate::body::ListedTaskLists;

impl Client {
    /// A page of task lists of this client's domain, by name, as the node that answers knows them; `page` is what the page before
    /// named.
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

    /// The task lists of a name: the deciders' and the runners'.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn task_list(&self, name: &str) -> Result<ListedTaskLists, Error> {
        self.get(&self.domain_url(&format!("task-lists/{}", encode(name))), None).await
    }
}
