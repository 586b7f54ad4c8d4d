//! Queries where several nodes share a store. A question is put where it was asked, and where no decider waits for it there,
//! it is asked once more at a node where one waits. What a decider says to one node is passed on to the one that asked it.
//!
//! Whoever puts a question reads the run from the store first, so that no node answers from before what another has
//! acknowledged. All of this may be lost: whoever asked asks again.

use crate::engine::lists::grant::Query;
use std::sync::Arc;
use std::time::Duration;

use history::{EventId, TurnId};
use store::HeadKey;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Answered, Ask, From};
use crate::engine::lists::ListKey;
use crate::engine::riders::questions::Answer;
use crate::engine::run::cell::Request;
use crate::engine::{Engine, Forwarded, FromNode, Outcome, Refusal, RunRef, Said, Seen, TurnToken, commit};

/// How soon a question is looked at again whose run may have been worked on by another node; doubled each time.
const LOOK_FIRST: Duration = Duration::from_millis(50);

/// How often it is looked at in the end: one read of the store each time, for each question that waits.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);

/// Before another node is asked, when one could not answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How long one node is waited for before another is asked, but by who watches, which takes its time. Ours: as long as a task
/// that only asks may be out there, and a second.
const FORWARD_WAIT: Duration = Duration::from_secs(6);

/// After what time a question is put where a turn may take it along, although a decider waits here for a task that only asks.
const BUSY_AFTER: Duration = Duration::from_secs(1);

/// How often it is seen to that a node which is waited for is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// How much earlier than here the wait ends at another node, so that what it says at the end arrives in time.
const MARGIN: Duration = Duration::from_millis(100);

/// What is heard while a query waits.
pub(super) enum Heard {
    Answer(Answer),
    Unchanged(EventId),
}

impl Engine {
    /// What is heard from other nodes. Never ends where there are none.
    pub(super) async fn hear_from_others(
        self: &Arc<Self>,
        key: &HeadKey,
        forwarded: Forwarded,
        list: &ListKey,
        deadline: Instant,
        from: From,
    ) -> Heard {
        if !self.nodes.is_shared() {
            return std::future::pending().await;
        }
        tokio::select! {
            heard = self.ask_others(forwarded, list, deadline, from) => heard,
            () = self.keep_looking(key) => std::future::pending().await,
        }
    }

    /// Another node may have ended the turn that a question waits for.
    pub(crate) async fn keep_looking(self: &Arc<Self>, key: &HeadKey) {
        let mut wait = LOOK_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = LOOK_EVERY_MAX.min(wait * 2);
            if let Err(refusal) = self.ask(key, |reply| Request::Pose { run_id: None, pose: None, reply }).await {
                tracing::debug!(%refusal, workflow_id = %key.workflow_id, "a run that is asked could not be looked at");
            }
        }
    }

    async fn ask_others(&self, mut forwarded: Forwarded, list: &ListKey, deadline: Instant, from: From) -> Heard {
        let Some(peers) = self.elsewhere.peers().filter(|_| from == From::Caller) else {
            return std::future::pending().await;
        };
        let patience = Instant::now() + BUSY_AFTER;
        loop {
            // Nobody else is bothered where somebody waits here, unless the run is never without a turn at another node.
            if (!self.matching.has_answering_poller(list) || Instant::now() >= patience)
                && let Some(node) = self.elsewhere.next_waiting_at(list)
            {
                let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
                forwarded.wait = if forwarded.seen.is_some() { left } else { left.min(FORWARD_WAIT) };
                let heard = tokio::select! {
                    heard = peers.query(&node, &forwarded) => heard,
                    () = self.until_dead(&node) => Err("it is not alive any more".to_owned()),
                };
                match heard {
                    Ok(FromNode::Answer { version, outcome }) => return Heard::Answer(Answer { version, outcome }),
                    Ok(FromNode::Unchanged { version }) => return Heard::Unchanged(version),
                    Ok(FromNode::None) => {}
                    Err(error) => tracing::debug!(error, node, "a query could not be asked at another node"),
                }
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// Returns when a node is not alive any more.
    pub(crate) async fn until_dead(&self, node: &str) {
        while self.nodes.alive().iter().any(|alive| alive == node) {
            tokio::time::sleep(ALIVE_EVERY).await;
        }
    }

    /// Answers a query that was asked at another node.
    pub async fn query_for_node(self: &Arc<Self>, forwarded: Forwarded) -> FromNode {
        let Forwarded { domain, workflow_id, run_id, name, input, seen, wait } = forwarded;
        let at = RunRef { domain: domain.into(), workflow_id: workflow_id.into(), run_id: Some(run_id) };
        let deadline = Instant::now() + wait;
        match self.query_within(&at, Ask { name, input, seen }, deadline, From::Node).await {
            Ok(Answered::Result { version, result, .. }) => {
                FromNode::Answer { version, outcome: Outcome::Result(result) }
            }
            Ok(Answered::Unchanged { version, .. }) => FromNode::Unchanged { version },
            // A failure reflects nothing, so that its version does not matter.
            Err(Refusal::UnknownQuery { known, .. }) => {
                FromNode::Answer { version: 0, outcome: Outcome::Unknown { known } }
            }
            Err(Refusal::QueryFailed { reason, message, .. }) => {
                FromNode::Answer { version: 0, outcome: Outcome::Failed { reason, message } }
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "a query of another node was not answered");
                FromNode::None
            }
        }
    }

    /// Passes on what a decider said to the node that gave it the task; answers whether anybody there waited for it.
    pub(super) async fn pass_on(
        &self,
        node: &str,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, Outcome)>,
        otherwise: Option<Outcome>,
    ) -> bool {
        let Some(peers) = self.elsewhere.peers() else { return false };
        let said = Said {
            domain: token.domain.to_string(),
            workflow_id: token.workflow_id.to_string(),
            run_id: token.run_id,
            scheduled_event_id: token.turn.scheduled_event_id,
            started_event_id: token.turn.started_event_id,
            only_asks: token.only_asks.is_some(),
            version,
            outcomes,
            otherwise,
        };
        peers.say(node, &said).await.unwrap_or_else(|error| {
            tracing::debug!(error, node, "what a decider said could not be passed on");
            false
        })
    }

    /// Another node has heard what a decider says to questions of this one; answers whether anybody waited for it.
    pub fn hear_answers(self: &Arc<Self>, said: Said) -> bool {
        let Said { domain, workflow_id, run_id, version, outcomes, otherwise, only_asks, .. } = said;
        let key = commit::head_key(&domain, &workflow_id);
        let (scheduled_event_id, started_event_id) = (said.scheduled_event_id, said.started_event_id);
        let turn = TurnId { scheduled_event_id, started_event_id };
        let asked = if only_asks {
            self.questions.asked_by(&key, scheduled_event_id)
        } else {
            self.questions.begin_answering(&key, turn)
        };
        let is_anybody_there = !asked.is_empty();
        self.give(&key, run_id, started_event_id, version, &asked, outcomes, otherwise);
        is_anybody_there
    }
}

impl Forwarded {
    pub(super) fn of(key: &HeadKey, run_id: Uuid, query: &Query, seen: Option<Seen>) -> Self {
        let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
        let (name, input, wait) = (query.name.clone(), query.input.clone(), Duration::ZERO);
        Self { domain, workflow_id, run_id, name, input, seen, wait }
    }
}
