//! The service's clock.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;

use super::extract::NoQuery;
use crate::http::{Answer, AppState, json};

pub(super) async fn confirm(State(engine): AppState, _: NoQuery) -> Answer {
    Ok(json(StatusCode::OK, &body::ConfirmedClock { now: engine.guard().confirm().await? }))
}
