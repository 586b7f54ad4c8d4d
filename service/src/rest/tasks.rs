//! Task lists: polls, and answers to tasks, with the next task in the same round trip where that is asked for.

use std::convert;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use client::body;
use futures_util::{FutureExt as _, stream};
use history::{Command, Fault, TaskId, TraceContext, TurnAnswer, TurnId, UpdateAnswer, Warning};
use serde::Serialize;

use super::extract::{NoQuery, Path, PreferWait, WAIT_MAX, seconds_to_wait, with_wait_applied};
use crate::access::Caller;
use crate::http::{
    Answer, AppState, Json, POLL_BYTES_MAX, Refused, TURN_BYTES_MAX, bytes_of_json, deliver_task, deliver_tasks, json,
    later, look_at_connection,
};
use engine::{
    ActivityTask, DeciderTask, Delivery, Engine, PendingQuery, Poll, QueryOutcome, Receipt, Refusal, Unpolled,
};

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
        only_asks: task.only_asks,
        updates: task.updates.into_iter().map(asked_update).collect(),
        speculative: task.speculative,
        traceparent,
        tracestate: tracestate.flatten(),
    }
}

/// As JSON, which each body has.
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

/// What a decider says to updates, taken apart.
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

/// What a decider says to a query, taken apart.
pub(super) fn outcome(result: body::QueryResult) -> (String, QueryOutcome) {
    let body::QueryResult { id, result, error } = result;
    let outcome = match error {
        None => QueryOutcome::Result(result),
        Some(body::QueryError { reason, known, .. }) if reason == body::UNKNOWN_QUERY => {
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

/// Everything but what a name may hold as it is in a header.
const NAME_ESCAPED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Names the lists of the domain on which tasks wait and nobody polls: whoever polls in vain may have meant one of them.
pub(super) const UNPOLLED: &str = "baton-unpolled";

fn no_task(engine: &Engine, domain: &str, caller: &Caller) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let unpolled = unpolled_by(engine, domain, caller).and_then(|lists| HeaderValue::try_from(lists).ok());
    if let Some(value) = unpolled {
        response.headers_mut().insert(UNPOLLED, value);
    }
    response
}

/// What whoever polled in vain is told.
pub(super) fn unpolled_by(engine: &Engine, domain: &str, caller: &Caller) -> Option<String> {
    let unpolled = if caller.may_look(domain) { engine.pollers().unpolled_lists(domain) } else { Vec::new() };
    let lists: Vec<String> = unpolled.iter().map(unpolled_item).collect();
    (!lists.is_empty()).then(|| lists.join(", "))
}

fn unpolled_item(list: &Unpolled) -> String {
    let name = percent_encoding::utf8_percent_encode(&list.task_list, NAME_ESCAPED);
    let side = if list.is_decider { "decider" } else { "activity" };
    format!("{name};{side};since={}", list.since)
}

/// Whether a decider wants the whole history with each task.
pub(super) fn is_full(history: Option<body::TaskHistory>) -> bool {
    match history.unwrap_or_default() {
        body::TaskHistory::Window => false,
        body::TaskHistory::Full => true,
    }
}

/// Warnings as the answer has them.
pub(super) fn warnings(found: Vec<Warning>) -> Vec<body::Warning> {
    let render = |warning: Warning| {
        let (code, detail, advice) = (warning.code().to_owned(), warning.to_string(), warning.advice().to_owned());
        let Warning::ActivityRepeated { activity_id, scheduled_event_id } = warning;
        body::Warning { code, detail, advice, activity_id: Some(activity_id), event_id: scheduled_event_id }
    };
    found.into_iter().map(render).collect()
}

/// What a poll takes beside its body: the list that the path names, how long it waits, and who asks.
type OnPoll = (AppState, Path<2>, NoQuery, PreferWait, Caller);

pub(super) async fn poll_decider(on: OnPoll, Json(poll): Json<body::PollDecider, POLL_BYTES_MAX>) -> Answer {
    let (State(engine), Path([domain, list]), _, PreferWait(wait), caller) = on;
    let body::PollDecider { identity, history, max_events: events_max, queries, updates, poll_id, attempt } = poll;
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
    };
    // In a box until it is asked: each poll that waits would have room for it. The box is handed on, as nothing is left of it then.
    let asked = Box::new((domain, list, poll));
    Ok(later(async move {
        let (domain, list, poll) = *convert::identity(asked);
        let delivery = engine.tasks().poll_decider(&domain, &list, poll).await?;
        look_at_connection().await;
        let render = |(task, receipt)| deliver_task(bytes_of(&turn_body(task)), receipt);
        let none = || no_task(&engine, &domain, &caller);
        Answer::Ok(with_wait_applied(delivery.map_or_else(none, |delivery| render(delivery.split())), wait))
    }))
}

pub(super) async fn poll_activity(on: OnPoll, Json(poll): Json<body::PollActivity, POLL_BYTES_MAX>) -> Answer {
    let (State(engine), Path([domain, list]), _, PreferWait(wait), caller) = on;
    let body::PollActivity { identity, poll_id, attempt } = poll;
    let poll = Poll { wait: wait.unwrap_or(WAIT_MAX), identity, poll_id, attempt, by: caller.by(), ..Poll::default() };
    let asked = Box::new((domain, list, poll));
    Ok(later(async move {
        let (domain, list, poll) = *convert::identity(asked);
        let delivery = engine.tasks().poll_activity(&domain, &list, poll).await?;
        look_at_connection().await;
        let render = |(task, receipt)| deliver_task(bytes_of(&activity_body(task)), receipt);
        let none = || no_task(&engine, &domain, &caller);
        Answer::Ok(with_wait_applied(delivery.map_or_else(none, |delivery| render(delivery.split())), wait))
    }))
}

fn next_poll(next: body::Next, caller: &Caller) -> Result<Poll, Refused> {
    let wait: Duration = match next.wait {
        None => WAIT_MAX,
        Some(seconds) => seconds_to_wait(Some(seconds))
            .ok_or_else(|| Refused::BadJson("`next.wait` is not a number of seconds from 0 upwards".to_owned()))?,
    };
    if let Some(identity) = &next.identity {
        // Now, not when the answer is recorded and nobody can be told any more.
        history::admit::check_name("next.identity", identity)?;
    }
    history::admit::check_poll(next.poll_id.as_deref(), None)?;
    let body::Next { identity, history, max_events: events_max, queries, updates, poll_id, .. } = next;
    Ok(Poll {
        wait,
        identity,
        is_swf: false,
        events_max,
        full_history: is_full(history),
        names_activities: true,
        queries,
        updates: updates.unwrap_or(0),
        poll_id,
        attempt: None,
        by: caller.by(),
    })
}

/// How long an answer may wait for its next task before it is said that it was recorded. Where tasks are plenty the two
/// then go out together, in one write and one packet; a caller who loses the connection meanwhile asks again, and is told.
const NEXT_LINGER: Duration = Duration::from_millis(50);

/// The answer to an answer. With `next`, the next task comes with it where there is one soon. Otherwise the headers go
/// out, so that the caller knows that its answer is durable; the body follows when there is a task, or the wait ends.
async fn answered<T: Send + 'static, B: Serialize + 'static>(
    warnings: Vec<body::Warning>,
    next: Option<impl Future<Output = Result<Option<Delivery<T>>, Refusal>> + Send + 'static>,
    render: fn(T) -> B,
) -> Response {
    let Some(poll) = next else {
        return json(StatusCode::OK, &body::Answered::<B> { next: None, warnings });
    };
    let mut poll = Box::pin(poll.then(async |polled| {
        look_at_connection().await;
        polled
    }));
    match tokio::time::timeout(NEXT_LINGER, &mut poll).await {
        Ok(polled) => match render_next(polled, warnings, render) {
            (bytes, Some(receipt)) => deliver_task(bytes, receipt),
            (bytes, None) => bytes_of_json(StatusCode::OK, bytes),
        },
        Err(_) => {
            let later = stream::once(async move {
                let (bytes, receipt) = render_next(poll.await, warnings, render);
                (bytes.into(), receipt.into_iter().collect())
            });
            bytes_of_json(StatusCode::OK, deliver_tasks(Box::pin(later)))
        }
    }
}

fn render_next<T, B: Serialize>(
    polled: Result<Option<Delivery<T>>, Refusal>,
    warnings: Vec<body::Warning>,
    render: fn(T) -> B,
) -> (Vec<u8>, Option<Receipt>) {
    let polled = polled.unwrap_or_else(|refusal| {
        // The answer was recorded; only the poll came to nothing, as any poll may.
        tracing::debug!(%refusal, "no next task");
        None
    });
    match polled.map(Delivery::split) {
        Some((task, receipt)) => (bytes_of(&body::Answered { next: Some(render(task)), warnings }), Some(receipt)),
        None if warnings.is_empty() => (b"{\"next\":null}".to_vec(), None),
        None => (bytes_of(&serde_json::json!({ "next": null, "warnings": warnings })), None),
    }
}

/// What an answer to a task takes beside its body: the task that the path names, and who answers.
type OnTask = (AppState, Path<1>, NoQuery, Caller);

async fn answer_turn(
    (State(engine), Path([token]), _, caller): OnTask,
    command: impl FnOnce(TurnId) -> Command,
    results: Vec<body::QueryResult>,
    updates: Vec<body::UpdateResult>,
    next: Option<body::Next>,
) -> Answer {
    let mut token = engine.tasks().decider_token(&token)?;
    token.author = caller.decider(&token.domain, &token.task_list);
    let updates = update_answers(updates)?;
    let next = next.map(|next| next_poll(next, &caller)).transpose()?;
    let command = command(token.turn);
    let outcomes = results.into_iter().map(outcome).collect();
    let found = match engine.tasks().answer_turn_warned(&token, command, outcomes, updates).await {
        Ok(found) => warnings(found),
        Err(refusal) => return Err(engine.tasks().how_turn_was_lost(&token, refusal).await.into()),
    };
    let list = std::mem::take(&mut token.task_list);
    let poll = |poll| async move { engine.tasks().poll_decider(&token.domain, &list, poll).await };
    Ok(answered(found, next.map(poll), turn_body).await)
}

pub(super) async fn complete_turn(on: OnTask, Json(complete): Json<body::CompleteTurn, TURN_BYTES_MAX>) -> Answer {
    let body::CompleteTurn { decisions, context, awaiting, query_results, update_results, next } = complete;
    let command = |turn| Command::complete(turn, TurnAnswer { decisions, context, awaiting, ..TurnAnswer::default() });
    answer_turn(on, command, query_results, update_results, next).await
}

pub(super) async fn fail_turn(on: OnTask, Json(fail): Json<body::FailTurn>) -> Answer {
    let body::FailTurn { reason, details, next } = fail;
    let command = |turn| Command::FailTurn { turn, reason, details };
    answer_turn(on, command, Vec::new(), Vec::new(), next).await
}

async fn answer_activity(
    (State(engine), Path([token]), _, caller): OnTask,
    command: impl FnOnce(TaskId) -> Command,
    next: Option<body::Next>,
) -> Answer {
    let mut token = engine.tasks().activity_token(&token)?;
    token.author = caller.author();
    let next = next.map(|next| next_poll(next, &caller)).transpose()?;
    let command = command(token.task);
    engine.tasks().answer_activity(&token, command).await?;
    let list = std::mem::take(&mut token.task_list);
    let poll = |poll| async move { engine.tasks().poll_activity(&token.domain, &list, poll).await };
    Ok(answered(Vec::new(), next.map(poll), activity_body).await)
}

pub(super) async fn succeed_activity(on: OnTask, Json(succeed): Json<body::SucceedActivity>) -> Answer {
    let body::SucceedActivity { result, next } = succeed;
    answer_activity(on, |task| Command::SucceedActivity { task, result }, next).await
}

pub(super) async fn fail_activity(on: OnTask, Json(fail): Json<body::FailActivity>) -> Answer {
    let body::FailActivity { reason, details, non_retryable, retry_after, next } = fail;
    let command = |task| Command::FailActivity { task, reason: Some(reason), details, non_retryable, retry_after };
    answer_activity(on, command, next).await
}

pub(super) async fn cancel_activity(on: OnTask, Json(cancel): Json<body::CancelActivity>) -> Answer {
    let body::CancelActivity { details, next } = cancel;
    answer_activity(on, |task| Command::CancelActivity { task, details }, next).await
}

pub(super) async fn heartbeat(
    State(engine): AppState,
    Path([token]): Path<1>,
    _: NoQuery,
    Json(beat): Json<body::Heartbeat>,
) -> Answer {
    let token = engine.tasks().activity_token(&token)?;
    let cancel_requested = engine.tasks().heartbeat(&token, beat.details).await?;
    Ok(json(StatusCode::OK, &body::Beaten { cancel_requested }))
}
