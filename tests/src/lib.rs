//! The whole machine in one thread: real engines as nodes over one store that goes wrong, deciders and runners that come
//! late, answer twice or vanish, clients that repeat themselves, clocks that jump and disagree. A seed fixes everything.
//!
//! [`simulate`] runs one seed and answers what was wrong. It owns no rule: what a history may look like is
//! `history::check`'s business, and what was promised to callers is kept in [`facts`].

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
mod line;
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
pub mod told;
mod waits;
mod world;

pub use record::Record;
pub use waits::Waits;
pub use world::{Outcome, Plan, Tale, crash_at, know_each_other, simulate, simulate_over};
