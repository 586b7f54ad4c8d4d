//! Riders (queries and updates) if several nodes share a store. If no decider polls at this node, the rider is sent to
//! a node where a decider waits: a query is forwarded to that node as a copy, and an update is lent. A lent update
//! belongs to the other node until that node replies, so that two deciders never validate the update at the same time.
//! A decider may send its answer to any node. That node passes the answer to the node that holds the riders.
//!
//! Before a node adds a query, it reads the run from the store. The answer then reflects all commits that other nodes
//! have acknowledged. If a node with a lent update fails, the lending node does not know whether a decider has accepted
//! the update. If the outcome was recorded, the lending node finds it in the run by the update's id. Otherwise the
//! update is validated again. `update/reject.rs` describes when the caller gets a rejection.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::{EventId, ProposedUpdate, TurnId};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::lists::ListKey;
use crate::lists::grant::{Query, RiderKind};
use crate::riders::outcome::{DeciderAnswer, UpdateTurnOutcome};
use crate::riders::place::By;
use crate::riders::query::{From as AskedFrom, QueryReply, QueryRequest, WatchedAnswer};
use crate::riders::submitted::{SubmittedUpdate, UpdateSubmission};
use crate::riders::task::RequestReply;
use crate::run::request::Alone;
use crate::{
    Forwarded, FromNode, FromValidator, LentUpdate, QueryOutcome, Refusal, RejectedUpdate, RunRef, SeenVersion,
    StrayAnswer, TurnToken,
};

/// First delay before a run with waiting riders is read again, because another node may have changed it. The delay
/// doubles after each read.
const CHECK_DELAY_FIRST: Duration = Duration::from_millis(50);

/// Maximum delay between two reads of a run with waiting riders. Each waiting rider causes separate reads.
const CHECK_DELAY_MAX: Duration = Duration::from_secs(2);

/// Delay before the next node is tried, after a node could not answer or had no decider.
const NEXT_NODE_DELAY: Duration = Duration::from_millis(250);

/// Maximum time to wait for one node's answer to a query before another node is tried. Callers that watch for changes
/// may wait longer. Our choice: the maximum duration of a query task, plus one second.
const FORWARD_WAIT: Duration = Duration::from_secs(6);

/// Maximum time for which a lent update waits at another node for a decider. Our choice: longer than a decider's pause
/// between two polls.
const LENT_WAIT: Duration = Duration::from_secs(2);

/// Time after which a query may be sent to another node even if a decider waits at this node. Reason: another node may
/// continuously have a turn of the query's run. The query would then never get a task at this node.
const BUSY_AFTER: Duration = Duration::from_secs(1);

/// Interval at which the service checks that a node is alive while it waits for the node's reply.
const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// Time by which a node to which a rider was sent ends its wait earlier than this node, so that its reply arrives in
/// time.
const MARGIN: Duration = Duration::from_millis(100);

impl From<UpdateTurnOutcome> for FromValidator {
    fn from(heard: UpdateTurnOutcome) -> Self {
        match heard {
            UpdateTurnOutcome::Done { event_id, version, result } => Self::Done { event_id, version, result },
            UpdateTurnOutcome::Accepted | UpdateTurnOutcome::Refused(Refusal::UpdateFailed { .. }) => Self::Recorded,
            UpdateTurnOutcome::Rejected { reason, details } => Self::Rejected { reason, details },
            UpdateTurnOutcome::Unanswered => Self::Unanswered,
            // At the replying node, the request with this update id no longer waits. A decider of that node may still
            // have the update.
            UpdateTurnOutcome::Refused(Refusal::UpdateTimedOut { .. }) => Self::Held,
            // The node that lent the update looks for the outcome in the run.
            UpdateTurnOutcome::Refused(_) | UpdateTurnOutcome::Continued => Self::Withdrawn,
        }
    }
}

/// Requests to other nodes, sent by the node that holds the rider.
impl RequestReply {
    /// Calls `ask` for the nodes where a decider waits for riders of this kind, one after the other, until a node
    /// replies. Never returns if there is no such node or if `may` is false. While waiting, checks the riders of the
    /// run periodically.
    async fn try_other_nodes<T, Asked: Future<Output = Option<T>>>(
        self: &Arc<Self>,
        key: &HeadKey,
        (list, kind, may): (&ListKey, RiderKind, bool),
        mut ask: impl FnMut(String) -> Asked,
    ) -> T {
        if !self.nodes.is_shared() {
            return std::future::pending().await;
        }
        let patience = Instant::now() + BUSY_AFTER;
        let asking = async {
            loop {
                // While a decider waits at this node, no other node is tried. Queries are an exception after
                // [`BUSY_AFTER`], because another node may continuously have a turn of the run.
                let is_for_here = self.lists.matching.has_poller(list, |taker| taker.takes(kind))
                    && (kind == RiderKind::Update || Instant::now() < patience);
                if may
                    && !is_for_here
                    && let Some(node) = self.lists.elsewhere.next_waiting_at(list)
                    && let Some(heard) = ask(node).await
                {
                    return heard;
                }
                tokio::time::sleep(NEXT_NODE_DELAY).await;
            }
        };
        tokio::select! {
            heard = asking => heard,
            never = self.keep_checking_run(key) => match never {},
        }
    }

    /// Reads the run periodically, because another node may have ended the turn for which a rider waits.
    async fn keep_checking_run(self: &Arc<Self>, key: &HeadKey) -> Infallible {
        let mut wait = CHECK_DELAY_FIRST;
        loop {
            tokio::time::sleep(wait).await;
            wait = CHECK_DELAY_MAX.min(wait * 2);
            if let Err(refusal) = self.runs.submit(key, |reply| Alone::DispatchRiders { reply }).await {
                tracing::debug!(
                    %refusal, workflow_id = %key.workflow_id,
                    "the run of a waiting request could not be checked"
                );
            }
        }
    }

    /// Waits for a node's reply. Stops waiting if the node is no longer alive.
    async fn await_reply_while_alive<T>(
        &self,
        node: &str,
        says: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let until_dead = async {
            while self.nodes.alive().iter().any(|alive| alive == node) {
                tokio::time::sleep(ALIVE_EVERY).await;
            }
        };
        tokio::select! {
            said = says => said,
            () = until_dead => Err("the node is no longer alive".to_owned()),
        }
    }

    /// Forwards a query to nodes where a decider waits, until one of them answers it.
    pub(super) async fn query_elsewhere(
        self: &Arc<Self>,
        key: &HeadKey,
        forwarded: Forwarded,
        list: &ListKey,
        deadline: Instant,
        from: AskedFrom,
    ) -> WatchedAnswer {
        let peers = self.lists.elsewhere.peers().filter(|_| from == AskedFrom::Caller);
        let ask = |node: String| {
            let mut forwarded = forwarded.clone();
            async move {
                let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
                forwarded.wait = if forwarded.seen.is_some() { left } else { left.min(FORWARD_WAIT) };
                match self.await_reply_while_alive(&node, peers?.query(&node, &forwarded)).await {
                    Ok(FromNode::Answer { version, outcome }) => {
                        Some(WatchedAnswer::Answer(DeciderAnswer { version, outcome }))
                    }
                    Ok(FromNode::Unchanged { version }) => Some(WatchedAnswer::Unchanged(version)),
                    Ok(FromNode::None) => None,
                    Err(error) => {
                        tracing::debug!(error, node, "a query could not be forwarded to another node");
                        None
                    }
                }
            }
        };
        self.try_other_nodes(key, (list, RiderKind::Query, peers.is_some()), ask).await
    }

    /// Lends a waiting update to nodes where a decider waits, until one of them validates it. Sets `in_doubt` if a
    /// decider of another node may have the update and this node no longer waits for that decider's answer.
    pub(super) async fn validate_elsewhere(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
        (update_id, in_doubt): (&str, &Arc<AtomicBool>),
        list: &ListKey,
        deadline: Instant,
    ) -> Infallible {
        let lend = async |node: String| {
            let asked = self.riders.lend(key, run_id, update_id)?;
            let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
            let wait = deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
            let lent = LentUpdate { domain, workflow_id, run_id, asked, wait };
            let (this, key, list, in_doubt) = (Arc::clone(self), key.clone(), list.clone(), Arc::clone(in_doubt));
            // Runs in a separate task, because the caller may stop waiting. The update must remain lent as long as a
            // decider may have it.
            let lending = self.background.spawn_until_stopped(async move {
                this.lend_to(&node, &list, &key, lent, &in_doubt).await;
            });
            drop(lending.await);
            None
        };
        self.try_other_nodes(key, (list, RiderKind::Update, true), lend).await
    }

    async fn lend_to(
        self: &Arc<Self>,
        node: &str,
        list: &ListKey,
        key: &HeadKey,
        lent: LentUpdate,
        in_doubt: &AtomicBool,
    ) {
        let judged = match self.lists.elsewhere.peers() {
            None => Ok(FromValidator::Withdrawn),
            Some(peers) => self.await_reply_while_alive(node, peers.validate(node, &lent)).await,
        };
        // `in_doubt` must be set before a task of this node can take the update again.
        if matches!(judged, Ok(FromValidator::Held) | Err(_)) {
            in_doubt.store(true, Ordering::Relaxed);
        }
        let heard = match judged {
            Ok(FromValidator::Done { event_id, version, result }) => {
                Some(UpdateTurnOutcome::Done { event_id, version, result })
            }
            Ok(FromValidator::Recorded) => Some(UpdateTurnOutcome::Accepted),
            Ok(FromValidator::Rejected { reason, details }) => Some(UpdateTurnOutcome::Rejected { reason, details }),
            Ok(FromValidator::Unanswered) => Some(UpdateTurnOutcome::Unanswered),
            Ok(FromValidator::Withdrawn | FromValidator::Held) => None,
            Err(error) => {
                tracing::debug!(error, node, "an update could not be validated at another node");
                self.lists.elsewhere.forget(list, node);
                self.lists.pollers.saw(list, self.clock.now());
                None
            }
        };
        let LentUpdate { run_id, asked: ProposedUpdate { update_id, .. }, .. } = lent;
        match heard {
            Some(heard) => self.riders.send_outcome(key, run_id, &update_id, &heard, self.clock.now()),
            None => self.riders.end_lending(key, run_id, &update_id),
        }
        if self.riders.updates() > 0 {
            self.check_riders(key, run_id);
        }
    }
}

/// Requests of other nodes, handled by the receiving node.
impl RequestReply {
    /// Answers a query that another node forwarded.
    pub async fn query_for_node(self: &Arc<Self>, forwarded: Forwarded) -> FromNode {
        let Forwarded { domain, workflow_id, run_id, name, input, seen, wait } = forwarded;
        let at = RunRef { domain: domain.into(), workflow_id: workflow_id.into(), run_id: Some(run_id) };
        let deadline = Instant::now() + wait;
        match self.query_within(&at, QueryRequest { name, input, seen }, deadline, AskedFrom::Node).await {
            Ok(QueryReply::Result { version, result, .. }) => {
                FromNode::Answer { version, outcome: QueryOutcome::Result(result) }
            }
            Ok(QueryReply::Unchanged { version, .. }) => FromNode::Unchanged { version },
            // A failed query has no version, and the caller does not use the version of a failed query.
            Err(Refusal::UnknownQuery { known, .. }) => {
                FromNode::Answer { version: 0, outcome: QueryOutcome::Unknown { known } }
            }
            Err(Refusal::QueryFailed { reason, message, .. }) => {
                FromNode::Answer { version: 0, outcome: QueryOutcome::Failed { reason, message } }
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "a query from another node was not answered");
                FromNode::None
            }
        }
    }

    /// Lets a decider of this node validate an update that another node has lent.
    pub async fn validate_for_node(self: &Arc<Self>, lent: LentUpdate) -> FromValidator {
        let LentUpdate { domain, workflow_id, run_id, asked, wait } = lent;
        let key = HeadKey::new(&*domain, &*workflow_id);
        let deadline = Instant::now() + wait;
        let caller = self.ids.op();
        let (reply, mut heard) = oneshot::channel();
        // `is_named` is false, because the node that lent the update remembers its rejection.
        let update = Box::new(SubmittedUpdate { asked, is_named: false, caller, reply: Some(reply), start: None });
        match self.runs.submit(&key, |reply| Alone::Update { run_id: Some(run_id), update, reply }).await {
            Ok(UpdateSubmission::Known(_, heard)) => return heard.into(),
            Ok(UpdateSubmission::Waits(..) | UpdateSubmission::Started(..)) => {}
            Ok(UpdateSubmission::Continued) => return FromValidator::Withdrawn,
            Err(refusal) => {
                tracing::debug!(%refusal, "an update from another node was not validated");
                return FromValidator::Withdrawn;
            }
        }
        let part = self.riders.part(&key, caller);
        let mut give_up = deadline.min(Instant::now() + LENT_WAIT);
        loop {
            let told = tokio::select! {
                biased;
                told = &mut heard => told.ok(),
                () = self.background.stopped() => None,
                () = tokio::time::sleep_until(give_up) => None,
                never = self.keep_checking_run(&key) => match never {},
            };
            if let Some(told) = told {
                return told.into();
            }
            // Withdraws the update if no task has taken it. If it is no longer among the riders, it has been answered.
            if part.leave_if_waiting() {
                return FromValidator::Withdrawn;
            }
            if self.background.is_stopping() || Instant::now() >= deadline {
                return FromValidator::Held;
            }
            // A decider has the update, or its answer is about to arrive. This node therefore continues to wait.
            give_up = deadline.min(Instant::now() + LENT_WAIT);
        }
    }

    /// Handles another node's message about the rejection of an update. Returns true if no decider has received the
    /// update from this node.
    pub fn withdraw_for_node(&self, rejected: RejectedUpdate) -> bool {
        let RejectedUpdate { domain, workflow_id, run_id, update_id, reason, details } = rejected;
        let key = HeadKey::new(&*domain, &*workflow_id);
        let heard = match reason {
            Some(reason) => UpdateTurnOutcome::Rejected { reason, details },
            None => UpdateTurnOutcome::Unanswered,
        };
        self.riders.give_up(&key, run_id, &update_id, &heard, self.clock.now())
    }
}

/// Answers that a decider sent to a node that does not hold the riders.
impl RequestReply {
    /// Passes a decider's query results to the node that handed out the task. Returns true if a caller of that node
    /// waited for any of the results.
    pub(super) async fn pass_on(
        &self,
        node: &str,
        token: &TurnToken,
        version: EventId,
        outcomes: Vec<(u64, QueryOutcome)>,
        otherwise: Option<QueryOutcome>,
    ) -> bool {
        let Some(peers) = self.lists.elsewhere.peers() else { return false };
        let said = StrayAnswer {
            domain: token.domain.to_string(),
            workflow_id: token.workflow_id.to_string(),
            run_id: token.run_id,
            scheduled_event_id: token.turn.scheduled_event_id,
            started_event_id: token.turn.started_event_id,
            query_only: token.query_only.is_some(),
            version,
            outcomes,
            otherwise,
        };
        peers.deliver_results(node, &said).await.unwrap_or_else(|error| {
            tracing::debug!(error, node, "query results could not be forwarded to another node");
            false
        })
    }

    /// Handles query results that a decider sent to another node although this node holds the queries. Returns true if
    /// a caller waited for any of the results.
    pub fn deliver_answers(self: &Arc<Self>, said: StrayAnswer) -> bool {
        let StrayAnswer { domain, workflow_id, run_id, version, outcomes, otherwise, query_only, .. } = said;
        let key = HeadKey::new(&*domain, &*workflow_id);
        let (scheduled_event_id, started_event_id) = (said.scheduled_event_id, said.started_event_id);
        let turn = TurnId { scheduled_event_id, started_event_id };
        let asked = if query_only {
            self.riders.with_task(&key, By::Own(scheduled_event_id)).queries
        } else {
            self.riders.begin_answering(&key, By::Turn(turn), false).queries
        };
        let is_anybody_there = !asked.is_empty();
        self.give(&key, run_id, started_event_id, version, &asked, outcomes, otherwise);
        is_anybody_there
    }
}

impl Forwarded {
    pub(super) fn of(key: &HeadKey, run_id: Uuid, query: &Query, seen: Option<SeenVersion>) -> Self {
        let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
        let (name, input, wait) = (query.name.clone(), query.input.clone(), Duration::ZERO);
        Self { domain, workflow_id, run_id, name, input, seen, wait }
    }
}
