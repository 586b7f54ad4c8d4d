//! Finds tasks that were started for a poll whose response was lost, on this node or another, and sends them again.

use std::sync::Arc;
use std::time::Duration;

use history::PollId;
use tokio::task::JoinSet;

use crate::lists::grant::Grant;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::permit::Permit;
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::{Offer, Refusal};

/// Maximum time for which a repeated poll waits for the other nodes to report whether they know its task. A node that
/// is suspended does not answer; its tasks are found when other nodes take over its runs. Our choice.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of poll ids in one request to another node. Our choice.
const LOST_AT_ONCE: usize = 256;

impl TaskLists {
    /// Takes the task that was started for an earlier attempt of a poll, and sends it to the current attempt.
    pub(crate) async fn take_lost(
        self: &Arc<Self>,
        list: &ListKey,
        earlier: &[PollId],
        taker: &Taker,
    ) -> Result<Option<Grant>, Refusal> {
        let found = match self.find_lost(earlier) {
            Some((_, task)) => Some(task),
            None => self.find_lost_at_peers(earlier).await,
        };
        match found {
            Some(task) => self.take_task(list, task, Permit::default(), taker.clone()).await,
            None => Ok(None),
        }
    }

    fn find_lost(&self, polls: &[PollId]) -> Option<(ListKey, WaitingTask)> {
        for poll in polls {
            // An earlier attempt may still wait here, but its caller has disconnected.
            self.matching.drop_poller(*poll);
        }
        self.polls.lose(polls)
    }

    /// If it is unknown whether a task was started for the poll and the poll has an id, marks the poll's response as
    /// lost and returns true.
    pub(crate) fn lose_if_unknown(&self, refusal: &Refusal, poll: Option<PollId>) -> bool {
        match (refusal, poll) {
            (Refusal::OutcomeUnknown { .. }, Some(poll)) => {
                self.polls.lose(&[poll]);
                true
            }
            _ => false,
        }
    }

    /// Handles a message that a poll was repeated at another node. Returns the task that was started for an earlier
    /// attempt, if this node knows it.
    pub fn find_lost_for_peer(&self, polls: &[u64]) -> Option<Offer> {
        let polls: Vec<PollId> = polls.iter().copied().map(PollId).collect();
        self.find_lost(&polls).map(|(list, task)| Offer::of(&list, &task))
    }

    async fn find_lost_at_peers(self: &Arc<Self>, polls: &[PollId]) -> Option<WaitingTask> {
        let peers = self.elsewhere.peers()?;
        let mut asked = JoinSet::new();
        for node in self.nodes.others() {
            let (peers, polls) = (Arc::clone(peers), polls.iter().map(|poll| poll.0).collect::<Vec<_>>());
            asked.spawn(async move { peers.lost(&node, &polls).await });
        }
        let first = async {
            while let Some(answer) = asked.join_next().await {
                match answer {
                    Ok(Ok(Some(offer))) => return Some(offer.task()),
                    Ok(Ok(None)) | Err(_) => {}
                    Ok(Err(error)) => tracing::debug!(error, "a node did not say whether it knows a poll's task"),
                }
            }
            None
        };
        let found = tokio::time::timeout(ASKED_WAIT, first).await.unwrap_or_default();
        // Lets the requests to nodes that have not answered continue, so that these nodes learn that the polls are
        // lost.
        asked.detach_all();
        found
    }

    /// After nodes have joined, reports lost polls to all other nodes. New nodes may find the tasks, and they have not
    /// received the earlier requests.
    pub(crate) fn send_lost_polls(self: &Arc<Self>) {
        let (Some(peers), lost) = (self.elsewhere.peers(), self.polls.lately_lost()) else { return };
        for node in self.nodes.others() {
            for polls in lost.chunks(LOST_AT_ONCE) {
                let (lists, peers, node) = (Arc::clone(self), Arc::clone(peers), node.clone());
                let polls: Vec<u64> = polls.iter().map(|poll| poll.0).collect();
                self.background.spawn(async move {
                    // Repeats the request, because each response has only one task, which the node then removes from
                    // its memory.
                    while let Ok(Some(offer)) = peers.lost(&node, &polls).await {
                        lists.offer(&(&offer.list).into(), offer.task());
                    }
                });
            }
        }
    }

    /// Remembers the poll for which a task was started. If the response to that poll is already known to be lost,
    /// offers the task again.
    pub(crate) fn remember(self: &Arc<Self>, poll: PollId, list: &ListKey, task: WaitingTask) {
        if self.polls.note(poll, list.clone(), task.clone()) {
            self.offer(list, task);
        }
    }
}
