//! The runs of one workflow id in memory, and the only way to change them: requests, the worker that admits them, and
//! the effects of each commit.

mod after;
mod apply_after;
pub(super) mod cache;
pub(super) mod cell;
mod child;
pub(super) mod commands;
pub(super) mod context;
mod delete;
pub(super) mod effects;
mod grant;
mod import;
pub(super) mod inbox;
pub(super) mod lookup;
pub(super) mod request;
mod reset;
mod riders;
pub(super) mod runs;
pub(super) mod start;
pub(super) mod worker;
mod write;
