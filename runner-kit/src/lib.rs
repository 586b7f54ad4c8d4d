//! A kit for writing activities: functions that do the work, on the machines that are allowed to do this work.
//!
//! An activity takes a typed input and returns a typed output or an [`ActivityFailure`]. A [`Host`] polls a task list,
//! runs the activities that are registered with it, and sends their answers. A runner can be deployed on a separate
//! list, for example on the list `PCI` on separate servers. Configure it with the name of this list and a credential
//! that may poll the list.
//!
//! ```no_run
//! use baton_runner_kit::{ActivityContext, ActivityFailure, Host, activity_fn};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Charge { card: String, cents: u64 }
//!
//! #[derive(Serialize)]
//! struct Receipt { number: String }
//!
//! async fn charge(context: ActivityContext, charge: Charge) -> Result<Receipt, ActivityFailure> {
//!     if charge.card.ends_with("0000") {
//!         // The decider reads the reason and chooses what to do.
//!         return Err(ActivityFailure::new("card-declined").details(&charge.cents).non_retryable());
//!     }
//!     context.heartbeat(&"talking to the bank");
//!     Ok(Receipt { number: format!("R-{}", context.workflow_id) })
//! }
//!
//! # async fn run() -> Result<(), baton_client::Error> {
//! let client = baton_client::Client::with_secret("http://127.0.0.1:7420", "the PCI rack's secret")?;
//! // Runs until SIGTERM or ctrl-c, and then finishes the activities it has taken.
//! Host::new(client, "PCI").register(activity_fn("charge-card", charge)).concurrency(16).run().await;
//! # Ok(())
//! # }
//! ```
//!
//! An activity that can stop early awaits [`ActivityContext::canceled`] alongside its work. A long activity with a
//! heartbeat timeout needs to do nothing: the host sends the heartbeats, with the newest details that the activity set.
//! Each heartbeat waits at the service until the next one is due, so that a cancel request reaches the activity at
//! once.
//!
//! With [`ActivityContext::append`], an activity shows its output to people while it runs. The output is no part of the
//! history and is kept only for some time. Tests of an activity read it with [`testing::TestActivity`].
//!
//! The decider determines with a retry policy whether failures are retried. For a retry, the service dispatches the
//! activity again. [`ActivityContext::attempt`] is the number of the attempt, and [`ActivityContext::last_heartbeat`]
//! returns the last details of an earlier attempt. [`ActivityFailure::non_retryable`] ends the retries, and
//! [`ActivityFailure::retry_after`] sets the delay before the next attempt.
//!
//! One program can use both kits. [`ActivityContext`] and [`ActivityFailure`] are the types for activities; `Context`
//! and `Failure` of the decider kit are the types for flows. [`Duration`] is the same type in both kits and counts
//! whole milliseconds. Functions that take a [`Duration`] also take a [`std::time::Duration`].

mod activity;
mod context;
mod failure;
mod host;
mod output;
pub mod testing;

pub use activity::{Activity, activity_fn};
pub use async_trait::async_trait;
pub use baton_history::Duration;
pub use context::ActivityContext;
pub use failure::ActivityFailure;
pub use host::Host;
