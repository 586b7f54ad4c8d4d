//! Who polls which list, and since when nobody does: so that whoever waits for a task to be taken can be told that nobody is
//! there to take it. In memory only: what was before the service started is not known.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use history::{CallerName, Duration, LAMBDA_LIST, Run, TaskRef, Timestamp};
use lru::LruCache;

use crate::base::shares::{LimitKind, Shares};
use crate::lists::elsewhere::Elsewhere;
use crate::lists::matching::Matching;
use crate::lists::{ListKey, Side, Taker};
use crate::{Clock, Limited, Quotas, Refusal, Unpolled};

/// Lists of which it is remembered when the last poll ended, at most: those polled last. About 200 bytes each.
const REMEMBERED: usize = 10_000;

/// Lists that are looked at for [`Pollers::unpolled_lists`], and lists that it names, at most. Ours: it is asked once for every
/// poll that ends without a task, and must cost no more than that.
const LOOKED_AT_MAX: usize = 1_000;
const NAMED_MAX: usize = 10;

/// Pollers that are remembered, at most: those who polled last. About 300 bytes each.
const POLLERS_REMEMBERED: usize = 10_000;

/// For how long a poller is remembered after the end of its last poll. Ours: who works on a task polls again when it is done.
pub(crate) const POLLER_KEPT_FOR: Duration = Duration::from_secs(300);

/// Who polls which list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PollerName {
    list: ListKey,
    identity: Option<String>,
    by: Option<CallerName>,
}

/// What is known of a poller.
#[derive(Debug, Clone, Copy)]
struct PollerTimes {
    /// The first of its polls that followed each other.
    since: Timestamp,
    /// When its last poll ended, or began.
    last: Timestamp,
    /// Its polls under way.
    polls: usize,
}

/// Somebody who polls a list, or did so lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerReport {
    /// Who, as they said with the poll.
    pub identity: Option<String>,
    /// With what credential.
    pub by: Option<CallerName>,
    /// Polls under way.
    pub polls: usize,
    /// Since when they poll, with pauses of at most five minutes.
    pub since: Timestamp,
    /// When their last poll ended; `None` while one is under way.
    pub last_polled_at: Option<Timestamp>,
}

struct SeenPolls {
    /// Who polls and who did.
    pollers: LruCache<PollerName, PollerTimes>,
    /// Polls under way, by list.
    polling: HashMap<ListKey, usize>,
    /// How many lists of a domain those are.
    lists: HashMap<Arc<str>, u64>,
    /// When somebody was last known to poll.
    seen: LruCache<ListKey, Timestamp>,
    /// Of lists that are not in `seen`: not later than this.
    others: Timestamp,
}

/// See the module.
pub struct Pollers {
    clock: Arc<dyn Clock>,
    shares: Arc<Shares>,
    lists: Arc<Matching>,
    elsewhere: Arc<Elsewhere>,
    memory: Mutex<SeenPolls>,
}

impl Pollers {
    /// Nobody was seen before now.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        shares: Arc<Shares>,
        lists: Arc<Matching>,
        elsewhere: Arc<Elsewhere>,
    ) -> Self {
        // Bounded, but not allocated ahead.
        let mut seen = LruCache::unbounded();
        seen.resize(NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN));
        let mut pollers = LruCache::unbounded();
        pollers.resize(NonZeroUsize::new(POLLERS_REMEMBERED).unwrap_or(NonZeroUsize::MIN));
        let memory = SeenPolls { pollers, polling: HashMap::new(), lists: HashMap::new(), seen, others: clock.now() };
        Self { clock, shares, lists, elsewhere, memory: Mutex::new(memory) }
    }

    fn lock(&self) -> MutexGuard<'_, SeenPolls> {
        self.memory.lock().expect("no code panics while it holds this lock")
    }

    /// False where so many other lists of the domain are polled.
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

    fn comes(&self, poller: &PollerName, now: Timestamp) {
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

    fn leaves(&self, poller: &PollerName, now: Timestamp) {
        if let Some(times) = self.lock().pollers.peek_mut(poller) {
            (times.last, times.polls) = (now, times.polls.saturating_sub(1));
        }
    }

    /// Who polls these lists of a domain or did so lately, by list; those whose polls came last first, and those who poll now
    /// before the others.
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

    /// Adds lists of a domain that are polled, or of which it is remembered when they were, of as many as are looked at; whether
    /// there are more.
    pub(crate) fn add_lists(&self, domain: &str, looked_at_max: usize, to: &mut BTreeSet<(Arc<str>, Side)>) -> bool {
        let memory = self.lock();
        let lists = memory.polling.keys().chain(memory.seen.iter().map(|(list, _)| list));
        let of_domain = lists.take(looked_at_max).filter(|list| &*list.domain == domain);
        to.extend(of_domain.map(|list| (Arc::clone(&list.name), list.side)));
        memory.polling.len() + memory.seen.len() > looked_at_max
    }

    /// Polls of a list under way.
    pub(crate) fn polls(&self, list: &ListKey) -> usize {
        self.lock().polling.get(list).copied().unwrap_or(0)
    }

    /// Somebody polled it at another node until now, as far as this one knew.
    pub(crate) fn saw(&self, list: &ListKey, now: Timestamp) {
        self.lock().saw(list, now);
    }

    /// When the last poll ended; `None` while somebody polls.
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

/// A poll that is under way.
pub(crate) struct Polling {
    pollers: Arc<Pollers>,
    poller: PollerName,
}

impl Drop for Polling {
    fn drop(&mut self) {
        let now = self.pollers.clock.now();
        self.pollers.leaves(&self.poller, now);
        self.pollers.end(&self.poller.list, now);
    }
}

impl Pollers {
    /// Holds a poll over SWF's wire to how many may wait on its list.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub fn must_have_room(
        &self,
        quotas: Option<&Quotas>,
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

    /// A poll of a list is under way, until this is dropped.
    ///
    /// # Errors
    ///
    /// [`Refusal::QuotaExceeded`] where as many lists of its domain are polled as may be.
    pub(crate) fn polling(self: &Arc<Self>, list: &ListKey, taker: &Taker) -> Result<Polling, Refusal> {
        // What calls functions is the service itself.
        let max = self.shares.task_lists(&list.domain).filter(|_| &*list.name != LAMBDA_LIST);
        if self.begin(list, max) {
            let (identity, by) = (taker.identity.clone(), taker.by.clone());
            let poller = PollerName { list: list.clone(), identity, by };
            self.comes(&poller, self.clock.now());
            Ok(Polling { pollers: Arc::clone(self), poller })
        } else {
            let max = max.unwrap_or_default();
            Err(self.shares.reached(&list.domain, LimitKind::TaskLists, max).into())
        }
    }

    /// The list, if nobody polls it, at this node or as far as it knows at another.
    pub(crate) fn unpolled_list(&self, list: &ListKey) -> Option<Unpolled> {
        if self.elsewhere.is_waited_on(list) {
            return None;
        }
        let since = self.unpolled_since(list)?;
        Some(Unpolled { task_list: list.name.to_string(), is_decider: list.side == Side::Decider, since })
    }

    /// Lists on which tasks of a run wait and nobody polls.
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
            // Lambda tasks are the service's own.
            if name == LAMBDA_LIST || not_before.is_some_and(|at| at > now) {
                continue;
            }
            if !lists.iter().any(|list| list.side == side && &*list.name == name) {
                lists.push(ListKey { domain: Arc::clone(domain), side, name: name.into() });
            }
        }
        lists.iter().filter_map(|list| self.unpolled_list(list)).collect()
    }

    /// Lists of a domain on which tasks wait at this node and nobody polls: some of them, where there are very many lists.
    pub fn unpolled_lists(&self, domain: &str) -> Vec<Unpolled> {
        let waiting = self.lists.lists_with_tasks(domain, LOOKED_AT_MAX);
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

    /// A clock that stands still.
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
    fn a_list_is_unpolled_from_the_end_of_its_last_poll_or_from_the_start_of_the_service() {
        let pollers = pollers(at(7));
        assert_eq!(pollers.unpolled_since(&list("a")), Some(at(7)));
        assert!(pollers.begin(&list("a"), None));
        assert!(pollers.begin(&list("a"), None));
        assert_eq!(pollers.unpolled_since(&list("a")), None);
        pollers.end(&list("a"), at(8));
        assert_eq!(pollers.unpolled_since(&list("a")), None, "one of two polls goes on");
        pollers.end(&list("a"), at(9));
        assert_eq!(pollers.unpolled_since(&list("a")), Some(at(9)));
        assert_eq!(pollers.unpolled_since(&list("b")), Some(at(7)));
        let runners = ListKey { side: Side::Activity, ..list("a") };
        assert_eq!(pollers.unpolled_since(&runners), Some(at(7)), "another list, of the same name");
    }

    #[test]
    fn of_a_list_that_is_forgotten_no_earlier_time_is_said_than_may_be_true() {
        let pollers = pollers(at(0));
        for number in 0..=REMEMBERED {
            pollers.saw(&list(&number.to_string()), at(100 + number as u64));
        }
        assert_eq!(pollers.lock().seen.len(), REMEMBERED);
        assert_eq!(pollers.unpolled_since(&list("0")), Some(at(100)));
        assert_eq!(pollers.unpolled_since(&list("never")), Some(at(100)));
        assert_eq!(pollers.unpolled_since(&list("1")), Some(at(101)));
        // The same list again pushes none out.
        pollers.saw(&list("1"), at(200_000));
        assert_eq!(pollers.unpolled_since(&list("2")), Some(at(102)));
        assert_eq!(pollers.unpolled_since(&list("never")), Some(at(100)));
    }

    #[test]
    fn so_many_pollers_are_remembered_and_those_whose_polls_came_last() {
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
    fn no_more_lists_are_looked_at_than_may_be_and_it_is_said_that_there_are_more() {
        let pollers = pollers(at(0));
        let polled = pollers.polling(&list("polled"), &Taker::default()).unwrap();
        for name in ["a", "b"] {
            pollers.saw(&list(name), at(1));
        }
        let look = |looked_at_max| {
            let mut found = BTreeSet::new();
            let has_more = pollers.add_lists("d", looked_at_max, &mut found);
            (found.len(), has_more)
        };
        assert_eq!([look(1), look(2), look(3), look(4)], [(1, true), (2, true), (3, false), (3, false)]);
        drop(polled);
    }
}
