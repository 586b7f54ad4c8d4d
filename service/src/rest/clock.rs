//! Calls about the service's clock, and about deadlines that were set while the clock was ahead of the real time.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use engine::LateRun;
use history::UpcomingChange;
use history::event::OperatorAction;
use schemars::JsonSchema;
use serde::Deserialize;
use store::ListQuery;

use super::describe::deadline;
use super::extract::{NoQuery, Params, Path};
use super::pages::ListKind;
use super::workflows::{LIST_DEFAULT, LIST_MAX, OnRun, run_ref};
use crate::http::{Answer, AppState, Json, json};

pub(super) async fn confirm(State(engine): AppState, _: NoQuery) -> Answer {
    Ok(json(StatusCode::OK, &body::ConfirmedClock { now: engine.guard().confirm().await? }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LateQuery {
    /// Only runs of this workflow id.
    workflow_id: Option<String>,
    /// Maximum number of open runs to examine for a page, 1 to 1,000; 100 by default.
    limit: Option<usize>,
    /// `nextPage` of the previous page.
    page: Option<String>,
}

pub(super) async fn late_runs(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(it): Params<LateQuery>,
) -> Answer {
    let page = it.page.as_deref().map(|page| ListKind::LateRuns.place(&engine, &domain, page)).transpose()?;
    let limit = it.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let query =
        ListQuery { domain: domain.as_str().into(), workflow_id: it.workflow_id, limit, ..ListQuery::default() };
    let found = engine.repair().late_runs(query, page.as_ref()).await?;
    let runs = found.runs.iter().map(|late| body::LateRun {
        workflow_id: late.run.started.workflow_id.clone(),
        run_id: late.run.started.run_id,
        workflow_type: late.run.started.workflow_type.clone(),
        paused: late.run.paused.is_some(),
        deadlines: late_deadlines(late),
    });
    let (now, clock_problem, examined) = (engine.clock().now(), engine.repair().doubt().await?, found.looked_at);
    let next_page = found.next.map(|place| ListKind::LateRuns.token(&engine, &domain, &place));
    Ok(json(StatusCode::OK, &body::LateRuns { now, clock_problem, runs: runs.collect(), examined, next_page }))
}

fn late_deadlines(late: &LateRun) -> Vec<body::LateDeadline> {
    let deadlines = late.deadlines.iter().map(|it| {
        let body::Deadline { at, kind, scheduled_event_id, name } =
            deadline(&late.run, UpcomingChange { at: it.at, what: it.what });
        body::LateDeadline { kind, scheduled_event_id, name, at, repaired_at: it.repaired_at }
    });
    deadlines.collect()
}

pub(super) async fn repair_deadlines(on: OnRun, Json(operator): Json<body::OperatorAction>) -> Answer {
    let (State(engine), Path([domain, id]), Params(query), _, caller) = on;
    let body::OperatorAction { identity, reason } = operator;
    let at = run_ref(&domain, &id, query.run_id);
    let done = engine.repair().repair(&at, OperatorAction { identity, reason }, caller.author()).await?;
    let (run_id, deadlines) = (done.late.run.started.run_id, late_deadlines(&done.late));
    let (workflow_id, event_id) = (id, done.event_id);
    Ok(json(StatusCode::OK, &body::RepairedDeadlines { workflow_id, run_id, event_id, deadlines }))
}
