//! Polls, and answers to tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use history::event::TurnList;
use history::{Command, Event, Fault, TurnAnswer, TurnId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::call::{Answer, SwfCall, body, take};
use super::decisions::{self, payload};
use super::events::execution;
use super::fault::{FaultKind, SwfFault};
use super::fields::{self, DecisionKinds};
use super::page::{PageKind, Paging, invalid_token, with_next};
use super::types::shown;
use super::words::{self, List, set};
use super::workflows::{render_events, run_ref, unknown_execution};
use crate::access::Caller;
use crate::http::task_response;
use engine::{ActivityToken, DeciderTask, Delivery, Engine, EventRange, Poll, Receipt, Refusal, TurnToken};

/// Maximum wait of a poll. Source: SWF's API reference.
const POLL_WAIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PollTask {
    domain: String,
    task_list: List,
    identity: Option<String>,
    start_at_previous_started_event: Option<bool>,
    #[serde(flatten)]
    paging: Paging,
}

impl PollTask {
    fn poll(&self, caller: &Caller, events_max: Option<usize>, wait: Duration) -> Poll {
        Poll { wait, identity: self.identity.clone(), is_swf: true, by: caller.by(), events_max, ..Poll::default() }
    }
}

/// Returns a response with a task. The task counts as delivered when the connection accepts the response.
fn delivered(task: &Value, receipt: Receipt) -> Answer {
    let bytes = serde_json::to_vec(task).map_err(|error| SwfFault::new(FaultKind::Internal, error.to_string()))?;
    let mut response: Response = task_response(bytes, receipt);
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, super::fault::JSON);
    Ok(Some(response))
}

/// Content of a page token of a turn: the task token, the position in the turn's events, and the order of the events.
struct Cursor {
    token: String,
    last: u64,
    is_reverse: bool,
    /// Id of the DeciderStarted event of the previous turn.
    previous: u64,
    /// Id of the first event to return.
    first: u64,
}

impl Cursor {
    /// Formats the content for a page token. Its parts can be separated by dots, because task tokens contain no dots.
    fn write(&self) -> String {
        let Self { token, last, is_reverse, previous, first } = self;
        format!("{token}.{last}.{}.{previous}.{first}", u8::from(*is_reverse))
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let token = parts.next()?.to_owned();
        let mut numbers = parts.map(|part| part.parse::<u64>().ok());
        let (last, is_reverse) = (numbers.next()??, numbers.next()?? == 1);
        let (previous, first) = (numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(Self { token, last, is_reverse, previous, first })
    }

    fn page(&self, limit: usize) -> EventRange {
        let after = self.first.saturating_sub(1);
        if self.is_reverse {
            let before = Some(self.last).filter(|last| *last > 0);
            EventRange { after, before, reverse: true, limit, ..EventRange::default() }
        } else {
            EventRange { after: self.last.max(after), limit, ..EventRange::default() }
        }
    }
}

/// Renders a decision task, or a further page of its events.
async fn turn(
    call: &SwfCall,
    token: &TurnToken,
    workflow_type: &str,
    mut cursor: Cursor,
    events: Vec<Event>,
    next: Option<u64>,
) -> Result<Value, SwfFault> {
    let at = run_ref(&token.domain, &token.workflow_id, token.run_id);
    let mut task = json!({
        "taskToken": cursor.token,
        "startedEventId": token.turn.started_event_id,
        "previousStartedEventId": cursor.previous,
        "workflowExecution": execution(&token.workflow_id, token.run_id),
        "workflowType": shown(workflow_type),
    });
    let (events, next) = render_events(call, &at, &events, next).await?;
    set(&mut task, "events", Some(events));
    let next = next.map(|next| {
        cursor.last = next;
        PageKind::Turn.token(&call.engine, &[], cursor.write())
    });
    Ok(with_next(task, next))
}

fn turn_at(engine: &Engine, place: &str) -> Result<(Cursor, TurnToken), SwfFault> {
    let cursor = Cursor::read(place).ok_or_else(invalid_token)?;
    let token = engine.tasks().decider_token(&cursor.token)?;
    Ok((cursor, token))
}

/// Returns the turn to which a page token belongs.
pub(super) fn turn_of_page(engine: &Engine, page_token: &str) -> Result<TurnToken, SwfFault> {
    turn_at(engine, PageKind::Turn.place(engine, &[], page_token)?).map(|(_, token)| token)
}

/// Returns a further page of a turn that was already dispatched. This takes no task and adds no event.
async fn next_page(call: &SwfCall, it: &PollTask, place: &str) -> Answer {
    let (cursor, token) = turn_at(&call.engine, place)?;
    // The request must name the task list to which the turn belongs.
    if (&*token.domain, &token.task_list) != (&*it.domain, &it.task_list.name) {
        return Err(invalid_token());
    }
    let _making = call.budget.page().await?;
    let found = call.engine.tasks().turn_history(&token, &cursor.page(it.paging.size())).await;
    let found = found.map_err(|refusal| turn_fault(&token, refusal))?;
    let at = run_ref(&token.domain, &token.workflow_id, token.run_id);
    let workflow_type = call.engine.views().describe(&at).await?.run.started.workflow_type.clone();
    body(&turn(call, &token, &workflow_type, cursor, found.events, found.next).await?)
}

pub(super) async fn poll_decision(call: SwfCall, input: Map<String, Value>) -> Answer {
    // The request and the later steps are boxed, so that the future of a waiting poll stays small.
    let it: Box<PollTask> = take(input)?;
    if let Some(place) = it.paging.place(PageKind::Turn, &call.engine, &[])? {
        return Box::pin(next_page(&call, &it, place)).await;
    }
    call.engine.pollers().must_have_room(call.engine.swf_quotas(), &it.domain, &it.task_list.name, true)?;
    let deadline = Instant::now() + POLL_WAIT;
    loop {
        let wait = deadline.saturating_duration_since(Instant::now());
        let poll = it.poll(&call.caller, Some(it.paging.size()), wait);
        let polled = call.engine.tasks().poll_decider(&it.domain, &it.task_list.name, poll);
        let Some(delivery) = call.peer.take(polled).await? else {
            // All known clients understand a response without a task token as "no task".
            return body(&json!({ "startedEventId": 0, "previousStartedEventId": 0 }));
        };
        if let Some(rendered) = Box::pin(render_turn(&call, &it, delivery)).await? {
            return Ok(Some(rendered));
        }
    }
}

/// Renders a turn for this poll. Returns `None` if the turn cannot be rendered, because it was lost in the meantime or
/// its run is damaged. The turn then times out, and the poll continues, so that one damaged run does not make polls
/// fail.
async fn render_turn(call: &SwfCall, it: &PollTask, delivery: Delivery<DeciderTask>) -> Answer {
    let (task, receipt) = delivery.split();
    let (workflow_id, run_id) = (Arc::clone(&task.workflow_id), task.run_id);
    match show_turn(call, it, task).await {
        Ok(rendered) => delivered(&rendered, receipt),
        Err(fault) if fault.is_overload() => Err(fault),
        Err(fault) => {
            tracing::error!(%workflow_id, %run_id, %fault, "a turn could not be returned to its poller");
            receipt.delivered();
            Ok(None)
        }
    }
}

async fn show_turn(call: &SwfCall, it: &PollTask, mut task: DeciderTask) -> Result<Value, SwfFault> {
    let token = call.engine.tasks().decider_token(&task.token)?;
    let (previous, size) = (task.previous_started_event_id, it.paging.size());
    let first = if it.start_at_previous_started_event == Some(true) { previous.max(1) } else { 1 };
    let is_reverse = it.paging.is_reverse();
    let cursor = Cursor { token: task.token, last: 0, is_reverse, previous, first };
    // If the events that came with the task include all requested ones, no other events are read.
    let is_whole = !is_reverse && task.events.first().is_some_and(|event| event.id == first);
    let (events, next) = if is_whole && task.events.len() <= size {
        (task.events, None)
    } else {
        // Frees the memory of these events before the requested events are read.
        task.events = Vec::new();
        let found = call.engine.tasks().turn_history(&token, &cursor.page(size)).await?;
        (found.events, found.next)
    };
    turn(call, &token, &task.workflow_type, cursor, events, next).await
}

pub(super) async fn poll_activity(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: Box<PollTask> = take(input)?;
    call.engine.pollers().must_have_room(call.engine.swf_quotas(), &it.domain, &it.task_list.name, false)?;
    let poll = it.poll(&call.caller, None, POLL_WAIT);
    let polled = call.engine.tasks().poll_activity(&it.domain, &it.task_list.name, poll);
    let Some(delivery) = call.peer.take(polled).await? else {
        return body(&json!({ "startedEventId": 0 }));
    };
    let (task, receipt) = delivery.split();
    let mut rendered = json!({
        "taskToken": task.token,
        "activityId": task.activity_id,
        "startedEventId": task.started_event_id.unwrap_or(0),
        "workflowExecution": execution(&task.workflow_id, task.run_id),
        "activityType": shown(&task.activity_type),
    });
    set(&mut rendered, "input", task.input.as_ref().map(super::events::text));
    delivered(&rendered, receipt)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RespondDecision {
    task_token: String,
    decisions: Option<Vec<Map<String, Value>>>,
    execution_context: Option<String>,
    task_list: Option<List>,
    task_list_schedule_to_start_timeout: Option<String>,
}

pub(super) async fn respond_decision(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: RespondDecision = take(input)?;
    let mut token = call.engine.tasks().decider_token(&it.task_token)?;
    token.author = call.caller.decider(&token.domain, &token.task_list);
    let schedule_to_start = words::limited_span(it.task_list_schedule_to_start_timeout.as_deref());
    let next_task_list = it.task_list.map(|list| TurnList { task_list: list.name, schedule_to_start });
    let given = it.decisions.unwrap_or_default();
    let at = run_ref(&token.domain, &token.workflow_id, token.run_id);
    let own_type = if decisions::needs_own_type(&given) {
        let described = call.engine.views().describe(&at).await;
        Some(described.map_err(|refusal| turn_fault(&token, refusal))?.run.started.workflow_type.clone())
    } else {
        None
    };
    let kinds: DecisionKinds = given.iter().map(|decision| decisions::kind_of(decision).to_owned()).collect();
    let decisions = decisions::read(given, own_type.as_deref())?;
    let context = payload(it.execution_context)?;
    let turn: TurnId = token.turn;
    let command = Command::complete(turn, TurnAnswer { decisions, context, next_task_list, ..TurnAnswer::default() });
    match call.engine.tasks().answer_turn(&token, command).await {
        Ok(()) => Ok(None),
        // The turn is complete: an earlier answer has been accepted. If that answer has closed the run, the fault
        // reports that the run is closed instead of the completed turn.
        Err(Refusal::Fault(Fault::TurnCompleted)) => match call.engine.views().describe(&at).await {
            Ok(described) if described.run.is_open() => Err(turn_fault(&token, Fault::TurnCompleted.into())),
            _ => Err(unknown_execution(&token.workflow_id, Some(&token.run_id.to_string()))),
        },
        Err(refusal) => Err(match fields::of_answer(&kinds, &refusal) {
            Some(message) => SwfFault::new(FaultKind::Validation, message),
            None => turn_fault(&token, refusal),
        }),
    }
}

fn turn_fault(token: &TurnToken, refusal: Refusal) -> SwfFault {
    match refusal {
        Refusal::Fault(Fault::TurnCompleted | Fault::TurnLost | Fault::TurnNotWaiting { .. }) => {
            let id = token.turn.scheduled_event_id;
            SwfFault::new(FaultKind::UnknownResource, format!("Unknown decision task, scheduledEventId = {id}"))
        }
        other => run_fault(&token.workflow_id, token.run_id, other),
    }
}

/// Converts the refusal of an answer to a task to a fault. If the refusal concerns the run, the fault names the run.
fn run_fault(workflow_id: &str, run_id: uuid::Uuid, refusal: Refusal) -> SwfFault {
    match refusal {
        Refusal::Fault(Fault::RunClosed { .. })
        | Refusal::UnknownWorkflow { .. }
        | Refusal::UnknownRun { .. }
        | Refusal::RunNotCurrent { .. } => unknown_execution(workflow_id, Some(&run_id.to_string())),
        other => other.into(),
    }
}

fn activity_fault(token: &ActivityToken, refusal: Refusal) -> SwfFault {
    match refusal {
        Refusal::Fault(Fault::ActivityClosed | Fault::ActivityNotWaiting { .. }) => {
            let id = token.task.scheduled_event_id;
            SwfFault::new(FaultKind::UnknownResource, format!("Unknown activity, scheduledEventId = {id}"))
        }
        other => run_fault(&token.workflow_id, token.run_id, other),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RespondActivity {
    task_token: String,
    result: Option<String>,
    reason: Option<String>,
    details: Option<String>,
}

async fn respond(
    call: SwfCall,
    input: Map<String, Value>,
    command: impl FnOnce(&ActivityToken, RespondActivity) -> Result<Command, SwfFault>,
) -> Answer {
    let it: RespondActivity = take(input)?;
    let mut token = call.engine.tasks().activity_token(&it.task_token)?;
    token.author = call.caller.author();
    let command = command(&token, it)?;
    call.engine.tasks().answer_activity(&token, command).await.map_err(|refusal| activity_fault(&token, refusal))?;
    Ok(None)
}

pub(super) async fn respond_completed(call: SwfCall, input: Map<String, Value>) -> Answer {
    let command = |token: &ActivityToken, it: RespondActivity| {
        Ok(Command::SucceedActivity { task: token.task, result: payload(it.result)? })
    };
    respond(call, input, command).await
}

pub(super) async fn respond_failed(call: SwfCall, input: Map<String, Value>) -> Answer {
    let command = |token: &ActivityToken, it: RespondActivity| {
        Ok(Command::FailActivity {
            task: token.task,
            reason: it.reason,
            details: payload(it.details)?,
            non_retryable: false,
            retry_after: None,
        })
    };
    respond(call, input, command).await
}

pub(super) async fn respond_canceled(call: SwfCall, input: Map<String, Value>) -> Answer {
    let command = |token: &ActivityToken, it: RespondActivity| {
        Ok(Command::CancelActivity { task: token.task, details: payload(it.details)? })
    };
    respond(call, input, command).await
}

pub(super) async fn heartbeat(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: RespondActivity = take(input)?;
    let token = call.engine.tasks().activity_token(&it.task_token)?;
    let beaten = call.engine.tasks().heartbeat(&token, payload(it.details)?).await;
    let cancel_requested = beaten.map_err(|refusal| activity_fault(&token, refusal))?;
    body(&json!({ "cancelRequested": cancel_requested }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountPending {
    domain: String,
    task_list: List,
}

pub(super) async fn count_pending(call: SwfCall, input: Map<String, Value>, are_turns: bool) -> Answer {
    let it: CountPending = take(input)?;
    call.engine.registry().domain(&it.domain).await?;
    let (count, truncated) = call.engine.tasks().waiting_tasks(&it.domain, &it.task_list.name, are_turns);
    body(&json!({ "count": count, "truncated": truncated }))
}
