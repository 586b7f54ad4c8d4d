//! The REST API: every call and every refusal over the in-process router, and what needs a connection over a real one.
//!
//! Memory store, a clock that stands still, fixed ids. Every history that a refused request might have touched is
//! compared byte for byte, and held against the rules' own checker.

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
mod by_hand;
mod calls;
mod cancel;
#[path = "../shared/certificates.rs"]
mod certificates;
mod certified;
mod changes;
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
mod histories;
#[path = "../shared/holders.rs"]
mod holders;
mod home;
#[path = "../shared/issuer.rs"]
mod issuer;
mod issuers;
mod kits;
mod late;
mod liveness;
mod methods;
mod moved;
mod nodes;
mod openapi;
mod pause;
mod queries;
mod reasons;
mod recorded;
mod reference;
mod refusals;
mod reset;
mod retries;
mod schedules;
mod sessions;
mod shares;
mod sockets;
mod standing;
mod starts;
mod successors;
mod support;
mod task_lists;
mod tls;
mod tokens;
mod traces;
mod tries;
mod types;
mod unknowns;
mod unpolled;
mod updates;
mod waiting;
mod wrong_clock;
