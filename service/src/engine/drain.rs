//! The one way into a run: requests that wait for it are admitted together, committed once, and answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use history::{
    AnsweredTurn, Author, Beat, Command, EffectResult, Errand, ErrandTask, Outcome, Request as Repeated, Run, TaskId,
    Timestamp, Transition, admit::held,
};
use uuid::Uuid;

use super::cell::{Reply, Request, RunCell, Source, State, Taken};
use super::commit::Loaded;
use super::effects::{is_settled, undergo};
use super::grant::Grant;
use super::hand_out::{take_task, waiting_turn};
use super::judge::standings;
use super::matching::{ListKey, Taker, WaitingTask};
use super::{Engine, Refusal, Told};

/// Most bytes of payload that are folded into one commit. Source: parts hold at least this much in every engine.
const FOLD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most requests that are folded into one commit.
const FOLD_REQUESTS_MAX: usize = 256;

/// Leaves a run in order when the task that worked on it is ended early.
struct Draining<'a>(&'a RunCell);

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox();
        inbox.is_draining = false;
        // Nothing is lost silently: their callers hear that the outcome is not known.
        inbox.requests.clear();
    }
}

/// A request of a batch that changes events, with the answer that it gets once they are durable.
enum Pending {
    Tell {
        run_id: Option<Uuid>,
        command: Command,
        author: Author,
        reply: Reply<Told>,
        answer: Option<Result<Told, Refusal>>,
    },
    Take {
        task: WaitingTask,
        list: ListKey,
        taker: Taker,
        reply: Reply<Option<Grant>>,
        taken: Option<u32>,
    },
    Effect {
        source: Source,
        errand: Box<Errand>,
        reply: Reply<Taken>,
        answer: Option<Result<Taken, Refusal>>,
    },
    Look {
        reply: Option<Reply<()>>,
    },
}

/// The work on a run, done on the task of the caller who found nobody at it. A caller who goes away does not take a commit
/// that is under way with it: what is left to do goes on as a task of its own.
pub(super) struct Work(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Future for Work {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let polled = self.0.as_mut().map_or(Poll::Ready(()), |work| work.as_mut().poll(context));
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Outside a runtime the process is ending, and whoever waits hears that the outcome is not known.
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

impl Engine {
    /// Puts a request to a run. Whoever gets the work must do it.
    #[must_use]
    pub(super) fn submit(self: &Arc<Self>, cell: &Arc<RunCell>, request: Request) -> Option<Work> {
        let mut inbox = cell.inbox();
        inbox.requests.push(request);
        if inbox.is_draining {
            return None;
        }
        inbox.is_draining = true;
        Some(Work(Some(Box::pin(Arc::clone(self).drain(Arc::clone(cell))))))
    }

    async fn drain(self: Arc<Self>, cell: Arc<RunCell>) {
        let mut state = cell.state.lock().await;
        let draining = Draining(&cell);
        loop {
            let batch = {
                let mut inbox = cell.inbox();
                if inbox.requests.is_empty() {
                    // Under the inbox's lock, so that whoever comes next starts a new task.
                    inbox.is_draining = false;
                    std::mem::forget(draining);
                    break;
                }
                let mut bytes = 0_usize;
                let fits = |request: &Request| {
                    bytes = bytes.saturating_add(request.bytes());
                    bytes <= FOLD_BYTES_MAX
                };
                let count = inbox.requests.iter().take(FOLD_REQUESTS_MAX).map(fits).take_while(|fits| *fits).count();
                inbox.requests.drain(..count.max(1)).collect::<Vec<_>>()
            };
            self.run_batch(&cell, &mut state, batch).await;
            if matches!(&*state, State::Loaded(loaded) if loaded.goes_on())
                && let Err(refusal) = self.go_on(&cell, &mut state).await
            {
                // The due index brings it back.
                tracing::warn!(%refusal, workflow_id = %cell.key.workflow_id, "the run that goes on could not begin yet");
            }
        }
        let bytes = match &*state {
            State::Loaded(loaded) if loaded.run().is_open() || !loaded.body.links.outbox.is_empty() => {
                Some(loaded.bytes())
            }
            // A closed run is read rarely, and then from the store.
            State::Loaded(_) | State::Unloaded => None,
        };
        if bytes.is_none() {
            *state = State::Unloaded;
        }
        drop(state);
        self.cache.settle(&cell, bytes);
    }

    async fn run_batch(self: &Arc<Self>, cell: &Arc<RunCell>, state: &mut State, batch: Vec<Request>) {
        let mut pending = Vec::with_capacity(batch.len());
        for request in batch {
            match request {
                Request::Tell { run_id, command, author, reply } => {
                    pending.push(Pending::Tell { run_id, command, author, reply, answer: None });
                }
                Request::Take { task, list, taker, reply } => {
                    pending.push(Pending::Take { task, list, taker, reply, taken: None });
                }
                Request::TakeQuestions { run_id, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    drop(reply.send(self.run_take_questions(cell, state, run_id).await));
                }
                Request::TakeUpdates { run_id, taker, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    drop(reply.send(self.run_take_updates(cell, state, run_id, &taker).await));
                }
                Request::Update { run_id, put, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    drop(reply.send(self.run_update(cell, state, run_id, *put).await));
                }
                Request::Pose { run_id, pose, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    drop(reply.send(self.run_pose(cell, state, run_id, pose).await));
                }
                Request::Effect { source, errand, reply } if matches!(errand.task, ErrandTask::Start(_)) => {
                    self.run_pending(cell, state, &mut pending).await;
                    let taken = self.run_child_start(cell, state, &source, &errand).await;
                    drop(reply.send(taken));
                }
                Request::Effect { source, errand, reply } => {
                    pending.push(Pending::Effect { source, errand, reply, answer: None });
                }
                Request::Look { reply } => pending.push(Pending::Look { reply }),
                Request::Start { start, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    let started = Box::pin(self.run_start(cell, state, &start, None)).await;
                    drop(reply.send(started));
                }
                Request::Delete { run_id, deletion, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    let deleted = self.run_delete(cell, state, run_id, &deletion).await;
                    drop(reply.send(deleted));
                }
                Request::Reset { run_id, reset, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    drop(reply.send(self.run_reset(cell, state, run_id, &reset).await));
                }
                Request::Beat { run_id, task, details, reply } => {
                    self.run_pending(cell, state, &mut pending).await;
                    let beaten = self.run_beat(cell, state, run_id, task, details).await;
                    drop(reply.send(beaten));
                }
            }
        }
        self.run_pending(cell, state, &mut pending).await;
    }

    /// Loads a run unless it is loaded. `Ok(None)`: there is none.
    pub(super) async fn loaded<'a>(
        &self,
        cell: &RunCell,
        state: &'a mut State,
    ) -> Result<Option<&'a mut Loaded>, Refusal> {
        if matches!(state, State::Unloaded) {
            let Some(head) = self.store.load(&cell.key).await? else {
                return Ok(None);
            };
            let mut loaded = Box::pin(self.open_head(&cell.key, head)).await?;
            loaded.beats = self.read_beats(&cell.key, loaded.run()).await?;
            *state = State::Loaded(Box::new(loaded));
        }
        match state {
            State::Loaded(loaded) => Ok(Some(loaded)),
            State::Unloaded => Ok(None),
        }
    }

    async fn run_beat(
        &self,
        cell: &RunCell,
        state: &mut State,
        run_id: Uuid,
        task: TaskId,
        details: Option<history::Payload>,
    ) -> Result<bool, Refusal> {
        let now = self.clock.now();
        let is_held = |run: &Run| run.started.run_id == run_id && held(run, task).is_ok();
        if matches!(&*state, State::Loaded(loaded) if !is_held(loaded.run())) {
            // Never say no from a cache: another node may have started it.
            *state = State::Unloaded;
        }
        let loaded = self.loaded(cell, state).await?.ok_or_else(|| Refusal::unknown_workflow(&cell.key))?;
        must_be_current(cell, loaded.run(), Some(run_id))?;
        let cancel_requested = held(loaded.run(), task)?.cancel_event_id.is_some();
        let beat = Beat { scheduled_event_id: task.scheduled_event_id, at: now, details };
        let part = store::PartKey::Beat { scheduled: task.scheduled_event_id };
        self.store.put_part(&cell.key, *run_id.as_bytes(), part, super::head::encode_beat(&beat)).await?;
        loaded.beats.retain(|known| known.scheduled_event_id != task.scheduled_event_id);
        loaded.beats.push(beat);
        Ok(cancel_requested)
    }

    /// Admits what is pending and commits it.
    async fn run_pending(self: &Arc<Self>, cell: &Arc<RunCell>, state: &mut State, pending: &mut Vec<Pending>) {
        if pending.is_empty() {
            return;
        }
        let mut attempt = 0;
        loop {
            match self.try_pending(cell, state, pending, &mut attempt).await {
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

    /// One attempt; false when another is needed.
    async fn try_pending(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        pending: &mut Vec<Pending>,
        attempt: &mut u32,
    ) -> Result<bool, Refusal> {
        let was_loaded = matches!(state, State::Loaded(_));
        let now = self.clock.now();
        let Some(loaded) = self.loaded(cell, state).await? else {
            for request in pending.drain(..) {
                match request {
                    Pending::Take { reply, .. } => drop(reply.send(Ok(None))),
                    Pending::Look { reply } => drop(reply.map(|reply| reply.send(Ok(())))),
                    Pending::Tell { .. } => refuse(request, &Refusal::unknown_workflow(&cell.key)),
                    Pending::Effect { reply, .. } => drop(reply.send(Ok(Taken::Settled(EffectResult::Unknown)))),
                }
            }
            return Ok(true);
        };
        if !was_loaded {
            self.note_sent(cell, loaded);
        }
        if loaded.goes_on() {
            self.go_on(cell, state).await?;
            return Ok(false);
        }
        let before = loaded.run();
        let (last_event_id, waiting_turn) = (before.last_event_id, waiting_turn(before));
        let (beats, links) = (loaded.beats.clone(), loaded.body.links.clone());
        let mut transition = Transition::linked(before.clone(), links.clone());
        let mut looks = false;
        let mut says_no = false;
        // Behind the look at this run, and before the commit (STORAGE.md §3.7 S4).
        let sources = pending.iter().filter_map(|request| match request {
            Pending::Effect { source, .. } => Some(source),
            Pending::Tell { .. } | Pending::Take { .. } | Pending::Look { .. } => None,
        });
        let sources: Vec<&Source> = sources.collect();
        let mut owed = self.still_owed(cell, &sources, &mut transition).await.into_iter();
        let told = pending.iter().filter_map(|request| match request {
            Pending::Tell { command, .. } => Some(command.requests()),
            Pending::Take { .. } | Pending::Effect { .. } | Pending::Look { .. } => None,
        });
        self.recall(&cell.key, transition.run_mut(), &told.flatten().collect::<Vec<_>>()).await?;
        for request in pending.iter_mut() {
            match request {
                Pending::Tell { run_id, command, author, answer, .. } => {
                    says_no |= is_settled(command, &transition);
                    let told = admit_told(cell, &mut transition, *run_id, (command, author), now);
                    says_no |= matches!(&told, Err(Refusal::Fault(fault)) if fault.depends_on_state());
                    says_no |= matches!(&told, Err(Refusal::RunNotCurrent { .. } | Refusal::UnknownRun { .. }));
                    *answer = Some(told);
                }
                Pending::Take { task, list, taker, taken, .. } => {
                    let is_same = transition.run().started.run_id == task.run_id;
                    let which = (task.scheduled_event_id, task.lost);
                    *taken = is_same.then(|| take_task(&mut transition, which, list, taker, now)).flatten();
                    says_no |= taken.is_none();
                }
                Pending::Effect { errand, answer, .. } => {
                    let taken = undergo(owed.next(), &mut transition, errand, now);
                    says_no |= matches!(taken, Ok(Taken::Settled(EffectResult::Unknown | EffectResult::Closed)));
                    *answer = Some(taken);
                }
                Pending::Look { .. } => {
                    looks = true;
                    // Nothing to refuse: what is not due yet stays as it is.
                    drop(transition.admit(&Command::FireDeadlines { beats: beats.clone() }, now));
                    drop(transition.admit(&Command::SeeToEffects, now));
                }
            }
        }
        if says_no && was_loaded {
            *state = State::Unloaded;
            return Ok(false);
        }
        let round = transition.links().outbox.round();
        let written = if transition.is_changed() {
            self.write(cell, state, transition, last_event_id, waiting_turn, attempt).await?
        } else if looks {
            self.look_without_events(cell, state, now, attempt).await?
        } else {
            Some(())
        };
        if written.is_none() {
            return Ok(false);
        }
        self.answer(cell, state, pending);
        if looks {
            self.offer_waiting(cell, state);
            self.deliver_again(cell, state, &links.outbox, round);
        }
        Ok(true)
    }

    /// Time has done nothing: only remembers when to look again, where the store has it earlier.
    async fn look_without_events(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        now: Timestamp,
        attempt: &mut u32,
    ) -> Result<Option<()>, Refusal> {
        let State::Loaded(loaded) = state else {
            return Ok(Some(()));
        };
        let stored = loaded.head.due.map(Timestamp::from_millis);
        if stored.is_none_or(|stored| stored > now) {
            self.agenda.set(&cell.key, stored);
            return Ok(Some(()));
        }
        let transition = Transition::linked(loaded.run().clone(), loaded.body.links.clone());
        let (last_event_id, waiting_turn) = (loaded.run().last_event_id, waiting_turn(loaded.run()));
        self.write(cell, state, transition, last_event_id, waiting_turn, attempt).await
    }

    fn answer(self: &Arc<Self>, cell: &RunCell, state: &State, pending: &mut Vec<Pending>) {
        for request in pending.drain(..) {
            match request {
                Pending::Tell { reply, answer, .. } => {
                    let answer = answer.unwrap_or(Err(Refusal::Stopping));
                    if let Err(refusal) = &answer {
                        self.metrics.refused(refusal.code());
                    }
                    drop(reply.send(answer));
                }
                Pending::Take { task, taker, reply, taken, .. } => {
                    let granted = match (state, taken) {
                        (State::Loaded(loaded), Some(start)) => {
                            self.grant(cell, loaded, (task.scheduled_event_id, start), &taker)
                        }
                        _ => None,
                    };
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

fn refuse(request: Pending, refusal: &Refusal) {
    match request {
        Pending::Tell { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Take { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Effect { reply, .. } => drop(reply.send(Err(refusal.clone()))),
        Pending::Look { reply } => drop(reply.map(|reply| reply.send(Err(refusal.clone())))),
    }
}

fn must_be_current(cell: &RunCell, run: &Run, run_id: Option<Uuid>) -> Result<(), Refusal> {
    let current = run.started.run_id;
    match run_id {
        Some(run_id) if run_id != current => {
            let workflow_id = cell.key.workflow_id.to_string();
            Err(Refusal::RunNotCurrent { workflow_id, run_id, current })
        }
        _ => Ok(()),
    }
}

fn admit_told(
    cell: &RunCell,
    transition: &mut Transition,
    run_id: Option<Uuid>,
    (command, author): (&Command, &Author),
    now: Timestamp,
) -> Result<Told, Refusal> {
    if let Some(Repeated { run_id, event_id }) = transition.repeated(command, run_id) {
        let (reflects, judged, version) = (None, Vec::new(), transition.run().version);
        return Ok(Told { run_id, event_id, repeated: true, reflects, judged, version });
    }
    must_be_current(cell, transition.run(), run_id)?;
    let current = transition.run().started.run_id;
    let seen = transition.run().version;
    let (event_id, repeated) = match transition.admit_of(command, author, now)? {
        Outcome::Recorded(event_id) => (event_id, false),
        Outcome::Repeated(request) => (request.event_id, true),
    };
    let reflects = match command {
        // Its own decisions are news that the decider knows.
        Command::CompleteTurn { turn, .. }
        | Command::CompleteTurnAndMove { turn, .. }
        | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. }
            if seen <= turn.started_event_id =>
        {
            Some(transition.run().version)
        }
        // There is news that it has not seen: no version of the run is like this.
        Command::CompleteTurn { turn, .. }
        | Command::CompleteTurnAndMove { turn, .. }
        | Command::AnswerUpdates { turn: AnsweredTurn::Held(turn), .. } => Some(turn.started_event_id),
        _ => None,
    };
    let run = transition.run();
    let judged = match command {
        Command::AnswerUpdates { answers, .. } => standings(transition, answers),
        _ => Vec::new(),
    };
    Ok(Told { run_id: current, event_id, repeated, reflects, judged, version: run.version })
}
