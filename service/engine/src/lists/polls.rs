//! Polls with an id. If a client repeats such a poll, the responses to its earlier attempts were lost. If a task was
//! started for an earlier attempt, no worker has the task. The service sends the task again, to the repeated poll or to
//! the next poll of the list.
//!
//! The run records the poll to which a task was sent ([`history::Sent`]). To find the run, each node remembers the
//! polls for which it started tasks, and the polls of runs that it takes over from a failed node. This memory may be
//! lost.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{CallerName, PollId};
use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::Refusal;
use crate::lists::{ListKey, Side, Taker, WaitingTask};

/// Parameters of a poll.
#[expect(clippy::struct_excessive_bools, reason = "each is said by the wire or the caller, and none excludes another")]
#[derive(Debug, Clone, Default)]
pub struct Poll {
    /// Maximum time to wait for a task.
    pub wait: Duration,
    /// Identity of the poller, recorded in the history.
    pub identity: Option<String>,
    /// True if the poll uses SWF's protocol, which permits an empty identity.
    pub is_swf: bool,
    /// Name of the poller's credential.
    pub by: Option<CallerName>,
    /// Maximum number of events that are returned with a decider task, from 1 to 10,000; 10,000 by default.
    pub events_max: Option<usize>,
    /// True to return the whole history with a decider task, false to return only the window.
    pub full_history: bool,
    /// True to add the `activityId` to events that refer to an activity by its ActivityScheduled event.
    pub names_activities: bool,
    /// True if the poller answers queries. Other pollers get no queries.
    pub queries: bool,
    /// Maximum number of updates that the poller validates with one task; 0 for none.
    pub updates: usize,
    /// Name of the poll, chosen by the client so that the poll can be repeated if its response is lost.
    pub poll_id: Option<String>,
    /// Number of this attempt of the poll, starting with 1, which is the default. A higher number reports that the
    /// responses to all earlier attempts were lost.
    pub attempt: Option<u32>,
    /// Workflow id of the only run whose tasks the poll returns; `None` for the tasks of all runs.
    pub workflow_id: Option<String>,
}

/// Maximum number of events that are returned with a task. The client reads the remaining events from the task's
/// history.
const EVENTS_MAX: usize = 10_000;

/// Approximate maximum size in bytes of the events that are returned with a task. Our choice: the size of a page of a
/// history.
pub(crate) const EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Selection of the events that are returned with a decider task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskEvents {
    /// Maximum number of events.
    pub(crate) max: usize,
    /// Approximate maximum size of the events in bytes.
    pub(crate) bytes_max: usize,
    /// True to return the whole history, false to return only the window.
    pub(crate) is_full: bool,
    /// True to add the `activityId` to events that refer to an activity by its ActivityScheduled event.
    pub(crate) names_activities: bool,
}

impl Poll {
    /// Returns the selection of the events that are returned with a decider task.
    pub(crate) fn task_events(&self) -> TaskEvents {
        let max = self.events_max.unwrap_or(EVENTS_MAX).clamp(1, EVENTS_MAX);
        let (is_full, names_activities) = (self.full_history, self.names_activities);
        TaskEvents { max, bytes_max: EVENTS_BYTES_MAX, is_full, names_activities }
    }
}

/// Maximum number of tasks that a node remembers, each by the poll to which it was sent. Also the maximum number of
/// remembered lost polls. The newest are kept. Our choice: at about 200 bytes each, the tasks take at most 4 MB.
const REMEMBERED: usize = 20_000;

/// Time for which a node reports a lost poll to nodes that join. Our choice: equal to the longest wait of a poll.
const LOST_LATELY: Duration = Duration::from_secs(60);

struct SentTasks {
    /// Tasks with their lists, by the poll to which they were sent.
    sent: LruCache<PollId, (ListKey, WaitingTask)>,
    /// Polls whose response was lost, with the time when this node learned it.
    lost: LruCache<PollId, Instant>,
}

/// Tasks that this node has sent to polls with an id, and polls whose responses were lost.
pub(crate) struct PollMemory {
    memory: Mutex<SentTasks>,
}

impl Default for PollMemory {
    fn default() -> Self {
        let bound = NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut memory = SentTasks { sent: LruCache::unbounded(), lost: LruCache::unbounded() };
        memory.sent.resize(bound);
        memory.lost.resize(bound);
        Self { memory: Mutex::new(memory) }
    }
}

impl PollMemory {
    fn lock(&self) -> MutexGuard<'_, SentTasks> {
        self.memory.lock().expect("no code panics while it holds this lock")
    }

    /// Remembers the poll to which a task was sent. Returns true if the response to this poll is already known to be
    /// lost.
    pub(crate) fn note(&self, poll: PollId, list: ListKey, task: WaitingTask) -> bool {
        let mut memory = self.lock();
        memory.sent.put(poll, (list, task));
        memory.lost.contains(&poll)
    }

    /// Records that the responses to these polls were lost. If this node knows tasks that were started for them,
    /// returns the task of the latest poll.
    pub(crate) fn lose(&self, polls: &[PollId]) -> Option<(ListKey, WaitingTask)> {
        let mut memory = self.lock();
        for poll in polls {
            memory.lost.put(*poll, Instant::now());
        }
        polls.iter().rev().find_map(|poll| memory.sent.pop(poll))
    }

    /// Returns the polls whose response was lost recently.
    pub(crate) fn lately_lost(&self) -> Vec<PollId> {
        let memory = self.lock();
        memory.lost.iter().filter(|(_, at)| at.elapsed() < LOST_LATELY).map(|(poll, _)| *poll).collect()
    }
}

/// Returns the id of one attempt of a poll of this list.
fn poll_id(list: &ListKey, id: &str, attempt: u32) -> PollId {
    let side = match list.side {
        Side::Decider => [b'd'],
        Side::Activity => [b'a'],
    };
    let mut digest = Sha256::new().chain_update(side).chain_update(attempt.to_be_bytes());
    for name in [&*list.domain, &*list.name, id] {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
    }
    PollId(digest.finalize().first_chunk().copied().map_or(0, u64::from_be_bytes))
}

/// Maximum number of slots in a poll for several tasks. A client that needs more slots sends several such polls at
/// once.
pub const SLOTS_MAX: usize = history::limits::EXCHANGE_ANSWERS_MAX;

/// Returns the poller, and the ids of the poll's earlier attempts.
pub(crate) fn taker(list: &ListKey, poll: &Poll) -> Result<(Taker, Vec<PollId>), Refusal> {
    let (identity, by) = (poll.identity.clone(), poll.by.clone());
    if let Some(identity) = identity.as_ref().filter(|identity| !(poll.is_swf && identity.is_empty())) {
        history::admit::check_name("identity", identity)?;
    }
    history::admit::check_poll(poll.poll_id.as_deref(), poll.attempt)?;
    let (answers, updates) = match list.side {
        Side::Decider => (poll.queries, poll.updates),
        Side::Activity => (false, 0),
    };
    if let Some(workflow_id) = &poll.workflow_id {
        history::admit::check_name("workflowId", workflow_id)?;
    }
    let workflow_id = poll.workflow_id.as_deref().map(Arc::from);
    let taker = Taker { identity, by, answers, updates, poll: None, workflow_id };
    let Some(id) = &poll.poll_id else { return Ok((taker, Vec::new())) };
    let attempt = poll.attempt.unwrap_or(1);
    let earlier = (1..attempt).map(|attempt| poll_id(list, id, attempt)).collect();
    Ok((Taker { poll: Some(poll_id(list, id, attempt)), ..taker }, earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(side: Side, name: &str) -> ListKey {
        ListKey { domain: "default".into(), side, name: name.into() }
    }

    #[test]
    fn each_attempt_of_a_poll_has_a_separate_id() {
        let mut ids = std::collections::HashSet::new();
        for side in [Side::Decider, Side::Activity] {
            for name in ["a", "ab"] {
                for id in ["", "a", "b", "bb"] {
                    for attempt in 1..4 {
                        assert!(ids.insert(poll_id(&list(side, name), id, attempt)), "{side:?} {name} {id} {attempt}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_repeated_poll_has_the_ids_of_earlier_attempts() {
        let list = list(Side::Decider, "a");
        let poll = |id: Option<&str>, attempt| Poll { poll_id: id.map(str::to_owned), attempt, ..Poll::default() };
        let (first, earlier) = taker(&list, &poll(Some("p"), None)).unwrap();
        assert_eq!((first.poll, earlier), (Some(poll_id(&list, "p", 1)), Vec::new()));
        let (third, earlier) = taker(&list, &poll(Some("p"), Some(3))).unwrap();
        assert_eq!(earlier, [first.poll.unwrap(), poll_id(&list, "p", 2)]);
        assert_eq!(third.poll, Some(poll_id(&list, "p", 3)));
        assert_eq!(taker(&list, &poll(None, None)).unwrap().0.poll, None);
        let max = history::limits::POLL_ATTEMPTS_MAX;
        assert_eq!(taker(&list, &poll(Some("p"), Some(max))).unwrap().1.len() + 1, max as usize);
        for (id, attempt) in [(Some("p"), 0), (Some("p"), max + 1), (None, 2), (Some(""), 1)] {
            assert!(taker(&list, &poll(id, Some(attempt))).is_err(), "{id:?} {attempt}");
        }
    }
}
