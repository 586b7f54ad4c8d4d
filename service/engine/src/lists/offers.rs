//! Messages between nodes about their task lists: which lists have waiting pollers, and which tasks wait for a poller.

use std::sync::Arc;

use crate::lists::ListKey;
use crate::lists::elsewhere::OFFER_PAUSE;
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::{LeavingNode, ToNode, ToWaiting};
use crate::{ListName, Offer};

impl TaskLists {
    /// Looks for tasks for a poller that begins to wait at this node. Reads the list's backlog rows if this node has
    /// not read them. Notifies the other nodes that do not yet know that pollers of the list wait at this node.
    pub(crate) fn seek_waiting(self: &Arc<Self>, list: &ListKey) {
        self.seek(list);
        let Some(peers) = self.elsewhere.peers().filter(|_| self.nodes.is_shared()) else { return };
        for node in self.elsewhere.take_unnotified(list, self.nodes.others()) {
            let (lists, peers, list) = (Arc::clone(self), Arc::clone(peers), list.clone());
            self.background.spawn_until_stopped(async move {
                if let Err(error) = peers.wait_on(&node, &(&list).into()).await {
                    tracing::debug!(error, node, "a node could not be notified of a poller here");
                    lists.elsewhere.forget_notified(&list, &node);
                }
            });
        }
    }

    /// Handles a message in which another node reports that pollers wait on a list at that node.
    pub fn waits_at(self: &Arc<Self>, node: String, list: &ListName) {
        let list = ListKey::from(list);
        self.elsewhere.record_waiting(&list, node);
        self.offer_elsewhere(&list);
    }

    /// Handles another node's offer of a task. Returns true if a poller at this node waits for the task.
    pub fn take_offer(self: &Arc<Self>, node: &str, offer: &Offer) -> bool {
        let list = ListKey::from(&offer.list);
        // If this node refuses, the other node makes no more offers until this node notifies it of a waiting poller.
        // The other node is therefore removed from the notified nodes, so that the next poller at this node causes a
        // notification.
        let knew = self.elsewhere.forget_notified(&list, node);
        let task = offer.task();
        let poller = if !offer.is_permitted {
            self.matching.dispatch(&list, ToWaiting::Task(&task))
        } else if self.is_ruled_by(node, &list) {
            self.matching.dispatch(&list, ToWaiting::Permitted(&task))
        } else {
            // The pollers continue to wait, so the other node must get to know of them again.
            let (lists, list) = (Arc::clone(self), list.clone());
            self.background.after(OFFER_PAUSE, move || lists.announce_pollers_of(&list));
            return false;
        };
        let Ok(mut poller) = poller else { return false };
        if knew {
            self.elsewhere.mark_notified(&list, node);
        }
        if offer.is_permitted {
            poller.permit = self.matching.permit_from_home(&list, &task);
        }
        self.start_hand_over(&list, poller, task.into());
        true
    }

    /// If pollers of a list wait at this node, notifies the nodes that do not know this.
    fn announce_pollers_of(self: &Arc<Self>, list: &ListKey) {
        if self.matching.pollers(list) > 0 {
            self.seek_waiting(list);
        }
    }

    /// Offers waiting tasks to nodes with waiting pollers, until no tasks or no such nodes are left.
    pub(crate) fn offer_elsewhere(self: &Arc<Self>, list: &ListKey) {
        let Some(peers) = self.elsewhere.peers() else { return };
        if !self.elsewhere.begin_offering(list) {
            return;
        }
        let (lists, peers, list) = (Arc::clone(self), Arc::clone(peers), list.clone());
        self.background.spawn(async move {
            let next = || lists.elsewhere.next_offer(&list, || lists.matching.dispatch(&list, ToNode).ok());
            while let Some((at, LeavingNode { task, permit, place })) = next() {
                let offer = Offer { is_permitted: permit.holds_slot(), ..Offer::of(&list, &task) };
                match peers.offer(&at.node, &offer).await {
                    Ok(true) => permit.hand_over(),
                    Ok(false) => {
                        drop(permit);
                        lists.elsewhere.remove_after_refusal(&list, &at);
                        lists.pollers.saw(&list, lists.clock.now());
                        lists.matching.put_back_task(&list, task, place);
                        lists.pair(&list);
                    }
                    Err(error) => {
                        tracing::debug!(error, node = at.node, "a task could not be offered to another node");
                        // The node may have got the offer.
                        permit.keep();
                        lists.elsewhere.suspend_offers(&list, &at.node);
                        lists.pollers.saw(&list, lists.clock.now());
                        lists.matching.put_back_task(&list, task, place);
                        lists.pair(&list);
                        let (again, list) = (Arc::clone(&lists), list.clone());
                        lists.background.after(OFFER_PAUSE, move || again.offer_elsewhere(&list));
                    }
                }
            }
        });
    }

    /// Notifies all nodes about the pollers that wait at this node, after nodes have joined or left.
    pub(crate) fn announce_pollers(self: &Arc<Self>) {
        let now = self.clock.now();
        for list in self.elsewhere.adjust_to_nodes(&self.nodes.others()) {
            self.pollers.saw(&list, now);
        }
        for (list, _, pollers, _) in self.matching.depths() {
            if pollers > 0 {
                self.seek_waiting(&list);
            }
        }
    }
}
