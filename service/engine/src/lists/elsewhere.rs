//! Tasks for pollers who wait at another node. A node on whose list somebody waits says so to the others; one that has a
//! task and no poller for it offers it there. A task that is offered is only a hint, as everywhere: whoever takes it must
//! win the commit, and what gets lost on the way the due index brings back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use history::PollId;
use store::HeadKey;
use tokio::time::Instant;

use crate::lists::{ListKey, Side, WaitingTask};
use crate::{ListName, Offer, Peers};

/// A node where somebody waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitsAt {
    pub(crate) node: String,
    /// How often it has said so: what it says while it answers an offer holds after a no, which it said before.
    said: u64,
    /// It did not answer, and is left alone until then.
    rests_until: Option<Instant>,
}

/// How long a node is left alone that did not answer an offer. Ours: it is asked again as long as the others take it for alive, for it
/// does not know that it was not heard and will not say again that somebody waits there.
pub(crate) const REST: Duration = Duration::from_millis(500);

#[derive(Default)]
struct ToldNodes {
    /// Nodes where somebody waits, by list, as far as this one knows.
    waiting_at: HashMap<ListKey, VecDeque<WaitsAt>>,
    /// Nodes that were told that somebody waits here, by list.
    knowing: HashMap<ListKey, HashSet<String>>,
    /// Lists whose tasks are being offered.
    busy: HashSet<ListKey>,
}

/// Who waits elsewhere, and who knows who waits here. Disposable.
#[derive(Default)]
pub(crate) struct Elsewhere {
    peers: OnceLock<Arc<dyn Peers>>,
    told: Mutex<ToldNodes>,
}

impl Elsewhere {
    /// Says how this node reaches the others. Without it they find each other's tasks by the due index alone.
    pub(crate) fn join(&self, peers: Arc<dyn Peers>) {
        drop(self.peers.set(peers));
    }

    /// How this node reaches the others, if it does.
    pub(crate) fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.peers.get()
    }

    /// A node where somebody waits on a list, as far as this one knows; the next one each time.
    pub(crate) fn next_waiting_at(&self, list: &ListKey) -> Option<String> {
        let mut told = self.lock();
        let nodes = told.waiting_at.get_mut(list)?;
        nodes.rotate_left(1.min(nodes.len()));
        nodes.back().map(|it| it.node.clone())
    }

    /// Whether somebody waits on a list at another node, as far as this one knows.
    pub(crate) fn is_waited_on(&self, list: &ListKey) -> bool {
        self.lock().waiting_at.contains_key(list)
    }

    /// The nodes where somebody waits on a list, as far as this one knows.
    pub(crate) fn waiting_at(&self, list: &ListKey) -> Vec<String> {
        let told = self.lock();
        let nodes = told.waiting_at.get(list).into_iter().flatten();
        nodes.map(|it| it.node.clone()).collect()
    }

    /// A node does not answer: it is left alone until it says again that somebody waits there.
    pub(crate) fn forget(&self, list: &ListKey, node: &str) {
        self.forget_where(list, |known| known.node == node);
    }

    /// A node did not answer an offer: it is offered nothing for a while.
    pub(crate) fn rest(&self, list: &ListKey, node: &str) {
        let mut told = self.lock();
        let known = told.waiting_at.get_mut(list).and_then(|nodes| nodes.iter_mut().find(|it| it.node == node));
        if let Some(known) = known {
            known.rests_until = Some(Instant::now() + REST);
        }
    }

    /// A node has no more use for a task, unless it has said meanwhile that somebody waits there again.
    pub(crate) fn took_none(&self, list: &ListKey, at: &WaitsAt) {
        self.forget_where(list, |known| known.node == at.node && known.said == at.said);
    }

    fn forget_where(&self, list: &ListKey, is_it: impl Fn(&WaitsAt) -> bool) {
        let mut told = self.lock();
        if let Some(nodes) = told.waiting_at.get_mut(list) {
            nodes.retain(|known| !is_it(known));
            if nodes.is_empty() {
                told.waiting_at.remove(list);
            }
        }
    }

    /// Somebody waits here on a list: which of the others do not know, and are told.
    pub(crate) fn untold(&self, list: &ListKey, others: Vec<String>) -> Vec<String> {
        let mut told = self.lock();
        let known = told.knowing.entry(list.clone()).or_default();
        others.into_iter().filter(|node| known.insert(node.clone())).collect()
    }

    /// A node does not know any more that somebody waits here; answers whether it knew.
    pub(crate) fn untell(&self, list: &ListKey, node: &str) -> bool {
        let mut told = self.lock();
        let Some(known) = told.knowing.get_mut(list) else { return false };
        let knew = known.remove(node);
        if known.is_empty() {
            told.knowing.remove(list);
        }
        knew
    }

    /// A node knows that somebody waits here.
    pub(crate) fn knows(&self, list: &ListKey, node: &str) {
        self.lock().knowing.entry(list.clone()).or_default().insert(node.to_owned());
    }

    /// Another node says that somebody waits there.
    pub(crate) fn hear(&self, list: &ListKey, node: String) {
        let mut told = self.lock();
        let nodes = told.waiting_at.entry(list.clone()).or_default();
        match nodes.iter_mut().find(|it| it.node == node) {
            Some(known) => {
                known.said += 1;
                known.rests_until = None;
            }
            None => nodes.push_back(WaitsAt { node, said: 1, rests_until: None }),
        }
    }

    /// Whether tasks of a list are to be offered to others; whoever hears so does, until there is no [next](Self::next_offer).
    pub(crate) fn begins_to_offer(&self, list: &ListKey) -> bool {
        let mut told = self.lock();
        told.waiting_at.contains_key(list) && told.busy.insert(list.clone())
    }

    /// A task and the node to offer it to, in turns; nothing when there is none of one, and then the list is no longer busy.
    pub(crate) fn next_offer(
        &self,
        list: &ListKey,
        pop: impl FnOnce() -> Option<WaitingTask>,
    ) -> Option<(WaitsAt, WaitingTask)> {
        let mut told = self.lock();
        let next = told.waiting_at.get_mut(list).and_then(|nodes| {
            let now = Instant::now();
            let at = nodes.iter().position(|at| at.rests_until.is_none_or(|until| until <= now))?;
            let task = pop()?;
            let at = nodes.remove(at)?;
            nodes.push_back(at.clone());
            Some((at, task))
        });
        if next.is_none() {
            told.busy.remove(list);
        }
        next
    }

    /// Nodes have come or gone: what they were told is told anew. What the others said stands, for they may not have seen a
    /// change and will not say it again. Answers on which lists nobody waits elsewhere any more.
    pub(crate) fn nodes_have_changed(&self, others: &[String]) -> Vec<ListKey> {
        let (mut told, mut gone) = (self.lock(), Vec::new());
        told.knowing.clear();
        told.waiting_at.retain(|list, nodes| {
            nodes.retain(|it| others.contains(&it.node));
            if nodes.is_empty() {
                gone.push(list.clone());
            }
            !nodes.is_empty()
        });
        gone
    }

    fn lock(&self) -> MutexGuard<'_, ToldNodes> {
        self.told.lock().expect("no code panics while it holds this lock")
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
        let WaitingTask { key, run_id, scheduled_event_id, lost, .. } = task;
        let (workflow_id, run_id) = (key.workflow_id.to_string(), *run_id);
        let lost = lost.map(|poll| poll.0);
        Self { list: list.into(), workflow_id, run_id, scheduled_event_id: *scheduled_event_id, lost }
    }

    pub(crate) fn task(&self) -> WaitingTask {
        let key = HeadKey { domain: self.list.domain.as_str().into(), workflow_id: self.workflow_id.as_str().into() };
        let (run_id, scheduled_event_id, lost) = (self.run_id, self.scheduled_event_id, self.lost.map(PollId));
        WaitingTask { key, run_id, scheduled_event_id, lost, priority: 0, since: None }
    }
}
