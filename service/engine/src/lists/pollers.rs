//! Pollers of each task list, and the last time at which each list was polled, so that the service can report tasks
//! without pollers. These records are only in memory. Polls before the start of the service are unknown.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use history::{CallerName, Duration, LAMBDA_LIST, Run, TaskRef, Timestamp};
use lru::LruCache;

use crate::base::admission::{LimitKind, Quotas};
use crate::lists::elsewhere::Elsewhere;
use crate::lists::matching::Matching;
use crate::lists::{ListKey, Side, Taker};
use crate::{Clock, Limited, Refusal, SwfQuotas, Unpolled};

/// Maximum number of lists for which the end of the last poll is remembered. If there are more lists, the least
/// recently polled lists are forgotten. Our choice: at about 200 bytes each, the lists take at most 2 MB.
const REMEMBERED: usize = 10_000;

/// Maximum number of lists that [`Pollers::unpolled_lists`] examines. [`NAMED_MAX`] is the maximum number that it
/// returns. Our choice: the function runs for each poll that ends without a task, and must not cost more than the poll.
const LISTS_EXAMINED_MAX: usize = 1_000;
const NAMED_MAX: usize = 10;

/// Maximum number of remembered pollers. If there are more pollers, those with the least recent polls are forgotten.
/// Our choice: at about 300 bytes each, the pollers take at most 3 MB.
const POLLERS_REMEMBERED: usize = 10_000;

/// Time for which a poller is remembered after its last poll. Our choice: long enough that most pollers finish their
/// current task and poll again.
pub(crate) const POLLER_KEPT_FOR: Duration = Duration::from_secs(300);

/// Identifies a poller of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PollerName {
    list: ListKey,
    identity: Option<String>,
    by: Option<CallerName>,
}

/// Times of a poller's polls.
#[derive(Debug, Clone, Copy)]
struct PollerTimes {
    /// Start of the first poll in a sequence of polls with pauses of at most [`POLLER_KEPT_FOR`].
    since: Timestamp,
    /// Start of the newest poll while a poll is in progress; otherwise the end of the last poll.
    last: Timestamp,
    /// Number of this poller's polls in progress.
    polls: usize,
}

/// A current or recent poller of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerReport {
    /// Identity that the poller sent.
    pub identity: Option<String>,
    /// Name of the poller's credential.
    pub by: Option<CallerName>,
    /// Number of the poller's polls in progress.
    pub polls: usize,
    /// Start of the poller's latest sequence of polls with pauses of at most five minutes.
    pub since: Timestamp,
    /// End of the poller's last poll; `None` while a poll is in progress.
    pub last_polled_at: Option<Timestamp>,
}

struct SeenPolls {
    /// Current and recent pollers.
    pollers: LruCache<PollerName, PollerTimes>,
    /// Number of polls in progress, by list.
    polling: HashMap<ListKey, usize>,
    /// Number of polled lists, by domain.
    lists: HashMap<Arc<str>, u64>,
    /// Last time at which each list was known to be polled.
    seen: LruCache<ListKey, Timestamp>,
    /// Latest possible time of the last poll of a list that is not in `seen`.
    others: Timestamp,
}

/// The pollers of each list of this node.
pub struct Pollers {
    clock: Arc<dyn Clock>,
    quotas: Arc<Quotas>,
    lists: Arc<Matching>,
    elsewhere: Arc<Elsewhere>,
    memory: Mutex<SeenPolls>,
}

impl Pollers {
    /// Creates an empty record, which begins at the current time.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        quotas: Arc<Quotas>,
        lists: Arc<Matching>,
        elsewhere: Arc<Elsewhere>,
    ) -> Self {
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut seen = LruCache::unbounded();
        seen.resize(NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN));
        let mut pollers = LruCache::unbounded();
        pollers.resize(NonZeroUsize::new(POLLERS_REMEMBERED).unwrap_or(NonZeroUsize::MIN));
        let memory = SeenPolls { pollers, polling: HashMap::new(), lists: HashMap::new(), seen, others: clock.now() };
        Self { clock, quotas, lists, elsewhere, memory: Mutex::new(memory) }
    }

    fn lock(&self) -> MutexGuard<'_, SeenPolls> {
        self.memory.lock().expect("no code panics while it holds this lock")
    }

    /// Records that a poll begins. Returns false if `lists_max` other lists of the domain are already polled.
    fn begin(&self, list: &ListKey, lists_max: Option<u64>) -> bool {
        let mut memory = self.lock();
        if let Some(polls) = memory.polling.get_mut(list) {
            *polls += 1;
            return true;
        }
        let lists = memory.lists.entry(Arc::clone(&list.domain)).or_default();
        if lists_max.is_some_and(|max| *lists >= max) {
            return false;
        }
        *lists += 1;
        memory.polling.insert(list.clone(), 1);
        true
    }

    fn end(&self, list: &ListKey, now: Timestamp) {
        let mut memory = self.lock();
        if let Some(polls) = memory.polling.get_mut(list) {
            *polls -= 1;
            if *polls == 0 {
                memory.polling.remove(list);
                memory.forget_list(&list.domain);
            }
        }
        memory.saw(list, now);
    }

    fn begin_polling(&self, poller: &PollerName, now: Timestamp) {
        let mut memory = self.lock();
        if let Some(times) = memory.pollers.get_mut(poller) {
            if times.polls == 0 && times.last.plus(POLLER_KEPT_FOR) < now {
                times.since = now;
            }
            (times.last, times.polls) = (now, times.polls + 1);
        } else {
            memory.pollers.put(poller.clone(), PollerTimes { since: now, last: now, polls: 1 });
        }
    }

    fn end_polling(&self, poller: &PollerName, now: Timestamp) {
        if let Some(times) = self.lock().pollers.peek_mut(poller) {
            (times.last, times.polls) = (now, times.polls.saturating_sub(1));
        }
    }

    /// Returns the current and recent pollers of these lists of a domain, by list. Current pollers come first, followed
    /// by recent pollers in descending order of their last poll.
    pub(crate) fn of_lists(
        &self,
        domain: &str,
        lists: &BTreeSet<(Arc<str>, Side)>,
    ) -> HashMap<ListKey, Vec<PollerReport>> {
        let (memory, now) = (self.lock(), self.clock.now());
        let mut found: HashMap<ListKey, Vec<PollerReport>> = HashMap::new();
        for (name, times) in &memory.pollers {
            let PollerName { list, identity, by } = name;
            let is_meant = &*list.domain == domain && lists.contains(&(Arc::clone(&list.name), list.side));
            if is_meant && (times.polls > 0 || times.last.plus(POLLER_KEPT_FOR) >= now) {
                let last_polled_at = (times.polls == 0).then_some(times.last);
                let (identity, by) = (identity.clone(), by.clone());
                let report = PollerReport { identity, by, polls: times.polls, since: times.since, last_polled_at };
                found.entry(list.clone()).or_default().push(report);
            }
        }
        for pollers in found.values_mut() {
            pollers.sort_by_key(|it| it.polls == 0);
        }
        found
    }

    /// Adds the domain's lists to `to` that are polled or were polled recently. Examines only the first `examined_max`
    /// lists of the node, and returns true if there are more.
    pub(crate) fn add_lists(&self, domain: &str, examined_max: usize, to: &mut BTreeSet<(Arc<str>, Side)>) -> bool {
        let memory = self.lock();
        let lists = memory.polling.keys().chain(memory.seen.iter().map(|(list, _)| list));
        let of_domain = lists.take(examined_max).filter(|list| &*list.domain == domain);
        to.extend(of_domain.map(|list| (Arc::clone(&list.name), list.side)));
        memory.polling.len() + memory.seen.len() > examined_max
    }

    /// Returns the number of polls of a list that are in progress.
    pub(crate) fn polls(&self, list: &ListKey) -> usize {
        self.lock().polling.get(list).copied().unwrap_or(0)
    }

    /// Records that another node had pollers on the list until the time `now`, according to its messages.
    pub(crate) fn saw(&self, list: &ListKey, now: Timestamp) {
        self.lock().saw(list, now);
    }

    /// Returns the end of a list's last poll; `None` while the list is polled.
    pub(crate) fn unpolled_since(&self, list: &ListKey) -> Option<Timestamp> {
        let memory = self.lock();
        if memory.polling.contains_key(list) {
            return None;
        }
        Some(memory.seen.peek(list).copied().unwrap_or(memory.others))
    }
}

impl SeenPolls {
    fn forget_list(&mut self, domain: &Arc<str>) {
        if let Some(lists) = self.lists.get_mut(domain) {
            *lists -= 1;
            if *lists == 0 {
                self.lists.remove(domain);
            }
        }
    }

    fn saw(&mut self, list: &ListKey, now: Timestamp) {
        if let Some((forgotten, at)) = self.seen.push(list.clone(), now)
            && forgotten != *list
        {
            self.others = self.others.max(at);
        }
    }
}

/// A poll in progress.
pub(crate) struct Polling {
    pollers: Arc<Pollers>,
    poller: PollerName,
}

impl Drop for Polling {
    fn drop(&mut self) {
        let now = self.pollers.clock.now();
        self.pollers.end_polling(&self.poller, now);
        self.pollers.end(&self.poller.list, now);
    }
}

impl Pollers {
    /// Enforces SWF's limit on the number of waiting polls of a list. It applies to polls with SWF's protocol.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub fn must_have_room(
        &self,
        quotas: Option<&SwfQuotas>,
        domain: &str,
        list: &str,
        is_decider: bool,
    ) -> Result<(), Refusal> {
        let list = ListKey::new(domain, is_decider, list);
        match quotas.map(|quotas| quotas.pollers).filter(|max| self.lists.pollers(&list) >= *max) {
            Some(max) => Err(Refusal::LimitExceeded { what: Limited::Pollers, max }),
            None => Ok(()),
        }
    }

    /// Records that a poll of a list is in progress. The poll ends when the returned value is dropped.
    ///
    /// # Errors
    ///
    /// [`Refusal::QuotaExceeded`] if the domain's quota of polled lists is reached.
    pub(crate) fn polling(self: &Arc<Self>, list: &ListKey, taker: &Taker) -> Result<Polling, Refusal> {
        // The list of Lambda tasks does not count against the quota, because the service itself polls it.
        let max = self.quotas.task_lists(&list.domain).filter(|_| &*list.name != LAMBDA_LIST);
        if self.begin(list, max) {
            let (identity, by) = (taker.identity.clone(), taker.by.clone());
            let poller = PollerName { list: list.clone(), identity, by };
            self.begin_polling(&poller, self.clock.now());
            Ok(Polling { pollers: Arc::clone(self), poller })
        } else {
            let max = max.unwrap_or_default();
            Err(self.quotas.reached(&list.domain, LimitKind::TaskLists, max).into())
        }
    }

    /// Returns the list if it has no poller at this node, and no poller at another node as far as this node knows.
    pub(crate) fn unpolled_list(&self, list: &ListKey) -> Option<Unpolled> {
        if self.elsewhere.is_waited_on(list) {
            return None;
        }
        let since = self.unpolled_since(list)?;
        Some(Unpolled { task_list: list.name.to_string(), is_decider: list.side == Side::Decider, since })
    }

    /// Returns the task lists without pollers on which tasks of a run wait.
    pub fn unpolled(&self, domain: &Arc<str>, run: &Run) -> Vec<Unpolled> {
        let now = self.clock.now();
        let mut lists: Vec<ListKey> = Vec::new();
        for task in run.waiting_tasks() {
            let (side, name, not_before) = match &task {
                TaskRef::Turn(task) => (Side::Decider, run.list_of_turn(task), task.not_before),
                TaskRef::Activity(task) => {
                    (Side::Activity, task.activity.task_list.as_str(), task.activity.not_before())
                }
            };
            // Lambda functions are called by the service, so their list has no pollers.
            if name == LAMBDA_LIST || not_before.is_some_and(|at| at > now) {
                continue;
            }
            if !lists.iter().any(|list| list.side == side && &*list.name == name) {
                lists.push(ListKey { domain: Arc::clone(domain), side, name: name.into() });
            }
        }
        lists.iter().filter_map(|list| self.unpolled_list(list)).collect()
    }

    /// Returns lists of a domain that have waiting tasks at this node and no poller. Examines at most 1,000 lists, and
    /// returns at most ten.
    pub fn unpolled_lists(&self, domain: &str) -> Vec<Unpolled> {
        let waiting = self.lists.lists_with_tasks(domain, LISTS_EXAMINED_MAX);
        let others = waiting.iter().filter(|list| &*list.name != LAMBDA_LIST);
        let mut unpolled: Vec<Unpolled> = others.filter_map(|list| self.unpolled_list(list)).take(NAMED_MAX).collect();
        unpolled.sort_by(|one, other| (&one.task_list, one.is_decider).cmp(&(&other.task_list, other.is_decider)));
        unpolled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::matching::WaitingBounds;

    /// A clock that does not advance.
    struct StandingClock(Timestamp);

    #[async_trait::async_trait]
    impl Clock for StandingClock {
        fn now(&self) -> Timestamp {
            self.0
        }

        async fn sleep_until(&self, _: Timestamp) {
            std::future::pending::<()>().await;
        }
    }

    fn pollers(now: Timestamp) -> Arc<Pollers> {
        let lists = Arc::new(Matching::new(WaitingBounds::default()));
        Arc::new(Pollers::new(Arc::new(StandingClock(now)), Arc::default(), lists, Arc::default()))
    }

    fn list(name: &str) -> ListKey {
        ListKey { domain: "d".into(), side: Side::Decider, name: name.into() }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_list_is_unpolled_since_its_last_poll_or_the_start() {
        let pollers = pollers(at(7));
        assert_eq!(pollers.unpolled_since(&list("a")), Some(at(7)));
        assert!(pollers.begin(&list("a"), None));
        assert!(pollers.begin(&list("a"), None));
        assert_eq!(pollers.unpolled_since(&list("a")), None);
        pollers.end(&list("a"), at(8));
        assert_eq!(pollers.unpolled_since(&list("a")), None, "one of two polls is still under way");
        pollers.end(&list("a"), at(9));
        assert_eq!(pollers.unpolled_since(&list("a")), Some(at(9)));
        assert_eq!(pollers.unpolled_since(&list("b")), Some(at(7)));
        let runners = ListKey { side: Side::Activity, ..list("a") };
        assert_eq!(pollers.unpolled_since(&runners), Some(at(7)), "another list, of the same name");
    }

    #[test]
    fn a_forgotten_list_never_gets_too_early_a_time() {
        let pollers = pollers(at(0));
        for number in 0..=REMEMBERED {
            pollers.saw(&list(&number.to_string()), at(100 + number as u64));
        }
        assert_eq!(pollers.lock().seen.len(), REMEMBERED);
        assert_eq!(pollers.unpolled_since(&list("0")), Some(at(100)));
        assert_eq!(pollers.unpolled_since(&list("never")), Some(at(100)));
        assert_eq!(pollers.unpolled_since(&list("1")), Some(at(101)));
        // Recording a list that is already remembered does not displace another list.
        pollers.saw(&list("1"), at(200_000));
        assert_eq!(pollers.unpolled_since(&list("2")), Some(at(102)));
        assert_eq!(pollers.unpolled_since(&list("never")), Some(at(100)));
    }

    #[test]
    fn the_most_recent_pollers_are_remembered() {
        let pollers = pollers(at(0));
        let taker = |number: usize| Taker { identity: Some(number.to_string()), ..Taker::default() };
        for number in 0..=POLLERS_REMEMBERED {
            drop(pollers.polling(&list("a"), &taker(number)).unwrap());
        }
        let names = BTreeSet::from([("a".into(), Side::Decider)]);
        let known = pollers.of_lists("d", &names).remove(&list("a")).unwrap();
        assert_eq!(known.len(), POLLERS_REMEMBERED);
        let knows = |number: usize| known.iter().any(|it| it.identity == taker(number).identity);
        assert!(!knows(0) && knows(1) && knows(POLLERS_REMEMBERED));
    }

    #[test]
    fn examined_lists_are_bounded_and_more_are_reported() {
        let pollers = pollers(at(0));
        let polled = pollers.polling(&list("polled"), &Taker::default()).unwrap();
        for name in ["a", "b"] {
            pollers.saw(&list(name), at(1));
        }
        let examine = |examined_max| {
            let mut found = BTreeSet::new();
            let has_more = pollers.add_lists("d", examined_max, &mut found);
            (found.len(), has_more)
        };
        assert_eq!([examine(1), examine(2), examine(3), examine(4)], [(1, true), (2, true), (3, false), (3, false)]);
        drop(polled);
    }
}
