//! Answers of deciders to riders (queries and updates). These answers are part of the answer to a turn or to a query
//! task. They are validated, recorded if necessary, and sent to the callers.

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
use crate::riders::outcome::UpdateTurnOutcome;
use crate::riders::place::By;
use crate::riders::task::RequestReply;
use crate::run::request::RunRequest;
use crate::{Admitted, QueryOutcome, Refusal, RunRef, TurnToken};

/// Delay before the updates of a speculative turn get another turn, after a decider has failed the turn. Source: the
/// first backoff of any turn.
const GIVEN_BACK_WAIT: Duration = Duration::from_millis(limits::TURN_BACKOFF_FIRST.as_millis());

/// Returns the task that the token belongs to.
pub(crate) fn by(token: &TurnToken) -> By {
    token.speculative.map_or(By::Turn(token.turn), By::Own)
}

/// Guard that keeps riders assigned to their task while the task's answer is recorded. When the guard is dropped,
/// unanswered riders are treated like the riders of a task without an answer.
struct Answering {
    request_reply: Arc<RequestReply>,
    key: HeadKey,
    run_id: Uuid,
    by: By,
    with: WithTask,
    /// True if the task has ended. Its unanswered riders then wait for another task.
    is_lost: bool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.with.is_empty() && self.request_reply.riders.end_answering(&self.key, self.by, self.is_lost) {
            self.request_reply.check_riders(&self.key, self.run_id);
        }
    }
}

impl Answering {
    /// Returns the turn whose updates are answered; `None` for a speculative turn that no longer exists.
    fn turn(&self, token: &TurnToken) -> Option<AnsweredTurn> {
        if token.speculative.is_none() {
            return Some(AnsweredTurn::Held(token.turn));
        }
        let own = self.with.own.as_ref()?;
        let (last_event_id, started_at) = (own.last_event_id, own.started_at);
        let (identity, by) = (own.identity.clone(), own.by.clone());
        Some(AnsweredTurn::Speculative { last_event_id, started_at, identity, by })
    }

    /// Sends the outcomes of updates to their callers. Called after the answer was recorded, or if nothing had to be
    /// recorded.
    fn send_outcomes(&self, answers: &[UpdateAnswer], admitted: &Admitted) {
        let request_reply = &self.request_reply;
        let now = request_reply.clock.now();
        for (answer, standing) in answers.iter().zip(&admitted.judged) {
            let heard = match (answer.verdict.clone(), standing) {
                (Verdict::Done { result }, UpdateStatus::Ended { event_id, .. }) => {
                    UpdateTurnOutcome::Done { event_id: *event_id, version: admitted.version, result }
                }
                (Verdict::Rejected { reason, details }, UpdateStatus::New) => {
                    UpdateTurnOutcome::Rejected { reason, details }
                }
                // The callers read the outcome from the run. If this turn has closed the run, the run no longer knows
                // the updates that this turn accepted. Their callers then get the error that the run has closed.
                (_, UpdateStatus::Accepted { .. } | UpdateStatus::Ended { .. } | UpdateStatus::New) => {
                    UpdateTurnOutcome::Accepted
                }
            };
            request_reply.riders.send_outcome(&self.key, self.run_id, &answer.update_id, &heard, now);
        }
        for asked in &self.with.updates {
            if !answers.iter().any(|answer| answer.update_id == asked.update_id) {
                request_reply.riders.send_outcome(
                    &self.key,
                    self.run_id,
                    &asked.update_id,
                    &UpdateTurnOutcome::Unanswered,
                    now,
                );
            }
        }
        if request_reply.riders.updates() > 0 {
            request_reply.check_riders(&self.key, self.run_id);
        }
    }
}

/// Answers to turns.
impl RequestReply {
    /// Admits a decider's answer to a turn and sends the results of the turn's riders to their callers. Returns
    /// warnings about the decisions.
    ///
    /// # Errors
    ///
    /// As for [`answer_turn`](Self::answer_turn). In addition, [`Fault::UnknownUpdate`] for an answer to an update that
    /// was not in the turn.
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
        // `turn` returns `None` if the speculative turn was already answered, was lost, or was handed out by another
        // node.
        let Some(turn) = answering.turn(token) else { return Err(self.speculation_lost(&key, token).await) };
        let (command, judges) = match command {
            Command::CompleteTurn { answer: rest, .. } if judges => {
                if is_speculative && !self.nodes.is_in_touch() {
                    // Other nodes may consider this node dead. They may already have reported to a caller that an
                    // update is rejected, although this answer would accept the update.
                    answering.is_lost = true;
                    return Err(Fault::TurnLost.into());
                }
                let (proposed, answers) = (answering.with.updates.clone(), answers.clone());
                (Command::AnswerUpdates { turn, proposed, answers, rest }, true)
            }
            _ if is_speculative => {
                // The decider failed the turn. Its updates wait again after a delay.
                if let By::Own(task) = answering.by {
                    let run_id = token.run_id;
                    self.lose_riders_after(&key, run_id, RiderKind::Update, task, GIVEN_BACK_WAIT);
                }
                return Ok(Vec::new());
            }
            // The decider failed the turn. The turn ends without an answer to its updates, which the next turn takes.
            command => (command, false),
        };
        let author = token.author.clone();
        let submitted =
            self.runs.submit(&key, |reply| RunRequest::command(Some(token.run_id), command, author, reply)).await;
        match submitted {
            Ok(admitted) => {
                answering.is_lost = true;
                if judges {
                    answering.send_outcomes(&answers, &admitted);
                }
                if let Some(version) = admitted.reflects {
                    let asked = std::mem::take(&mut answering.with.queries);
                    self.give_answers(token, version, &asked, outcomes).await;
                }
                Ok(admitted.warnings)
            }
            Err(refusal) => {
                let may_be_mended = matches!(
                    &refusal,
                    Refusal::Fault(Fault::Invalid { .. } | Fault::TooLarge { .. } | Fault::UnknownUpdate { .. })
                );
                // A regular turn remains with its decider until it is answered or times out. A speculative turn is
                // lost, unless the decider can correct its answer.
                answering.is_lost = is_speculative && !may_be_mended;
                Err(refusal)
            }
        }
    }

    /// Marks the riders of a turn while its answer is being recorded.
    fn begin_answering(self: &Arc<Self>, key: &HeadKey, token: &TurnToken) -> Answering {
        let by = by(token);
        let with = if self.took_along(token) {
            self.riders.begin_answering(key, by, token.judges)
        } else {
            WithTask::default()
        };
        Answering { request_reply: Arc::clone(self), key: key.clone(), run_id: token.run_id, by, with, is_lost: false }
    }

    /// Returns the error for an answer to a speculative turn that no longer exists.
    pub(crate) async fn speculation_lost(&self, key: &HeadKey, token: &TurnToken) -> Refusal {
        let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
        let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
        match Box::pin(self.lookup.describe(&at)).await {
            Ok(described) => must_hold(&described.run, token.turn).err().unwrap_or(Fault::TurnLost).into(),
            Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => Fault::TurnLost.into(),
            Err(refusal) => refusal,
        }
    }

    /// Returns true if this node handed out the turn. In that case, the decider received the riders that are assigned
    /// to the turn at this node. If delivery from this node failed, another node may have handed the turn out again.
    fn took_along(&self, token: &TurnToken) -> bool {
        !self.nodes.is_shared() || token.node.as_deref() == self.nodes.address()
    }

    /// Sends the query results of a recorded turn to their callers. If another node handed out the turn, passes the
    /// results to that node.
    async fn give_answers(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        asked: &[u64],
        outcomes: Vec<(u64, QueryOutcome)>,
    ) {
        if let Some(node) = self.node_of_queries(token) {
            self.pass_on(node, token, version, outcomes, None).await;
            return;
        }
        let key = token.key();
        self.give(&key, token.run_id, token.turn.started_event_id, version, asked, outcomes, None);
    }
}

/// Answers to query tasks, and delivery of query results for turns and query tasks.
impl RequestReply {
    /// Parses and validates a decider's answers to queries. Fails for an answer to a query that was not sent to this
    /// run, and for a second answer to the same query.
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
                .ok_or_else(|| invalid(format!("contain `{id}`, which is not the id of a query of this run")))?;
            if read.iter().any(|(known, _)| *known == number) {
                return Err(invalid(format!("contain two answers to query `{id}`")));
            }
            let outcome = match outcome {
                QueryOutcome::Result(result) => match check_payload("result", result.as_ref()) {
                    Ok(()) => QueryOutcome::Result(result),
                    // An invalid result fails only its query and not the turn.
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

    /// Handles a decider's answer to a query task. Queries without an answer get the outcome `otherwise`.
    pub(crate) async fn answer_queries(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, QueryOutcome)>,
        otherwise: Option<QueryOutcome>,
    ) -> Result<(), Refusal> {
        let is_anybody_there = if let Some(node) = self.node_of_queries(token) {
            self.pass_on(node, token, version, outcomes, otherwise).await
        } else {
            let key = token.key();
            let asked = self.riders.with_task(&key, By::Own(token.turn.scheduled_event_id)).queries;
            // Meanwhile another task may have taken the queries. The answers of this task are nevertheless valid.
            self.give(&key, token.run_id, token.turn.started_event_id, version, &asked, outcomes, otherwise);
            !asked.is_empty()
        };
        if is_anybody_there { Ok(()) } else { Err(Refusal::QueryTaskLost) }
    }

    /// Sends query results to the callers. Queries of the task without a result get the outcome `otherwise`. If
    /// `otherwise` is `None`, these queries fail.
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
            let message = Some("the decider received the query but did not answer it".to_owned());
            QueryOutcome::Failed { reason: "unanswered".to_owned(), message }
        });
        for number in asked {
            if !outcomes.iter().any(|(known, _)| known == number) {
                outcomes.push((*number, otherwise.clone()));
            }
        }
        // Some callers still watch for changes. The run may have changed while the query was being answered, so the
        // riders must be checked.
        if !outcomes.is_empty() && self.riders.answer(key, run_id, shown, version, outcomes) {
            self.check_riders(key, run_id);
        }
    }

    /// Returns the node that holds the queries of a task; `None` if this node holds them.
    fn node_of_queries<'a>(&self, token: &'a TurnToken) -> Option<&'a str> {
        token.node.as_deref().filter(|node| self.nodes.address() != Some(*node))
    }
}

/// Returns the status of the updates that a turn has answered, including updates that the run no longer remembers.
pub(crate) fn update_statuses(transition: &Transition, answers: &[UpdateAnswer]) -> Vec<UpdateStatus> {
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
