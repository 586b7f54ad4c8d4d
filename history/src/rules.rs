//! The rules by subject: what can happen to one kind of thing, all of it in one place, under a table of *state × event*.
//!
//! What comes in is told apart elsewhere, one line an arm: commands in `admit.rs`, decisions in `admit/decisions.rs`, time in
//! `admit/deadlines.rs` and `run/deadlines.rs`, events in `run/evolve.rs`. A subject's file has what these lines call. It stands on
//! [`Transition`](crate::Transition), by which an event gets into a run, and on [`Run`](crate::Run), the state, neither of which knows a
//! subject. The checker of histories has the same rules once more, in files of the same names.

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
