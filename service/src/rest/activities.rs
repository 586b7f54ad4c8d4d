//! Manual operations on activities: complete, fail, retry, pause, resume, change options.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::event::OperatorAction;
use history::{ActivityCommand, Command, OptionsChange};

use super::extract::{IdempotencyKey, Params, Path};
use super::workflows::{RunQuery, run_ref, tell};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json};

/// Inputs of a manual operation on an activity, except the body.
type OnActivity = (AppState, Path<3>, Params<RunQuery>, IdempotencyKey, Caller);

/// Applies a manual operation to an activity.
async fn act(on: OnActivity, act: ActivityCommand, operator: OperatorAction) -> Answer {
    let (State(engine), Path([domain, id, activity_id]), Params(query), key, caller) = on;
    let verb = match &act {
        ActivityCommand::Succeed { .. } => "success",
        ActivityCommand::Fail { .. } => "failure",
        ActivityCommand::Retry => "retry",
        ActivityCommand::Pause => "pause",
        ActivityCommand::Resume => "resume",
        ActivityCommand::Change(_) => "options",
    };
    let key = key.of(&format!("activity/{verb}/{activity_id}"));
    let command = Command::ActOnActivity { activity_id, act, operator, key };
    tell(&engine, caller.author(), run_ref(&domain, &id, query.run_id), command, StatusCode::OK).await
}

pub(super) async fn succeed(on: OnActivity, Json(body): Json<body::CompleteActivityManually>) -> Answer {
    let body::CompleteActivityManually { result, identity, reason } = body;
    act(on, ActivityCommand::Succeed { result }, OperatorAction { identity, reason }).await
}

pub(super) async fn fail(on: OnActivity, Json(body): Json<body::FailActivityManually>) -> Answer {
    let body::FailActivityManually { failure_reason, details, identity, reason } = body;
    act(on, ActivityCommand::Fail { reason: failure_reason, details }, OperatorAction { identity, reason }).await
}

pub(super) async fn retry(on: OnActivity, Json(body): Json<body::OperatorAction>) -> Answer {
    let body::OperatorAction { identity, reason } = body;
    act(on, ActivityCommand::Retry, OperatorAction { identity, reason }).await
}

pub(super) async fn pause(on: OnActivity, Json(body): Json<body::OperatorAction>) -> Answer {
    let body::OperatorAction { identity, reason } = body;
    act(on, ActivityCommand::Pause, OperatorAction { identity, reason }).await
}

pub(super) async fn resume(on: OnActivity, Json(body): Json<body::OperatorAction>) -> Answer {
    let body::OperatorAction { identity, reason } = body;
    act(on, ActivityCommand::Resume, OperatorAction { identity, reason }).await
}

pub(super) async fn change(on: OnActivity, Json(body): Json<body::ChangeActivity>) -> Answer {
    let body::ChangeActivity { task_list, timeouts, retry, identity, reason } = body;
    let body::ChangeTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } = timeouts;
    let change = OptionsChange { task_list, schedule_to_start, start_to_close, schedule_to_close, heartbeat, retry };
    act(on, ActivityCommand::Change(Box::new(change)), OperatorAction { identity, reason }).await
}
