//! The SWF protocol with raw requests in process, including what an SDK would hide.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint does not take for tests"
)]

extern crate baton_service as service;

mod access;
mod audit;
mod both_protocols;
mod confused;
mod delivery;
mod disk;
mod domains;
mod edges;
mod empty_texts;
mod functions;
mod garbage;
#[path = "../shared/hash.rs"]
mod hash;
mod histories;
#[path = "../shared/holders.rs"]
mod holders;
mod ids;
mod pages;
mod quotas;
mod signatures;
mod support;
mod traces;
mod types;
mod unknown_members;
mod valid_requests;
mod wire;
