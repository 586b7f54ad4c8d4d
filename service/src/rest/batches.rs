//! Batches: create, list, show, stop, resume, change the pace, delete.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::{Batch, BatchAction};
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{IdempotencyKey, NoQuery, OnNamed, Params, Path};
use super::pages::ListKind;
use super::workflows::listed;
use crate::access::{Caller, Need};
use crate::http::{Answer, AppState, Json, Refused, json};
use engine::{BatchRow, BatchView, DryRun, NewBatch};

/// Default and maximum number of batches on a page.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BatchListParams {
    /// Maximum number of batches on a page, 1 to 1,000; 100 by default.
    limit: Option<usize>,
    /// `nextPage` of the previous page.
    page: Option<String>,
}

fn shown(view: BatchView, sees_payloads: bool) -> body::DescribedBatch {
    let BatchView { id, batch, by, created_at, estimate, is_estimate_cut, state } = view;
    let Batch { mut operation, filter, reason, identity } = batch;
    operation.input = operation.input.filter(|_| sees_payloads);
    body::DescribedBatch {
        batch_id: id,
        status: state.phase,
        operation,
        filter,
        pace: state.pace,
        reason,
        identity,
        by,
        created_at,
        completed_at: state.completed_at,
        estimated_total: estimate,
        estimate_truncated: is_estimate_cut,
        examined: state.counts.examined,
        done: state.counts.done,
        refused: state.counts.refused.values().sum(),
        refused_by_code: state.counts.refused,
        refusals: state.refusals,
    }
}

/// Checks that the caller may perform the operation on a single run. All batches need an operator of the domain; those
/// whose operation is a call of applications also need an application.
fn must_be_permitted(caller: &Caller, domain: &str, action: BatchAction) -> Result<(), Refused> {
    let needs_application = match action {
        BatchAction::Signal | BatchAction::Cancel | BatchAction::Terminate => true,
        BatchAction::RetryActivities
        | BatchAction::Pause
        | BatchAction::Resume
        | BatchAction::Reset
        | BatchAction::Delete => false,
    };
    if needs_application && !caller.may_use(domain) {
        return Err(Refused::Forbidden { what: Need::Application(domain.to_owned()).words() });
    }
    Ok(())
}

pub(super) async fn create(
    State(engine): AppState,
    Path([domain]): Path<1>,
    _: NoQuery,
    key: IdempotencyKey,
    caller: Caller,
    Json(create): Json<body::CreateBatch>,
) -> Answer {
    let body::CreateBatch { operation, filter, pace, reason, identity, dry_run } = create;
    must_be_permitted(&caller, &domain, operation.r#type)?;
    let new = NewBatch { batch: Batch { operation, filter, reason, identity }, pace, by: caller.by() };
    let sees_payloads = caller.sees_payloads(&domain);
    if dry_run {
        let DryRun { count, is_cut, rows } = engine.batches().dry_run(&domain, new).await?;
        let workflows = rows.into_iter().map(|row| listed(row, sees_payloads)).collect();
        return Ok(json(StatusCode::OK, &body::BatchDryRun { count, truncated: is_cut, workflows }));
    }
    let view = engine.batches().create(&domain, new, key.of("create-batch")).await?;
    Ok(json(StatusCode::CREATED, &shown(view, sees_payloads)))
}

pub(super) async fn list(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(params): Params<BatchListParams>,
) -> Answer {
    let page = params.page.as_deref().map(|page| ListKind::Batches.place(&engine, &domain, page)).transpose()?;
    let limit = params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let (rows, next) = engine.batches().list(&domain, limit, page.as_ref()).await?;
    let batches = rows.into_iter().map(|row| {
        let BatchRow { id, operation, phase, created_at, completed_at } = row;
        body::ListedBatch { batch_id: id, operation, status: phase, created_at, completed_at }
    });
    let next_page = next.map(|place| ListKind::Batches.token(&engine, &domain, &place));
    Ok(json(StatusCode::OK, &body::Batches { batches: batches.collect(), next_page }))
}

pub(super) async fn show(State(engine): AppState, Path([domain, id]): Path<2>, _: NoQuery, caller: Caller) -> Answer {
    let view = engine.batches().describe(&domain, &id).await?;
    Ok(json(StatusCode::OK, &shown(view, caller.sees_payloads(&domain))))
}

pub(super) async fn stop(
    (State(engine), Path([domain, id]), _): OnNamed,
    caller: Caller,
    Json(body::StopBatch {}): Json<body::StopBatch>,
) -> Answer {
    let view = engine.batches().stop(&domain, &id).await?;
    Ok(json(StatusCode::OK, &shown(view, caller.sees_payloads(&domain))))
}

pub(super) async fn resume(
    (State(engine), Path([domain, id]), _): OnNamed,
    caller: Caller,
    Json(body::ResumeBatch {}): Json<body::ResumeBatch>,
) -> Answer {
    let view = engine.batches().resume(&domain, &id).await?;
    Ok(json(StatusCode::OK, &shown(view, caller.sees_payloads(&domain))))
}

pub(super) async fn set_pace(
    (State(engine), Path([domain, id]), _): OnNamed,
    caller: Caller,
    Json(body::ChangePace { pace }): Json<body::ChangePace>,
) -> Answer {
    let view = engine.batches().set_pace(&domain, &id, pace).await?;
    Ok(json(StatusCode::OK, &shown(view, caller.sees_payloads(&domain))))
}

pub(super) async fn delete((State(engine), Path([domain, id]), _): OnNamed) -> Answer {
    engine.batches().delete(&domain, &id).await?;
    Ok(json(StatusCode::OK, &serde_json::json!({})))
}
