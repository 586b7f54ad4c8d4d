//! The rules by subject: what can happen to one kind of thing, all of it in one place, under a table of *state × event*.
//!
//! What comes in is told apart elsewhere, one line an arm: commands in [`Transition::admit_new`](crate::Transition::admit_new), decisions
//! in `admit/decisions.rs`, events in [`Run::evolve`](crate::Run::evolve), deadlines in `admit/deadlines.rs`. A subject's file has
//! what these lines call. The checker of histories has the same rules once more, in files of the same names.

pub(crate) mod external;
pub(crate) mod marker;
pub(crate) mod signal;
pub(crate) mod timer;
