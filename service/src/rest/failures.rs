//! Failures of a domain, grouped by workflow type and reason.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;

use super::extract::{NoQuery, Path};
use crate::http::{Answer, AppState, json};
use engine::{FailureGroup, Failures};

pub(super) async fn list(State(engine): AppState, Path([domain]): Path<1>, _: NoQuery) -> Answer {
    let Failures { groups, is_cut } = engine.views().failures(&domain).await?;
    let failures = groups.into_iter().map(|group| {
        let FailureGroup { condition, workflow_type, reason, runs, first_at, last_at } = group;
        body::GroupedFailures { status: condition.word().to_owned(), workflow_type, reason, runs, first_at, last_at }
    });
    Ok(json(StatusCode::OK, &body::Failures { failures: failures.collect(), truncated: is_cut }))
}
