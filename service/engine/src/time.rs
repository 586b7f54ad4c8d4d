//! Modules that depend on time: waking due runs, checking the clock, and repairing deadlines.

pub(super) mod guard;
pub(super) mod repair;
pub(super) mod sweep;
