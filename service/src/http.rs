//! The REST API: takes requests apart, asks the engine, renders answers. Holds no rules.

mod auth;
mod deliver;
mod domains;
mod extract;
mod history;
mod problem;
mod server;
mod stall;
mod tasks;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use crate::engine::Engine;

pub use auth::{Credential, Credentials};
pub use server::{Server, ServerLimits};

use problem::Refused;

type AppState = State<Arc<Engine>>;

/// The routes of the API, for holders of credentials; for everybody when there are none.
pub fn router_for(engine: Arc<Engine>, credentials: Credentials) -> Router {
    let open = router(Arc::clone(&engine));
    if credentials.is_empty() {
        return open;
    }
    let gate = auth::Gate { engine, credentials: Arc::new(credentials) };
    open.layer(axum::middleware::from_fn_with_state(gate, auth::check))
}

/// The routes of the API, open to whoever can reach them.
pub fn router(engine: Arc<Engine>) -> Router {
    let workflow = "/v1/domains/{domain}/workflows/{id}";
    let list = "/v1/domains/{domain}/task-lists/{list}";
    let turn = "/v1/decider-tasks/{token}";
    let activity = "/v1/activity-tasks/{token}";
    let routes = Router::new()
        .route("/v1/domains", get(domains::list).post(domains::create))
        .route("/v1/domains/{domain}", get(domains::show))
        .route("/v1/domains/{domain}/workflows", get(workflows::list).post(workflows::start))
        .route("/v1/domains/{domain}/workflows/count", get(workflows::count))
        .route(workflow, get(workflows::describe))
        .route(&format!("{workflow}/history"), get(history::read))
        .route(&format!("{workflow}/result"), get(workflows::result))
        .route(&format!("{workflow}/signals/{{name}}"), post(workflows::signal))
        .route(&format!("{workflow}/cancel"), post(workflows::cancel))
        .route(&format!("{workflow}/terminate"), post(workflows::terminate))
        .route(&format!("{list}/decider/poll"), post(tasks::poll_decider))
        .route(&format!("{list}/activity/poll"), post(tasks::poll_activity))
        .route(&format!("{turn}/history"), get(history::read_turn))
        .route(&format!("{turn}/complete"), post(tasks::complete_turn))
        .route(&format!("{turn}/fail"), post(tasks::fail_turn))
        .route(&format!("{activity}/success"), post(tasks::succeed_activity))
        .route(&format!("{activity}/failure"), post(tasks::fail_activity))
        .route(&format!("{activity}/canceled"), post(tasks::cancel_activity))
        .route(&format!("{activity}/heartbeat"), post(tasks::heartbeat))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi));
    routes.fallback(no_such_path).method_not_allowed_fallback(wrong_method).with_state(engine)
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
    ([(CONTENT_TYPE, content_type)], engine.render_metrics()).into_response()
}

async fn openapi() -> Response {
    json(StatusCode::OK, &crate::openapi::document())
}

async fn no_such_path() -> Refused {
    Refused::NoSuchPath
}

/// axum adds the Allow header: it knows the path's methods.
async fn wrong_method() -> Refused {
    Refused::Method
}
