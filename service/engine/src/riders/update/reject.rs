//! Telling that an update is rejected, where several nodes share a store. A rejection leaves nothing in the store that would keep a
//! decider from accepting the same update elsewhere, whose caller gave up waiting there and has asked here again. So nobody hears of it
//! before all other nodes have said that none of their deciders has the update. Who says so remembers the rejection, and does
//! not have the update judged again.
//!
//! A node that is taken for dead is not asked. What was judged there it does not record any more: it knows that it has been
//! silent for so long ([`is_in_touch`](crate::nodes::Nodes::is_in_touch)).

use std::sync::Arc;
use std::time::Duration;

use store::HeadKey;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::lists::elsewhere::Elsewhere;
use crate::nodes::Nodes;
use crate::riders::heard::UpdateHeard;
use crate::{Refusal, RejectedUpdate};

/// How long the other nodes have to say whether a decider of theirs has an update. Ours: as for polls that are repeated.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// What the caller of an update hears: a rejection only if no decider of another node can accept the update yet.
pub(super) async fn told_by_all(
    (nodes, elsewhere): (&Nodes, &Elsewhere),
    key: &HeadKey,
    run_id: Uuid,
    update_id: &str,
    heard: UpdateHeard,
) -> UpdateHeard {
    let (reason, details) = match &heard {
        UpdateHeard::Rejected { reason, details } => (Some(reason.clone()), details.clone()),
        UpdateHeard::Unanswered => (None, None),
        UpdateHeard::Done { .. } | UpdateHeard::Accepted | UpdateHeard::Refused(_) | UpdateHeard::GoneOn => {
            return heard;
        }
    };
    if nodes.is_alone() {
        return heard;
    }
    let (domain, workflow_id) = (key.domain.to_string(), key.workflow_id.to_string());
    let update_id = update_id.to_owned();
    let rejected = RejectedUpdate { domain, workflow_id, run_id, update_id, reason, details };
    let given_up = if nodes.is_in_touch() { do_all_give_up(nodes, elsewhere, &rejected).await } else { None };
    let why = match given_up {
        Some(true) => return heard,
        Some(false) => "it was rejected, but a decider of another node has it, too, and may accept it yet",
        None => "it was rejected, but it cannot be said whether a decider of another node has it",
    };
    let update_id = rejected.update_id;
    UpdateHeard::Refused(Refusal::UpdateNotAnswered { update_id, recorded: true, why, waits_for: None })
}

/// `None` when one does not say.
async fn do_all_give_up(nodes: &Nodes, elsewhere: &Elsewhere, rejected: &RejectedUpdate) -> Option<bool> {
    let peers = elsewhere.peers()?;
    let mut asked = JoinSet::new();
    for node in nodes.others() {
        let (peers, rejected) = (Arc::clone(peers), rejected.clone());
        asked.spawn(async move { peers.give_up(&node, &rejected).await });
    }
    let all = async {
        let mut all = Some(true);
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Some(false),
                Ok(Err(error)) => {
                    tracing::debug!(error, "a node does not say whether a decider has an update there");
                    all = None;
                }
                Err(_) => all = None,
            }
        }
        all
    };
    tokio::time::timeout(ASKED_WAIT, all).await.unwrap_or_default()
}
