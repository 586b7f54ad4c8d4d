//! SWF's wire by raw requests, in process: what an SDK would hide.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint does not take for tests"
)]

extern crate baton_service as service;

mod access;
mod audit;
mod both;
mod confused;
mod delivery;
mod disk;
mod domains;
mod edges;
mod empties;
mod functions;
mod garbage;
#[path = "../shared/hash.rs"]
mod hash;
mod histories;
#[path = "../shared/holders.rs"]
mod holders;
mod ids;
mod members;
mod pages;
mod right;
mod shares;
mod signatures;
mod support;
mod traces;
mod types;
mod wire;
