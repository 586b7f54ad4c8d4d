//! The REST API: takes requests apart, asks the engine, renders answers. Holds no rules.

mod activities;
mod audit;
mod calls;
mod clock;
mod document;
mod domains;
mod extract;
mod history;
mod home;
mod operate;
mod pages;
mod process;
mod queries;
mod schedules;
mod secret;
mod tasks;
mod types;
mod updates;
mod workflows;

use axum::routing::MethodFilter;

use crate::access::{Effect, Level};
use crate::http::Routes;

/// The routes of the REST API, and the page that stands where SWF's wire is.
pub(crate) fn routes() -> Routes {
    let mut routes = calls::calls().into_routes();
    // The page says nothing of what is kept here.
    routes.add(("GET", MethodFilter::GET), "/", (Level::Nothing, Effect::Reads), false, home::show);
    routes
}

/// The `OpenAPI` document of these routes.
pub fn document() -> serde_json::Value {
    calls::calls().document()
}
