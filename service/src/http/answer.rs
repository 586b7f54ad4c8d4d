//! The state that handlers receive, their result type, and JSON responses.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Refused;
use crate::front::Front;
use crate::openapi::{Operation, OperationInput};
use engine::Engine;

/// State that every handler receives.
pub(crate) type AppState = State<Arc<Engine>>;

/// Result of a handler.
pub(crate) type Answer = Result<Response, Refused>;

/// Returns a response with this value as its JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => bytes_of_json(status, bytes),
        Err(error) => {
            tracing::error!(%error, "a response body could not be written as JSON");
            Refused::Panicked.into_response()
        }
    }
}

/// Returns a response whose body is already serialized as JSON.
pub(crate) fn bytes_of_json(status: StatusCode, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl OperationInput for State<Front> {
    fn describe(_: &mut Operation<'_>) {}
}

impl OperationInput for State<Arc<Engine>> {
    fn describe(_: &mut Operation<'_>) {}
}
