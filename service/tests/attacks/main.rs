//! Attacks on the service as a real process, with nothing but what any caller could send.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

extern crate baton_service as service;

mod connections;
mod credentials;
mod descriptors;
mod files;
mod floods;
#[path = "../shared/hash.rs"]
mod hash;
mod hostile;
mod line;
mod lists;
mod members;
mod pages;
mod schedules;
#[path = "../process/support.rs"]
mod support;
#[path = "../swf/valid_requests.rs"]
mod valid_requests;

use client::body::StartWorkflow;

fn start(id: &str) -> StartWorkflow {
    StartWorkflow { workflow_id: id.to_owned(), workflow_type: "test".to_owned(), ..StartWorkflow::default() }
}
