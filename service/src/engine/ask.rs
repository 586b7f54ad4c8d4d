//! Queries: from the caller who asks to the decider who answers, and back. No query is ever recorded (S1.2).

use std::sync::Arc;
use std::time::Duration;

use history::admit::{check_name, check_payload};
use history::{EventId, Fault, Payload, Status};
use sha2::{Digest, Sha256};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::cell::{Grant, Granted, Request, RunCell, State};
use super::commit::Loaded;
use super::hand_out::waiting_turn;
use super::matching::{ListKey, QUESTIONS, Side, WaitingTask};
use super::questions::{Answer, Asker, Asking, Outcome, Query, Timer, When, is_idle};
use super::{Engine, Refusal, RunRef, TurnToken, head_key};

/// How long a task that only asks may be out before its questions are put again: its decider may have died (S1.22). Ours:
/// long enough to make the state of a long history again, and twice within the default wait of a query.
pub(super) const ASK_TASK_WAIT: Duration = Duration::from_secs(5);

/// Before a run is looked for again that goes on for another.
const GO_ON_WAIT: Duration = Duration::from_millis(10);

/// What a caller has seen of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The run.
    pub run_id: Uuid,
    /// Its version.
    pub version: EventId,
    /// The hash of the query's result, where it is only a different result that is news to the caller (S1.31).
    pub hash: Option<u64>,
}

impl Seen {
    /// Whether an answer is no news to whoever has seen this.
    pub(super) fn is_still(&self, answer: &Answer) -> bool {
        match &answer.outcome {
            Outcome::Result(result) => self.hash == Some(hash(result.as_ref())),
            Outcome::Unknown { .. } | Outcome::Failed { .. } => false,
        }
    }
}

/// A query.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Its name. 1 to 256 bytes.
    pub name: String,
    /// Its input.
    pub input: Option<Payload>,
    /// What the caller has seen: waits until there is something else (S1.27).
    pub seen: Option<Seen>,
}

/// What came of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// A result.
    Result {
        /// Of this run.
        run_id: Uuid,
        /// The newest news that it reflects (D11).
        version: EventId,
        /// The decider's answer.
        result: Option<Payload>,
        /// The hash of it.
        hash: u64,
    },
    /// There was nothing else than what the caller has seen.
    Unchanged {
        /// The run.
        run_id: Uuid,
        /// Its version: a newer one than was seen where the result alone is watched.
        version: EventId,
    },
}

/// A question, on its way into its run's cell.
pub(super) struct Pose {
    query: Arc<Query>,
    seen: Option<Seen>,
    reply: oneshot::Sender<Answer>,
}

/// Where a question was put.
#[derive(Debug, Clone, Copy)]
pub(super) struct Put {
    run_id: Uuid,
    asking: Asking,
}

/// Takes a caller's part in a question away when the caller stops waiting, for whatever reason.
struct Waiting<'a> {
    engine: &'a Engine,
    key: &'a HeadKey,
    asking: Option<Asking>,
}

impl Waiting<'_> {
    fn leave(mut self) -> Option<EventId> {
        let asking = self.asking.take()?;
        self.engine.questions.leave(self.key, asking)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.engine.questions.leave(self.key, asking);
        }
    }
}

impl Engine {
    /// Asks a run's decider, and waits up to `wait` for its answer.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownQuery`] and [`Refusal::QueryFailed`] as the decider says, [`Refusal::NotAnswered`] when it says
    /// nothing in time, [`Refusal::TooManyQuestions`]; as for [`describe`](Self::describe). Nothing was recorded.
    pub async fn query(self: &Arc<Self>, at: &RunRef, ask: Ask, wait: Duration) -> Result<Answered, Refusal> {
        check_name("query", &ask.name)?;
        check_payload("input", ask.input.as_ref())?;
        self.must_know(&at.domain).await?;
        let answered = self.query_within(at, ask, Instant::now() + wait).await;
        match &answered {
            Ok(Answered::Result { .. }) => self.metrics.queries_answered.inc(),
            Ok(Answered::Unchanged { .. }) => self.metrics.queries_unchanged.inc(),
            Err(refusal) => {
                self.metrics.refused(refusal.code());
                0
            }
        };
        answered
    }

    async fn query_within(self: &Arc<Self>, at: &RunRef, ask: Ask, deadline: Instant) -> Result<Answered, Refusal> {
        let key = head_key(at);
        let Ask { name, input, seen } = ask;
        let query = Arc::new(Query { name, input });
        let (reply, answer) = oneshot::channel();
        let Put { run_id, asking } = self.put(&key, at.run_id, Pose { query: Arc::clone(&query), seen, reply }).await?;
        let waiting = Waiting { engine: self, key: &key, asking: Some(asking) };
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.stopped() => None,
            () = tokio::time::sleep_until(deadline) => None,
        };
        match answer {
            Some(Answer { version, outcome: Outcome::Result(result) }) => {
                let hash = hash(result.as_ref());
                Ok(Answered::Result { run_id, version, result, hash })
            }
            Some(Answer { outcome: Outcome::Unknown { known }, .. }) => {
                Err(Refusal::UnknownQuery { name: query.name.clone(), known })
            }
            Some(Answer { outcome: Outcome::Failed { reason, message }, .. }) => {
                Err(Refusal::QueryFailed { name: query.name.clone(), reason, message })
            }
            None if self.is_stopping() => Err(Refusal::Stopping),
            None => {
                let why = self.questions.whereabouts(&key, asking);
                let held = waiting.leave();
                let Some(seen) = seen.filter(|seen| seen.run_id == run_id) else {
                    return Err(Refusal::NotAnswered { why });
                };
                // News that nobody has made anything of yet are not passed off as none.
                let version = self.describe(&RunRef { run_id: Some(run_id), ..at.clone() }).await?.run.version;
                let is_as_it_was = version == seen.version || held == Some(version);
                if is_as_it_was {
                    Ok(Answered::Unchanged { run_id, version })
                } else {
                    Err(Refusal::NotAnswered { why })
                }
            }
        }
    }

    /// Puts a question to a run; to the newest without a run id.
    async fn put(self: &Arc<Self>, key: &HeadKey, run_id: Option<Uuid>, pose: Pose) -> Result<Put, Refusal> {
        let mut pose = Some(pose);
        loop {
            let put = self.ask(key, |reply| Request::Pose { run_id, pose: pose.take(), reply }).await?;
            match put {
                Posing::Put(put) => return Ok(put),
                Posing::GoesOn(back) => {
                    pose = Some(back);
                    tokio::time::sleep(GO_ON_WAIT).await;
                }
                Posing::Earlier(back, run_id) => {
                    let loaded = self.load_run(key, run_id).await?;
                    let put = self.put_to(key, &loaded, back)?;
                    self.see_to_questions(key, &loaded);
                    return Ok(put);
                }
                Posing::Seen => return Err(Refusal::Stopping),
            }
        }
    }

    /// In the run's cell: puts a question, or without one has those looked at that are there.
    pub(super) async fn run_pose(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        run_id: Option<Uuid>,
        pose: Option<Pose>,
    ) -> Result<Posing, Refusal> {
        if self.nodes.is_shared() {
            // Another node may have recorded what the answer must show (S1.11).
            *state = State::Unloaded;
        }
        let Some(loaded) = self.loaded(cell, state).await? else {
            return Err(Refusal::unknown_workflow(&cell.key));
        };
        let run = loaded.run();
        let posing = match (run_id, pose) {
            (Some(run_id), Some(pose)) if run_id != run.started.run_id => return Ok(Posing::Earlier(pose, run_id)),
            (None, Some(pose)) if run.status == Status::ContinuedAsNew => return Ok(Posing::GoesOn(pose)),
            (_, Some(pose)) => Posing::Put(self.put_to(&cell.key, loaded, pose)?),
            (_, None) => Posing::Seen,
        };
        self.see_to_questions(&cell.key, loaded);
        self.see_to_updates(&cell.key, loaded);
        Ok(posing)
    }

    fn put_to(&self, key: &HeadKey, loaded: &Loaded, pose: Pose) -> Result<Put, Refusal> {
        let Pose { query, seen, reply } = pose;
        let run = loaded.run();
        let run_id = run.started.run_id;
        // Where a turn is outstanding, it answers those who watch, too.
        let is_seen = seen.is_some_and(|seen| seen.run_id == run_id && seen.version == run.version);
        let when = if is_seen && is_idle(run) { When::MovedFrom(run.version) } else { When::Now };
        let asking = self.questions.put(key, run, &query, when, Asker { id: self.ids.op(), seen, reply })?;
        Ok(Put { run_id, asking })
    }

    /// Has a task made for what waits, where no turn will take it along.
    pub(super) fn see_to_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        let run = loaded.run();
        if !self.questions.settle(key, run) {
            return;
        }
        let list = decider_list(key, loaded);
        if let Some(poller) = self.matching.reserve_for_questions(&list) {
            match self.grant_questions(key, loaded) {
                Some(grant) => poller.grant(grant),
                None => self.return_poller(&list, poller),
            }
            return;
        }
        self.offer_questions(key, loaded);
    }

    fn offer_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        let run_id = loaded.run().started.run_id;
        let task = WaitingTask { key: key.clone(), run_id, scheduled_event_id: QUESTIONS, lost: None };
        self.offer(&decider_list(key, loaded), task);
    }

    /// A task that only asks: no write, no event (S1.20). `None` when nothing is to be asked.
    pub(super) fn grant_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) -> Option<Grant> {
        let run = loaded.run();
        let task = self.ids.op();
        let (run_id, last_event_id) = (run.started.run_id, run.last_event_id);
        let timer = {
            let (engine, key) = (Arc::clone(self), key.clone());
            let wait = ASK_TASK_WAIT.min(Duration::from_millis(run.started.decider_start_to_close.as_millis()));
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                // Not as part of this task, which ends when the questions are taken out of it.
                tokio::spawn(async move { engine.lose_questions(&key, run_id, task) });
            })
        };
        let questions = self.questions.send(key, run_id, last_event_id, task, Timer(timer.abort_handle()));
        if questions.is_empty() {
            return None;
        }
        self.metrics.ask_tasks.inc();
        if self.questions.settle(key, run) {
            // More is asked than one task takes along.
            self.offer_questions(key, loaded);
        }
        Some(Grant {
            engine: Some(Arc::clone(self)),
            key: key.clone(),
            run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list: run.started.task_list.clone(),
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            // Not a task of the run, and asked again when it is lost.
            poll: None,
            what: Granted::Questions {
                task,
                last_event_id,
                version: run.version,
                previous_started_event_id: run.previous_started_event_id,
            },
            questions,
            updates: Vec::new(),
        })
    }

    /// In the run's cell: somebody takes what is to be asked. A turn that waits by now is taken instead, and takes the
    /// questions along (S1.23); then this answers its DeciderScheduled.
    pub(super) async fn run_take_questions(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        run_id: Uuid,
    ) -> Result<TakenQuestions, Refusal> {
        if self.nodes.is_shared() {
            *state = State::Unloaded;
        }
        let Some(loaded) = self.loaded(cell, state).await? else { return Ok(TakenQuestions::Nothing) };
        let run = loaded.run();
        if run.started.run_id != run_id {
            return Ok(TakenQuestions::Earlier);
        }
        Ok(match waiting_turn(run) {
            0 if is_idle(run) => {
                let grant = self.grant_questions(&cell.key, loaded);
                grant.map_or(TakenQuestions::Nothing, |grant| TakenQuestions::Granted(Box::new(grant)))
            }
            0 => TakenQuestions::Nothing,
            scheduled_event_id => TakenQuestions::Turn(scheduled_event_id),
        })
    }

    /// The same for an earlier run, which nothing can happen to any more.
    pub(super) async fn take_earlier_questions(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
    ) -> Result<Option<Grant>, Refusal> {
        match self.load_run(key, run_id).await {
            Ok(loaded) => Ok(self.grant_questions(key, &loaded)),
            Err(Refusal::UnknownRun { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// A task that only asks is lost: its questions are put again (S1.22).
    pub(super) fn lose_questions(self: Arc<Self>, key: &HeadKey, run_id: Uuid, task: u64) {
        if self.questions.lose_task(key, task) {
            self.metrics.ask_tasks_lost.inc();
            self.look_to_questions(key, run_id);
        }
    }

    /// Has the questions of a run looked at, as something about them has changed.
    pub(super) fn look_to_questions(self: &Arc<Self>, key: &HeadKey, run_id: Uuid) {
        // Outside a runtime the process is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (engine, key) = (Arc::clone(self), key.clone());
        runtime.spawn(async move {
            let looked = engine.ask(&key, |reply| Request::Pose { run_id: None, pose: None, reply }).await;
            let current = looked.is_ok().then(|| engine.load_run(&key, run_id));
            match current {
                // Of an earlier run, perhaps.
                Some(earlier) => {
                    if let Ok(loaded) = earlier.await
                        && !loaded.run().is_open()
                    {
                        engine.see_to_questions(&key, &loaded);
                    }
                }
                None => tracing::debug!(workflow_id = %key.workflow_id, "the questions of a run could not be seen to"),
            }
        });
    }

    /// What a decider says to the questions that it was given, read and held against the rules: a question that this run was
    /// never asked and a second answer to one are faults.
    pub(super) fn read_results(
        &self,
        run_id: Uuid,
        results: Vec<(String, Outcome)>,
    ) -> Result<Vec<(u64, Outcome)>, Refusal> {
        let mut read: Vec<(u64, Outcome)> = Vec::with_capacity(results.len());
        let invalid = |problem: String| Refusal::from(Fault::Invalid { field: "queryResults".to_owned(), problem });
        for (id, outcome) in results {
            let number = self
                .mint
                .open_question(run_id, &id)
                .ok_or_else(|| invalid(format!("answer `{id}`, which names no question that this run was asked")))?;
            if read.iter().any(|(known, _)| *known == number) {
                return Err(invalid(format!("answer question `{id}` twice")));
            }
            let outcome = match outcome {
                Outcome::Result(result) => match check_payload("result", result.as_ref()) {
                    Ok(()) => Outcome::Result(result),
                    // The query's own trouble, not the turn's (S1.25).
                    Err(fault) => {
                        Outcome::Failed { reason: "result-too-large".to_owned(), message: Some(fault.to_string()) }
                    }
                },
                outcome => outcome,
            };
            read.push((number, outcome));
        }
        Ok(read)
    }

    /// Gives answers to those who wait. Whatever was to be answered and was not has failed.
    pub(super) fn give_answers(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        asked: &[u64],
        mut outcomes: Vec<(u64, Outcome)>,
    ) {
        for number in asked {
            if !outcomes.iter().any(|(known, _)| known == number) {
                let message = Some("the decider took the query along and said nothing to it".to_owned());
                outcomes.push((*number, Outcome::Failed { reason: "unanswered".to_owned(), message }));
            }
        }
        if outcomes.is_empty() {
            return;
        }
        let key = super::commit::head_key(&token.domain, &token.workflow_id);
        let shown = token.turn.started_event_id;
        let (goes_on, _) = self.questions.answer(&key, token.run_id, shown, version, outcomes);
        if goes_on {
            // The run may have moved on while it was asked.
            self.look_to_questions(&key, token.run_id);
        }
    }

    /// A turn's answer is about to be recorded.
    pub(super) fn begin_answering(self: &Arc<Self>, key: &HeadKey, token: &TurnToken) -> Answering {
        let asked = self.questions.begin_answering(key, token.turn);
        Answering { engine: Arc::clone(self), key: key.clone(), token: token.clone(), asked }
    }

    /// A decider's answer to a task that only asks.
    pub(super) fn answer_questions(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, Outcome)>,
    ) -> Result<(), Refusal> {
        let key = super::commit::head_key(&token.domain, &token.workflow_id);
        let asked = self.questions.asked_by(&key, token.turn.scheduled_event_id);
        if asked.is_empty() {
            // Another may have taken the questions meanwhile, and what is said to them is as true as it was.
            self.give_answers(token, version, &[], outcomes);
            return Err(Refusal::QuestionsLost);
        }
        self.give_answers(token, version, &asked, outcomes);
        Ok(())
    }
}

/// Keeps a turn's questions with it while its answer is recorded; dropped early, it lets them wait again.
pub(super) struct Answering {
    engine: Arc<Engine>,
    key: HeadKey,
    token: TurnToken,
    asked: Vec<u64>,
}

impl Answering {
    /// The answer is recorded: the questions that are to be answered by it.
    pub(super) fn succeed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.asked)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.asked.is_empty() && self.engine.questions.end_answering(&self.key, self.token.turn) {
            self.engine.look_to_questions(&self.key, self.token.run_id);
        }
    }
}

/// What became of a question that was put.
pub(super) enum Posing {
    /// It waits.
    Put(Put),
    /// Its run goes on as another, which is about to begin.
    GoesOn(Pose),
    /// It is for a run that is not the current one.
    Earlier(Pose, Uuid),
    /// There was none: those that are there were looked at.
    Seen,
}

/// What comes of taking questions.
pub(super) enum TakenQuestions {
    /// A task that only asks.
    Granted(Box<Grant>),
    /// A turn waits: it is to be taken, and takes them along.
    Turn(EventId),
    /// They are those of an earlier run.
    Earlier,
    /// Nothing is to be asked now.
    Nothing,
}

fn decider_list(key: &HeadKey, loaded: &Loaded) -> ListKey {
    let name = loaded.run().started.task_list.as_str().into();
    ListKey { domain: Arc::clone(&key.domain), side: Side::Decider, name }
}

/// What tells results apart, byte for byte.
fn hash(result: Option<&Payload>) -> u64 {
    let text = result.and_then(Payload::text).unwrap_or("null");
    let digest = Sha256::digest(text.as_bytes());
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}
