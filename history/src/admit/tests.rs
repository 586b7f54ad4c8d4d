//! The rules, one line a case: what a command adds to a run, or the code of its refusal.

mod by_hand;
mod children;
mod commands;
mod decisions;
mod dialect;
mod fields;
mod liveness;
mod others;
mod pause;
mod permitted;
mod reset;
mod retries;
mod sending;
mod starts;
mod successors;
mod swf;
mod timeouts;
mod tries;
mod types;
mod updates;
