//! The REST API: every call and every refusal over the in-process router, and tests of connections over sockets.
//!
//! Tests use a memory store, a clock that does not advance, and fixed ids. Every history that a refused request might
//! have changed is compared to the byte, and checked against the rules.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint does not take for tests"
)]

extern crate baton_service as service;

mod access;
mod access_log;
mod audit;
mod authors;
mod bad_input;
mod batches;
mod calls;
mod cancel;
#[path = "../shared/certificates.rs"]
mod certificates;
mod changes;
mod client_certificates;
mod clocks;
mod conditions;
mod confused;
mod console;
mod contract;
mod credentials;
mod deciders;
mod decisions;
mod deletion;
mod delivery;
mod disk;
mod docs;
mod exchange;
mod guard;
#[path = "../shared/hash.rs"]
mod hash;
mod heartbeats;
mod histories;
#[path = "../shared/holders.rs"]
mod holders;
mod home;
mod import;
#[path = "../shared/issuer.rs"]
mod issuer;
mod issuers;
mod kits;
mod late_deadlines;
mod list_clocks;
mod list_limits;
mod liveness;
mod methods;
mod nodes;
mod one_activity;
mod one_run;
mod openapi;
mod operators;
mod output;
mod pause;
mod progress;
mod queries;
mod quotas;
mod reasons;
mod recorded;
mod reference;
mod refusals;
mod reset;
mod retries;
mod run_states;
mod schedules;
mod sessions;
mod sockets;
mod starts;
mod successors;
mod support;
mod task_lists;
mod tls;
mod tokens;
mod traces;
mod types;
mod unknown_fields;
mod unpolled;
mod updates;
mod waiting;
mod workflow_retries;
mod wrong_clock;
