//! Limits of task lists: how many tasks run at once, how many start per second, per list, per concurrency key and per
//! group of lists, and pauses. [`base::list_settings`](crate::base::list_settings) has what operators configure, and
//! [`limiter`] counts and decides.
//!
//! A task that leaves a limited list holds a slot from the moment it leaves until the task ends. The slot is tied to
//! the task itself: the commit that starts the task confirms it, and the commit that ends the task frees it, whatever
//! the reason is: a result, a failure, a timeout, or the end of the run. Slots are only in memory. After a restart, and
//! when a list gets its first limit, the service counts the running tasks of the list in the store before it hands out
//! more. If nodes share the store, one of them counts and decides: see [`home`].

pub(crate) mod apply;
pub(crate) mod configure;
pub(crate) mod configured;
pub(crate) mod home;
pub(crate) mod home_line;
pub(crate) mod limiter;
pub(crate) mod operate;
pub(crate) mod permit;
pub(crate) mod stopped;

#[cfg(test)]
mod tests;
