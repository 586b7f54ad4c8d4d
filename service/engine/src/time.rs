//! Time: who looks at which run when, and whether the clock may be believed.

pub(super) mod guard;
pub(super) mod repair;
pub(super) mod sweep;
