//! Manual operations on a run: delete, pause, resume, reset.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::event::OperatorAction;
use history::{Branching, Command};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::extract::{Params, Path};
use super::workflows::{OnRun, apply_to_run, run_ref};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, json};
use engine::{Deletion, Reset};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DeleteQuery {
    /// Run id; all runs of the workflow id by default.
    run_id: Option<Uuid>,
    /// True to terminate a run that is open before it is deleted. By default, the deletion of an open run fails.
    #[serde(default)]
    terminate: bool,
    /// Reason of the termination, if a run is terminated.
    reason: Option<String>,
    /// Name of the caller, recorded with the termination.
    identity: Option<String>,
}

pub(super) async fn delete(
    State(engine): AppState,
    Path([domain, id]): Path<2>,
    Params(query): Params<DeleteQuery>,
    caller: Caller,
) -> Answer {
    let DeleteQuery { run_id, terminate, reason, identity } = query;
    let deletion = Deletion { terminates: terminate, reason, identity, by: caller.by() };
    let runs = engine.commands().delete(&run_ref(&domain, &id, run_id), &deletion).await?;
    Ok(json(StatusCode::OK, &body::Deleted { runs }))
}

pub(super) async fn pause(on: OnRun, Json(pause): Json<body::PauseWorkflow>) -> Answer {
    let body::PauseWorkflow { stop_clocks, identity, reason } = pause;
    let command = |key| Command::Pause { stop_clocks, operator: OperatorAction { identity, reason }, key };
    apply_to_run(on, "pause", command, StatusCode::OK).await
}

pub(super) async fn resume(
    on: OnRun,
    Json(body::OperatorAction { identity, reason }): Json<body::OperatorAction>,
) -> Answer {
    let command = |key| Command::Resume { operator: OperatorAction { identity, reason }, key };
    apply_to_run(on, "resume", command, StatusCode::OK).await
}

pub(super) async fn reset(on: OnRun, Json(reset): Json<body::ResetWorkflow>) -> Answer {
    let (State(engine), Path([domain, id]), Params(query), key, caller) = on;
    let body::ResetWorkflow { event_id, signals, identity, reason } = reset;
    let branching = Branching { event_id, signals };
    let reset =
        Reset { branching, operator: OperatorAction { identity, reason }, key: key.of("reset"), by: caller.by() };
    let done = engine.commands().reset(&run_ref(&domain, &id, query.run_id), reset).await?;
    let status = if done.repeated { StatusCode::OK } else { StatusCode::CREATED };
    let (run_id, base_run_id, base_event_id) = (done.run_id, done.base_run_id, done.base_event_id);
    Ok(json(status, &body::WasReset { workflow_id: id, run_id, base_run_id, base_event_id }))
}
