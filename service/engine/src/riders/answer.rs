//! What deciders say to riders, with a turn's answer or to a task that only asks: read, held against the rules, recorded where
//! there is something to record, and given to those who wait.

use std::sync::Arc;
use std::time::Duration;

use history::admit::{check_payload, must_hold};
use history::{
    AnsweredTurn, Command, EventId, EventKind, Fault, Transition, UpdateAnswer, UpdateStatus, Verdict, Warning, limits,
};
use store::HeadKey;
use uuid::Uuid;

use crate::lists::grant::RiderKind;
use crate::riders::carrier::WithTask;
use crate::riders::heard::UpdateHeard;
use crate::riders::place::By;
use crate::riders::task::RequestReply;
use crate::{Admitted, QueryOutcome, Refusal, RunRef, TurnToken};

/// How long a speculative turn that was given back is left alone. Source: the first wait of any turn.
const GIVEN_BACK_WAIT: Duration = Duration::from_millis(limits::TURN_BACKOFF_FIRST.as_millis());

/// The task that a token is of.
pub(crate) fn by(token: &TurnToken) -> By {
    token.speculative.map_or(By::Turn(token.turn), By::Own)
}

/// Keeps a task's riders with it while its answer is recorded. What has not been answered when it is dropped goes on as if there
/// had been no answer.
struct Answering {
    room: Arc<RequestReply>,
    key: HeadKey,
    run_id: Uuid,
    by: By,
    with: WithTask,
    /// The task is over, whatever was said to its riders.
    is_lost: bool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.with.is_empty() && self.room.riders.end_answering(&self.key, self.by, self.is_lost) {
            self.room.look_to_riders(&self.key, self.run_id);
        }
    }
}

impl Answering {
    /// The turn that updates are answered with; `None` where it is a speculative one that is not there.
    fn turn(&self, token: &TurnToken) -> Option<AnsweredTurn> {
        if token.speculative.is_none() {
            return Some(AnsweredTurn::Held(token.turn));
        }
        let own = self.with.own.as_ref()?;
        let (last_event_id, started_at) = (own.last_event_id, own.started_at);
        let (identity, by) = (own.identity.clone(), own.by.clone());
        Some(AnsweredTurn::Speculative { last_event_id, started_at, identity, by })
    }

    /// The answer is recorded, or there was nothing to record: tells those who wait for updates.
    fn hear(&self, answers: &[UpdateAnswer], told: &Admitted) {
        let room = &self.room;
        let now = room.clock.now();
        for (answer, standing) in answers.iter().zip(&told.judged) {
            let heard = match (answer.verdict.clone(), standing) {
                (Verdict::Done { result }, UpdateStatus::Ended { event_id, .. }) => {
                    UpdateHeard::Done { event_id: *event_id, version: told.version, result }
                }
                (Verdict::Rejected { reason, details }, UpdateStatus::New) => UpdateHeard::Rejected { reason, details },
                // Whoever waits for it looks at the run. One that has closed with this turn knows no more of what it has
                // accepted, and whoever looks hears that it has closed.
                (_, UpdateStatus::Accepted { .. } | UpdateStatus::Ended { .. } | UpdateStatus::New) => {
                    UpdateHeard::Accepted
                }
            };
            room.riders.hear(&self.key, self.run_id, &answer.update_id, &heard, now);
        }
        for asked in &self.with.updates {
            if !answers.iter().any(|answer| answer.update_id == asked.update_id) {
                room.riders.hear(&self.key, self.run_id, &asked.update_id, &UpdateHeard::Unanswered, now);
            }
        }
        if room.riders.updates() > 0 {
            room.look_to_riders(&self.key, self.run_id);
        }
    }
}

/// With a turn.
impl RequestReply {
    /// Has a decider's answer to a turn admitted, and gives what it says to the turn's riders to those who wait.
    /// Returns the warnings about its decisions.
    ///
    /// # Errors
    ///
    /// As for [`answer_turn`](Self::answer_turn); [`Fault::UpdateUnknown`] for an answer to what the turn was not asked.
    pub(crate) async fn answer_with_riders(
        self: &Arc<Self>,
        token: &TurnToken,
        command: Command,
        outcomes: Vec<(u64, QueryOutcome)>,
        answers: Vec<UpdateAnswer>,
    ) -> Result<Vec<Warning>, Refusal> {
        let key = token.key();
        let mut answering = self.begin_answering(&key, token);
        let is_speculative = token.speculative.is_some();
        let judges = is_speculative || !answers.is_empty() || !answering.with.updates.is_empty();
        // A speculative turn was answered before, or lost, or another node made it.
        let Some(turn) = answering.turn(token) else { return Err(self.speculation_lost(&key, token).await) };
        let (command, judges) = match command {
            Command::CompleteTurn { answer: rest, .. } if judges => {
                if is_speculative && !self.nodes.is_in_touch() {
                    // Another node may have said that what this one accepts is rejected.
                    answering.is_lost = true;
                    return Err(Fault::TurnLost.into());
                }
                let (asked, answers) = (answering.with.updates.clone(), answers.clone());
                (Command::AnswerUpdates { turn, asked, answers, rest }, true)
            }
            _ if is_speculative => {
                // The decider gives it back: its updates are put again after a while.
                if let By::Own(task) = answering.by {
                    let run_id = token.run_id;
                    self.lose_riders_after(&key, run_id, RiderKind::Update, task, GIVEN_BACK_WAIT);
                }
                return Ok(Vec::new());
            }
            // The turn ends without a word about its updates: the next one takes them along.
            command => (command, false),
        };
        match self.runs.tell_of(&key, Some(token.run_id), command, token.author.clone()).await {
            Ok(told) => {
                answering.is_lost = true;
                if judges {
                    answering.hear(&answers, &told);
                }
                if let Some(version) = told.reflects {
                    let asked = std::mem::take(&mut answering.with.queries);
                    self.give_answers(token, version, &asked, outcomes).await;
                }
                Ok(told.warnings)
            }
            Err(refusal) => {
                let may_be_mended = matches!(
                    &refusal,
                    Refusal::Fault(Fault::Invalid { .. } | Fault::TooLarge { .. } | Fault::UpdateUnknown { .. })
                );
                // A turn that is held goes on until it is answered or its time is over.
                answering.is_lost = is_speculative && !may_be_mended;
                Err(refusal)
            }
        }
    }

    /// A turn's answer is about to be recorded.
    fn begin_answering(self: &Arc<Self>, key: &HeadKey, token: &TurnToken) -> Answering {
        let by = by(token);
        let with = if self.took_along(token) {
            self.riders.begin_answering(key, by, token.judges)
        } else {
            WithTask::default()
        };
        Answering { room: Arc::clone(self), key: key.clone(), run_id: token.run_id, by, with, is_lost: false }
    }

    /// Why the answer to a speculative turn that is not there is refused.
    pub(crate) async fn speculation_lost(&self, key: &HeadKey, token: &TurnToken) -> Refusal {
        let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
        let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
        match Box::pin(self.lookup.describe(&at)).await {
            Ok(described) => must_hold(&described.run, token.turn).err().unwrap_or(Fault::TurnLost).into(),
            Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => Fault::TurnLost.into(),
            Err(refusal) => refusal,
        }
    }

    /// Whether what is with a turn here is what its decider was given: the turn may have gone astray from here, and been
    /// sent again by another node.
    fn took_along(&self, token: &TurnToken) -> bool {
        !self.nodes.is_shared() || token.node.as_deref() == self.nodes.address()
    }

    /// What a decider said with a turn that is recorded, to those who wait for it, here or at the node that gave it the turn.
    async fn give_answers(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        asked: &[u64],
        outcomes: Vec<(u64, QueryOutcome)>,
    ) {
        if let Some(node) = self.asked_by_other(token) {
            self.pass_on(node, token, version, outcomes, None).await;
            return;
        }
        let key = token.key();
        self.give(&key, token.run_id, token.turn.started_event_id, version, asked, outcomes, None);
    }
}

/// To a task that only asks, and to queries wherever they are.
impl RequestReply {
    /// What a decider says to the queries that it was given, read and held against the rules: a query that this run was
    /// never asked and a second answer to one are faults.
    pub(crate) fn read_results(
        &self,
        run_id: Uuid,
        results: Vec<(String, QueryOutcome)>,
    ) -> Result<Vec<(u64, QueryOutcome)>, Refusal> {
        let mut read: Vec<(u64, QueryOutcome)> = Vec::with_capacity(results.len());
        let invalid = |problem: String| Refusal::from(Fault::Invalid { field: "queryResults".to_owned(), problem });
        let (found, max) = (results.len(), limits::QUERY_RESULTS_MAX);
        if found > max {
            return Err(invalid(format!("has {found} entries, at most {max} are allowed")));
        }
        for (id, outcome) in results {
            let number = self
                .mint
                .open_query(run_id, &id)
                .ok_or_else(|| invalid(format!("answer `{id}`, which names no query that this run was asked")))?;
            if read.iter().any(|(known, _)| *known == number) {
                return Err(invalid(format!("answer query `{id}` twice")));
            }
            let outcome = match outcome {
                QueryOutcome::Result(result) => match check_payload("result", result.as_ref()) {
                    Ok(()) => QueryOutcome::Result(result),
                    // The query's own trouble, not the turn's.
                    Err(fault) => {
                        QueryOutcome::Failed { reason: "result-too-large".to_owned(), message: Some(fault.to_string()) }
                    }
                },
                outcome => outcome,
            };
            read.push((number, outcome));
        }
        Ok(read)
    }

    /// What a decider said to a task that only asks; `otherwise` to whatever is not among it.
    pub(crate) async fn answer_queries(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, QueryOutcome)>,
        otherwise: Option<QueryOutcome>,
    ) -> Result<(), Refusal> {
        let is_anybody_there = if let Some(node) = self.asked_by_other(token) {
            self.pass_on(node, token, version, outcomes, otherwise).await
        } else {
            let key = token.key();
            let asked = self.riders.with_task(&key, By::Own(token.turn.scheduled_event_id)).queries;
            // Another task may have taken the queries meanwhile, and what is said to them is as true as it was.
            self.give(&key, token.run_id, token.turn.started_event_id, version, &asked, outcomes, otherwise);
            !asked.is_empty()
        };
        if is_anybody_there { Ok(()) } else { Err(Refusal::QueryTaskLost) }
    }

    /// Gives answers to those who wait. Whatever was to be answered and was not has failed, or is said this to.
    #[expect(clippy::too_many_arguments, reason = "a run, what was shown of it, and what was said to what was asked")]
    pub(super) fn give(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
        shown: EventId,
        version: EventId,
        asked: &[u64],
        mut outcomes: Vec<(u64, QueryOutcome)>,
        otherwise: Option<QueryOutcome>,
    ) {
        let otherwise = otherwise.unwrap_or_else(|| {
            let message = Some("the decider took the query along and said nothing to it".to_owned());
            QueryOutcome::Failed { reason: "unanswered".to_owned(), message }
        });
        for number in asked {
            if !outcomes.iter().any(|(known, _)| known == number) {
                outcomes.push((*number, otherwise.clone()));
            }
        }
        // The run may have moved on while it was asked.
        if !outcomes.is_empty() && self.riders.answer(key, run_id, shown, version, outcomes) {
            self.look_to_riders(key, run_id);
        }
    }

    /// The node that waits for answers to the queries of a task, where it is another one.
    fn asked_by_other<'a>(&self, token: &'a TurnToken) -> Option<&'a str> {
        token.node.as_deref().filter(|node| self.nodes.address() != Some(*node))
    }
}

/// What became of updates that a turn has answered. It may have answered more than its run remembers.
pub(crate) fn standings(transition: &Transition, answers: &[UpdateAnswer]) -> Vec<UpdateStatus> {
    let ended = |update_id: &str| {
        let event = transition.events().iter().find(|event| match &event.kind {
            EventKind::UpdateCompleted(it) => it.update_id == update_id,
            EventKind::UpdateFailed(it) => it.update_id == update_id,
            _ => false,
        })?;
        Some(UpdateStatus::Ended { run_id: transition.run().started.run_id, event_id: event.id })
    };
    let known = |update_id: &str| transition.run().update_status(update_id);
    answers.iter().map(|answer| ended(&answer.update_id).unwrap_or_else(|| known(&answer.update_id))).collect()
}
