//! The service's own secret.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;

use super::extract::NoQuery;
use crate::engine::Rotated;
use crate::http::{Answer, AppState, Json, json};

pub(super) async fn rotate(
    State(engine): AppState,
    _: NoQuery,
    Json(body::RotateSecret { overlap }): Json<body::RotateSecret>,
) -> Answer {
    let Rotated { from, previous_until } = engine.rotate_secret(overlap).await?;
    Ok(json(StatusCode::OK, &body::RotatedSecret { from, previous_until }))
}
