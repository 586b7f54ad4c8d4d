//! The REST API: takes requests apart, asks the engine, renders answers. Holds no rules. The wire of SWF beside it is `swf`.

mod activities;
mod auth;
mod calls;
mod deliver;
mod domains;
mod extract;
mod history;
mod home;
mod nodes;
mod operate;
mod problem;
mod queries;
mod schedules;
mod server;
mod stall;
mod tasks;
mod types;
mod updates;
mod workflows;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::engine::Engine;

pub use auth::{Credential, Credentials};
pub use nodes::join;
pub use server::{Server, ServerLimits};

pub(crate) use auth::{Holder, Need};
pub(crate) use deliver::task as deliver_task;
pub(crate) use extract::{BODY_BYTES_MAX, read as read_body};
pub(crate) use problem::Refused;
pub(crate) use tasks::look_at_connection;

type AppState = State<Arc<Engine>>;

/// The routes of the API, for holders of credentials; for everybody when there are none.
pub fn router_for(engine: Arc<Engine>, credentials: Credentials) -> Router {
    let open = router(Arc::clone(&engine));
    let nodes = engine.is_node().then(|| nodes::router(Arc::clone(&engine)));
    let api = if credentials.is_empty() {
        open
    } else {
        let gate = auth::Gate { engine, credentials: Arc::new(credentials) };
        open.layer(axum::middleware::from_fn_with_state(gate, auth::check))
    };
    // Nodes show each other something else.
    match nodes {
        Some(nodes) => api.merge(nodes),
        None => api,
    }
}

/// The routes of the API, open to whoever can reach them.
pub fn router(engine: Arc<Engine>) -> Router {
    let rest = calls::calls().into_router().with_state(Arc::clone(&engine));
    let home = Router::new().route(crate::swf::PATH, axum::routing::get(home::show));
    rest.merge(crate::swf::router(engine)).merge(home).fallback(no_such_path).method_not_allowed_fallback(wrong_method)
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
    if engine.is_stopping() { Err(crate::engine::Refusal::Stopping.into()) } else { Ok("ok\n".into_response()) }
}

async fn metrics(State(engine): AppState) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    engine.count_runs().await;
    ([(CONTENT_TYPE, content_type)], engine.render_metrics()).into_response()
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
