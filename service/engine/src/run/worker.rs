//! A run's worker: admits the waiting requests of a run together, commits once, and answers them.

use std::pin::Pin;
use std::sync::Arc;

use history::{
    AnsweredTurn, Author, Command, CommandOutcome, EffectResult, Heartbeat, KnownRequest, OutboundAction,
    OutboundEffect, Run, TaskId, Timestamp, Transition, admit::held,
};
use store::HeadKey;
use uuid::Uuid;

use crate::commit::state::CachedRun;
use crate::commit::{self, StoredRun};
use crate::lists::grant::Grant;
use crate::lists::sync_match::{start_task, waiting_turn};
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::riders::answer::standings;
use crate::run::after;
use crate::run::cell::RunCell;
use crate::run::effects::{apply_owed_effect, is_settled};
use crate::run::request::{EffectOutcome, EffectSource, Reply, RunRequest};
use crate::run::runs::WorksOnRuns;
use crate::run::workshop::Workshop;
use crate::{Admitted, Refusal};

/// The worker of a run. It owns the run's state in memory while it works, and is the only worker of the run.
pub(crate) struct RunWorker<'a> {
    pub(crate) shop: &'a Arc<Workshop>,
    pub(crate) key: &'a HeadKey,
    pub(crate) state: &'a mut CachedRun,
}

/// A request of a batch that changes events, with the answer to send once the events are durable.
enum Pending {
    Tell {
        run_id: Option<Uuid>,
        command: Command,
        author: Author,
        reply: Reply<Admitted>,
        answer: Option<Result<Admitted, Refusal>>,
    },
    Take {
        task: WaitingTask,
        list: ListKey,
        taker: Taker,
        reply: Reply<Option<Grant>>,
        taken: Option<u32>,
    },
    Effect {
        source: EffectSource,
        outbound: Box<OutboundEffect>,
        reply: Reply<EffectOutcome>,
        answer: Option<Result<EffectOutcome, Refusal>>,
    },
    Look {
        reply: Option<Reply<()>>,
    },
}

impl WorksOnRuns for Workshop {
    fn work(self: Arc<Self>, cell: Arc<RunCell>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut state = cell.state.lock().await;
            let mut shift = cell.inbox.begin();
            let mut worker = RunWorker { shop: &self, key: &cell.key, state: &mut state };
            while let Some(batch) = shift.next() {
                worker.run_batch(batch).await;
            }
            shift.end();
            let kept = worker.keep();
            drop(state);
            self.runs.settle(&cell, kept);
        })
    }
}

impl RunWorker<'_> {
    /// Loads the run unless it is in memory. Returns `None` if there is no run.
    pub(crate) async fn loaded(&mut self) -> Result<Option<&StoredRun>, Refusal> {
        self.shop.reader.loaded(self.key, self.state).await
    }

    /// Returns the size of the state if it stays in memory. A closed run is read rarely, and then from the store.
    fn keep(&mut self) -> Option<usize> {
        let is_needed = |loaded: &&StoredRun| loaded.run().is_open() || !loaded.body.links.outbox.is_empty();
        let bytes = self.state.known().filter(is_needed).map(StoredRun::bytes);
        if bytes.is_none() {
            self.state.forget();
        }
        bytes
    }

    async fn run_batch(&mut self, batch: Vec<RunRequest>) {
        let mut pending = Vec::with_capacity(batch.len());
        for request in batch {
            match request {
                RunRequest::Tell { run_id, command, author, reply } => {
                    pending.push(Pending::Tell { run_id, command, author, reply, answer: None });
                }
                RunRequest::Take { task, list, taker, reply } => {
                    pending.push(Pending::Take { task, list, taker, reply, taken: None });
                }
                RunRequest::Effect { source, outbound, reply }
                    if !matches!(outbound.task, OutboundAction::Start(_)) =>
                {
                    pending.push(Pending::Effect { source, outbound, reply, answer: None });
                }
                RunRequest::Look { reply } => pending.push(Pending::Look { reply }),
                alone => {
                    self.run_pending(&mut pending).await;
                    self.run_alone(alone).await;
                }
            }
        }
        self.run_pending(&mut pending).await;
        if self.state.known().is_some_and(StoredRun::has_successor)
            && let Err(refusal) = Box::pin(self.start_successor()).await
        {
            // The due index wakes the run again.
            let workflow_id = &self.key.workflow_id;
            tracing::warn!(%refusal, %workflow_id, "the run that goes on could not begin yet");
        }
    }

    /// Handles a request that is not admitted together with others.
    async fn run_alone(&mut self, request: RunRequest) {
        // Each future is boxed, so that the worker only reserves space for the frequent requests, which come in
        // batches.
        match request {
            RunRequest::Start { start, reply } => drop(reply.send(Box::pin(self.run_start(&start, None)).await)),
            RunRequest::TakeRiders { run_id, kind, taker, reply } => {
                drop(reply.send(Box::pin(self.run_take_riders(run_id, kind, &taker)).await));
            }
            RunRequest::Update { run_id, put, reply } => {
                drop(reply.send(Box::pin(self.run_update(run_id, *put)).await));
            }
            RunRequest::Pose { run_id, query, reply } => {
                drop(reply.send(Box::pin(self.run_pose(run_id, query)).await));
            }
            RunRequest::SeeToRiders { reply } => drop(reply.send(Box::pin(self.run_see_to_riders()).await)),
            RunRequest::Effect { source, outbound, reply } => {
                drop(reply.send(Box::pin(self.run_child_start(&source, &outbound)).await));
            }
            RunRequest::Delete { run_id, deletion, reply } => {
                drop(reply.send(Box::pin(self.run_delete(run_id, &deletion)).await));
            }
            RunRequest::Reset { run_id, reset, reply } => {
                drop(reply.send(Box::pin(self.run_reset(run_id, &reset)).await));
            }
            RunRequest::Import { imported, reply } => drop(reply.send(Box::pin(self.run_import(&imported)).await)),
            RunRequest::Beat { run_id, task, details, reply } => {
                drop(reply.send(Box::pin(self.run_beat(run_id, task, details)).await));
            }
            // These requests are part of batches. If one arrives here, dropping its reply reports an unknown outcome.
            RunRequest::Tell { .. } | RunRequest::Take { .. } | RunRequest::Look { .. } => {}
        }
    }

    async fn run_beat(
        &mut self,
        run_id: Uuid,
        task: TaskId,
        details: Option<history::Payload>,
    ) -> Result<bool, Refusal> {
        let (shop, key) = (self.shop, self.key);
        let now = shop.clock.now();
        let is_held = |run: &Run| run.started.run_id == run_id && held(run, task).is_ok();
        if self.state.known().is_some_and(|loaded| !is_held(loaded.run())) {
            // Another node may have started the activity.
            self.state.forget();
        }
        let loaded = self.loaded().await?.ok_or_else(|| Refusal::unknown_workflow(key))?;
        must_be_current(key, loaded.run(), Some(run_id))?;
        let cancel_requested = held(loaded.run(), task)?.cancel_event_id.is_some();
        let beat = Heartbeat { scheduled_event_id: task.scheduled_event_id, at: now, details };
        let part = store::PartKey::Heartbeat { scheduled: task.scheduled_event_id };
        shop.store.put_part(key, *run_id.as_bytes(), part, crate::commit::head::encode_beat(&beat)).await?;
        if let Some(loaded) = self.state.known_mut() {
            loaded.beats.retain(|known| known.scheduled_event_id != task.scheduled_event_id);
            loaded.beats.push(beat);
        }
        Ok(cancel_requested)
    }

    /// Admits the pending requests and commits them.
    async fn run_pending(&mut self, pending: &mut Vec<Pending>) {
        if pending.is_empty() {
            return;
        }
        let mut attempt = 0;
        loop {
            match self.try_pending(pending, &mut attempt).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(refusal) => {
                    for request in pending.drain(..) {
                        refuse(request, &refusal);
                    }
                }
            }
            return;
        }
    }

    /// Makes one attempt. Returns false if another is needed.
    async fn try_pending(&mut self, pending: &mut Vec<Pending>, attempt: &mut u32) -> Result<bool, Refusal> {
        let (shop, key) = (self.shop, self.key);
        let before = self.state.was_cached();
        let now = shop.clock.now();
        let Some(loaded) = self.loaded().await? else {
            for request in pending.drain(..) {
                answer_without_run(key, request);
            }
            return Ok(true);
        };
        if !before.get() {
            shop.carry_out(key, loaded, after::of_loading(key, loaded));
        }
        if loaded.has_successor() {
            Box::pin(self.start_successor()).await?;
            return Ok(false);
        }
        let run = loaded.run();
        let (last_event_id, waiting_turn) = (run.last_event_id, waiting_turn(run));
        let (beats, outbox) = (loaded.beats.clone(), loaded.body.links.outbox.clone());
        let mut transition = Transition::linked(loaded.body.run.clone(), loaded.body.links.clone());
        // Runs after this run was loaded and before the commit.
        let sources = pending.iter().filter_map(|request| match request {
            Pending::Effect { source, .. } => Some(source),
            Pending::Tell { .. } | Pending::Take { .. } | Pending::Look { .. } => None,
        });
        let sources: Vec<&EffectSource> = sources.collect();
        let owed = shop.effects.still_owed(key, &sources, &mut transition).await;
        let told = pending.iter().filter_map(|request| match request {
            Pending::Tell { command, .. } => Some(command.requests()),
            Pending::Take { .. } | Pending::Effect { .. } | Pending::Look { .. } => None,
        });
        shop.marks.recall(key, transition.run_mut(), &told.flatten().collect::<Vec<_>>()).await?;
        let BatchSummary { looks, refuses } = admit(key, pending, &mut transition, owed, &beats, now);
        if refuses && self.state.invalidate_if_served_from_cache(before) {
            return Ok(false);
        }
        let round = transition.links().outbox.round();
        let written = if transition.is_changed() {
            self.write(transition, last_event_id, waiting_turn, attempt).await?
        } else if looks {
            Box::pin(self.wake_without_events(now, attempt)).await?
        } else {
            Some(())
        };
        if written.is_none() {
            return Ok(false);
        }
        self.answer(pending);
        if let Some(loaded) = self.state.known().filter(|_| looks) {
            let now = shop.clock.now();
            shop.carry_out(key, loaded, after::of_wake(key, loaded, &outbox, round, now));
        }
        Ok(true)
    }

    /// Handles a wake without new events: only stores the time of the next wake if the store has an earlier one.
    async fn wake_without_events(&mut self, now: Timestamp, attempt: &mut u32) -> Result<Option<()>, Refusal> {
        let Some(loaded) = self.state.known() else {
            return Ok(Some(()));
        };
        let stored = loaded.head.due.map(Timestamp::from_millis);
        // The stored time is too late if it was computed with a clock that was ahead.
        let due = || commit::due(loaded.run(), &loaded.body.links, &loaded.beats, loaded.body.offers, now);
        let is_late =
            |stored: Timestamp| due().is_some_and(|due| stored.since(due) > history::limits::DEADLINE_LATE_MIN);
        if stored.is_none_or(|stored| stored > now && !is_late(stored)) {
            self.shop.agenda.set(self.key, stored);
            return Ok(Some(()));
        }
        let transition = Transition::linked(loaded.body.run.clone(), loaded.body.links.clone());
        let (last_event_id, waiting_turn) = (loaded.run().last_event_id, waiting_turn(loaded.run()));
        self.write(transition, last_event_id, waiting_turn, attempt).await
    }

    fn answer(&self, pending: &mut Vec<Pending>) {
        let shop = self.shop;
        for request in pending.drain(..) {
            match request {
                Pending::Tell { reply, answer, .. } => {
                    let answer = answer.unwrap_or(Err(Refusal::Stopping));
                    if let Err(refusal) = &answer {
                        shop.metrics.refused(refusal.code());
                    }
                    drop(reply.send(answer));
                }
                Pending::Take { task, taker, reply, taken, .. } => {
                    let granted = self.state.known().zip(taken).and_then(|(loaded, start)| {
                        shop.grant(self.key, loaded, (task.scheduled_event_id, start), &taker)
                    });
                    drop(reply.send(Ok(granted)));
                }
                Pending::Effect { reply, answer, .. } => {
                    drop(reply.send(answer.unwrap_or(Err(Refusal::Stopping))));
                }
                Pending::Look { reply } => drop(reply.map(|reply| reply.send(Ok(())))),
            }
        }
    }
}

/// Summary of a batch of requests.
struct BatchSummary {
    /// True if a request wakes the run.
    looks: bool,
    /// True if a request is refused for a reason that depends on the run's state.
    refuses: bool,
}

/// Admits requests in order, each with the state that the previous ones left. `owed` has for each effect whether its
/// source still owes it.
fn admit(
    key: &HeadKey,
    pending: &mut [Pending],
    transition: &mut Transition,
    owed: Vec<Result<bool, Refusal>>,
    beats: &[Heartbeat],
    now: Timestamp,
) -> BatchSummary {
    let mut summary = BatchSummary { looks: false, refuses: false };
    let mut owed = owed.into_iter();
    for request in pending {
        match request {
            Pending::Tell { run_id, command, author, answer, .. } => {
                summary.refuses |= is_settled(command, transition);
                let told = admit_command(key, transition, *run_id, (command, author), now);
                summary.refuses |= matches!(&told, Err(Refusal::Fault(fault)) if fault.depends_on_state());
                summary.refuses |= matches!(&told, Err(Refusal::RunNotCurrent { .. } | Refusal::UnknownRun { .. }));
                *answer = Some(told);
            }
            Pending::Take { task, list, taker, taken, .. } => {
                let is_same = transition.run().started.run_id == task.run_id;
                let which = (task.scheduled_event_id, task.lost);
                *taken = is_same.then(|| start_task(transition, which, list, taker, now)).flatten();
                summary.refuses |= taken.is_none();
            }
            Pending::Effect { outbound, answer, .. } => {
                let taken = apply_owed_effect(owed.next(), transition, outbound, now);
                summary.refuses |=
                    matches!(taken, Ok(EffectOutcome::Settled(EffectResult::Unknown | EffectResult::Closed)));
                *answer = Some(taken);
            }
            Pending::Look { .. } => {
                summary.looks = true;
                // A refusal means that nothing is due yet.
                drop(transition.admit(&Command::FireDeadlines { heartbeats: beats.to_vec() }, now));
                drop(transition.admit(&Command::RetryEffects, now));
            }
        }
    }
    summary
}

/// Answers a request to a workflow id that has no run.
fn answer_without_run(key: &HeadKey, request: Pending) {
    match request {
        Pending::Take { reply, .. } => drop(reply.send(Ok(None))),
        Pending::Look { reply } => drop(reply.map(|reply| reply.send(Ok(())))),
        Pending::Tell { .. } => refuse(request, &Refusal::unknown_workflow(key)),
        Pending::Effect { reply, .. } => drop(reply.send(Ok(EffectOutcome::Settled(EffectResult::Unknown)))),
    }
}

fn refuse(request: Pending, refusal: &Refusal) {
    match request {
        Pending::Tell { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Take { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Effect { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Look { reply } => drop(reply.map(|reply| reply.send(Err(refusal.clone())))),
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

fn admit_command(
    key: &HeadKey,
    transition: &mut Transition,
    run_id: Option<Uuid>,
    (command, author): (&Command, &Author),
    now: Timestamp,
) -> Result<Admitted, Refusal> {
    if let Some(KnownRequest { run_id, event_id }) = transition.repeated(command, run_id) {
        let (reflects, judged, version) = (None, Vec::new(), transition.run().version);
        return Ok(Admitted { run_id, event_id, repeated: true, reflects, judged, version, warnings: Vec::new() });
    }
    must_be_current(key, transition.run(), run_id)?;
    let current = transition.run().started.run_id;
    let seen = transition.run().version;
    let (event_id, repeated) = match transition.admit_as(command, author, now)? {
        CommandOutcome::Recorded(event_id) => (event_id, false),
        CommandOutcome::Repeated(request) => (request.event_id, true),
    };
    let warnings = transition.take_warnings();
    let reflects = match command {
        // The decider knows of the events that its own decisions cause.
        Command::CompleteTurn { turn, .. } | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. }
            if seen <= turn.started_event_id =>
        {
            Some(transition.run().version)
        }
        // There are events that the decider has not seen, so no version of the run has exactly the state that it knows.
        Command::CompleteTurn { turn, .. } | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. } => {
            Some(turn.started_event_id)
        }
        _ => None,
    };
    let run = transition.run();
    let judged = match command {
        Command::AnswerUpdates { answers, .. } => standings(transition, answers),
        _ => Vec::new(),
    };
    Ok(Admitted { run_id: current, event_id, repeated, reflects, judged, version: run.version, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the future, without a run to work on.
    fn size<F>(_: impl Fn(&'static mut RunWorker<'static>, Vec<RunRequest>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_worker_takes_little_memory() {
        let size = size(RunWorker::run_batch);
        assert!(size <= 4 * 1_024, "{size} bytes are taken for each batch; what few requests need goes into a box");
    }
}
