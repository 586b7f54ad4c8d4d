//! The rules, one module per subject. Each module has a table of states and inputs, the code, and its tests.
//!
//! Dispatch happens elsewhere, with one line per case: commands in `admit.rs`, decisions in `admit/decisions.rs`,
//! deadlines in `admit/deadlines.rs` and `run/deadlines.rs`, events in `run/evolve.rs`. These call the functions of
//! the subjects. The subjects use [`Transition`](crate::Transition), which records events, and [`Run`](crate::Run),
//! the state; neither of these depends on a subject. The checker of histories repeats the rules independently, in
//! files of the same names.

pub(crate) mod activity;
pub(crate) mod child;
pub(crate) mod effect;
pub(crate) mod external;
pub(crate) mod marker;
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
