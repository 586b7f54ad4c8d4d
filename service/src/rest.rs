//! The REST API. It parses requests, calls the engine, and renders responses. It contains no workflow rules.

mod activities;
mod audit;
mod batches;
mod calls;
mod changes;
mod clock;
mod describe;
mod document;
mod domains;
mod exchange;
mod extract;
mod failures;
mod history;
mod home;
mod limits;
mod moved;
mod open_activities;
mod operate;
mod output;
mod pages;
mod process;
mod queries;
mod schedules;
mod secret;
mod session;
mod task_lists;
mod tasks;
mod types;
mod updates;
mod workflows;

use std::future::ready;

use axum::http::HeaderMap;
use axum::routing::MethodFilter;

use crate::access::{CallEffect, Level};
use crate::http::{Console, Routes};

pub use document::recorded_document;

/// Returns the routes of the REST API, and of `GET /`. `POST /` belongs to the SWF protocol.
pub(crate) fn routes(console: Console) -> Routes {
    let mut routes = calls::calls::<false>().into_routes();
    // The page at `/` needs no credential, because it contains no stored data.
    let show = move |headers: HeaderMap| ready(home::show(console, &headers));
    routes.add(("GET", MethodFilter::GET), "/", (Level::Nothing, CallEffect::Reads), false, show);
    routes
}

/// Returns the `OpenAPI` document of these routes, generated from the code. [`recorded_document`] returns a recorded
/// copy of the same document.
pub fn document() -> serde_json::Value {
    calls::calls::<true>().document()
}
