//! The host: polls a task list and runs deciders on the tasks it receives.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_client::body::{CompleteTurn, DeciderTask, FailTurn, QueryResult, TaskQuery, TurnReply, UpdateResult};
use baton_client::exchange::{self, ExchangeSettings, TaskReply, TurnKind, Works};
use baton_client::tasks::Outcome;
use baton_client::trace::put_below;
use baton_client::{Client, Error};
use baton_history::{Event, EventId, Payload};
use lru::LruCache;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::turns::Turns;
use crate::update::{TurnEnd, Update};
use crate::{Decisions, Query, QueryError, TakesTurns, Window};

/// Duration above which a turn is logged as slow. Our choice: deciders only decide, so a turn normally takes
/// milliseconds.
const SLOW_TURN: Duration = Duration::from_secs(1);

/// Time for which the host retries the delivery of an answer. Our choice: about twice the default start-to-close
/// timeout of turns. After this timeout, the service refuses the answer anyway.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// Default number of states kept between turns.
const CACHED_STATES: usize = 10_000;

/// Default number of concurrent turns. Our choice: a turn holds its window in memory and needs the processor only for
/// microseconds.
const TURNS_AT_ONCE: usize = 64;

/// A cached decider state and its position in the history.
struct Cached {
    /// Id of the DeciderStarted event of the newest turn that the state treats as completed.
    turn: EventId,
    /// Id of the newest event that the state includes.
    seen: EventId,
    state: Box<dyn Any + Send>,
}

/// A decider with its state type erased.
trait AnyDecider: Send + Sync {
    fn fresh(&self) -> Box<dyn Any + Send>;
    fn updates_at_once(&self) -> usize;
    fn evolve(&self, state: &mut (dyn Any + Send), events: &[Event]);
    fn take_turn(&self, state: &mut (dyn Any + Send), window: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd;
    fn query(&self, state: &(dyn Any + Send), query: &Query<'_>) -> Result<Payload, QueryError>;
}

impl<T: TakesTurns> AnyDecider for T {
    fn fresh(&self) -> Box<dyn Any + Send> {
        Box::new(T::Memory::default())
    }

    fn updates_at_once(&self) -> usize {
        T::UPDATES_AT_ONCE
    }

    fn evolve(&self, state: &mut (dyn Any + Send), events: &[Event]) {
        let state =
            state.downcast_mut::<T::Memory>().expect("the state of a run always has the type of its workflow type");
        for event in events {
            self.apply_event(state, event);
        }
    }

    fn take_turn(&self, state: &mut (dyn Any + Send), window: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd {
        let state =
            state.downcast_mut::<T::Memory>().expect("the state of a run always has the type of its workflow type");
        Turns::take_turn(self, state, window, updates, shown)
    }

    fn query(&self, state: &(dyn Any + Send), query: &Query<'_>) -> Result<Payload, QueryError> {
        let state =
            state.downcast_ref::<T::Memory>().expect("the state of a run always has the type of its workflow type");
        self.reply(state, query)
    }
}

/// Polls one task list and runs deciders.
///
/// The host keeps states between turns, so that a turn costs only its window and not its whole history. If a state is
/// not cached (after a restart, on another host, or beyond the cache limit), the host rebuilds it from event 1.
pub struct Host {
    client: Client,
    list: String,
    identity: String,
    concurrency: usize,
    workflow_id: Option<String>,
    shared: Arc<HostShared>,
}

struct HostShared {
    deciders: HashMap<String, Arc<dyn AnyDecider>>,
    cache: Mutex<LruCache<Uuid, Cached>>,
}

impl HostShared {
    /// Returns the number of updates per turn that every decider of the host accepts.
    fn updates_at_once(&self) -> usize {
        self.deciders.values().map(|decider| decider.updates_at_once()).min().unwrap_or(1)
    }
}

impl Host {
    /// Creates a host for one task list of the client's domain.
    pub fn new(client: Client, list: impl Into<String>) -> Self {
        let bound = NonZeroUsize::new(CACHED_STATES).unwrap_or(NonZeroUsize::MIN);
        let shared = HostShared { deciders: HashMap::new(), cache: Mutex::new(LruCache::new(bound)) };
        let identity = format!("decider-{}", std::process::id());
        let (concurrency, workflow_id, shared) = (TURNS_AT_ONCE, None, Arc::new(shared));
        Self { client, list: list.into(), identity, concurrency, workflow_id, shared }
    }

    /// Registers this decider for runs of this type. A later registration for the same type replaces this registration.
    #[must_use]
    pub fn register(mut self, workflow_type: impl Into<String>, decider: impl TakesTurns) -> Self {
        // The `Arc` is not shared before `run`, so `get_mut` always succeeds.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.deciders.insert(workflow_type.into(), Arc::new(decider));
        }
        self
    }

    /// Sets the maximum number of concurrent turns. Default: 64. If more runs have turns at the same time, the rest
    /// wait on the task list. Each turn that has waited costs the service an additional commit, so allow as many turns
    /// as the host can handle.
    #[must_use]
    pub fn concurrency(mut self, turns: usize) -> Self {
        self.concurrency = turns.max(1);
        self
    }

    /// Takes only turns of the run with this workflow id, to debug that run. While the host polls, it gets these
    /// turns before the other hosts of the list, which continue with all other runs.
    #[must_use]
    pub fn only_workflow(mut self, workflow_id: impl Into<String>) -> Self {
        self.workflow_id = Some(workflow_id.into());
        self
    }

    /// Sets the identity that the history records for this host. Default: derived from the process id.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Sets the maximum number of states kept between turns. Default: 10,000. The minimum is 1.
    #[must_use]
    pub fn cached_states(self, states: usize) -> Self {
        let bound = NonZeroUsize::new(states).unwrap_or(NonZeroUsize::MIN);
        self.shared.cache.lock().expect("no code panics while it holds this lock").resize(bound);
        self
    }

    /// Runs until SIGTERM or ctrl-c, then finishes the turns it has taken.
    pub async fn run(self) {
        self.run_until(baton_client::shutdown::requested()).await;
    }

    /// Runs until `stop` resolves, then finishes the turns it has taken.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let Self { client, list, identity, concurrency, workflow_id, shared } = self;
        let updates = Some(shared.updates_at_once());
        let settings =
            ExchangeSettings { identity, at_once: concurrency, queries: true, updates, interval: None, workflow_id };
        let worker = Arc::new(TurnWorker { client: client.clone(), shared });
        exchange::host(client, &list, settings, worker, stop, None).await;
    }
}

/// Decides the turns of a host.
struct TurnWorker {
    client: Client,
    shared: Arc<HostShared>,
}

/// Identification of an answered turn.
struct TurnContext {
    token: String,
    workflow_id: String,
    run_id: Uuid,
    /// True if the turn was given back.
    is_given_back: bool,
}

impl Works<TurnKind> for TurnWorker {
    type Context = TurnContext;

    async fn work(self: Arc<Self>, task: DeciderTask) -> TaskReply<TurnKind, TurnContext> {
        let (token, workflow_id, run_id) = (task.token.clone(), task.workflow_id.clone(), task.run_id);
        let began = tokio::time::Instant::now();
        let trace = task.trace();
        let span = tracing::info_span!(
            "turn",
            workflow_id,
            %run_id,
            workflow_type = task.workflow_type,
            traceparent = trace.as_ref().map(|trace| tracing::field::display(trace.traceparent)),
        );
        put_below(&span, trace.as_ref());
        let client = self.client.clone().within(trace.as_ref());
        let decided = self.decide(&client, task).instrument(span).await;
        if began.elapsed() > SLOW_TURN {
            tracing::warn!(
                workflow_id,
                elapsed_ms = began.elapsed().as_millis(),
                "slow turn: deciders should only make decisions; schedule activities for other work"
            );
        }
        let (complete, fail) = match decided {
            Ok(HostAnswer { decisions, query_results, cached }) => {
                let Decisions { decisions, context, awaiting, moves, updates, .. } = decisions;
                let update_results = updates.into_iter().map(UpdateResult::from).collect();
                // The state is cached before the answer is sent, because the run's next turn can arrive before the
                // response to the answer.
                self.keep(run_id, cached);
                let (task_list, task_list_schedule_to_start) =
                    moves.map(|list| (list.task_list, list.schedule_to_start)).unzip();
                let task_list_schedule_to_start = task_list_schedule_to_start.flatten();
                let complete = CompleteTurn {
                    decisions,
                    context,
                    awaiting,
                    task_list,
                    task_list_schedule_to_start,
                    query_results,
                    update_results,
                };
                (Some(complete), None)
            }
            Err(GiveBack { reason, message, is_lost }) => {
                // If the turn no longer exists, the refusal of the answer is logged instead.
                if !is_lost {
                    tracing::error!(workflow_id, %reason, message, "turn returned");
                }
                let (reason, details) = (Some(reason.into_owned()), Payload::of(&message).ok());
                (None, Some(FailTurn { reason, details }))
            }
        };
        let context = TurnContext { token: token.clone(), workflow_id, run_id, is_given_back: fail.is_some() };
        TaskReply { reply: TurnReply { token, complete, fail }, patience: ANSWER_PATIENCE, context }
    }

    fn answered(&self, of: TurnContext, outcome: Result<Outcome, Error>) -> Option<TaskReply<TurnKind, TurnContext>> {
        let TurnContext { token, workflow_id, run_id, is_given_back } = of;
        match outcome {
            Ok(Outcome::Recorded | Outcome::RecordedBefore) => None,
            Ok(Outcome::Lost(error)) => {
                tracing::info!(%error, workflow_id, "answer discarded: too late");
                self.forget(run_id);
                None
            }
            Err(error) => {
                tracing::error!(%error, workflow_id, "answer refused by the service");
                self.forget(run_id);
                if error.is_retryable() || is_given_back {
                    return None;
                }
                // The answer itself is invalid. Record this in the history instead of letting the turn time out.
                let (reason, details) = (Some("answer-refused".to_owned()), Payload::of(&error.to_string()).ok());
                let fail = Some(FailTurn { reason, details });
                let context = TurnContext { token: token.clone(), workflow_id, run_id, is_given_back: true };
                Some(TaskReply { reply: TurnReply { token, complete: None, fail }, patience: ANSWER_PATIENCE, context })
            }
        }
    }
}

impl TurnWorker {
    async fn decide(&self, client: &Client, task: DeciderTask) -> Result<HostAnswer, GiveBack> {
        let decider = self.shared.deciders.get(&task.workflow_type).map(Arc::clone).ok_or_else(|| {
            GiveBack::new("unknown-workflow-type", format!("this host has no decider for `{}`", task.workflow_type))
        })?;
        let run_id = task.run_id;
        let cached = self.cache().pop(&run_id);
        let previous = task.previous_started_event_id;
        let is_of_this =
            |cached: &Cached| cached.turn == previous && previous > 0 && cached.seen <= task.started_event_id;
        let known = cached.filter(is_of_this);
        let first_event_id = task.events.first().map_or(1, |event| event.id);
        let (from, state, look_back) = match known {
            Some(Cached { seen, state, .. }) if first_event_id <= seen + 1 => (seen, Some(state), Vec::new()),
            _ => {
                // Boxed because few turns need older history. Otherwise the future of every turn would reserve space
                // for the future of this request.
                let look_back = Box::pin(client.look_back(&task.token, first_event_id)).await;
                (
                    0,
                    None,
                    look_back.map_err(|error| GiveBack {
                        reason: "look-back-failed".into(),
                        message: error.to_string(),
                        is_lost: error.is_task_lost(),
                    })?,
                )
            }
        };
        let trace = task.trace();
        let (started_event_id, query_only, queries) = (task.started_event_id, task.query_only, task.queries);
        let updates: Vec<Update> = task.updates.into_iter().map(Update::from).collect();
        // The last two events of a speculative turn, DeciderScheduled and DeciderStarted, are not recorded yet.
        let recorded = task.events.len().saturating_sub(if task.speculative { 2 } else { 0 });
        let shown = task.events.get(recorded..).unwrap_or_default().to_vec();
        let seen = task.events.get(..recorded).and_then(<[Event]>::last).map_or(0, |event| event.id);
        let window = Window {
            workflow_id: task.workflow_id,
            run_id,
            workflow_type: task.workflow_type,
            attempt: task.attempt,
            started_event_id,
            previous_started_event_id: task.previous_started_event_id,
            events: task.events,
            context: task.context,
            trace,
        };
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let mut state = state.unwrap_or_else(|| decider.fresh());
            decider.evolve(&mut *state, &look_back);
            let new = window.events.iter().position(|event| event.id > from).unwrap_or(recorded);
            decider.evolve(&mut *state, window.events.get(new.min(recorded)..recorded).unwrap_or_default());
            let taken = if query_only {
                TurnEnd::Turn(Decisions::new())
            } else {
                decider.take_turn(&mut *state, &window, &updates, &shown)
            };
            (taken, state)
        }));
        match decided {
            Ok((TurnEnd::Turn(Decisions { given_back: Some(it), .. }), _)) => Err(GiveBack::new(it.reason, it.message)),
            Ok((TurnEnd::Turn(decisions), state)) => {
                let answer_query = |query| answer(&*decider, &*state, &decisions, query);
                let query_results = queries.into_iter().map(answer_query).collect();
                let turn = if query_only { previous } else { started_event_id };
                Ok(HostAnswer { decisions, query_results, cached: Cached { turn, seen: started_event_id, state } })
            }
            Ok((TurnEnd::Nothing(updates), state)) => {
                let decisions = Decisions { updates, ..Decisions::new() };
                Ok(HostAnswer { decisions, query_results: Vec::new(), cached: Cached { turn: previous, seen, state } })
            }
            Err(panic) => Err(GiveBack::new("panic", baton_client::shutdown::panic_message(&*panic))),
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, LruCache<Uuid, Cached>> {
        self.shared.cache.lock().expect("no code panics while it holds this lock")
    }

    fn keep(&self, run_id: Uuid, cached: Cached) {
        let mut cache = self.cache();
        // While this query was being answered, another slot may have decided a turn of the run. That state is newer and
        // must be kept.
        if cache.peek(&run_id).is_none_or(|known| known.seen <= cached.seen) {
            cache.put(run_id, cached);
        }
    }

    fn forget(&self, run_id: Uuid) {
        self.cache().pop(&run_id);
    }
}

/// Result of deciding a task.
struct HostAnswer {
    decisions: Decisions,
    query_results: Vec<QueryResult>,
    cached: Cached,
}

/// Answers one query. If the answer fails or panics, only this query is affected.
fn answer(
    decider: &dyn AnyDecider,
    state: &(dyn Any + Send),
    decisions: &Decisions,
    task_query: TaskQuery,
) -> QueryResult {
    let query = Query::new(&task_query.name, task_query.input.as_ref()).after(decisions.as_slice());
    let answered = catch_unwind(AssertUnwindSafe(|| decider.query(state, &query)));
    let answered =
        answered.unwrap_or_else(|panic| Err(QueryError::Panicked(baton_client::shutdown::panic_message(&*panic))));
    match answered {
        Ok(result) => QueryResult { id: task_query.id, result: Some(result), error: None },
        Err(error) => QueryResult { id: task_query.id, result: None, error: Some(error.into_body()) },
    }
}

/// Reason why a turn is given back.
struct GiveBack {
    reason: Cow<'static, str>,
    message: String,
    /// The turn no longer exists, e.g. because its run was deleted.
    is_lost: bool,
}

impl GiveBack {
    fn new(reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { reason: reason.into(), message, is_lost: false }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_future_of_a_turn_is_small() {
        let shared = HostShared { deciders: HashMap::new(), cache: Mutex::new(LruCache::new(NonZeroUsize::MIN)) };
        let worker = TurnWorker { client: Client::new("localhost:7420").unwrap(), shared: Arc::new(shared) };
        let task = json!({
            "token": "t", "domain": "default", "workflowId": "w", "runId": Uuid::nil(), "workflowType": "order",
            "taskList": "l", "attempt": 1, "startedEventId": 3, "previousStartedEventId": 0, "events": [],
        });
        let size = size_of_val(&Arc::new(worker).work(serde_json::from_value(task).unwrap()));
        // The host moves this future for every turn, so the future must be small. It was twice as large when it
        // contained the future that reads older history.
        assert!(size <= 2_048, "{size}");
    }
}
