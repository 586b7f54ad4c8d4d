//! Simulation of the whole system in one thread:
//!
//! * real engines as nodes over one store with faults
//! * deciders and runners that are late, answer twice or die
//! * clients that repeat requests
//! * clocks that jump and differ
//!
//! A seed determines everything.
//!
//! [`simulate`] runs one seed and returns the violations. The simulation contains no rules: `history::check` defines
//! valid histories, and [`facts`] keeps the promises made to callers.

mod actors;
pub mod asking;
pub mod broken;
mod chronicle;
mod clock;
pub mod corpus;
pub mod crowd;
pub mod drill;
pub mod facts;
pub mod hosts;
pub mod intercepted;
pub mod latent;
mod limiting;
mod line;
pub mod manual_clock;
pub mod many;
pub mod poison;
mod record;
mod reluctant;
mod repairing;
pub mod repeating;
mod resetting;
pub mod rules;
mod script;
pub mod steps;
pub mod still;
pub mod stored;
pub mod stores;
mod waits;
mod world;

pub use record::Record;
pub use waits::Waits;
pub use world::{Outcome, Plan, Tale, crash_at, know_each_other, simulate, simulate_over};
