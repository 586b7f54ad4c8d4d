//! The REST API: takes requests apart, asks the engine, renders answers. Holds no rules. The wire of SWF beside it is `swf`.

mod activities;
mod audit;
mod auth;
mod calls;
mod clock;
mod deliver;
mod domains;
mod extract;
mod guard;
mod handshake;
mod held;
mod history;
mod home;
mod in_flight;
mod nodes;
mod operate;
mod pages;
mod problem;
mod queries;
mod record;
mod routes;
mod schedules;
mod secret;
mod server;
mod shares;
mod stall;
mod tasks;
mod through;
mod types;
mod updates;
mod workflows;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use bytes::Bytes;
use serde::Serialize;

use crate::access::{Call, Effect, Level, Wire};
use crate::access_log::AccessLog;
use crate::engine::Engine;

pub use crate::access::{AccessKey, Credential, Credentials, Issuer, Moment, Rule, Secret, Stanzas};
pub use audit::with_audit_log;
pub use guard::Hosts;
pub use nodes::{Joined, NodeTrust, Renewal, join, join_trusting};
pub use server::{Server, ServerLimits};

pub(crate) use audit::{Asked, of_token};
pub(crate) use deliver::task as deliver_task;
pub(crate) use extract::{BODY_BYTES_MAX, POLL_BYTES_MAX, read as read_body};
pub(crate) use held::hold_body;
pub(crate) use in_flight::hold as hold_answer;
pub(crate) use problem::Refused;
pub(crate) use record::{Code, Noted, RequestId};
pub(crate) use routes::Routes;
pub(crate) use shares::{answer_within, domain_of};
pub(crate) use tasks::look_at_connection;

type AppState = State<Arc<Engine>>;

/// The routes of the API, for holders of credentials; for everybody when there are none. Under whatever name it is asked.
pub fn router_for(engine: Arc<Engine>, credentials: Credentials) -> Router {
    router_at(engine, credentials, Hosts::any())
}

/// The same, under these names.
pub fn router_at(engine: Arc<Engine>, credentials: Credentials, hosts: Hosts) -> Router {
    let gate = auth::Gate { engine: Arc::clone(&engine), credentials: credentials.clone() };
    let nothing =
        audit::Route { method: "", path: "nothing", level: Level::Known, effect: Effect::Reads, has_body: false };
    let known = || from_fn_with_state((gate.clone(), nothing), auth::judge);
    let rest = routes().into_router(&gate);
    // Nodes show each other something else.
    let rest = if engine.is_node() { rest.merge(nodes::routes().into_router(&gate)) } else { rest };
    let rest = accounted(rest.with_state(Arc::clone(&engine)), &engine);
    rest.merge(crate::swf::router(engine, credentials))
        .fallback(no_such_path.layer(known()))
        .method_not_allowed_fallback(wrong_method.layer(known()))
        .layer(from_fn_with_state(Arc::new(hosts), guard::check))
}

/// The same routes, with a line of this log for each request.
pub fn with_access_log(router: Router, engine: &Arc<Engine>, log: Arc<AccessLog>) -> Router {
    record::logged(router, engine, log)
}

/// The routes of the API, open to whoever can reach them.
pub fn router(engine: Arc<Engine>) -> Router {
    router_for(engine, Credentials::default())
}

/// The routes of the REST API, and the page that stands where SWF's wire is.
fn routes() -> Routes {
    let mut routes = calls::calls().into_routes();
    // The page says nothing of what is kept here.
    routes.add(("GET", MethodFilter::GET), crate::swf::PATH, (Level::Nothing, Effect::Reads), false, home::show);
    routes
}

/// The rows of the table of calls for a wire of ours.
pub(crate) fn rows(wire: Wire) -> Vec<Call> {
    match wire {
        Wire::Rest => routes().rows(wire),
        Wire::Nodes => nodes::routes().rows(wire),
        Wire::Swf => Vec::new(),
    }
}

/// These routes, held to the budget of bytes in flight. SWF's wire holds itself to it, in its own words.
fn accounted(router: Router, engine: &Arc<Engine>) -> Router {
    router.layer(from_fn_with_state(Arc::clone(engine), in_flight::account))
}

/// The `OpenAPI` document of these routes.
pub fn document() -> serde_json::Value {
    calls::calls().document()
}

/// What a handler answers.
type Answer = Result<Response, Refused>;

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => bytes_of_json(status, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer has no JSON form");
            Refused::Panicked.into_response()
        }
    }
}

fn bytes_of_json(status: StatusCode, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn healthy() -> &'static str {
    "ok\n"
}

async fn ready(State(engine): AppState) -> Answer {
    if engine.is_stopping() {
        return Err(crate::engine::Refusal::Stopping.into());
    }
    // It takes work, whatever else is said.
    let mut said = vec!["ok".to_owned()];
    if let Some(doubt) = engine.clock_doubt() {
        let (found, newest) = (doubt.found, doubt.newest);
        let clock = format!("the clock said {found}, and the newest time that was seen is {newest}");
        said.push(format!("{clock}: nothing is deleted by retention until `baton clock confirm`"));
    }
    for what in engine.reloads().refused() {
        said.push(format!("{what}: what the file has now is refused, and what it had before is in force: see the log"));
    }
    Ok((said.join("; ") + "\n").into_response())
}

async fn metrics(State(engine): AppState) -> Answer {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    engine.count_runs().await;
    // Not on a worker, which others wait for.
    let rendered = tokio::task::spawn_blocking(move || engine.render_metrics()).await;
    let rendered = rendered.map_err(|_| crate::engine::Refusal::Stopping)?;
    Ok(([(CONTENT_TYPE, content_type)], rendered).into_response())
}

async fn openapi() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    bytes_of_json(StatusCode::OK, DOCUMENT.clone())
}

async fn no_such_path() -> Refused {
    Refused::NoSuchPath
}

/// axum adds the Allow header: it knows the path's methods.
async fn wrong_method() -> Refused {
    Refused::Method
}
