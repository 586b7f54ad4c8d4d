//! Updates where several nodes share a store. One that is put where no decider waits for it is lent to a node where one
//! waits, and is that node's alone until it says what became of it: nothing is judged at two nodes at once. A decider may
//! answer at any node: its answer is passed on to the one that has the updates.
//!
//! When a node is lost that has a lent update, nobody knows whether its decider accepts it. What was recorded is found by the
//! update's id, and what was not is judged again; what is then rejected, its caller hears as `reject` has it.

use std::sync::Arc;
use std::time::Duration;

use history::admit::must_hold;
use history::{AskedUpdate, Author, Command, Fault, Run, UpdateAnswer};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::{PartInUpdate, PutUpdate, Putting};
use crate::engine::lists::ListKey;
use crate::engine::nodes::messages::Passed;
use crate::engine::riders::updates::Heard;
use crate::engine::run::cell::Request;
use crate::engine::{Engine, FromJudge, FromRecorder, LentUpdate, Outcome, PassedAnswer, Refusal, TurnToken, commit};

/// Before another node is asked, when one had no decider for an update.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How long an update stays at another node that no decider takes there. Ours: longer than a decider is away between two polls.
const LENT_WAIT: Duration = Duration::from_secs(2);

/// How much earlier than here the wait ends at another node, so that what it says at the end arrives in time.
const MARGIN: Duration = Duration::from_millis(100);

impl From<Heard> for FromJudge {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::Done { event_id, version, result } => Self::Done { event_id, version, result },
            Heard::Accepted | Heard::Refused(Refusal::UpdateFailed { .. }) => Self::Recorded,
            Heard::Rejected { reason, details } => Self::Rejected { reason, details },
            Heard::Unanswered => Self::Unanswered,
            // It was given up by another caller of this id, with which a decider may have it.
            Heard::Refused(Refusal::UpdateNotAnswered { .. }) => Self::Held,
            // Whoever lent it finds out by itself, from the run.
            Heard::Refused(_) | Heard::GoneOn => Self::Withdrawn,
        }
    }
}

/// Where an update was put.
impl Engine {
    /// Has an update that waits here judged where a decider waits, as often as it takes. Never ends.
    pub(super) async fn have_judged_elsewhere(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
        update_id: &str,
        list: &ListKey,
        deadline: Instant,
    ) {
        if !self.nodes.is_shared() {
            return std::future::pending().await;
        }
        let lend = async {
            loop {
                // Nobody else is bothered where somebody waits here.
                if !self.matching.has_judging_poller(list)
                    && let Some(node) = self.elsewhere.next_waiting_at(list)
                    && let Some(asked) = self.updates.lend(key, run_id, update_id)
                {
                    let (engine, key) = (Arc::clone(self), key.clone());
                    // Whoever stops waiting does not take it away from a decider that has it.
                    let list = list.clone();
                    let lending = self.background.spawn_until_stopped(async move {
                        engine.lend_to(&node, &list, &key, run_id, asked, deadline).await;
                    });
                    drop(lending.await);
                }
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        };
        tokio::select! {
            () = lend => {}
            () = self.keep_looking(key) => {}
        }
    }

    async fn lend_to(
        self: &Arc<Self>,
        node: &str,
        list: &ListKey,
        key: &HeadKey,
        run_id: Uuid,
        asked: AskedUpdate,
        deadline: Instant,
    ) {
        let update_id = asked.update_id.clone();
        let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
        let wait = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        let lent = LentUpdate { domain, workflow_id, run_id, asked, wait };
        let judged = match self.elsewhere.peers() {
            None => Ok(FromJudge::Withdrawn),
            Some(peers) => tokio::select! {
                judged = peers.judge(node, &lent) => judged,
                () = self.until_dead(node) => Err("it is not alive any more".to_owned()),
            },
        };
        let heard = match judged {
            Ok(FromJudge::Done { event_id, version, result }) => Some(Heard::Done { event_id, version, result }),
            Ok(FromJudge::Recorded) => Some(Heard::Accepted),
            Ok(FromJudge::Rejected { reason, details }) => Some(Heard::Rejected { reason, details }),
            Ok(FromJudge::Unanswered) => Some(Heard::Unanswered),
            Ok(FromJudge::Withdrawn | FromJudge::Held) => None,
            Err(error) => {
                tracing::debug!(error, node, "an update could not be judged at another node");
                self.elsewhere.forget(list, node);
                self.pollers.saw(list, self.clock.now());
                None
            }
        };
        match heard {
            Some(heard) => self.updates.hear(key, run_id, &update_id, &heard, self.clock.now()),
            None => self.updates.end_lending(key, run_id, &update_id),
        }
        if self.updates.len() > 0 {
            self.look_to_questions(key, run_id);
        }
    }
}

/// Where it was lent to.
impl Engine {
    /// Has an update judged that another node has lent to this one.
    pub async fn judge_for_node(self: &Arc<Self>, lent: LentUpdate) -> FromJudge {
        let LentUpdate { domain, workflow_id, run_id, asked, wait } = lent;
        let key = commit::head_key(&domain, &workflow_id);
        let deadline = Instant::now() + wait;
        let (caller, update_id) = (self.ids.op(), asked.update_id.clone());
        let (reply, mut heard) = oneshot::channel();
        // Its own node remembers a rejection.
        let put = Box::new(PutUpdate { asked, is_named: false, caller, reply: Some(reply), start: None });
        match self.ask(&key, |reply| Request::Update { run_id: Some(run_id), put, reply }).await {
            Ok(Putting::Known(_, heard)) => return heard.into(),
            Ok(Putting::Waits(..) | Putting::Began(..)) => {}
            Ok(Putting::GoesOn) => return FromJudge::Withdrawn,
            Err(refusal) => {
                tracing::debug!(%refusal, "an update of another node is not judged here");
                return FromJudge::Withdrawn;
            }
        }
        let mut waiting = PartInUpdate { engine: self, key: &key, update_id: &update_id, caller, is_over: false };
        let mut give_up = deadline.min(Instant::now() + LENT_WAIT);
        loop {
            let told = tokio::select! {
                biased;
                told = &mut heard => told.ok(),
                () = self.background.stopped() => None,
                () = tokio::time::sleep_until(give_up) => None,
                () = self.keep_looking(&key) => None,
            };
            if let Some(told) = told {
                waiting.is_over = true;
                return told.into();
            }
            if self.updates.leave_if_waiting(&key, &update_id, caller) {
                waiting.is_over = true;
                return FromJudge::Withdrawn;
            }
            if self.is_stopping() || Instant::now() >= deadline {
                return FromJudge::Held;
            }
            // A decider has it, or its verdict is on the way.
            give_up = deadline.min(Instant::now() + LENT_WAIT);
        }
    }
}

/// Answers that were given to another node than the one that has the turn's updates.
impl Engine {
    /// The node that has the updates of a turn, where it is another one.
    pub(crate) fn recorder_of<'a>(&self, token: &'a TurnToken) -> Option<&'a str> {
        token.node.as_deref().filter(|node| token.judges && self.nodes.address() != Some(*node))
    }

    /// Passes an answer on. When the node is lost that has the updates, so is what they asked, and the turn with them.
    pub(crate) async fn pass_answer(
        self: &Arc<Self>,
        node: &str,
        token: &TurnToken,
        command: Command,
        results: Vec<(String, Outcome)>,
        updates: Vec<UpdateAnswer>,
    ) -> Result<(), Refusal> {
        let what = match command {
            Command::CompleteTurn { decisions, context, awaiting, .. } => {
                Passed::Completed { decisions, context, awaiting }
            }
            Command::FailTurn { reason, details, .. } => Passed::Failed { reason, details },
            other => return Err(Refusal::Corrupt { what: format!("an answer to a turn: {other:?}") }),
        };
        let Author { may, by } = token.author.clone();
        let may = may.as_deref().map(<[_]>::to_vec);
        let answer = PassedAnswer { token: self.mint.turn(token), what, results, updates, may, by };
        let Some(peers) = self.elsewhere.peers() else {
            let why = "no other node can be reached".to_owned();
            return Err(Refusal::Unavailable { why, retry_after: None });
        };
        match peers.record(node, &answer).await {
            Ok(FromRecorder::Recorded) => Ok(()),
            Ok(FromRecorder::Refused(fault)) => Err(fault.into()),
            Ok(FromRecorder::Unknown(why)) => Err(Refusal::OutcomeUnknown { why }),
            Err(error) if self.nodes.alive().iter().any(|alive| alive == node) => {
                let why = format!("the node that has the turn's updates does not answer: {error}");
                Err(Refusal::OutcomeUnknown { why })
            }
            Err(_) => {
                let key = commit::head_key(&token.domain, &token.workflow_id);
                if token.speculative.is_some() {
                    return Err(self.speculation_lost(&key, token).await);
                }
                // So that another decider has it at once, and not when its time is over.
                let (turn, reason) = (token.turn, Some("node-lost".to_owned()));
                let fail = Command::FailTurn { turn, reason, details: None };
                match self.tell_key(&key, Some(token.run_id), fail).await {
                    Ok(_) => Err(Fault::TurnLost.into()),
                    Err(refusal) => {
                        let judge = |run: &Run| must_hold(run, turn).err();
                        Err(self.as_its_run_says(&key, token.run_id, refusal, Fault::TurnLost, judge).await)
                    }
                }
            }
        }
    }

    /// Records an answer that was given to another node.
    pub async fn record_for_node(self: &Arc<Self>, answer: PassedAnswer) -> FromRecorder {
        let PassedAnswer { token, what, results, updates, may, by } = answer;
        let recorded = match self.mint.open_turn(&token) {
            Err(refusal) => Err(refusal),
            Ok(token) if self.recorder_of(&token).is_some() => Err(Fault::TurnLost.into()),
            Ok(mut token) => {
                token.author = Author { by, may: may.map(Into::into) };
                let turn = token.turn;
                let command = match what {
                    Passed::Completed { decisions, context, awaiting } => {
                        Command::CompleteTurn { turn, decisions, context, awaiting }
                    }
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
