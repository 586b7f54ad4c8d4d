//! SWF's wire by raw requests, in process: what an SDK would hide.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint does not take for tests"
)]

mod access;
mod both;
mod domains;
mod functions;
mod garbage;
mod histories;
mod ids;
mod pages;
mod signatures;
mod support;
mod types;
mod wire;
