//! Runs: start, list, count, result, signal, cancel, terminate.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::{Author, Command, EventKind, RequestKey, Run, RunCondition, Start, Status, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ListQuery, Order};
use uuid::Uuid;

use super::extract::{
    EntityTag, IdempotencyKey, IfMatch, IfNoneMatch, NoQuery, Params, Path, PreferWait, TraceHeaders, not_modified,
    with_etag, with_wait_applied,
};
use super::pages::ListKind;
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, Refused, json};
use engine::{Engine, RunRef, status_query};

/// Default and maximum number of runs on a page.
pub(super) const LIST_DEFAULT: usize = 100;
pub(super) const LIST_MAX: usize = 1_000;

/// Maximum number of runs that one count examines, including runs that do not match. Our choice: examining 100,000 runs
/// takes about a seventh of a second on one machine, or some 1,250 read units on DynamoDB.
const COUNT_EXAMINED_MAX: u64 = 100_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunQuery {
    /// Run id; the newest run by default.
    pub(super) run_id: Option<Uuid>,
}

pub(super) fn run_ref(domain: &str, workflow_id: &str, run_id: Option<Uuid>) -> RunRef {
    RunRef { domain: domain.into(), workflow_id: workflow_id.into(), run_id }
}

/// Returns the run that an entity tag names. Fails if this run is not the newest of its workflow id. Without a tag,
/// returns `at` unchanged.
pub(super) async fn matching(engine: &Engine, at: RunRef, tag: Option<EntityTag>) -> Result<RunRef, Refused> {
    let Some(tag) = tag else { return Ok(at) };
    let newest = RunRef { run_id: None, ..at };
    if engine.views().describe(&newest).await?.run.started.run_id != tag.run_id {
        return Err(Refused::Precondition { expected: tag.to_string() });
    }
    Ok(RunRef { run_id: Some(tag.run_id), ..newest })
}

#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn start(
    State(engine): AppState,
    Path([domain]): Path<1>,
    _: NoQuery,
    key: IdempotencyKey,
    PreferWait(wait): PreferWait,
    TraceHeaders(trace): TraceHeaders,
    caller: Caller,
    Json(start): Json<body::StartWorkflow>,
) -> Answer {
    let key = key.of("start");
    let workflow_id = start.workflow_id.clone();
    let start = Start { by: caller.by(), trace, ..engine.commands().start_of(&domain, start, key).await? };
    start_and_wait(&engine, &domain, workflow_id, start, wait).await
}

/// Starts a run that consists of a single activity. The gate has checked the permissions for the list in the path.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn start_activity(
    State(engine): AppState,
    Path([domain, list]): Path<2>,
    _: NoQuery,
    key: IdempotencyKey,
    PreferWait(wait): PreferWait,
    TraceHeaders(trace): TraceHeaders,
    caller: Caller,
    Json(start): Json<body::StartActivity>,
) -> Answer {
    if !caller.may_schedule(&domain, &list, &start.activity_type) {
        let what = format!("schedule activities of type `{}` on list `{list}`", start.activity_type);
        return Err(Refused::Forbidden { what });
    }
    let key = key.of(&format!("activities/{list}"));
    let start = engine.commands().start_of_activity((&domain, &list), start, key).await?;
    let workflow_id = start.workflow_id.clone();
    let start = Start { by: caller.by(), trace, ..start };
    start_and_wait(&engine, &domain, workflow_id, start, wait).await
}

/// Starts a run and, if the caller asked for it, waits for its close.
async fn start_and_wait(
    engine: &Engine,
    domain: &str,
    workflow_id: String,
    start: Start,
    wait: Option<Duration>,
) -> Answer {
    let started = engine.commands().start(domain, start).await?;
    let status = if started.repeated || started.existing { StatusCode::OK } else { StatusCode::CREATED };
    let mut body = body::Started { workflow_id, run_id: started.run_id, existing: started.existing, closed: None };
    if let Some(patience) = wait.filter(|wait| !wait.is_zero()) {
        let at = run_ref(domain, &body.workflow_id, Some(body.run_id));
        match Box::pin(engine.views().closing_event(&at, patience)).await {
            Ok((run_id, closed)) => body.closed = closed.map(|(run, event)| run_result(run_id, &run, event.kind)),
            // The start is recorded, so the response reports it although the wait has failed.
            Err(refusal) => tracing::debug!(%refusal, "waiting for the close of a started run failed"),
        }
    }
    Ok(with_wait_applied(json(status, &body), wait))
}

fn run_result(run_id: Uuid, run: &Run, closing: EventKind) -> body::RunResult {
    let (status, closed_at) = (run.status, run.closed_at);
    let continued_as = closing.followed_by().map(|successor| successor.run_id);
    let mut result =
        body::RunResult { status, run_id, closed_at, result: None, reason: None, details: None, continued_as };
    match closing {
        EventKind::WorkflowSuccess(it) => result.result = it.result,
        EventKind::WorkflowFailed(it) => (result.reason, result.details) = (Some(it.reason), it.details),
        EventKind::WorkflowCanceled(it) => result.details = it.details,
        EventKind::WorkflowTerminated(it) => (result.reason, result.details) = (it.reason, it.details),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => {}
    }
    result
}

/// Order of listed runs: the member by which they are ordered, preceded by a minus if the newest runs come first.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum ListOrder {
    #[serde(rename = "-startedAt")]
    NewestStart,
    #[serde(rename = "startedAt")]
    OldestStart,
    #[serde(rename = "-closedAt")]
    NewestClose,
    #[serde(rename = "closedAt")]
    OldestClose,
}

impl From<ListOrder> for Order {
    fn from(order: ListOrder) -> Self {
        match order {
            ListOrder::NewestStart => Self::NewestStart,
            ListOrder::OldestStart => Self::OldestStart,
            ListOrder::NewestClose => Self::NewestClose,
            ListOrder::OldestClose => Self::OldestClose,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunFilter {
    /// Only runs with this status: `open`, `closed`, an outcome (`success`, `failed`, `canceled`, `timed-out`,
    /// `terminated` or `continued-as-new`), or a state of open runs (`paused`, `blocked`, `stuck`, `failing`,
    /// `retrying` or `repeating`). If several states apply to a run, only the first one in this order counts.
    status: Option<String>,
    /// Only runs of this workflow type.
    r#type: Option<String>,
    /// Only runs of this workflow id.
    workflow_id: Option<String>,
    /// Only runs whose workflow id has this prefix.
    workflow_id_prefix: Option<String>,
    /// Only runs with this tag.
    tag: Option<String>,
    /// Only runs that closed with this `reason` (exact match).
    reason: Option<String>,
    /// Only runs that started at or after this time.
    started_from: Option<Timestamp>,
    /// Only runs that started before this time.
    started_before: Option<Timestamp>,
    /// Only runs that closed at or after this time.
    closed_from: Option<Timestamp>,
    /// Only runs that closed before this time.
    closed_before: Option<Timestamp>,
    /// Order of the runs; `-startedAt` by default. A list that is ordered by close contains only closed runs.
    order: Option<ListOrder>,
    /// Maximum number of runs on a page, 1 to 1,000; 100 by default.
    limit: Option<usize>,
    /// `nextPage` of the previous page.
    page: Option<String>,
}

fn list_query(domain: &str, params: &RunFilter) -> Result<ListQuery, Refused> {
    let of_status = match params.status.as_deref() {
        None => ListQuery::default(),
        Some(word) => status_query(word).ok_or_else(|| {
            let flagged = RunCondition::FLAGGED.map(RunCondition::word).join("`, `");
            let known = Status::ALL.map(Status::word).join("`, `");
            Refused::BadQuery(format!("`status` is `{word}`, expected one of `closed`, `{flagged}`, `{known}`"))
        })?,
    };
    Ok(ListQuery {
        domain: domain.into(),
        workflow_type: params.r#type.clone(),
        workflow_id: params.workflow_id.clone(),
        workflow_id_prefix: params.workflow_id_prefix.clone(),
        tag: params.tag.clone(),
        reason: params.reason.clone(),
        started_from: params.started_from.map(Timestamp::as_millis),
        started_before: params.started_before.map(Timestamp::as_millis),
        closed_from: params.closed_from.map(Timestamp::as_millis),
        closed_before: params.closed_before.map(Timestamp::as_millis),
        order: params.order.map(Order::from).unwrap_or_default(),
        limit: params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX),
        ..of_status
    })
}

pub(super) async fn list(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(it): Params<RunFilter>,
    caller: Caller,
) -> Answer {
    let query = list_query(&domain, &it)?;
    let page = it.page.as_deref().map(|page| ListKind::Runs.place(&engine, &domain, page)).transpose()?;
    let found = engine.views().list(&query, page.as_ref()).await?;
    let examined = found.looked_at;
    let sees_payloads = caller.sees_payloads(&domain);
    let workflows = found.rows.into_iter().map(|row| listed(row, sees_payloads)).collect();
    let next_page = found.next.map(|place| ListKind::Runs.token(&engine, &domain, &place));
    Ok(json(StatusCode::OK, &body::Workflows { workflows, next_page, examined }))
}

pub(super) fn listed(listed: store::Listed, sees_payloads: bool) -> body::Listed {
    let row = listed.row;
    let (reason, details) = row.why.map(|why| (why.reason, why.details)).unwrap_or_default();
    let has_condition = |condition: RunCondition| *row.status == *condition.word();
    body::Listed {
        workflow_id: listed.workflow_id.to_string(),
        run_id: Uuid::from_bytes(listed.run),
        workflow_type: row.workflow_type.to_string(),
        // `Status` has no value for flagged runs, such as stuck ones. They are open, which is the default.
        status: Status::from_word(&row.status).unwrap_or_default(),
        stuck: has_condition(RunCondition::Stuck),
        blocked: has_condition(RunCondition::Blocked),
        paused: has_condition(RunCondition::Paused),
        failing: has_condition(RunCondition::Failing),
        retrying: has_condition(RunCondition::Retrying),
        repeating: has_condition(RunCondition::Repeating),
        started_at: Timestamp::from_millis(row.started_at),
        closed_at: row.closed_at.map(Timestamp::from_millis),
        tags: row.tags,
        reason,
        details_line: details.filter(|_| sees_payloads),
    }
}

pub(super) async fn count(State(engine): AppState, Path([domain]): Path<1>, Params(it): Params<RunFilter>) -> Answer {
    let count = engine.views().count(&list_query(&domain, &it)?, COUNT_EXAMINED_MAX).await?;
    let (total, truncated) = (count.total(), count.is_cut);
    let by_status = count.by_status.into_iter().map(|(word, runs)| (word.to_string(), runs)).collect();
    Ok(json(StatusCode::OK, &body::Count { count: total, truncated, by_status }))
}

/// Inputs of a call that can wait until a run changes.
pub(super) type Awaited = (AppState, Path<2>, Params<RunQuery>, PreferWait, IfNoneMatch, Caller);

pub(super) async fn result(on: Awaited) -> Answer {
    let (State(engine), Path([domain, id]), Params(query), PreferWait(wait), IfNoneMatch(known), caller) = on;
    let at = run_ref(&domain, &id, query.run_id);
    let is_known = |tag: EntityTag| known.is_some_and(|known| known.names(tag));
    let (run_id, closed) = engine.views().closing_event(&at, wait.unwrap_or_default()).await?;
    let Some((run, event)) = closed else {
        let status = Status::Open;
        let open = body::RunResult {
            status,
            run_id,
            closed_at: None,
            result: None,
            reason: None,
            details: None,
            continued_as: None,
        };
        let run = engine.views().describe(&run_ref(&domain, &id, Some(run_id))).await?.run;
        let tag = EntityTag::of(&run);
        if is_known(tag) {
            return Ok(with_wait_applied(not_modified(tag), wait));
        }
        return Ok(with_etag(with_wait_applied(json(StatusCode::ACCEPTED, &open), wait), tag));
    };
    if is_known(EntityTag::of(&run)) {
        return Ok(with_wait_applied(not_modified(EntityTag::of(&run)), wait));
    }
    let mut closing = event.kind;
    if !caller.sees_payloads(&domain) {
        closing.redact_payloads();
    }
    let response = json(StatusCode::OK, &run_result(run_id, &run, closing));
    Ok(with_etag(with_wait_applied(response, wait), EntityTag::of(&run)))
}

pub(super) async fn tell(
    engine: &Arc<Engine>,
    author: Author,
    at: RunRef,
    command: Command,
    status: StatusCode,
) -> Answer {
    let recorded = engine.commands().submit_as(&at, command, author).await?;
    Ok(json(status, &body::Recorded { event_id: recorded.event_id, run_id: recorded.run_id }))
}

#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn signal(
    State(engine): AppState,
    Path([domain, id, name]): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    IfMatch(matches): IfMatch,
    TraceHeaders(trace): TraceHeaders,
    caller: Caller,
    Json(signal): Json<body::SignalWorkflow>,
) -> Answer {
    let key = key.of(&format!("signal/{name}"));
    let at = matching(&engine, run_ref(&domain, &id, query.run_id), matches).await?;
    let (input, identity, if_version) = (signal.input, signal.identity, matches.map(|tag| tag.version));
    let command = Command::Signal { name, input, identity, key, if_version };
    let author = caller.author().traced(trace.map(|trace| trace.traceparent));
    let recorded = engine.commands().submit_as(&at, command, author).await?;
    Ok(json(StatusCode::ACCEPTED, &body::Recorded { event_id: recorded.event_id, run_id: recorded.run_id }))
}

/// Inputs of a call that sends something to a run, except the body.
pub(super) type OnRun = (AppState, Path<2>, Params<RunQuery>, IdempotencyKey, Caller);

/// Applies a command to the run.
pub(super) async fn apply_to_run(
    on: OnRun,
    verb: &str,
    command: impl FnOnce(Option<RequestKey>) -> Command,
    status: StatusCode,
) -> Answer {
    let (State(engine), Path([domain, id]), Params(query), key, caller) = on;
    tell(&engine, caller.author(), run_ref(&domain, &id, query.run_id), command(key.of(verb)), status).await
}

pub(super) async fn cancel(on: OnRun, Json(cancel): Json<body::CancelWorkflow>) -> Answer {
    let body::CancelWorkflow { reason, identity } = cancel;
    apply_to_run(on, "cancel", |key| Command::RequestCancel { reason, identity, key }, StatusCode::ACCEPTED).await
}

pub(super) async fn terminate(on: OnRun, Json(terminate): Json<body::TerminateWorkflow>) -> Answer {
    let body::TerminateWorkflow { reason, details, identity } = terminate;
    let command = |key| Command::Terminate { reason, details, identity, key, child_policy: None };
    apply_to_run(on, "terminate", command, StatusCode::OK).await
}
