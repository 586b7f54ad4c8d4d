//! Polls for tasks, and answers to tasks.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use client::body;
use history::admit::HeldState;
use history::event::TurnList;
use history::limits::KNOWN_QUERIES_MAX;
use history::{Command, Fault, TaskId, TraceContext, TurnAnswer, TurnId, UpdateAnswer, Warning};
use serde::Serialize;

use super::extract::{NoQuery, Path, PreferWait, WAIT_MAX, with_wait_applied};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, POLL_BYTES_MAX, PeerPresence, Refused, TURN_BYTES_MAX, json, task_response};
use engine::admission::count_waiting;
use engine::{ActivityTask, DeciderTask, Engine, PendingQuery, Poll, QueryOutcome, Unpolled};

pub(super) fn turn_body(task: DeciderTask) -> body::DeciderTask {
    let (traceparent, tracestate) = task.trace.map(TraceContext::split).unzip();
    body::DeciderTask {
        token: task.token,
        domain: task.domain.to_string(),
        workflow_id: task.workflow_id.to_string(),
        run_id: task.run_id,
        workflow_type: task.workflow_type,
        task_list: task.task_list,
        attempt: task.attempt,
        started_event_id: task.started_event_id,
        previous_started_event_id: task.previous_started_event_id,
        events: task.events,
        next: task.next,
        context: task.context,
        queries: task.queries.into_iter().map(query).collect(),
        query_only: task.query_only,
        updates: task.updates.into_iter().map(asked_update).collect(),
        speculative: task.speculative,
        traceparent,
        tracestate: tracestate.flatten(),
    }
}

/// Serializes a body. This cannot fail, because all bodies have a JSON form.
pub(super) fn bytes_of(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

fn query(query: PendingQuery) -> body::TaskQuery {
    let PendingQuery { id, name, input } = query;
    body::TaskQuery { id, name, input }
}

fn asked_update(asked: history::ProposedUpdate) -> body::TaskUpdate {
    let history::ProposedUpdate { update_id, name, input, identity, .. } = asked;
    body::TaskUpdate { id: update_id, name, input, identity }
}

/// Converts the update answers of a decider. The argument has the form of the request; the result has the form that the
/// engine expects.
pub(super) fn update_answers(results: Vec<body::UpdateResult>) -> Result<Vec<UpdateAnswer>, Refused> {
    let answer = |(index, result): (usize, body::UpdateResult)| {
        result.answer().ok_or_else(|| {
            let field = format!("updateResults[{index}]");
            let problem = "must have exactly one of `accepted`, `rejected`, `failed` and `later`".to_owned();
            Refused::from(Fault::Invalid { field, problem })
        })
    };
    results.into_iter().enumerate().map(answer).collect()
}

/// Converts the query answer of a decider. The argument has the form of the request; the result is the query's id and
/// outcome.
pub(super) fn outcome(result: body::QueryResult) -> (String, QueryOutcome) {
    let body::QueryResult { id, result, error } = result;
    let outcome = match error {
        None => QueryOutcome::Result(result),
        Some(body::QueryError { reason, mut known, .. }) if reason == body::UNKNOWN_QUERY => {
            known.truncate(KNOWN_QUERIES_MAX);
            QueryOutcome::Unknown { known }
        }
        Some(body::QueryError { reason, message, .. }) => QueryOutcome::Failed { reason, message },
    };
    (id, outcome)
}

pub(super) fn activity_body(task: ActivityTask) -> body::ActivityTask {
    let (traceparent, tracestate) = task.trace.map(TraceContext::split).unzip();
    body::ActivityTask {
        token: task.token,
        domain: task.domain.to_string(),
        workflow_id: task.workflow_id.to_string(),
        run_id: task.run_id,
        workflow_type: task.workflow_type,
        task_list: task.task_list,
        activity_id: task.activity_id,
        activity_type: task.activity_type,
        scheduled_event_id: task.scheduled_event_id,
        started_event_id: task.started_event_id,
        attempt: task.attempt,
        heartbeat_details: task.heartbeat_details,
        input: task.input,
        timeouts: task.timeouts,
        traceparent,
        tracestate: tracestate.flatten(),
    }
}

/// Characters of a name that are percent-encoded in the header `baton-no-pollers`, because a header cannot contain
/// them.
const NAME_ESCAPED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Header of the response to a poll that got no task. It names lists of the domain that have waiting tasks but no
/// pollers. The poller may have meant to poll one of these lists.
pub(super) const UNPOLLED: &str = "baton-no-pollers";

fn no_task(engine: &Engine, domain: &str, caller: &Caller) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let unpolled = unpolled_by(engine, domain, caller).and_then(|lists| HeaderValue::try_from(lists).ok());
    if let Some(value) = unpolled {
        response.headers_mut().insert(UNPOLLED, value);
    }
    response
}

/// Returns the value of the header [`UNPOLLED`].
pub(super) fn unpolled_by(engine: &Engine, domain: &str, caller: &Caller) -> Option<String> {
    let unpolled = if caller.may_read(domain) { engine.pollers().unpolled_lists(domain) } else { Vec::new() };
    let lists: Vec<String> = unpolled.iter().map(unpolled_item).collect();
    (!lists.is_empty()).then(|| lists.join(", "))
}

fn unpolled_item(list: &Unpolled) -> String {
    let name = percent_encoding::utf8_percent_encode(&list.task_list, NAME_ESCAPED);
    let side = if list.is_decider { "decider" } else { "activity" };
    format!("{name};{side};since={}", list.since)
}

/// Returns whether a decider requests the whole history with each task.
pub(super) fn is_full(history: Option<body::TaskHistory>) -> bool {
    match history.unwrap_or_default() {
        body::TaskHistory::Window => false,
        body::TaskHistory::Full => true,
    }
}

/// Converts warnings of the engine to the form in the response.
pub(super) fn warnings(found: Vec<Warning>) -> Vec<body::Warning> {
    let render = |warning: Warning| {
        let (code, detail, advice) = (warning.code().to_owned(), warning.to_string(), warning.advice().to_owned());
        let Warning::ActivityRepeated { activity_id, scheduled_event_id } = warning;
        body::Warning { code, detail, advice, activity_id: Some(activity_id), event_id: scheduled_event_id }
    };
    found.into_iter().map(render).collect()
}

/// Inputs of a poll, except the body.
type OnPoll = (AppState, Path<2>, NoQuery, PreferWait, Caller, PeerPresence);

pub(super) async fn poll_decider(on: OnPoll, Json(poll): Json<body::PollDecider, POLL_BYTES_MAX>) -> Answer {
    let (State(engine), Path([domain, list]), _, PreferWait(wait), caller, peer) = on;
    let body::PollDecider {
        identity,
        history,
        max_events: events_max,
        queries,
        updates,
        poll_id,
        attempt,
        workflow_id,
    } = poll;
    let (at_most, updates) = (wait.unwrap_or(WAIT_MAX), updates.unwrap_or(0));
    let poll = Poll {
        wait: at_most,
        identity,
        is_swf: false,
        events_max,
        full_history: is_full(history),
        names_activities: true,
        queries,
        updates,
        poll_id,
        attempt,
        by: caller.by(),
        workflow_id,
    };
    let delivery = peer.take(engine.tasks().poll_decider(&domain, &list, poll)).await?;
    let render = |(task, receipt)| task_response(bytes_of(&turn_body(task)), receipt);
    let none = || no_task(&engine, &domain, &caller);
    Ok(with_wait_applied(delivery.map_or_else(none, |delivery| render(delivery.split())), wait))
}

pub(super) async fn poll_activity(on: OnPoll, Json(poll): Json<body::PollActivity, POLL_BYTES_MAX>) -> Answer {
    let (State(engine), Path([domain, list]), _, PreferWait(wait), caller, peer) = on;
    let body::PollActivity { identity, poll_id, attempt, workflow_id } = poll;
    let (at_most, by) = (wait.unwrap_or(WAIT_MAX), caller.by());
    let poll = Poll { wait: at_most, identity, poll_id, attempt, by, workflow_id, ..Poll::default() };
    let delivery = peer.take(engine.tasks().poll_activity(&domain, &list, poll)).await?;
    let render = |(task, receipt)| task_response(bytes_of(&activity_body(task)), receipt);
    let none = || no_task(&engine, &domain, &caller);
    Ok(with_wait_applied(delivery.map_or_else(none, |delivery| render(delivery.split())), wait))
}

/// Inputs of an answer to a task, except the body.
type OnTask = (AppState, Path<1>, NoQuery, Caller);

async fn answer_turn(
    (State(engine), Path([token]), _, caller): OnTask,
    command: impl FnOnce(TurnId) -> Command,
    results: Vec<body::QueryResult>,
    updates: Vec<body::UpdateResult>,
) -> Answer {
    let mut token = engine.tasks().decider_token(&token)?;
    token.author = caller.decider(&token.domain, &token.task_list);
    let updates = update_answers(updates)?;
    let command = command(token.turn);
    let outcomes = results.into_iter().map(outcome).collect();
    match engine.tasks().answer_turn_warned(&token, command, outcomes, updates).await {
        Ok(found) => Ok(json(StatusCode::OK, &body::Answered { warnings: warnings(found) })),
        Err(refusal) => Err(engine.tasks().how_turn_was_lost(&token, refusal).await.into()),
    }
}

pub(super) async fn complete_turn(on: OnTask, Json(complete): Json<body::CompleteTurn, TURN_BYTES_MAX>) -> Answer {
    let (answer, query_results, update_results) = completion(complete)?;
    answer_turn(on, |turn| Command::complete(turn, answer), query_results, update_results).await
}

/// Splits a decider's answer into the answer for the engine and the results of queries and updates.
pub(super) fn completion(
    complete: body::CompleteTurn,
) -> Result<(TurnAnswer, Vec<body::QueryResult>, Vec<body::UpdateResult>), Refused> {
    let body::CompleteTurn {
        decisions,
        context,
        awaiting,
        task_list,
        task_list_schedule_to_start: schedule_to_start,
        query_results,
        update_results,
    } = complete;
    let next_task_list = match (task_list, schedule_to_start) {
        (Some(task_list), schedule_to_start) => Some(TurnList { task_list, schedule_to_start }),
        (None, None) => None,
        (None, Some(_)) => {
            let (field, problem) =
                ("taskListScheduleToStart", "requires `taskList`; name the list or omit the timeout");
            return Err(Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() }.into());
        }
    };
    let answer = TurnAnswer { decisions, context, awaiting, next_task_list, ..TurnAnswer::default() };
    Ok((answer, query_results, update_results))
}

pub(super) async fn fail_turn(on: OnTask, Json(fail): Json<body::FailTurn>) -> Answer {
    let body::FailTurn { reason, details } = fail;
    let command = |turn| Command::FailTurn { turn, reason, details };
    answer_turn(on, command, Vec::new(), Vec::new()).await
}

async fn answer_activity(
    (State(engine), Path([token]), _, caller): OnTask,
    command: impl FnOnce(TaskId) -> Command,
) -> Answer {
    let mut token = engine.tasks().activity_token(&token)?;
    token.author = caller.author();
    let command = command(token.task);
    engine.tasks().answer_activity(&token, command).await?;
    Ok(json(StatusCode::OK, &body::Answered { warnings: Vec::new() }))
}

pub(super) async fn succeed_activity(on: OnTask, Json(succeed): Json<body::SucceedActivity>) -> Answer {
    let body::SucceedActivity { result } = succeed;
    answer_activity(on, |task| Command::SucceedActivity { task, result }).await
}

pub(super) async fn fail_activity(on: OnTask, Json(fail): Json<body::FailActivity>) -> Answer {
    let body::FailActivity { reason, details, non_retryable, retry_after } = fail;
    let command = |task| Command::FailActivity { task, reason: Some(reason), details, non_retryable, retry_after };
    answer_activity(on, command).await
}

pub(super) async fn cancel_activity(on: OnTask, Json(cancel): Json<body::CancelActivity>) -> Answer {
    let body::CancelActivity { details } = cancel;
    answer_activity(on, |task| Command::CancelActivity { task, details }).await
}

pub(super) async fn heartbeat(
    State(engine): AppState,
    Path([token]): Path<1>,
    _: NoQuery,
    PreferWait(wait): PreferWait,
    peer: PeerPresence,
    Json(beat): Json<body::Heartbeat>,
) -> Answer {
    let token = engine.tasks().activity_token(&token)?;
    // A heartbeat is never refused because too many requests wait. It is then answered at once.
    let wait = wait.map(|wait| if !wait.is_zero() && count_waiting().is_err() { Duration::ZERO } else { wait });
    let at_most = wait.unwrap_or_default();
    let HeldState { cancel_requested, paused } =
        engine.tasks().heartbeat_and_wait(&token, beat.details, at_most, peer.left()).await?;
    let response = json(StatusCode::OK, &body::HeartbeatResult { cancel_requested, paused });
    Ok(with_wait_applied(response, wait))
}
