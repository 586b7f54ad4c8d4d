//! Exchanges. The request contains answers to tasks of one list, which are accepted or refused separately, and slots
//! for new tasks. The response contains a receipt for each answer, and new tasks as they arrive.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use client::body::{self, AnswerReceipt, Exchanged, SlotTask};
use futures_util::future::{BoxFuture, JoinAll, join_all};
use futures_util::stream::{self, BoxStream};
use history::limits::EXCHANGE_ANSWERS_MAX;
use history::{CallerName, Command, Fault};
use memchr::memchr2;
use serde::Serialize;

use super::extract::{NoQuery, Path, PreferWait, WAIT_MAX, with_wait_applied};
use super::tasks::{
    activity_body, bytes_of, completion, is_full, outcome, turn_body, unpolled_by, update_answers, warnings,
};
use crate::access::{Caller, Level};
use crate::http::{
    Answer, AppState, AuditEach, Json, PeerPresence, Refused, TURN_BYTES_MAX, bytes_of_json, names_accepted,
    task_stream,
};
use crate::openapi::{Operation, OperationInput};
use engine::admission::RequestOrigin;
use engine::{Delivery, Engine, Poll, Receipt, Refusal, SLOTS_MAX, Slots};

/// Time for which the receipt of a single answer waits for the next task, so that both are sent together. Our choice: a
/// client that does one task at a time does not need the receipt earlier, and usually gets the next task within a
/// millisecond. If a request has several answers, their receipts are sent at once, because the client may be waiting
/// for them before it sends further answers.
const LINGER: Duration = Duration::from_millis(2);

/// Time for which slots can receive tasks while the answers are being recorded. Our choice: many times the usual
/// duration of recording, and short compared with any task. If recording takes longer, waiting tasks are given to other
/// pollers, because a task in this response would have to wait for the receipts.
const STAND_BY: Duration = Duration::from_millis(500);

/// Media type of responses that consist of JSON lines.
const LINES: &str = "application/x-ndjson";

/// Preferences of the caller for the response.
pub(super) struct ResponsePreferences {
    /// Maximum time to wait for tasks, if given.
    wait: Option<Duration>,
    /// True if the response is a stream of JSON lines, each sent when its content becomes available.
    lines: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for ResponsePreferences {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let PreferWait(wait) = PreferWait::from_request_parts(parts, state).await?;
        Ok(Self { wait, lines: names_accepted(&parts.headers, &ACCEPT, LINES) })
    }
}

impl OperationInput for ResponsePreferences {
    fn describe(call: &mut Operation<'_>) {
        PreferWait::describe(call);
        call.header(
            "Accept",
            "`application/x-ndjson` for a stream: a line with the receipts as soon as the answers are durable, and a \
             line whenever tasks arrive, until all slots have tasks or the wait is over. Otherwise there is one \
             response, with the first tasks.",
        );
    }
}

/// Context of one exchange.
struct Exchange {
    engine: Arc<Engine>,
    caller: Caller,
    domain: String,
    list: String,
    audit: AuditEach,
    /// Name of the call in audit entries.
    call: &'static str,
    level: Level,
}

impl Exchange {
    /// Refuses an exchange with too many answers. An exchange without answers is a mere poll, so it is also refused if
    /// the caller has exceeded its quotas.
    fn must_have_share(&self, answers: usize) -> Result<(), Refused> {
        if answers > EXCHANGE_ANSWERS_MAX {
            let problem = format!("has {answers} answers, at most {EXCHANGE_ANSWERS_MAX} are allowed");
            return Err(Fault::Invalid { field: "answers".to_owned(), problem }.into());
        }
        if answers == 0 {
            let by = self.caller.by();
            let asking = RequestOrigin {
                credential: by.as_ref().map(CallerName::as_str),
                domain: Some(&self.domain),
                is_of_task: false,
            };
            drop(self.engine.quotas().admit(asking).map_err(Refusal::from)?);
        }
        Ok(())
    }

    /// Returns the slots to be filled with tasks. If there are answers, the slots can already receive tasks while the
    /// answers are recorded.
    async fn slots(
        &self,
        (max_tasks, slots): (u32, Vec<u32>),
        poll: &Poll,
        has_answers: bool,
    ) -> Result<Slots, Refused> {
        let problem = match usize::try_from(max_tasks) {
            Ok(0..=SLOTS_MAX) if max_tasks == 0 || slots.is_empty() => None,
            Ok(0..=SLOTS_MAX) => Some("must be absent if there are `slots`".to_owned()),
            _ => Some(format!("is {max_tasks}, at most {SLOTS_MAX} are allowed")),
        };
        if let Some(problem) = problem {
            return Err(Fault::Invalid { field: "maxTasks".to_owned(), problem }.into());
        }
        let slots = if slots.is_empty() { (0..max_tasks).collect() } else { slots };
        let (of, is_decider) = ((self.domain.as_str(), self.list.as_str()), self.level == Level::Decider);
        let tasks = self.engine.tasks();
        let mut slots = match tasks.slots(is_decider, of, poll, slots).await {
            // If the poll exceeds a quota, the answers must be recorded nevertheless. The exchange therefore continues
            // without slots.
            Err(Refusal::QuotaExceeded(_)) if has_answers => tasks.slots(is_decider, of, poll, Vec::new()).await?,
            slots => slots?,
        };
        if has_answers {
            slots.stand_by();
        }
        Ok(slots)
    }

    /// Waits until all answers are recorded. If that takes longer than [`STAND_BY`], the slots stop receiving tasks
    /// until all answers are recorded.
    async fn receipts<F: Future<Output = AnswerReceipt>>(mut all: JoinAll<F>, slots: &mut Slots) -> Vec<AnswerReceipt> {
        if let Ok(receipts) = tokio::time::timeout(STAND_BY, &mut all).await {
            return receipts;
        }
        slots.stand_down();
        all.await
    }

    /// Records one answer and returns its receipt. If there is an audit log, an entry for the answer is written first.
    async fn receipt(
        &self,
        token: &str,
        answered: impl Future<Output = Result<Vec<body::Warning>, Refused>>,
    ) -> AnswerReceipt {
        let ticket = self.audit.0.as_ref().map(|audit| {
            let call = (self.call, token);
            audit.change_of_task(&self.engine, self.level, self.caller.by(), call)
        });
        if let Some(ticket) = &ticket
            && let Err(refused) = ticket.announce().await
        {
            return AnswerReceipt { problem: Some(refused.problem()), warnings: Vec::new() };
        }
        let (problem, warnings) = match answered.await {
            Ok(warnings) => (None, warnings),
            Err(refused) => (Some(refused.problem()), Vec::new()),
        };
        if let Some(ticket) = ticket {
            let status = problem.as_ref().map_or(StatusCode::OK, |problem| {
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            });
            ticket.tell(status, problem.as_ref().map(|problem| problem.code.as_str()));
        }
        AnswerReceipt { problem, warnings }
    }

    /// Refuses a token whose task belongs to another list. The caller's permission was checked only for the list in the
    /// path.
    fn must_be_of_list(&self, domain: &str, list: &str) -> Result<(), Refused> {
        if domain == self.domain && list == self.list {
            return Ok(());
        }
        let problem = format!("belongs to list `{list}` in domain `{domain}`; answer it in an exchange of that list");
        Err(Fault::Invalid { field: "token".to_owned(), problem }.into())
    }

    async fn answer_turn(&self, reply: body::TurnReply) -> Result<Vec<body::Warning>, Refused> {
        let body::TurnReply { token, complete, fail } = reply;
        let mut token = self.engine.tasks().decider_token(&token)?;
        self.must_be_of_list(&token.domain, &token.task_list)?;
        token.author = self.caller.decider(&token.domain, &token.task_list);
        let turn = token.turn;
        let (command, results, updates) = match (complete, fail) {
            (Some(complete), None) => {
                let (answer, query_results, update_results) = completion(complete)?;
                (Command::complete(turn, answer), query_results, update_answers(update_results)?)
            }
            (None, Some(fail)) => {
                let body::FailTurn { reason, details } = fail;
                (Command::FailTurn { turn, reason, details }, Vec::new(), Vec::new())
            }
            _ => return Err(must_be_one("complete` and `fail")),
        };
        let outcomes = results.into_iter().map(outcome).collect();
        match self.engine.tasks().answer_turn_warned(&token, command, outcomes, updates).await {
            Ok(found) => Ok(warnings(found)),
            Err(refusal) => Err(self.engine.tasks().how_turn_was_lost(&token, refusal).await.into()),
        }
    }

    async fn answer_activity(&self, reply: body::ActivityReply) -> Result<Vec<body::Warning>, Refused> {
        let body::ActivityReply { token, success, failure, canceled } = reply;
        let mut token = self.engine.tasks().activity_token(&token)?;
        self.must_be_of_list(&token.domain, &token.task_list)?;
        token.author = self.caller.author();
        let task = token.task;
        let command = match (success, failure, canceled) {
            (Some(body::SucceedActivity { result }), None, None) => Command::SucceedActivity { task, result },
            (None, Some(failure), None) => {
                let body::FailActivity { reason, details, non_retryable, retry_after } = failure;
                Command::FailActivity { task, reason: Some(reason), details, non_retryable, retry_after }
            }
            (None, None, Some(body::CancelActivity { details })) => Command::CancelActivity { task, details },
            _ => return Err(must_be_one("success`, `failure` and `canceled")),
        };
        self.engine.tasks().answer_activity(&token, command).await?;
        Ok(Vec::new())
    }
}

fn must_be_one(of: &str) -> Refused {
    let problem = format!("must have exactly one of `{of}`");
    Fault::Invalid { field: "answers".to_owned(), problem }.into()
}

/// Inputs of an exchange, except the body.
type OnExchange = (AppState, Path<2>, NoQuery, ResponsePreferences, Caller, PeerPresence);

pub(super) async fn turns(
    on: OnExchange,
    audit: AuditEach,
    Json(asked): Json<body::ExchangeTurns, TURN_BYTES_MAX>,
) -> Answer {
    let (State(engine), Path([domain, list]), _, ResponsePreferences { wait, lines }, caller, peer) = on;
    let body::ExchangeTurns {
        answers,
        max_tasks,
        slots,
        identity,
        history,
        max_events,
        queries,
        updates,
        poll_id,
        attempt,
        workflow_id,
    } = asked;
    let call = "POST /v1/domains/{domain}/task-lists/{list}/decider/exchange";
    let exchange = Exchange { engine, caller, domain, list, audit, call, level: Level::Decider };
    exchange.must_have_share(answers.len())?;
    let (by, updates, at_most) = (exchange.caller.by(), updates.unwrap_or(0), wait.unwrap_or(WAIT_MAX));
    let poll = Poll {
        wait: at_most,
        identity,
        is_swf: false,
        events_max: max_events,
        full_history: is_full(history),
        names_activities: true,
        queries,
        updates,
        poll_id,
        attempt,
        by,
        workflow_id,
    };
    let mut slots = exchange.slots((max_tasks, slots), &poll, !answers.is_empty()).await?;
    let receipt =
        async |it: body::TurnReply| exchange.receipt(&it.token.clone(), Box::pin(exchange.answer_turn(it))).await;
    let receipts = Exchange::receipts(join_all(answers.into_iter().map(receipt)), &mut slots).await;
    let tasks = TasksOf::new(exchange, slots, peer);
    Ok(with_wait_applied(answer(receipts, tasks, lines).await, wait))
}

pub(super) async fn activities(
    on: OnExchange,
    audit: AuditEach,
    Json(asked): Json<body::ExchangeActivities, TURN_BYTES_MAX>,
) -> Answer {
    let (State(engine), Path([domain, list]), _, ResponsePreferences { wait, lines }, caller, peer) = on;
    let body::ExchangeActivities { answers, max_tasks, slots, identity, poll_id, attempt, workflow_id } = asked;
    let call = "POST /v1/domains/{domain}/task-lists/{list}/activity/exchange";
    let exchange = Exchange { engine, caller, domain, list, audit, call, level: Level::Runner };
    exchange.must_have_share(answers.len())?;
    let (by, at_most) = (exchange.caller.by(), wait.unwrap_or(WAIT_MAX));
    let poll = Poll { wait: at_most, identity, poll_id, attempt, by, workflow_id, ..Poll::default() };
    let mut slots = exchange.slots((max_tasks, slots), &poll, !answers.is_empty()).await?;
    let receipt = async |it: body::ActivityReply| {
        exchange.receipt(&it.token.clone(), Box::pin(exchange.answer_activity(it))).await
    };
    let receipts = Exchange::receipts(join_all(answers.into_iter().map(receipt)), &mut slots).await;
    let tasks = TasksOf::new(exchange, slots, peer);
    Ok(with_wait_applied(answer(receipts, tasks, lines).await, wait))
}

/// Source of the tasks that arrive in the slots of an exchange.
struct TasksOf {
    engine: Arc<Engine>,
    slots: Slots,
    is_decider: bool,
    peer: PeerPresence,
    /// Caller and domain, for the report on other lists that have waiting tasks but no pollers. This report is sent if
    /// no task arrives. `None` once a task has arrived.
    waits: Option<(Caller, String)>,
}

impl TasksOf {
    fn new(exchange: Exchange, slots: Slots, peer: PeerPresence) -> Self {
        let Exchange { engine, caller, domain, level, .. } = exchange;
        let waits = (!slots.are_filled()).then_some((caller, domain));
        Self { engine, slots, is_decider: level == Level::Decider, peer, waits }
    }

    /// Waits for the next tasks. Returns a JSON text with the tasks and with `receipts`, the receipts for the answers
    /// of the exchange. Also returns the receipts of the tasks, to which the delivery of the tasks is reported. Returns
    /// `None` if no more tasks can arrive.
    async fn next(&mut self, receipts: Option<Vec<AnswerReceipt>>) -> Option<(Vec<u8>, Vec<Receipt>)> {
        if self.is_decider {
            let found = self.peer.take(self.engine.tasks().next_turns(&mut self.slots)).await;
            self.rendered(receipts, found, turn_body)
        } else {
            let found = self.peer.take(self.engine.tasks().next_activities(&mut self.slots)).await;
            self.rendered(receipts, found, activity_body)
        }
    }

    /// Waits for the first tasks of an exchange with a single response. The response contains only these tasks, and
    /// tasks that arrive at the same time. Tasks that do not fit into its first piece are returned by later calls of
    /// [`next`](Self::next).
    async fn only(&mut self, receipts: Vec<AnswerReceipt>) -> (Vec<u8>, Vec<Receipt>) {
        let receipts = Some(receipts);
        let rendered = if self.is_decider {
            let found = self.peer.take(self.engine.tasks().last_turns(&mut self.slots)).await;
            self.forget_other_lists();
            self.rendered(receipts, found, turn_body)
        } else {
            let found = self.peer.take(self.engine.tasks().last_activities(&mut self.slots)).await;
            self.forget_other_lists();
            self.rendered(receipts, found, activity_body)
        };
        rendered.unwrap_or_default()
    }

    /// Drops the report on other lists if more tasks will follow in this response.
    fn forget_other_lists(&mut self) {
        if !self.slots.are_filled() {
            self.waits = None;
        }
    }

    fn rendered<T, B: Serialize>(
        &mut self,
        receipts: Option<Vec<AnswerReceipt>>,
        found: Result<Vec<(u32, Delivery<T>)>, Refusal>,
        body: impl Fn(T) -> B,
    ) -> Option<(Vec<u8>, Vec<Receipt>)> {
        // The answers are already recorded and only the poll has failed, so the exchange succeeds without tasks.
        let found = found.unwrap_or_else(|refusal| {
            tracing::debug!(%refusal, "the poll of an exchange failed");
            Vec::new()
        });
        if found.is_empty() && self.peer.has_left() {
            self.slots.give_up();
        }
        let waits = self.waits.take().filter(|_| found.is_empty());
        let no_pollers = waits.and_then(|(caller, domain)| unpolled_by(&self.engine, &domain, &caller));
        let says_something = receipts.is_some() || no_pollers.is_some() || !found.is_empty();
        let rendered = found.into_iter().map(|(slot, delivery)| {
            let (task, receipt) = delivery.split();
            (SlotTask { slot, task: body(task) }, receipt)
        });
        let (tasks, delivered) = rendered.unzip();
        says_something.then(|| (bytes_of(&Exchanged { receipts, tasks, no_pollers }), delivered))
    }
}

async fn answer(receipts: Vec<AnswerReceipt>, mut tasks: TasksOf, lines: bool) -> Response {
    if !lines {
        let (bytes, delivered) = tasks.only(receipts).await;
        return bytes_of_json(StatusCode::OK, task_stream(at_once((bytes, delivered), tasks)));
    }
    let (has_answers, may_linger) = (!receipts.is_empty(), receipts.len() == 1 && tasks.slots.are_next());
    let first = Exchanged::<()> { receipts: Some(receipts), tasks: Vec::new(), no_pollers: None };
    let mut piece = has_answers.then(|| (line(bytes_of(&first)), Vec::new()));
    let mut next = next_line(tasks);
    if may_linger {
        // If a task arrives within `LINGER`, it is sent together with the receipt.
        match tokio::time::timeout(LINGER, &mut next).await {
            Ok(None) => next = Box::pin(std::future::ready(None)),
            Ok(Some(((bytes, delivered), tasks))) => {
                let both = piece.take().map_or(bytes.clone(), |(first, _)| [first, bytes].concat().into());
                (piece, next) = (Some((both, delivered)), next_line(tasks));
            }
            Err(_) => {}
        }
    }
    let others = stream::unfold(next, |next| async move {
        let (piece, tasks) = next.await?;
        Some((piece, next_line(tasks)))
    });
    let pieces = Box::pin(futures_util::StreamExt::chain(stream::iter(piece), others));
    let mut response = Response::new(task_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Tells nginx and other proxies to pass on each line immediately. Source: nginx, `proxy_buffering`.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// End of the JSON text of a response with tasks.
const END_OF_TASKS: &[u8] = b"]}";

/// Returns a single response in pieces: first the receipts with the tasks that fit, then the further tasks. The further
/// tasks are read only when the connection accepts more bytes, so that the whole response is never in memory.
fn at_once(first: (Vec<u8>, Vec<Receipt>), tasks: TasksOf) -> BoxStream<'static, Piece> {
    let pieces = stream::unfold((Some(first), tasks, false), |(first, mut tasks, has_tasks)| async move {
        let (mut bytes, delivered) = match first {
            Some(first) => first,
            None if tasks.slots.are_filled() => return None,
            None => {
                let (bytes, delivered) = tasks.next(None).await.unwrap_or_default();
                let others = bytes.strip_prefix(START_OF_TASKS).unwrap_or(END_OF_TASKS);
                let comma: &[u8] = if has_tasks && !delivered.is_empty() { b"," } else { b"" };
                ([comma, others].concat(), delivered)
            }
        };
        let has_tasks = has_tasks || !delivered.is_empty();
        if !tasks.slots.are_filled() && bytes.ends_with(END_OF_TASKS) {
            bytes.truncate(bytes.len() - END_OF_TASKS.len());
        }
        Some(((bytes.into(), delivered), (None, tasks, has_tasks)))
    });
    Box::pin(pieces)
}

/// Beginning of the JSON text of a piece that contains only tasks.
const START_OF_TASKS: &[u8] = br#"{"tasks":["#;

/// Returns the next tasks as a JSON line; `None` if no more follow. If the future is dropped, all tasks that it has
/// taken return to their list.
fn next_line(mut tasks: TasksOf) -> BoxFuture<'static, Option<(Piece, TasksOf)>> {
    Box::pin(async move {
        let (bytes, delivered) = tasks.next(None).await?;
        Some(((line(bytes), delivered), tasks))
    })
}

/// Piece of a response, with the receipts to which the delivery of its tasks is reported.
type Piece = (Bytes, Vec<Receipt>);

/// Returns JSON as one line. Line breaks, which payloads may contain between JSON tokens, become spaces.
fn line(mut bytes: Vec<u8>) -> Bytes {
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'\n', b'\r', rest)) {
        at += found;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = b' ';
        }
    }
    bytes.push(b'\n');
    bytes.into()
}
