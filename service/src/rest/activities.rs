//! What somebody who operates a run does to one of its activities by hand.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::event::ByHand;
use history::{ActivityCommand, Command, OptionsChange};

use super::extract::{IdempotencyKey, Params, Path};
use super::workflows::{RunQuery, run_ref, tell};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json};
use engine::Engine;

/// Has it done, on the run that the path and the query name.
async fn act(
    (engine, caller): (&Arc<Engine>, &Caller),
    [domain, id, activity_id]: [String; 3],
    query: &RunQuery,
    key: &IdempotencyKey,
    act: ActivityCommand,
    by_hand: ByHand,
) -> Answer {
    let verb = match &act {
        ActivityCommand::Succeed { .. } => "success",
        ActivityCommand::Fail { .. } => "failure",
        ActivityCommand::Retry => "retry",
        ActivityCommand::Pause => "pause",
        ActivityCommand::Resume => "resume",
        ActivityCommand::Change(_) => "options",
    };
    let key = key.of(&format!("activity/{verb}/{activity_id}"));
    let command = Command::ActOnActivity { activity_id, act, by_hand, key };
    tell(engine, caller, run_ref(&domain, &id, query.run_id), command, StatusCode::OK).await
}

pub(super) async fn succeed(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body): Json<body::CompleteByHand>,
) -> Answer {
    let body::CompleteByHand { result, identity, reason } = body;
    act((&engine, &caller), path, &query, &key, ActivityCommand::Succeed { result }, ByHand { identity, reason }).await
}

pub(super) async fn fail(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body): Json<body::FailByHand>,
) -> Answer {
    let body::FailByHand { failure_reason, details, identity, reason } = body;
    let fail = ActivityCommand::Fail { reason: failure_reason, details };
    act((&engine, &caller), path, &query, &key, fail, ByHand { identity, reason }).await
}

pub(super) async fn retry(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body::ByHand { identity, reason }): Json<body::ByHand>,
) -> Answer {
    act((&engine, &caller), path, &query, &key, ActivityCommand::Retry, ByHand { identity, reason }).await
}

pub(super) async fn pause(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body::ByHand { identity, reason }): Json<body::ByHand>,
) -> Answer {
    act((&engine, &caller), path, &query, &key, ActivityCommand::Pause, ByHand { identity, reason }).await
}

pub(super) async fn resume(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body::ByHand { identity, reason }): Json<body::ByHand>,
) -> Answer {
    act((&engine, &caller), path, &query, &key, ActivityCommand::Resume, ByHand { identity, reason }).await
}

pub(super) async fn change(
    State(engine): AppState,
    Path(path): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    caller: Caller,
    Json(body): Json<body::ChangeActivity>,
) -> Answer {
    let body::ChangeActivity { task_list, timeouts, retry, identity, reason } = body;
    let body::ChangeTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } = timeouts;
    let change = OptionsChange { task_list, schedule_to_start, start_to_close, schedule_to_close, heartbeat, retry };
    act((&engine, &caller), path, &query, &key, ActivityCommand::Change(Box::new(change)), ByHand { identity, reason })
        .await
}
