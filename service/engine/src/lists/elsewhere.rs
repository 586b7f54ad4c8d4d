//! Tasks for pollers that wait at another node. A node with waiting pollers notifies the other nodes. A node that has a
//! task but no poller offers the task to a node with waiting pollers. An offer is only a hint: the receiving node
//! starts the task with a commit, which can fail. If an offer is lost, the task is restored from the due index.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use history::PollId;
use store::HeadKey;
use tokio::time::Instant;

use crate::lists::{ListKey, Side, WaitingTask};
use crate::{ListName, Offer, Peers};

/// A node with waiting pollers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitsAt {
    pub(crate) node: String,
    /// Number of messages in which the node reported waiting pollers. If such a message arrives while an offer to the
    /// node is in progress, the message is newer than a refusal of the offer. The refusal must then not remove the
    /// node.
    reports: u64,
    /// Time until which the node gets no offers, because it has not answered an offer; `None` if it may get offers.
    no_offers_until: Option<Instant>,
}

/// Time without offers for a node that has not answered an offer. Our choice: short enough that the node gets another
/// offer while it is still considered alive. The node does not know that its answer was lost, so it does not report its
/// waiting pollers again.
pub(crate) const OFFER_PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
struct NodeMemory {
    /// For each list, the nodes with waiting pollers, as far as this node knows.
    waiting_at: HashMap<ListKey, VecDeque<WaitsAt>>,
    /// For each list, the other nodes that know that pollers wait at this node.
    notified: HashMap<ListKey, HashSet<String>>,
    /// Lists whose tasks are being offered to other nodes.
    offered: HashSet<ListKey>,
}

/// Nodes with waiting pollers as far as this node knows, and nodes that know of this node's waiting pollers. Either
/// information may be lost.
#[derive(Default)]
pub(crate) struct Elsewhere {
    peers: OnceLock<Arc<dyn Peers>>,
    memory: Mutex<NodeMemory>,
}

impl Elsewhere {
    /// Sets the connection to the other nodes. Without a connection, nodes find each other's tasks only through the
    /// store's due index.
    pub(crate) fn join(&self, peers: Arc<dyn Peers>) {
        drop(self.peers.set(peers));
    }

    /// Returns the connection to the other nodes, if there is one.
    pub(crate) fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.peers.get()
    }

    /// Returns a node that has pollers waiting on a list, as far as this node knows. Successive calls return different
    /// nodes in turn.
    pub(crate) fn next_waiting_at(&self, list: &ListKey) -> Option<String> {
        let mut memory = self.lock();
        let nodes = memory.waiting_at.get_mut(list)?;
        nodes.rotate_left(1.min(nodes.len()));
        nodes.back().map(|it| it.node.clone())
    }

    /// Returns true if another node has pollers waiting on a list, as far as this node knows.
    pub(crate) fn is_waited_on(&self, list: &ListKey) -> bool {
        self.lock().waiting_at.contains_key(list)
    }

    /// Returns the nodes with pollers waiting on a list, as far as this node knows.
    pub(crate) fn waiting_at(&self, list: &ListKey) -> Vec<String> {
        let memory = self.lock();
        let nodes = memory.waiting_at.get(list).into_iter().flatten();
        nodes.map(|it| it.node.clone()).collect()
    }

    /// Removes a node that does not answer. The node is added again when it reports waiting pollers.
    pub(crate) fn forget(&self, list: &ListKey, node: &str) {
        self.forget_where(list, |known| known.node == node);
    }

    /// Stops offering tasks to a node for a while, because it did not answer an offer.
    pub(crate) fn suspend_offers(&self, list: &ListKey, node: &str) {
        let mut memory = self.lock();
        let known = memory.waiting_at.get_mut(list).and_then(|nodes| nodes.iter_mut().find(|it| it.node == node));
        if let Some(known) = known {
            known.no_offers_until = Some(Instant::now() + OFFER_PAUSE);
        }
    }

    /// Removes a node that refused an offer, unless the node has reported waiting pollers since the offer was made.
    pub(crate) fn remove_after_refusal(&self, list: &ListKey, at: &WaitsAt) {
        self.forget_where(list, |known| known.node == at.node && known.reports == at.reports);
    }

    fn forget_where(&self, list: &ListKey, is_it: impl Fn(&WaitsAt) -> bool) {
        let mut memory = self.lock();
        if let Some(nodes) = memory.waiting_at.get_mut(list) {
            nodes.retain(|known| !is_it(known));
            if nodes.is_empty() {
                memory.waiting_at.remove(list);
            }
        }
    }

    /// Returns the nodes in `others` that do not know that pollers wait at this node, and marks these nodes as
    /// notified.
    pub(crate) fn take_unnotified(&self, list: &ListKey, others: Vec<String>) -> Vec<String> {
        let mut memory = self.lock();
        let known = memory.notified.entry(list.clone()).or_default();
        others.into_iter().filter(|node| known.insert(node.clone())).collect()
    }

    /// Records that another node no longer knows that pollers wait at this node. Returns true if the other node was
    /// recorded as knowing this.
    pub(crate) fn forget_notified(&self, list: &ListKey, node: &str) -> bool {
        let mut memory = self.lock();
        let Some(known) = memory.notified.get_mut(list) else { return false };
        let knew = known.remove(node);
        if known.is_empty() {
            memory.notified.remove(list);
        }
        knew
    }

    /// Records that another node knows that pollers wait at this node.
    pub(crate) fn mark_notified(&self, list: &ListKey, node: &str) {
        self.lock().notified.entry(list.clone()).or_default().insert(node.to_owned());
    }

    /// Records another node's message that it has pollers waiting on the list.
    pub(crate) fn record_waiting(&self, list: &ListKey, node: String) {
        let mut memory = self.lock();
        let nodes = memory.waiting_at.entry(list.clone()).or_default();
        match nodes.iter_mut().find(|it| it.node == node) {
            Some(known) => {
                known.reports += 1;
                known.no_offers_until = None;
            }
            None => nodes.push_back(WaitsAt { node, reports: 1, no_offers_until: None }),
        }
    }

    /// Returns true if the caller must offer tasks of the list to other nodes. The caller must then repeat
    /// [`next_offer`](Self::next_offer) until it returns `None`.
    pub(crate) fn begin_offering(&self, list: &ListKey) -> bool {
        let mut memory = self.lock();
        memory.waiting_at.contains_key(list) && memory.offered.insert(list.clone())
    }

    /// Returns a task, and the node to which the caller must offer it. Successive calls use the nodes in turn. If there
    /// is no task or no node, marks the list as no longer being offered and returns `None`.
    pub(crate) fn next_offer<T>(&self, list: &ListKey, pop: impl FnOnce() -> Option<T>) -> Option<(WaitsAt, T)> {
        let mut memory = self.lock();
        let next = memory.waiting_at.get_mut(list).and_then(|nodes| {
            let now = Instant::now();
            let at = nodes.iter().position(|at| at.no_offers_until.is_none_or(|until| until <= now))?;
            let task = pop()?;
            let at = nodes.remove(at)?;
            nodes.push_back(at.clone());
            Some((at, task))
        });
        if next.is_none() {
            memory.offered.remove(list);
        }
        next
    }

    /// Adjusts to a change of the set of nodes. All nodes must be notified again that pollers wait at this node.
    /// Reports of the remaining nodes stay valid, because a node that has not noticed the change does not repeat its
    /// reports. Returns the lists that no longer have pollers at other nodes.
    pub(crate) fn adjust_to_nodes(&self, others: &[String]) -> Vec<ListKey> {
        let (mut memory, mut gone) = (self.lock(), Vec::new());
        memory.notified.clear();
        memory.waiting_at.retain(|list, nodes| {
            nodes.retain(|it| others.contains(&it.node));
            if nodes.is_empty() {
                gone.push(list.clone());
            }
            !nodes.is_empty()
        });
        gone
    }

    fn lock(&self) -> MutexGuard<'_, NodeMemory> {
        self.memory.lock().expect("no code panics while it holds this lock")
    }
}

impl From<&ListKey> for ListName {
    fn from(list: &ListKey) -> Self {
        let (domain, name) = (list.domain.to_string(), list.name.to_string());
        Self { domain, is_decider: list.side == Side::Decider, name }
    }
}

impl From<&ListName> for ListKey {
    fn from(list: &ListName) -> Self {
        Self::new(&list.domain, list.is_decider, &list.name)
    }
}

impl Offer {
    pub(crate) fn of(list: &ListKey, task: &WaitingTask) -> Self {
        let WaitingTask { key, run_id, scheduled_event_id, lost, priority, since, concurrency_key } = task;
        Self {
            list: list.into(),
            workflow_id: key.workflow_id.to_string(),
            run_id: *run_id,
            scheduled_event_id: *scheduled_event_id,
            lost: lost.map(|poll| poll.0),
            priority: *priority,
            since: *since,
            concurrency_key: concurrency_key.as_deref().map(str::to_owned),
            is_permitted: false,
        }
    }

    pub(crate) fn task(&self) -> WaitingTask {
        WaitingTask {
            key: HeadKey { domain: self.list.domain.as_str().into(), workflow_id: self.workflow_id.as_str().into() },
            run_id: self.run_id,
            scheduled_event_id: self.scheduled_event_id,
            lost: self.lost.map(PollId),
            priority: self.priority,
            since: self.since,
            concurrency_key: self.concurrency_key.as_deref().map(Arc::from),
        }
    }
}
