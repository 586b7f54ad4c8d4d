//! What deciders say to questions: read, held against the rules, and given to those who wait.

use std::sync::Arc;

use history::admit::check_payload;
use history::{EventId, Fault};
use store::HeadKey;
use uuid::Uuid;

use crate::engine::{Engine, Outcome, Refusal, TurnToken, commit};

impl Engine {
    /// What a decider says to the questions that it was given, read and held against the rules: a question that this run was
    /// never asked and a second answer to one are faults.
    pub(crate) fn read_results(
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
                    // The query's own trouble, not the turn's.
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

    /// Gives answers to those who wait. Whatever was to be answered and was not has failed, or is said this to.
    #[expect(clippy::too_many_arguments, reason = "a run, what was shown of it, and what was said to what was asked")]
    pub(super) fn give(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
        shown: EventId,
        version: EventId,
        asked: &[u64],
        mut outcomes: Vec<(u64, Outcome)>,
        otherwise: Option<Outcome>,
    ) {
        let otherwise = otherwise.unwrap_or_else(|| {
            let message = Some("the decider took the query along and said nothing to it".to_owned());
            Outcome::Failed { reason: "unanswered".to_owned(), message }
        });
        for number in asked {
            if !outcomes.iter().any(|(known, _)| known == number) {
                outcomes.push((*number, otherwise.clone()));
            }
        }
        if outcomes.is_empty() {
            return;
        }
        if self.questions.answer(key, run_id, shown, version, outcomes) {
            // The run may have moved on while it was asked.
            self.look_to_questions(key, run_id);
        }
    }

    /// A turn's answer is about to be recorded.
    pub(crate) fn begin_answering(self: &Arc<Self>, key: &HeadKey, token: &TurnToken) -> Answering {
        let asked = if self.took_along(token) { self.questions.begin_answering(key, token.turn) } else { Vec::new() };
        Answering { engine: Arc::clone(self), key: key.clone(), token: token.clone(), asked }
    }

    /// What a decider said with a turn that is recorded, to those who wait for it, here or at the node that gave it the turn.
    pub(crate) async fn give_answers(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        asked: &[u64],
        outcomes: Vec<(u64, Outcome)>,
    ) {
        if let Some(node) = token.node.as_deref().filter(|node| self.nodes.address() != Some(*node)) {
            self.pass_on(node, token, version, outcomes, None).await;
            return;
        }
        let key = commit::head_key(&token.domain, &token.workflow_id);
        self.give(&key, token.run_id, token.turn.started_event_id, version, asked, outcomes, None);
    }

    /// What a decider said to a task that only asks; `otherwise` to whatever is not among it.
    pub(crate) async fn answer_questions(
        self: &Arc<Self>,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, Outcome)>,
        otherwise: Option<Outcome>,
    ) -> Result<(), Refusal> {
        let is_anybody_there = match token.node.as_deref().filter(|node| self.nodes.address() != Some(*node)) {
            Some(node) => self.pass_on(node, token, version, outcomes, otherwise).await,
            None => {
                let key = commit::head_key(&token.domain, &token.workflow_id);
                let asked = self.questions.asked_by(&key, token.turn.scheduled_event_id);
                // Another task may have taken the questions meanwhile, and what is said to them is as true as it was.
                self.give(&key, token.run_id, token.turn.started_event_id, version, &asked, outcomes, otherwise);
                !asked.is_empty()
            }
        };
        if is_anybody_there { Ok(()) } else { Err(Refusal::QuestionsLost) }
    }
}

/// Keeps a turn's questions with it while its answer is recorded; dropped early, it lets them wait again.
pub(crate) struct Answering {
    engine: Arc<Engine>,
    key: HeadKey,
    token: TurnToken,
    asked: Vec<u64>,
}

impl Answering {
    /// The answer is recorded: the questions that are to be answered by it.
    pub(crate) fn succeed(&mut self) -> Vec<u64> {
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
