//! Import of runs that another service has recorded.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::limits::IMPORTED_EVENTS_MAX;
use history::{Fault, ImportedRun};

use super::extract::{NoQuery, Path};
use crate::http::{Answer, AppState, IMPORT_BYTES_MAX, Json, Refused, json};
use engine::Refusal;

pub(super) async fn import(
    State(engine): AppState,
    Path([domain]): Path<1>,
    _: NoQuery,
    Json(body::ImportRun { events }): Json<body::ImportRun, IMPORT_BYTES_MAX>,
) -> Answer {
    // The domain is checked first, so that an unknown domain is reported rather than an error in the history.
    engine.registry().domain(&domain).await?;
    if events.len() > IMPORTED_EVENTS_MAX {
        let problem = format!("has {} entries, at most {IMPORTED_EVENTS_MAX} are allowed", events.len());
        return Err(Fault::Invalid { field: "events".to_owned(), problem }.into());
    }
    let now = engine.clock().now();
    // Runs on a blocking thread, because parsing a large history takes some tenths of a second.
    let read = move || ImportedRun::from_json(events.iter().map(|event| event.get()), now);
    let imported = tokio::task::spawn_blocking(read).await.map_err(|_| Refused::Panicked)?;
    let imported = imported.map_err(Refusal::from)?;
    let workflow_id = imported.workflow_id().to_owned();
    let done = engine.commands().import(&domain, imported).await?;
    let status = if done.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &body::ImportedRun { workflow_id, run_id: done.run_id, repeated: done.repeated }))
}
