//! The process itself: whether it is well, what it counts, and what it answers.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use engine::Refusal;

use crate::front::Front;
use crate::http::{Answer, AppState, bytes_of_json};

pub(super) async fn healthy() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(engine): AppState, State(front): State<Front>) -> Answer {
    if engine.is_stopping() {
        return Err(Refusal::Stopping.into());
    }
    // It takes work, whatever else is said.
    let mut said = vec!["ok".to_owned()];
    if let Some(doubt) = engine.guard().doubt() {
        let (found, newest) = (doubt.found, doubt.newest);
        let clock = format!("the clock said {found}, and the newest time that was seen is {newest}");
        said.push(format!("{clock}: nothing is deleted by retention until `baton clock confirm`"));
    }
    for what in front.reloads().refused() {
        said.push(format!("{what}: what the file has now is refused, and what it had before is in force: see the log"));
    }
    Ok((said.join("; ") + "\n").into_response())
}

pub(super) async fn metrics(State(front): State<Front>) -> Answer {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    front.engine().count_runs().await;
    // Not on a worker, which others wait for.
    let rendered = tokio::task::spawn_blocking(move || front.render_metrics()).await;
    let rendered = rendered.map_err(|_| Refusal::Stopping)?;
    Ok(([(CONTENT_TYPE, content_type)], rendered).into_response())
}

pub(super) async fn openapi() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| super::document().to_string().into());
    bytes_of_json(StatusCode::OK, DOCUMENT.clone())
}
