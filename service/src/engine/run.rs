//! One workflow id in memory, and the only way to change it: what waits for it, who works on it, and what that may be.

pub(super) mod cache;
pub(super) mod cell;
pub(super) mod delete;
pub(super) mod effects;
pub(super) mod inbox;
pub(super) mod reset;
pub(super) mod start;
pub(super) mod worker;
pub(super) mod write;
