//! Schedules: create, list, show, change, delete, pause, resume, trigger, backfill, next times.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::{ActionCause, ActionOutcome, Recent, Upcoming};
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{IdempotencyKey, NoQuery, OnNamed, Params, Path};
use super::pages::ListKind;
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, json};
use engine::{ScheduleRow, ScheduleView};

/// Default and maximum number of schedules on a page, and of next times in a response.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1_000;
const NEXT_DEFAULT: usize = 10;
const NEXT_MAX: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScheduleListParams {
    /// Maximum number of schedules on a page, 1 to 1,000; 100 by default.
    limit: Option<usize>,
    /// `nextPage` of the previous page.
    page: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NextParams {
    /// Maximum number of scheduled times to return, 1 to 1,000; 10 by default.
    limit: Option<usize>,
}

fn shown(view: ScheduleView) -> body::DescribedSchedule {
    let ScheduleView { id, mut schedule, created_at, state, next_times } = view;
    schedule.remaining_actions = state.remaining;
    let counts = state.counts;
    let (paused_at, pause_reason) = state.paused.unzip();
    body::DescribedSchedule {
        schedule_id: id,
        schedule,
        created_at,
        paused_at,
        pause_reason,
        next_times,
        running: state.running.len() as u64,
        waiting: (state.waiting.len() + state.requested.len()) as u64,
        totals: body::ScheduleTotals {
            started: counts.started,
            refused: counts.refused,
            skipped: counts.skipped,
            missed: counts.missed,
        },
        recent_actions: state.recent.into_iter().rev().map(action).collect(),
    }
}

fn action(recent: Recent) -> body::ScheduleAction {
    let (workflow_id, run_id) = recent.run.unzip();
    let (outcome, refusal) = match recent.outcome {
        ActionOutcome::Starting => ("starting", recent.put_off),
        ActionOutcome::Running => ("open", None),
        ActionOutcome::Closed(status) => (status.word(), None),
        ActionOutcome::Refused(code) => ("refused", Some(code)),
        ActionOutcome::Unknown => ("unknown", None),
    };
    let cause = match recent.cause {
        ActionCause::Time => "time",
        ActionCause::Trigger => "trigger",
        ActionCause::Backfill => "backfill",
    };
    body::ScheduleAction {
        action: recent.number,
        nominal_time: recent.nominal,
        cause: cause.to_owned(),
        at: recent.at,
        workflow_id,
        run_id,
        outcome: outcome.to_owned(),
        refusal,
        closed_at: recent.closed_at,
    }
}

pub(super) async fn create(
    State(engine): AppState,
    Path([domain]): Path<1>,
    _: NoQuery,
    key: IdempotencyKey,
    Json(create): Json<body::CreateSchedule>,
) -> Answer {
    let body::CreateSchedule { schedule_id, schedule, paused } = create;
    let key = key.of("create-schedule");
    let view = engine.schedules().create(&domain, &schedule_id, schedule, paused, key).await?;
    Ok(json(StatusCode::CREATED, &shown(view)))
}

pub(super) async fn list(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(params): Params<ScheduleListParams>,
) -> Answer {
    let page = params.page.as_deref().map(|page| ListKind::Schedules.place(&engine, &domain, page)).transpose()?;
    let limit = params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let (rows, next) = engine.schedules().list(&domain, limit, page.as_ref()).await?;
    let schedules = rows.into_iter().map(|row| {
        let ScheduleRow { id, workflow_type, is_paused, created_at } = row;
        body::ListedSchedule { schedule_id: id, workflow_type, paused: is_paused, created_at }
    });
    let next_page = next.map(|place| ListKind::Schedules.token(&engine, &domain, &place));
    Ok(json(StatusCode::OK, &body::Schedules { schedules: schedules.collect(), next_page }))
}

pub(super) async fn show(State(engine): AppState, Path([domain, id]): Path<2>, _: NoQuery, caller: Caller) -> Answer {
    let mut shown = shown(engine.schedules().describe(&domain, &id).await?);
    if !caller.sees_payloads(&domain) {
        shown.schedule.redact_payloads();
    }
    Ok(json(StatusCode::OK, &shown))
}

pub(super) async fn change(
    (State(engine), Path([domain, id]), _): OnNamed,
    Json(schedule): Json<body::Schedule>,
) -> Answer {
    Ok(json(StatusCode::OK, &shown(engine.schedules().change(&domain, &id, schedule).await?)))
}

pub(super) async fn forget((State(engine), Path([domain, id]), _): OnNamed) -> Answer {
    engine.schedules().delete(&domain, &id).await?;
    Ok(json(StatusCode::OK, &serde_json::json!({})))
}

pub(super) async fn pause(
    (State(engine), Path([domain, id]), _): OnNamed,
    Json(pause): Json<body::PauseSchedule>,
) -> Answer {
    Ok(json(StatusCode::OK, &shown(engine.schedules().pause(&domain, &id, pause.reason).await?)))
}

pub(super) async fn resume(
    (State(engine), Path([domain, id]), _): OnNamed,
    Json(body::ResumeSchedule {}): Json<body::ResumeSchedule>,
) -> Answer {
    Ok(json(StatusCode::OK, &shown(engine.schedules().resume(&domain, &id).await?)))
}

pub(super) async fn trigger(on: OnNamed, key: IdempotencyKey, Json(trigger): Json<body::TriggerSchedule>) -> Answer {
    let (State(engine), Path([domain, id]), _) = on;
    let view = engine.schedules().trigger(&domain, &id, trigger.overlap, key.of("trigger")).await?;
    Ok(json(StatusCode::OK, &shown(view)))
}

pub(super) async fn backfill(on: OnNamed, key: IdempotencyKey, Json(backfill): Json<body::BackfillSchedule>) -> Answer {
    let (State(engine), Path([domain, id]), _) = on;
    let body::BackfillSchedule { from, to, overlap } = backfill;
    let view = engine.schedules().backfill(&domain, &id, (from, to), overlap, key.of("backfill")).await?;
    Ok(json(StatusCode::OK, &shown(view)))
}

pub(super) async fn next(
    State(engine): AppState,
    Path([domain, id]): Path<2>,
    Params(params): Params<NextParams>,
) -> Answer {
    let limit = params.limit.unwrap_or(NEXT_DEFAULT).clamp(1, NEXT_MAX);
    let Upcoming { times, cut_at } = engine.schedules().next_times(&domain, &id, limit).await?;
    Ok(json(StatusCode::OK, &body::NextTimes { times, searched_until: cut_at }))
}
