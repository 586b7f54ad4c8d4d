//! The REST API: takes requests apart, asks the engine, renders answers. Holds no rules.

mod activities;
mod audit;
mod calls;
mod changes;
mod clock;
mod describe;
mod document;
mod domains;
mod exchange;
mod extract;
mod history;
mod home;
mod moved;
mod operate;
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

/// The routes of the REST API, and what stands where SWF's wire is: a page, or the way to the console.
pub(crate) fn routes(console: Console) -> Routes {
    let mut routes = calls::calls::<false>().into_routes();
    // The page says nothing of what is kept here.
    let show = move |headers: HeaderMap| ready(home::show(console, &headers));
    routes.add(("GET", MethodFilter::GET), "/", (Level::Nothing, CallEffect::Reads), false, show);
    routes
}

/// The `OpenAPI` document of these routes, made anew from the code. [`recorded_document`] is the same.
pub fn document() -> serde_json::Value {
    calls::calls::<true>().document()
}
