//! Tasks that were started for polls whose answers were lost: found, here or at another node, and sent again.

use std::sync::Arc;
use std::time::Duration;

use history::PollId;
use tokio::task::JoinSet;

use crate::lists::grant::Grant;
use crate::lists::hand_out::TaskLists;
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::{Offer, Refusal};

/// How long a poll that is repeated waits until all nodes have said whether they know where its task is. One that is paused
/// says nothing; what it knows is found when the others take over from it.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// Of how many it tells at once.
const LOST_AT_ONCE: usize = 256;

impl TaskLists {
    /// What had been started for earlier tries of a poll, taken for this one.
    pub(crate) async fn take_lost(
        self: &Arc<Self>,
        list: &ListKey,
        earlier: &[PollId],
        taker: &Taker,
    ) -> Result<Option<Grant>, Refusal> {
        let found = match self.find_lost(earlier) {
            Some((_, task)) => Some(task),
            None => self.ask_for_lost(earlier).await,
        };
        match found {
            Some(task) => self.take_task(list, task, taker.clone()).await,
            None => Ok(None),
        }
    }

    fn find_lost(&self, polls: &[PollId]) -> Option<(ListKey, WaitingTask)> {
        for poll in polls {
            // Nobody is at its other end.
            self.matching.drop_poller(*poll);
        }
        self.polls.lose(polls)
    }

    /// When it is not known whether a task was started for a poll that has an id, it is in nobody's hands; true then.
    pub(crate) fn lose_if_unknown(&self, refusal: &Refusal, poll: Option<PollId>) -> bool {
        match (refusal, poll) {
            (Refusal::OutcomeUnknown { .. }, Some(poll)) => {
                self.polls.lose(&[poll]);
                true
            }
            _ => false,
        }
    }

    /// A poll was repeated at another node: what had been started for its earlier tries, as far as it is known here.
    pub fn find_lost_for_peer(&self, polls: &[u64]) -> Option<Offer> {
        let polls: Vec<PollId> = polls.iter().copied().map(PollId).collect();
        self.find_lost(&polls).map(|(list, task)| Offer::of(&list, &task))
    }

    async fn ask_for_lost(self: &Arc<Self>, polls: &[PollId]) -> Option<WaitingTask> {
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
        // Who has not answered yet is told all the same.
        asked.detach_all();
        found
    }

    /// Nodes have come: they may be the ones to find what was lost before they came, and have not heard that it was.
    pub(crate) fn tell_all_lost(self: &Arc<Self>) {
        let (Some(peers), lost) = (self.elsewhere.peers(), self.polls.lately_lost()) else { return };
        for node in self.nodes.others() {
            for polls in lost.chunks(LOST_AT_ONCE) {
                let (lists, peers, node) = (Arc::clone(self), Arc::clone(peers), node.clone());
                let polls: Vec<u64> = polls.iter().map(|poll| poll.0).collect();
                self.background.spawn(async move {
                    // One at a time: what is found is not found again.
                    while let Ok(Some(offer)) = peers.lost(&node, &polls).await {
                        lists.offer(&(&offer.list).into(), offer.task());
                    }
                });
            }
        }
    }

    /// Remembers where a started task went, and offers it if it was lost on the way.
    pub(crate) fn remember(self: &Arc<Self>, poll: PollId, list: &ListKey, task: WaitingTask) {
        if self.polls.note(poll, list.clone(), task.clone()) {
            self.offer(list, task);
        }
    }
}
