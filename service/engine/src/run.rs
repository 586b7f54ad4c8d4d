//! The runs of each workflow id in memory. All changes of a run are made in this module. It contains the requests to a
//! run, the worker that admits them, and the effects of each commit on other runs.

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
