//! If the response to a poll was lost, sends the task again that was started for this poll. Finds such tasks on this
//! node and on others.

use std::sync::Arc;
use std::time::Duration;

use history::PollId;
use tokio::task::JoinSet;

use crate::lists::grant::Grant;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::permit::Permit;
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::{Offer, Refusal};

/// Maximum time for which a repeated poll waits for the other nodes to report whether they know the poll's task. A
/// suspended node does not answer. Its tasks are found when other nodes take over its runs. Our choice.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of poll ids in one request to another node. Our choice.
const LOST_AT_ONCE: usize = 256;

impl TaskLists {
    /// Takes the task that was started for an earlier attempt of a poll, for delivery to the current attempt.
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
            // An earlier attempt may still be waiting at this node, although its caller has disconnected.
            self.matching.drop_poller(*poll);
        }
        self.polls.lose(polls)
    }

    /// Marks the response to a poll as lost if the poll has an id and the error leaves open whether a task was started.
    /// Returns true if it marked the response.
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
                    Ok(Err(error)) => tracing::debug!(error, "a node could not be asked for the task of a lost poll"),
                }
            }
            None
        };
        let found = tokio::time::timeout(ASKED_WAIT, first).await.unwrap_or_default();
        // Requests to nodes that have not answered continue in the background, so that these nodes learn which polls
        // are lost.
        asked.detach_all();
        found
    }

    /// Reports lost polls to all other nodes, after nodes have joined. New nodes have not received the earlier requests
    /// and may find the tasks.
    pub(crate) fn send_lost_polls(self: &Arc<Self>) {
        let (Some(peers), lost) = (self.elsewhere.peers(), self.polls.lately_lost()) else { return };
        for node in self.nodes.others() {
            for polls in lost.chunks(LOST_AT_ONCE) {
                let (lists, peers, node) = (Arc::clone(self), Arc::clone(peers), node.clone());
                let polls: Vec<u64> = polls.iter().map(|poll| poll.0).collect();
                self.background.spawn(async move {
                    // Repeats the request, because each response contains only one task. The node that responds removes
                    // that task from its memory.
                    while let Ok(Some(offer)) = peers.lost(&node, &polls).await {
                        lists.offer(&(&offer.list).into(), offer.task());
                    }
                });
            }
        }
    }

    /// Remembers the poll for which a task was started. If the response to this poll is already known to be lost,
    /// offers the task again.
    pub(crate) fn remember(self: &Arc<Self>, poll: PollId, list: &ListKey, task: WaitingTask) {
        if self.polls.note(poll, list.clone(), task.clone()) {
            self.offer(list, task);
        }
    }
}
