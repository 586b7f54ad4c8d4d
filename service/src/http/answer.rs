//! What handlers are given, and what they answer.

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

/// What every handler is given.
pub(crate) type AppState = State<Arc<Engine>>;

/// What a handler answers.
pub(crate) type Answer = Result<Response, Refused>;

/// An answer with this body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => bytes_of_json(status, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer has no JSON form");
            Refused::Panicked.into_response()
        }
    }
}

/// An answer with a body that is JSON already.
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
