//! Rotation of the secret with which the service signs task tokens.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;

use super::extract::NoQuery;
use crate::http::{Answer, AppState, Json, json};
use engine::Rotated;

pub(super) async fn rotate(
    State(engine): AppState,
    _: NoQuery,
    Json(body::RotateSecret { overlap }): Json<body::RotateSecret>,
) -> Answer {
    let Rotated { from, previous_until } = engine.secrets().rotate(overlap).await?;
    Ok(json(StatusCode::OK, &body::RotatedSecret { from, previous_until }))
}
