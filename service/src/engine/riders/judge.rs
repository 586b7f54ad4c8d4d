//! Updates on their way to deciders, and verdicts on their way back: turns that take updates along, and speculative ones,
//! of which nothing is recorded unless there is something to record (ADR 10).

use std::sync::Arc;
use std::time::Duration;

use history::admit::{must_hold, speculative_turn};
use history::{
    AnsweredTurn, AskedUpdate, Command, EventId, EventKind, Fault, Transition, UpdateAnswer, UpdateStanding, Verdict,
    limits,
};
use store::HeadKey;
use uuid::Uuid;

use crate::engine::after::hand_out::waiting_turn;
use crate::engine::commit::{self, Loaded};
use crate::engine::lists::grant::{Grant, Granted};
use crate::engine::lists::{ListKey, Side, Taker, UPDATES, WaitingTask};
use crate::engine::riders::questions::Timer;
use crate::engine::riders::updates::{By, Heard, Speculation};
use crate::engine::run::cell::Request;
use crate::engine::run::worker::RunWorker;
use crate::engine::{Engine, Refusal, RunRef, TurnToken};

/// How long a speculative turn that was given back is left alone. Source: the first wait of any turn.
const GIVEN_BACK_WAIT: Duration = Duration::from_millis(limits::TURN_BACKOFF_FIRST.as_millis());

/// What comes of taking updates.
pub(crate) enum TakenUpdates {
    /// A speculative turn.
    Granted(Box<Grant>),
    /// A turn waits: it is to be taken, and takes them along.
    Turn(EventId),
    /// Nothing is to be judged now.
    Nothing,
}

impl RunWorker<'_> {
    /// In the run's cell: somebody takes what is to be judged. A turn that waits by now is taken instead, and takes it along.
    pub(crate) async fn run_take_updates(&mut self, run_id: Uuid, taker: &Taker) -> Result<TakenUpdates, Refusal> {
        let (engine, key) = (self.engine, self.key);
        if engine.nodes.is_shared() {
            self.state.forget();
        }
        let Some(loaded) = self.loaded().await? else { return Ok(TakenUpdates::Nothing) };
        let run = loaded.run();
        if run.started.run_id != run_id {
            return Ok(TakenUpdates::Nothing);
        }
        Ok(match waiting_turn(run) {
            0 if engine.updates.settle(key, run) => {
                let granted = engine.grant_updates(key, loaded, taker).map(Box::new);
                granted.map_or(TakenUpdates::Nothing, TakenUpdates::Granted)
            }
            0 => TakenUpdates::Nothing,
            scheduled_event_id => TakenUpdates::Turn(scheduled_event_id),
        })
    }
}

/// On their way to deciders.
impl Engine {
    /// Has a speculative turn made for what waits, where no turn is outstanding that will take it along.
    pub(crate) fn see_to_updates(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        let run = loaded.run();
        if !self.updates.settle(key, run) {
            return;
        }
        let name = run.next_turn_list().into();
        let list = ListKey { domain: Arc::clone(&key.domain), side: Side::Decider, name };
        if let Some(poller) = self.matching.reserve_for_updates(&list) {
            match self.grant_updates(key, loaded, &poller.taker) {
                Some(grant) => poller.grant(grant),
                None => self.return_poller(&list, poller),
            }
            return;
        }
        let run_id = run.started.run_id;
        self.offer(
            &list,
            WaitingTask { key: key.clone(), run_id, scheduled_event_id: UPDATES, lost: None, priority: 0 },
        );
    }

    /// A speculative turn: no write, no event. `None` when nothing waits.
    fn grant_updates(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded, taker: &Taker) -> Option<Grant> {
        let run = loaded.run();
        let task = self.ids.op();
        let (run_id, last_event_id) = (run.started.run_id, run.last_event_id);
        let started_at = self.clock.now().max(run.last_timestamp);
        let timer = self.lose_updates_after(key, run_id, task, run.started.decider_start_to_close.into());
        let identity = taker.identity.clone();
        let shown = speculative_turn(run, identity.as_deref(), taker.by.as_ref(), started_at);
        let by = taker.by.clone();
        let speculation = Speculation { last_event_id, started_at, identity, by, _timer: timer };
        let updates = self.updates.send(key, run_id, task, taker.updates, speculation);
        if updates.is_empty() {
            return None;
        }
        self.metrics.speculative_turns.inc();
        let previous_started_event_id = run.previous_started_event_id;
        Some(Grant {
            // Not yet a task of the run, and asked again when it is lost.
            poll: None,
            back: Some(Arc::clone(self) as _),
            key: key.clone(),
            run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list: run.next_turn_list().to_owned(),
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            what: Granted::Speculation { task, last_event_id, previous_started_event_id, shown },
            questions: Vec::new(),
            updates,
        })
    }

    fn lose_updates_after(self: &Arc<Self>, key: &HeadKey, run_id: Uuid, task: u64, wait: Duration) -> Timer {
        let (engine, key) = (Arc::clone(self), key.clone());
        // Not as part of the task that waits, which ends when the updates are taken out of it.
        let lose = move || engine.clone().background.spawn(async move { engine.lose_updates(&key, run_id, task) });
        Timer(self.background.after(wait, lose))
    }

    /// Takes the updates of a run, or the turn that waits by now.
    pub(crate) async fn take_updates(
        self: &Arc<Self>,
        list: &ListKey,
        task: WaitingTask,
        taker: Taker,
    ) -> Result<Option<Grant>, Refusal> {
        let (key, list, run_id) = (task.key.clone(), list.clone(), task.run_id);
        let by = taker.clone();
        match self.ask(&key, |reply| Request::TakeUpdates { run_id, taker: by, reply }).await? {
            TakenUpdates::Granted(grant) => Ok(Some(*grant)),
            TakenUpdates::Nothing => Ok(None),
            TakenUpdates::Turn(scheduled_event_id) => {
                let task = WaitingTask { scheduled_event_id, ..task };
                Box::pin(self.take(&list, task, taker)).await
            }
        }
    }

    /// A speculative turn is lost: its updates are put again.
    pub(crate) fn lose_updates(self: &Arc<Self>, key: &HeadKey, run_id: Uuid, task: u64) {
        if self.updates.lose(key, task) {
            self.metrics.speculative_turns_lost.inc();
            self.look_to_questions(key, run_id);
        }
    }
}

/// On their way back.
impl Engine {
    /// Has a decider's answer to a turn with updates admitted, and gives its verdicts to those who wait.
    ///
    /// # Errors
    ///
    /// As for [`answer_turn`](Self::answer_turn); [`Fault::UpdateUnknown`] for an answer to what the turn was not asked.
    pub(crate) async fn answer_with_updates(
        self: &Arc<Self>,
        token: &TurnToken,
        command: Command,
        answers: Vec<UpdateAnswer>,
    ) -> Result<Option<EventId>, Refusal> {
        let key = commit::head_key(&token.domain, &token.workflow_id);
        let by = token.speculative.map_or(By::Turn(token.turn), By::Task);
        let mut judging = self.begin_judging(&key, token, by);
        let turn = match (&judging.speculation, token.speculative) {
            (_, None) => AnsweredTurn::Held(token.turn),
            (Some(it), Some(_)) => {
                let (last_event_id, started_at) = (it.last_event_id, it.started_at);
                let (identity, by) = (it.identity.clone(), it.by.clone());
                AnsweredTurn::Speculative { last_event_id, started_at, identity, by }
            }
            // It was answered before, or lost, or another node made it.
            (None, Some(_)) => return Err(self.speculation_lost(&key, token).await),
        };
        let (decisions, context, awaiting) = match (command, &turn) {
            (Command::CompleteTurn { decisions, context, awaiting, .. }, _) => (decisions, context, awaiting),
            (_, AnsweredTurn::Speculative { .. }) => {
                judging.give_back();
                return Ok(None);
            }
            // The turn ends without a word about its updates: the next one takes them along.
            (command, AnsweredTurn::Held(_)) => {
                let told = self.tell_key_of(&key, Some(token.run_id), command, token.author.clone()).await;
                judging.fail(told.is_ok());
                return told.map(|told| told.reflects);
            }
        };
        if token.speculative.is_some() && !self.nodes.is_in_touch() {
            // Another node may have said that what this one accepts is rejected.
            judging.fail(true);
            return Err(Fault::TurnLost.into());
        }
        let asked = judging.asked.clone();
        let said = answers.clone();
        let command = Command::AnswerUpdates { turn, asked, answers, decisions, context, awaiting };
        match self.tell_key_of(&key, Some(token.run_id), command, token.author.clone()).await {
            Ok(told) => {
                judging.succeed(&said, &told.judged, told.version);
                Ok(told.reflects)
            }
            Err(refusal) => {
                let is_lost = match &refusal {
                    Refusal::Fault(Fault::Invalid { .. } | Fault::TooLarge { .. } | Fault::UpdateUnknown { .. }) => {
                        false
                    }
                    // A turn that is held goes on until it is answered or its time is over.
                    _ => token.speculative.is_some(),
                };
                judging.fail(is_lost);
                Err(refusal)
            }
        }
    }

    /// Why the answer to a speculative turn that is not there is refused.
    pub(crate) async fn speculation_lost(&self, key: &HeadKey, token: &TurnToken) -> Refusal {
        let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
        let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
        match self.describe(&at).await {
            Ok(described) => must_hold(&described.run, token.turn).err().unwrap_or(Fault::TurnLost).into(),
            Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => Fault::TurnLost.into(),
            Err(refusal) => refusal,
        }
    }

    /// A turn's answer is about to be recorded.
    fn begin_judging(self: &Arc<Self>, key: &HeadKey, token: &TurnToken, by: By) -> Judging {
        let is_asked = token.judges && self.took_along(token);
        let (asked, speculation) = if is_asked { self.updates.begin_answering(key, by) } else { (Vec::new(), None) };
        let run_id = token.run_id;
        Judging { engine: Arc::clone(self), key: key.clone(), run_id, by, asked, speculation, is_over: false }
    }

    /// Whether a turn has taken updates along.
    pub(crate) fn has_updates(&self, token: &TurnToken) -> bool {
        let key = commit::head_key(&token.domain, &token.workflow_id);
        token.speculative.is_some()
            || token.judges && self.took_along(token) && self.updates.has(&key, By::Turn(token.turn))
    }

    /// Whether what rides with a turn here is what its decider was given: the turn may have gone astray from here, and been
    /// sent again by another node.
    pub(crate) fn took_along(&self, token: &TurnToken) -> bool {
        !self.nodes.is_shared() || token.node.as_deref() == self.nodes.address()
    }
}

/// What became of updates that a turn has answered. It may have answered more than its run remembers.
pub(crate) fn standings(transition: &Transition, answers: &[UpdateAnswer]) -> Vec<UpdateStanding> {
    let ended = |update_id: &str| {
        let event = transition.events().iter().find(|event| match &event.kind {
            EventKind::UpdateCompleted(it) => it.update_id == update_id,
            EventKind::UpdateFailed(it) => it.update_id == update_id,
            _ => false,
        })?;
        Some(UpdateStanding::Ended { run_id: transition.run().started.run_id, event_id: event.id })
    };
    let known = |update_id: &str| transition.run().update_standing(update_id);
    answers.iter().map(|answer| ended(&answer.update_id).unwrap_or_else(|| known(&answer.update_id))).collect()
}

/// Keeps a turn's updates with it while its answer is recorded; dropped early, it lets them go on as if there had been none.
struct Judging {
    engine: Arc<Engine>,
    key: HeadKey,
    run_id: Uuid,
    by: By,
    asked: Vec<AskedUpdate>,
    speculation: Option<Arc<Speculation>>,
    is_over: bool,
}

impl Judging {
    /// The answer is recorded, or there was nothing to record: tells those who wait.
    fn succeed(&mut self, answers: &[UpdateAnswer], judged: &[UpdateStanding], version: EventId) {
        self.is_over = true;
        let now = self.engine.clock.now();
        for (answer, standing) in answers.iter().zip(judged) {
            let heard = match (answer.verdict.clone(), standing) {
                (Verdict::Done { result }, UpdateStanding::Ended { event_id, .. }) => {
                    Heard::Done { event_id: *event_id, version, result }
                }
                (Verdict::Rejected { reason, details }, UpdateStanding::New) => Heard::Rejected { reason, details },
                // Whoever waits for it looks at the run. One that has closed with this turn knows no more of what it has
                // accepted, and whoever looks hears that it has closed.
                (_, UpdateStanding::Accepted { .. } | UpdateStanding::Ended { .. } | UpdateStanding::New) => {
                    Heard::Accepted
                }
            };
            self.engine.updates.hear(&self.key, self.run_id, &answer.update_id, &heard, now);
        }
        for asked in &self.asked {
            if !answers.iter().any(|answer| answer.update_id == asked.update_id) {
                self.engine.updates.hear(&self.key, self.run_id, &asked.update_id, &Heard::Unanswered, now);
            }
        }
        if self.engine.updates.len() > 0 {
            self.engine.look_to_questions(&self.key, self.run_id);
        }
    }

    fn fail(&mut self, is_lost: bool) {
        self.is_over = true;
        if self.engine.updates.end_answering(&self.key, self.by, is_lost) {
            self.engine.look_to_questions(&self.key, self.run_id);
        }
    }

    /// The decider gives the turn back: its updates are put again after a while.
    fn give_back(&mut self) {
        self.fail(false);
        if let By::Task(task) = self.by {
            let (engine, key, run_id) = (Arc::clone(&self.engine), self.key.clone(), self.run_id);
            self.engine.background.after(GIVEN_BACK_WAIT, move || engine.lose_updates(&key, run_id, task));
        }
    }
}

impl Drop for Judging {
    fn drop(&mut self) {
        if !self.is_over {
            self.fail(false);
        }
    }
}
