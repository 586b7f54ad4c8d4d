//! Passes the answer to a turn to the node that holds the turn's updates, because that node must record the answer.

use history::admit::must_hold;
use history::{Author, Command, Fault, Run, TurnAnswer, UpdateAnswer};

use crate::nodes::messages::Passed;
use crate::run::request::RunRequest;
use crate::tasks::Tasks;
use crate::tasks::answers::refusal_of_its_run;
use crate::{FromRecorder, PassedAnswer, QueryOutcome, Refusal, TurnToken};

impl Tasks {
    /// Returns the node that holds the updates of a turn; `None` if this node holds them.
    pub(super) fn recorder_of<'a>(&self, token: &'a TurnToken) -> Option<&'a str> {
        token.node.as_deref().filter(|node| token.judges && self.nodes.address() != Some(*node))
    }

    /// Passes an answer to another node. If that node has failed, the turn and the node's updates are lost.
    pub(super) async fn pass_answer(
        &self,
        node: &str,
        token: &TurnToken,
        command: Command,
        results: Vec<(String, QueryOutcome)>,
        updates: Vec<UpdateAnswer>,
    ) -> Result<(), Refusal> {
        let what = match command {
            Command::CompleteTurn { answer, .. } => {
                // `decision_context` is not sent, because the node that records the answer looks up the registered
                // types itself.
                let TurnAnswer { decisions, context, awaiting, next_task_list, decision_context: _ } = *answer;
                Passed::Completed { decisions, context, awaiting, next_task_list }
            }
            Command::FailTurn { reason, details, .. } => Passed::Failed { reason, details },
            _ => {
                return Err(Refusal::Corrupt { what: "the answer to a turn has the wrong command".to_owned() });
            }
        };
        let Author { may, by, .. } = token.author.clone();
        let may = may.as_deref().map(<[_]>::to_vec);
        let answer = PassedAnswer { token: self.mint.turn(token), what, results, updates, may, by };
        let Some(peers) = self.lists.elsewhere.peers() else {
            let why = "no other node is reachable".to_owned();
            return Err(Refusal::Unavailable { why, retry_after: None });
        };
        match peers.record(node, &answer).await {
            Ok(FromRecorder::Recorded) => Ok(()),
            Ok(FromRecorder::Refused(fault)) => Err(fault.into()),
            Ok(FromRecorder::Unknown(why)) => Err(Refusal::OutcomeUnknown { why }),
            Err(error) if self.nodes.alive().iter().any(|alive| alive == node) => {
                let why = format!("the node that has the turn's updates does not respond: {error}");
                Err(Refusal::OutcomeUnknown { why })
            }
            Err(_) => {
                let key = token.key();
                if token.speculative.is_some() {
                    return Err(self.request_reply.speculation_lost(&key, token).await);
                }
                // Records the turn as failed, so that another decider can take the next turn at once. Otherwise the
                // next turn would have to wait for the timeout of this turn.
                let (turn, reason) = (token.turn, Some("node-lost".to_owned()));
                let fail = Command::FailTurn { turn, reason, details: None };
                let (run_id, author) = (Some(token.run_id), Author::default());
                match self.runs.submit(&key, |reply| RunRequest::command(run_id, fail, author, reply)).await {
                    Ok(_) => Err(Fault::TurnLost.into()),
                    Err(refusal) => {
                        let judge = |run: &Run| must_hold(run, turn).err();
                        Err(refusal_of_its_run(&self.reader, &key, token.run_id, refusal, Fault::TurnLost, judge).await)
                    }
                }
            }
        }
    }

    /// Records an answer that another node received.
    pub async fn record_for_node(&self, answer: PassedAnswer) -> FromRecorder {
        let PassedAnswer { token, what, results, updates, may, by } = answer;
        let recorded = match self.mint.open_turn(&token) {
            Err(refusal) => Err(refusal),
            Ok(token) if self.recorder_of(&token).is_some() => Err(Fault::TurnLost.into()),
            Ok(mut token) => {
                token.author = Author { may: may.map(Into::into), ..Author::named(by) };
                let turn = token.turn;
                let command = match what {
                    Passed::Completed { decisions, context, awaiting, next_task_list } => Command::complete(
                        turn,
                        TurnAnswer { decisions, context, awaiting, next_task_list, ..TurnAnswer::default() },
                    ),
                    Passed::Failed { reason, details } => Command::FailTurn { turn, reason, details },
                };
                self.answer_turn_with(&token, command, results, updates).await
            }
        };
        match recorded {
            Ok(()) => FromRecorder::Recorded,
            Err(Refusal::Fault(fault)) => FromRecorder::Refused(fault),
            Err(refusal) => FromRecorder::Unknown(refusal.to_string()),
        }
    }
}
