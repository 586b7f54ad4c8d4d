//! For authors of activities: the functions that do the work, on the machines where it may be done.
//!
//! An activity takes a typed input and gives a typed output or a [`Failure`]. A [`Host`] polls a task list, runs the
//! activities registered with it, and answers. Deploying a runner on a list of its own (say `PCI`, on separate servers)
//! takes nothing but that list's name, and a credential that may poll it.
//!
//! ```no_run
//! use baton_runner_kit::{Context, Failure, Host, activity_fn};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Charge { card: String, cents: u64 }
//!
//! #[derive(Serialize)]
//! struct Receipt { number: String }
//!
//! async fn charge(context: Context, charge: Charge) -> Result<Receipt, Failure> {
//!     if charge.card.ends_with("0000") {
//!         // The decider reads the reason and chooses what to do.
//!         return Err(Failure::new("card-declined").details(&charge.cents).non_retryable());
//!     }
//!     context.heartbeat(&"talking to the bank");
//!     Ok(Receipt { number: format!("R-{}", context.workflow_id) })
//! }
//!
//! # async fn run() -> Result<(), baton_client::Error> {
//! let client = baton_client::Client::with_secret("http://127.0.0.1:7420", "the PCI rack's secret")?;
//! // Until SIGTERM or ctrl-c; activities in hand are finished first.
//! Host::new(client, "PCI").register(activity_fn("charge-card", charge)).concurrency(16).run().await;
//! # Ok(())
//! # }
//! ```
//!
//! An activity that can stop early waits for [`Context::canceled`] beside its work. One that takes long and has a
//! heartbeat timeout need not do anything: the host shows life for it, with the newest details it gave.
//!
//! Whether a failure is tried again is the decider's to say, with a retry policy: the service then hands the activity out
//! again, up to date in [`Context::attempt`] and [`Context::last_heartbeat`]. [`Failure::non_retryable`] ends that,
//! [`Failure::retry_after`] names the wait.

mod activity;
mod context;
mod failure;
mod host;

pub use activity::{Activity, activity_fn};
pub use async_trait::async_trait;
pub use context::Context;
pub use failure::Failure;
pub use host::Host;
