//! Time: waking due runs, and checking the clock.

pub(super) mod guard;
pub(super) mod repair;
pub(super) mod sweep;
