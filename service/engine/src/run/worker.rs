//! A run's worker. It admits a batch of requests, writes one commit, and sends the responses. Requests that cannot be
//! batched are handled one by one.

use std::pin::Pin;
use std::sync::Arc;

use history::{
    AnsweredTurn, Command, CommandOutcome, EffectResult, EventId, Heartbeat, KnownRequest, Run, TaskId, Timestamp,
    Transition,
    admit::{HeldState, held, held_state},
};
use store::HeadKey;
use uuid::Uuid;

use crate::commit::state::CachedRun;
use crate::commit::{self, StoredRun};
use crate::lists::sync_match::{start_task, waiting_turn};
use crate::riders::answer::update_statuses;
use crate::run::after;
use crate::run::cell::RunCell;
use crate::run::context::RunContext;
use crate::run::effects::{apply_owed_effect, is_settled};
use crate::run::inbox::InboxItem;
use crate::run::request::{Alone, Batched, EffectOutcome, EffectSource};
use crate::run::runs::RunExecutor;
use crate::{Admitted, Refusal};

/// The worker of a run. While it works, it owns the run's state in memory. Each run has at most one worker on a node.
pub(crate) struct RunWorker<'a> {
    pub(crate) context: &'a Arc<RunContext>,
    pub(crate) key: &'a HeadKey,
    pub(crate) state: &'a mut CachedRun,
}

impl RunExecutor for RunContext {
    fn work(self: Arc<Self>, cell: Arc<RunCell>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut state = cell.state.lock().await;
            let mut shift = cell.inbox.begin();
            let mut worker = RunWorker { context: &self, key: &cell.key, state: &mut state };
            while let Some(work) = shift.next() {
                match work {
                    InboxItem::Batch(mut batch) => {
                        let mut attempt = 0;
                        let done = loop {
                            match worker.try_batch(&mut batch, &mut attempt).await {
                                Ok(TryOutcome::Again) => {}
                                Ok(TryOutcome::Done) => break Ok(()),
                                Err(refusal) => break Err(refusal),
                            }
                        };
                        if let Err(refusal) = done {
                            batch.drain(..).for_each(|request| refuse(request, &refusal));
                        }
                    }
                    InboxItem::Alone(request) => worker.run_alone(request).await,
                }
                worker.start_successor_if_due().await;
            }
            shift.end();
            let kept = worker.keep();
            drop(state);
            self.runs.settle(&cell, kept);
        })
    }
}

/// Outcome of an attempt to admit and commit a batch.
enum TryOutcome {
    /// All requests of the batch have their responses.
    Done,
    /// Nothing was committed. The batch must be admitted again, in a newer state of the run.
    Again,
}

impl RunWorker<'_> {
    /// Loads the run unless it is in memory. Returns `None` if there is no run.
    pub(crate) async fn loaded(&mut self) -> Result<Option<&StoredRun>, Refusal> {
        self.context.reader.loaded(self.key, self.state).await
    }

    /// Returns the size of the run's state if the state stays in memory. The state of a closed run without undelivered
    /// effects does not stay, because it is rarely read again.
    fn keep(&mut self) -> Option<usize> {
        let is_needed = |loaded: &&StoredRun| loaded.run().is_open() || !loaded.body.links.outbox.is_empty();
        let bytes = self.state.known().filter(is_needed).map(StoredRun::bytes);
        if bytes.is_none() {
            self.state.forget();
        }
        bytes
    }

    async fn start_successor_if_due(&mut self) {
        if self.state.known().is_some_and(StoredRun::has_successor)
            && let Err(refusal) = Box::pin(self.start_successor()).await
        {
            // The successor is started later, when the due index wakes the run.
            let workflow_id = &self.key.workflow_id;
            tracing::warn!(%refusal, %workflow_id, "the successor run could not be started; retrying at the next wake");
        }
    }

    /// Handles a request that is not part of a batch.
    async fn run_alone(&mut self, request: Alone) {
        // Each of these futures is boxed. Thus the worker's own future has space only for batches, which are by far the
        // most frequent requests.
        match request {
            Alone::Start { start, reply } => drop(reply.send(Box::pin(self.run_start(&start, None)).await)),
            Alone::StartChild { source, outbound, reply } => {
                drop(reply.send(Box::pin(self.run_child_start(&source, &outbound)).await));
            }
            Alone::TakeRiders { run_id, kind, taker, reply } => {
                drop(reply.send(Box::pin(self.run_take_riders(run_id, kind, &taker)).await));
            }
            Alone::Update { run_id, update, reply } => {
                drop(reply.send(Box::pin(self.run_update(run_id, *update)).await));
            }
            Alone::Query { run_id, query, reply } => {
                drop(reply.send(Box::pin(self.run_query(run_id, query)).await));
            }
            Alone::DispatchRiders { reply } => drop(reply.send(Box::pin(self.run_dispatch_riders()).await)),
            Alone::Delete { run_id, deletion, reply } => {
                drop(reply.send(Box::pin(self.run_delete(run_id, &deletion)).await));
            }
            Alone::Reset { run_id, reset, reply } => {
                drop(reply.send(Box::pin(self.run_reset(run_id, &reset)).await));
            }
            Alone::Import { imported, reply } => drop(reply.send(Box::pin(self.run_import(&imported)).await)),
            Alone::Heartbeat { run_id, task, details, reply } => {
                drop(reply.send(Box::pin(self.run_heartbeat(run_id, task, details)).await));
            }
        }
    }

    async fn run_heartbeat(
        &mut self,
        run_id: Uuid,
        task: TaskId,
        details: Option<history::Payload>,
    ) -> Result<HeldState, Refusal> {
        let (context, key) = (self.context, self.key);
        let now = context.clock.now();
        let is_held = |run: &Run| run.started.run_id == run_id && held(run, task).is_ok();
        if self.state.known().is_some_and(|loaded| !is_held(loaded.run())) {
            // Another node may have started the activity, so the state in memory may be outdated.
            self.state.forget();
        }
        let loaded = self.loaded().await?.ok_or_else(|| Refusal::unknown_workflow(key))?;
        must_be_current(key, loaded.run(), Some(run_id))?;
        let state = held_state(loaded.run(), task)?;
        let beat = Heartbeat { scheduled_event_id: task.scheduled_event_id, at: now, details };
        let part = store::PartKey::Heartbeat { scheduled: task.scheduled_event_id };
        context.store.put_part(key, *run_id.as_bytes(), part, crate::commit::head::encode_heartbeat(&beat)).await?;
        if let Some(loaded) = self.state.known_mut() {
            loaded.heartbeats.retain(|known| known.scheduled_event_id != task.scheduled_event_id);
            loaded.heartbeats.push(beat);
        }
        Ok(state)
    }

    /// Tries once to admit a batch and to commit it.
    async fn try_batch(&mut self, batch: &mut Vec<Batched>, attempt: &mut u32) -> Result<TryOutcome, Refusal> {
        let (context, key) = (self.context, self.key);
        let before = self.state.was_cached();
        let now = context.clock.now();
        let Some(loaded) = self.loaded().await? else {
            batch.drain(..).for_each(|request| answer_without_run(key, request));
            return Ok(TryOutcome::Done);
        };
        if !before.get() {
            context.apply_after(key, loaded, after::of_loading(key, loaded));
        }
        if loaded.has_successor() {
            Box::pin(self.start_successor()).await?;
            return Ok(TryOutcome::Again);
        }
        let run = loaded.run();
        let (last_event_id, waiting_turn) = (run.last_event_id, waiting_turn(run));
        let heartbeats = loaded.heartbeats.clone();
        let outbox = loaded.body.links.outbox.clone();
        let mut transition = Transition::linked(loaded.body.run.clone(), loaded.body.links.clone());
        // This check must be between the loading of the run and the commit.
        let sources = batch.iter().filter_map(|request| match request {
            Batched::Effect { source, .. } => Some(source),
            Batched::Command { .. } | Batched::Take { .. } | Batched::Wake { .. } => None,
        });
        let sources: Vec<&EffectSource> = sources.collect();
        let owed = context.effects.still_owed(key, &sources, &mut transition).await;
        let requests = batch.iter().filter_map(|request| match request {
            Batched::Command { command, .. } => Some(command.requests()),
            Batched::Take { .. } | Batched::Effect { .. } | Batched::Wake { .. } => None,
        });
        context.marks.recall(key, transition.run_mut(), &requests.flatten().collect::<Vec<_>>()).await?;
        let is_woken = batch.iter().any(|request| matches!(request, Batched::Wake { .. }));
        let stopped = if is_woken {
            Box::pin(context.lists.stopped_for_wake(&key.domain, transition.run(), now)).await?
        } else {
            Arc::default()
        };
        let fire = Command::FireDeadlines { heartbeats, stopped };
        let BatchSummary { wakes, refuses } = admit(key, batch, &mut transition, owed, &fire, now);
        if refuses && self.state.invalidate_if_served_from_cache(before) {
            return Ok(TryOutcome::Again);
        }
        let round = transition.links().outbox.round();
        let written = if transition.is_changed() {
            self.write(transition, last_event_id, waiting_turn, attempt).await?
        } else if wakes {
            Box::pin(self.wake_without_events(now, attempt)).await?
        } else {
            Some(())
        };
        if written.is_none() {
            return Ok(TryOutcome::Again);
        }
        self.answer(batch);
        if let Some(loaded) = self.state.known().filter(|_| wakes) {
            let now = context.clock.now();
            context.apply_after(key, loaded, after::of_wake(key, loaded, &outbox, round, now));
        }
        Ok(TryOutcome::Done)
    }

    /// Handles a wake that records no events. Writes only if the time of the run's next wake must change in the store.
    async fn wake_without_events(&mut self, now: Timestamp, attempt: &mut u32) -> Result<Option<()>, Refusal> {
        let Some(loaded) = self.state.known() else {
            return Ok(Some(()));
        };
        let stored = loaded.head.due.map(Timestamp::from_millis);
        // The time in the store is too late if it was computed with a clock that was ahead.
        let stopped = self.context.lists.stopped(&self.key.domain);
        let StoredRun { body, heartbeats, .. } = loaded;
        let due = commit::due(loaded.run(), &body.links, heartbeats, body.offers, &stopped, now);
        let is_late = |stored: Timestamp| due.is_some_and(|due| stored.since(due) > history::limits::DEADLINE_LATE_MIN);
        if stored.is_none_or(|stored| stored > now && !is_late(stored)) {
            // After the resume of a task list, the run may be due a little earlier than stored.
            self.context.agenda.set(self.key, stored.map(|stored| due.map_or(stored, |due| due.min(stored))));
            return Ok(Some(()));
        }
        let transition = Transition::linked(loaded.body.run.clone(), loaded.body.links.clone());
        let (last_event_id, waiting_turn) = (loaded.run().last_event_id, waiting_turn(loaded.run()));
        self.write(transition, last_event_id, waiting_turn, attempt).await
    }

    /// Sends the responses to the requests of a committed batch.
    fn answer(&self, batch: &mut Vec<Batched>) {
        let context = self.context;
        for request in batch.drain(..) {
            match request {
                Batched::Command { reply, .. } => {
                    if let Some(refusal) = reply.refusal() {
                        context.metrics.refused(refusal.code());
                    }
                    reply.send();
                }
                Batched::Take { task, taker, reply, start, .. } => {
                    let granted = self.state.known().zip(start).and_then(|(loaded, start)| {
                        let id = task.scheduled_event_id;
                        let grant = context.grant(self.key, loaded, id, start, &taker)?;
                        context.apply_after(self.key, loaded, after::of_grant(self.key, loaded.run(), id, taker.poll));
                        Some(grant)
                    });
                    drop(reply.send(Ok(granted)));
                }
                Batched::Effect { reply, .. } => reply.send(),
                Batched::Wake { reply } => drop(reply.send(Ok(()))),
            }
        }
    }
}

/// Summary of a batch of requests.
struct BatchSummary {
    /// True if a request wakes the run.
    wakes: bool,
    /// True if a request fails for a reason that depends on the run's state.
    refuses: bool,
}

/// Admits requests in order. Each request is admitted in the state that results from the previous requests. `owed`
/// contains, for each effect in the batch, whether the effect is still in the outbox of its source run. `fire` is the
/// command of a wake, which records what is due.
fn admit(
    key: &HeadKey,
    batch: &mut [Batched],
    transition: &mut Transition,
    owed: Vec<Result<bool, Refusal>>,
    fire: &Command,
    now: Timestamp,
) -> BatchSummary {
    let mut summary = BatchSummary { wakes: false, refuses: false };
    let mut owed = owed.into_iter();
    for request in batch {
        match request {
            Batched::Command { run_id, command, author, reply } => {
                summary.refuses |= is_settled(command, transition);
                let before = transition.run().version;
                reply.set(match transition.repeated(command, *run_id) {
                    Some(request) => Ok(repeated(transition, request)),
                    None => must_be_current(key, transition.run(), *run_id)
                        .and_then(|()| Ok(transition.admit_as(command, author, now)?))
                        .map(|outcome| admitted(transition, command, before, outcome)),
                });
                summary.refuses |= reply.refusal().is_some_and(depends_on_state);
            }
            Batched::Take { task, list, taker, start, .. } => {
                let is_same = transition.run().started.run_id == task.run_id;
                let (id, lost) = (task.scheduled_event_id, task.lost);
                *start = is_same.then(|| start_task(transition, id, lost, list, taker, now)).flatten();
                summary.refuses |= start.is_none();
            }
            Batched::Effect { outbound, reply, .. } => {
                let applied = apply_owed_effect(owed.next(), transition, outbound, now);
                summary.refuses |=
                    matches!(applied, Ok(EffectOutcome::Settled(EffectResult::Unknown | EffectResult::Closed)));
                reply.set(applied);
            }
            Batched::Wake { .. } => {
                summary.wakes = true;
                // This fails if no deadline is due yet. The wake then records nothing.
                drop(transition.admit(fire, now));
                drop(transition.admit(&Command::RetryEffects, now));
            }
        }
    }
    summary
}

/// Returns true if a command failed because of the run's state, so that it may succeed with another state.
fn depends_on_state(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Fault(fault) => fault.depends_on_state(),
        refusal => matches!(refusal, Refusal::RunNotCurrent { .. } | Refusal::UnknownRun { .. }),
    }
}

/// Responds to a request to a workflow id that has no run.
fn answer_without_run(key: &HeadKey, request: Batched) {
    match request {
        Batched::Take { reply, .. } => drop(reply.send(Ok(None))),
        Batched::Wake { reply } => drop(reply.send(Ok(()))),
        Batched::Command { reply, .. } => reply.send_instead(Err(Refusal::unknown_workflow(key))),
        Batched::Effect { reply, .. } => reply.send_instead(Ok(EffectOutcome::Settled(EffectResult::Unknown))),
    }
}

fn refuse(request: Batched, refusal: &Refusal) {
    match request {
        Batched::Command { reply, .. } => reply.send_instead(Err(refusal.clone())),
        Batched::Take { reply, permit, .. } => {
            if matches!(refusal, Refusal::OutcomeUnknown { .. }) {
                permit.keep();
            }
            drop(reply.send(Err(refusal.clone())));
        }
        Batched::Effect { reply, .. } => reply.send_instead(Err(refusal.clone())),
        Batched::Wake { reply } => drop(reply.send(Err(refusal.clone()))),
    }
}

fn must_be_current(key: &HeadKey, run: &Run, run_id: Option<Uuid>) -> Result<(), Refusal> {
    let current = run.started.run_id;
    match run_id {
        Some(run_id) if run_id != current => {
            let workflow_id = key.workflow_id.to_string();
            Err(Refusal::RunNotCurrent { workflow_id, run_id, current })
        }
        _ => Ok(()),
    }
}

/// Returns the response to a command that repeats an earlier request.
fn repeated(transition: &Transition, KnownRequest { run_id, event_id }: KnownRequest) -> Admitted {
    let version = transition.run().version;
    Admitted { run_id, event_id, repeated: true, reflects: None, judged: Vec::new(), version, warnings: Vec::new() }
}

/// Returns the response to a command that was admitted. `before` is the run's version before the command.
fn admitted(transition: &mut Transition, command: &Command, before: EventId, outcome: CommandOutcome) -> Admitted {
    let (event_id, repeated) = match outcome {
        CommandOutcome::Recorded(event_id) => (event_id, false),
        CommandOutcome::Repeated(request) => (request.event_id, true),
    };
    let warnings = transition.take_warnings();
    let reflects = match command {
        // No event was recorded after the turn started, so the decider knows the whole state, including the events of
        // its own decisions.
        Command::CompleteTurn { turn, .. } | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. }
            if before <= turn.started_event_id =>
        {
            Some(transition.run().version)
        }
        // Events were recorded that the decider has not seen. No version of the run equals the state that the decider
        // knows, which lacks these events but includes its own decisions. Therefore the version at the start of the
        // turn is used.
        Command::CompleteTurn { turn, .. } | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. } => {
            Some(turn.started_event_id)
        }
        _ => None,
    };
    let run = transition.run();
    let judged = match command {
        Command::AnswerUpdates { answers, .. } => update_statuses(transition, answers),
        _ => Vec::new(),
    };
    let (run_id, version) = (run.started.run_id, run.version);
    Admitted { run_id, event_id, repeated, reflects, judged, version, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the future that the function returns, without calling it.
    fn size<F>(_: impl Fn(&'static mut RunWorker<'static>, &'static mut Vec<Batched>, &'static mut u32) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_worker_takes_little_memory() {
        let size = size(RunWorker::try_batch);
        assert!(size <= 4 * 1_024, "{size} bytes are taken for each batch; what few requests need goes into a box");
    }
}
