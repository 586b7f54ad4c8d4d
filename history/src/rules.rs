//! The rules, one module per subject. Each module has a table of states and inputs, the code, and its tests.
//!
//! Other files dispatch to the functions of these modules, with one line per case:
//!
//! * `admit.rs`: commands
//! * `admit/decisions.rs`: decisions
//! * `admit/deadlines.rs` and `run/deadlines.rs`: deadlines
//! * `run/evolve.rs`: events
//!
//! These modules use [`Transition`](crate::Transition), which records events, and [`Run`](crate::Run), which is the
//! state. Neither of the two depends on a module of `rules`. `check` repeats the rules independently, in files of the
//! same names.

pub(crate) mod activity;
pub(crate) mod child;
pub(crate) mod effect;
pub(crate) mod external;
pub(crate) mod marker;
pub(crate) mod one_activity;
pub(crate) mod pause;
pub(crate) mod repair;
pub(crate) mod reset;
pub(crate) mod sent;
pub(crate) mod signal;
pub(crate) mod swf;
pub(crate) mod timer;
pub(crate) mod turn;
pub(crate) mod update;
pub(crate) mod workflow;
