//! Queries and updates: what waits beside a run for a turn that takes it along, or for a task of its own.

pub(super) mod ask;
pub(super) mod judge;
pub(super) mod questions;
pub(super) mod update;
pub(super) mod updates;
