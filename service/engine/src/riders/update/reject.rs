//! Rejections of updates if several nodes share a store. A rejection is not stored. A caller may have sent the same
//! update to another node earlier, and stopped waiting at that node. A decider of that node could then still accept the
//! update. Therefore the caller gets a rejection only after all other nodes have replied that none of their deciders
//! has the update. A node that replies so also remembers the rejection and does not hand out the update again.
//!
//! Nodes that are considered dead get no request. Such a node no longer records answers to updates, because it knows
//! that its own heartbeats have failed for that long ([`is_in_touch`](crate::nodes::Nodes::is_in_touch)).

use std::sync::Arc;
use std::time::Duration;

use store::HeadKey;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::lists::elsewhere::Elsewhere;
use crate::nodes::Nodes;
use crate::riders::outcome::UpdateTurnOutcome;
use crate::{Refusal, RejectedUpdate};

/// Time within which the other nodes must reply whether one of their deciders has an update. Our choice: equal to the
/// time for repeated polls (`lists/lost.rs`).
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// Returns the outcome for the caller of an update. A rejection is returned only if no decider of another node can
/// still accept the update.
pub(super) async fn confirm_rejection(
    (nodes, elsewhere): (&Nodes, &Elsewhere),
    key: &HeadKey,
    run_id: Uuid,
    update_id: &str,
    heard: UpdateTurnOutcome,
) -> UpdateTurnOutcome {
    let (reason, details) = match &heard {
        UpdateTurnOutcome::Rejected { reason, details } => (Some(reason.clone()), details.clone()),
        UpdateTurnOutcome::Unanswered => (None, None),
        UpdateTurnOutcome::Done { .. }
        | UpdateTurnOutcome::Accepted
        | UpdateTurnOutcome::Refused(_)
        | UpdateTurnOutcome::Continued => {
            return heard;
        }
    };
    if nodes.is_alone() {
        return heard;
    }
    let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
    let update_id = update_id.to_owned();
    let rejected = RejectedUpdate { domain, workflow_id, run_id, update_id, reason, details };
    let given_up = if nodes.is_in_touch() { all_give_up(nodes, elsewhere, &rejected).await } else { None };
    let why = match given_up {
        Some(true) => return heard,
        Some(false) => "it was rejected, but a decider of another node also has it and may still accept it",
        None => "it was rejected, but a decider of an unreachable node may also have it",
    };
    let update_id = rejected.update_id;
    UpdateTurnOutcome::Refused(Refusal::UpdateTimedOut { update_id, recorded: true, why, waits_for: None })
}

/// Notifies all other nodes that an update was rejected. Returns true if no decider of these nodes can accept the
/// update, and false if any of them may accept it. Returns `None` if a node does not reply.
async fn all_give_up(nodes: &Nodes, elsewhere: &Elsewhere, rejected: &RejectedUpdate) -> Option<bool> {
    let peers = elsewhere.peers()?;
    let mut asked = JoinSet::new();
    for node in nodes.others() {
        let (peers, rejected) = (Arc::clone(peers), rejected.clone());
        asked.spawn(async move { peers.withdraw_update(&node, &rejected).await });
    }
    let all = async {
        let mut all = Some(true);
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Some(false),
                Ok(Err(error)) => {
                    tracing::debug!(error, "a node could not be asked whether its deciders have an update");
                    all = None;
                }
                Err(_) => all = None,
            }
        }
        all
    };
    tokio::time::timeout(ASKED_WAIT, all).await.unwrap_or_default()
}
