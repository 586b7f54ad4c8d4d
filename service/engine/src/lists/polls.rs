//! Polls with an id. A poll that is repeated says that the answers to its earlier tries were lost: what had been started for
//! them is in nobody's hands, and is sent again, to the poll that asks or to whoever polls the list next. Which poll a task
//! went to stands in its run ([`history::Sent`]); where that run is, in the memory of whoever has seen it, and of those
//! who look at the runs of a node that has died. Disposable, as everything in memory is.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use history::{CallerName, PollId};
use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::Refusal;
use crate::lists::{ListKey, Side, Taker, WaitingTask};

/// How somebody polls.
#[expect(clippy::struct_excessive_bools, reason = "each is said by the wire or the caller, and none excludes another")]
#[derive(Debug, Clone, Default)]
pub struct Poll {
    /// How long to wait for a task.
    pub wait: Duration,
    /// Who polls; shown in the history.
    pub identity: Option<String>,
    /// The poll came over SWF's wire, where an identity may be empty.
    pub is_swf: bool,
    /// The name of the credential of whoever polls.
    pub by: Option<CallerName>,
    /// The most events that come with a decider task; 10,000 when absent or more.
    pub events_max: Option<usize>,
    /// Whether a decider task comes with the whole history, from its first event on, rather than with the window.
    pub full_history: bool,
    /// Whether events that refer to an activity by its ActivityScheduled carry its `activityId` too.
    pub names_activities: bool,
    /// Whether whoever polls answers queries. Others are given no query.
    pub queries: bool,
    /// How many updates whoever polls judges at once, at most. 0: none.
    pub updates: usize,
    /// Names the poll, so that it can be repeated when its answer is lost.
    pub poll_id: Option<String>,
    /// Which try of the poll it is: 1 when absent. Each later one says that the answers to all before it were lost.
    pub attempt: Option<u32>,
}

/// The most events that come with a task; the rest is read with the task's history.
const EVENTS_MAX: usize = 10_000;

/// The most bytes of events that come with a task, about. Ours: what a page of a history has.
pub(crate) const EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The events that a poll wants with a decider task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskEvents {
    /// The most that come with the task.
    pub(crate) max: usize,
    /// About the most bytes of them.
    pub(crate) bytes_max: usize,
    /// Whether the whole history is wanted rather than the window.
    pub(crate) is_full: bool,
    /// Whether events carry the `activityId` of the activity that they refer to.
    pub(crate) names_activities: bool,
}

impl Poll {
    /// The events that it wants with a decider task.
    pub(crate) fn task_events(&self) -> TaskEvents {
        let max = self.events_max.unwrap_or(EVENTS_MAX).clamp(1, EVENTS_MAX);
        let (is_full, names_activities) = (self.full_history, self.names_activities);
        TaskEvents { max, bytes_max: EVENTS_BYTES_MAX, is_full, names_activities }
    }
}

/// Tasks that a node remembers by the poll that they went to, and polls whose answer was lost: of each the newest. About
/// 200 bytes a task.
const REMEMBERED: usize = 20_000;

/// For how long a node tells those who come of a poll whose answer was lost: as long as one waits at most. Ours.
const LOST_LATELY: Duration = Duration::from_secs(60);

struct SentTasks {
    /// Where tasks went, each with its list.
    sent: LruCache<PollId, (ListKey, WaitingTask)>,
    /// Polls whose answer was lost, and when that was heard.
    lost: LruCache<PollId, Instant>,
}

/// See the module.
pub(crate) struct PollMemory {
    memory: Mutex<SentTasks>,
}

impl Default for PollMemory {
    fn default() -> Self {
        let bound = NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        // Bounded, but not allocated ahead.
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

    /// Remembers where a task went; answers whether it was lost on the way.
    pub(crate) fn note(&self, poll: PollId, list: ListKey, task: WaitingTask) -> bool {
        let mut memory = self.lock();
        memory.sent.put(poll, (list, task));
        memory.lost.contains(&poll)
    }

    /// The answers to these polls were lost; answers what had been started for the last of them, as far as it is known here.
    pub(crate) fn lose(&self, polls: &[PollId]) -> Option<(ListKey, WaitingTask)> {
        let mut memory = self.lock();
        for poll in polls {
            memory.lost.put(*poll, Instant::now());
        }
        polls.iter().rev().find_map(|poll| memory.sent.pop(poll))
    }

    /// Polls whose answer was lost not long ago.
    pub(crate) fn lately_lost(&self) -> Vec<PollId> {
        let memory = self.lock();
        memory.lost.iter().filter(|(_, at)| at.elapsed() < LOST_LATELY).map(|(poll, _)| *poll).collect()
    }
}

/// One try of a poll of this list.
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

/// Maximum number of slots of a poll for several tasks. A program may poll again meanwhile.
pub const SLOTS_MAX: usize = history::limits::EXCHANGE_ANSWERS_MAX;

/// Who asks, and the earlier tries of the poll.
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
    let Some(id) = &poll.poll_id else { return Ok((Taker { identity, by, answers, updates, poll: None }, Vec::new())) };
    let attempt = poll.attempt.unwrap_or(1);
    let earlier = (1..attempt).map(|attempt| poll_id(list, id, attempt)).collect();
    Ok((Taker { identity, by, answers, updates, poll: Some(poll_id(list, id, attempt)) }, earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(side: Side, name: &str) -> ListKey {
        ListKey { domain: "default".into(), side, name: name.into() }
    }

    #[test]
    fn every_try_of_every_poll_of_every_list_has_an_id_of_its_own() {
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
    fn a_poll_that_is_repeated_names_all_its_earlier_tries() {
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
