//! Reports lists to operators that have waiting tasks and no pollers, and reports when they are polled again.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use history::{Duration, Timestamp};
use lru::LruCache;

use crate::lists::ListKey;

/// Time without a poller after which a list with tasks is reported. Ours: a deployment is shorter, and so is the work
/// of most pollers between two polls.
const UNPOLLED_AFTER: Duration = Duration::from_secs(60);

/// Maximum number of remembered reports. Ours: about 200 bytes each; a list beyond them gets no line when it is polled
/// again.
const TOLD_MAX: usize = 10_000;

/// Current state of a list with tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingList {
    pub(crate) list: ListKey,
    pub(crate) tasks: usize,
    /// When its first task began to wait, if that is known.
    pub(crate) waits_since: Option<Timestamp>,
    /// End of its last poll; `None` while it is polled.
    pub(crate) unpolled_since: Option<Timestamp>,
}

impl WaitingList {
    /// Returns since when tasks have waited on it without a poller, if that is long enough to report.
    fn is_left(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.unpolled_since?.max(self.waits_since.unwrap_or_default());
        (self.tasks > 0 && now.since(since) >= UNPOLLED_AFTER).then_some(since)
    }
}

/// Lists that were reported as having no poller, and since when they had none.
#[derive(Debug)]
pub(crate) struct ToldOfUnpolled(Mutex<LruCache<ListKey, Timestamp>>);

impl Default for ToldOfUnpolled {
    fn default() -> Self {
        // Bounded, but not allocated in advance.
        let mut told = LruCache::unbounded();
        told.resize(NonZeroUsize::new(TOLD_MAX).unwrap_or(NonZeroUsize::MIN));
        Self(Mutex::new(told))
    }
}

impl ToldOfUnpolled {
    /// Takes the lists to report, each once until it is polled again.
    pub(crate) fn take_left(&self, lists: Vec<WaitingList>, now: Timestamp) -> Vec<(WaitingList, Timestamp)> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = lists.into_iter().filter_map(|it| it.is_left(now).map(|since| (it, since)));
        let mut left: Vec<_> = left.filter(|(it, _)| !told.contains(&it.list)).collect();
        // Reports the lists in the order in which they lost their pollers.
        left.sort_by(|(one, a), (other, b)| (a, &one.list).cmp(&(b, &other.list)));
        for (it, since) in &left {
            told.put(it.list.clone(), *since);
        }
        left
    }

    /// Takes the lists that have been polled since they were reported.
    pub(crate) fn take_polled(&self, unpolled_since: impl Fn(&ListKey) -> Option<Timestamp>) -> Vec<ListKey> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_polled = |(list, since): &(&ListKey, &Timestamp)| unpolled_since(list).is_none_or(|end| end > **since);
        let polled: Vec<ListKey> = told.iter().filter(is_polled).map(|(list, _)| list.clone()).collect();
        for list in &polled {
            told.pop(list);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    fn waiting(name: &str, waits_since: u64, unpolled_since: Option<u64>) -> WaitingList {
        let list = ListKey::new("d", true, name);
        WaitingList { list, tasks: 2, waits_since: Some(at(waits_since)), unpolled_since: unpolled_since.map(at) }
    }

    #[test]
    fn an_operator_is_told_once_a_task_has_waited_a_minute_without_a_poller() {
        let lists = ToldOfUnpolled::default();
        for (case, is_told) in [
            (waiting("polled", 0, None), false),
            (waiting("left-a-minute-ago", 0, Some(40)), true),
            (waiting("left-later", 0, Some(41)), false),
            (waiting("task-a-minute-ago", 40, Some(0)), true),
            (waiting("task-later", 41, Some(0)), false),
            (WaitingList { waits_since: None, ..waiting("of-unknown-age", 0, Some(40)) }, true),
            (WaitingList { tasks: 0, ..waiting("without-tasks", 0, Some(0)) }, false),
        ] {
            assert_eq!(!lists.take_left(vec![case.clone()], at(100)).is_empty(), is_told, "{case:?}");
        }
    }

    #[test]
    fn each_list_is_told_once_until_it_is_polled_and_then_once_that_it_is() {
        let lists = ToldOfUnpolled::default();
        let left = |now| lists.take_left(vec![waiting("b", 0, Some(30)), waiting("a", 0, Some(20))], at(now));
        let names =
            |now: u64| left(now).into_iter().map(|(it, since)| (it.list.name.to_string(), since)).collect::<Vec<_>>();
        assert_eq!(names(100), [("a".to_owned(), at(20)), ("b".to_owned(), at(30))]);
        assert_eq!(names(200), []);
        let is_b = |list: &ListKey| &*list.name == "b";
        assert_eq!(lists.take_polled(|list| Some(at(if is_b(list) { 30 } else { 20 }))), []);
        // While the list is polled, and after a short poll between two checks.
        assert_eq!(lists.take_polled(|list| (!is_b(list)).then_some(at(20))), [ListKey::new("d", true, "b")]);
        assert_eq!(lists.take_polled(|_| Some(at(150))), [ListKey::new("d", true, "a")]);
        assert_eq!(lists.take_polled(|_| None), []);
        assert_eq!(names(300).len(), 2, "left once more");
    }

    #[test]
    fn no_more_lists_are_remembered_than_may_be() {
        let lists = ToldOfUnpolled::default();
        let many = (0..TOLD_MAX + 5).map(|number| waiting(&number.to_string(), 0, Some(0))).collect();
        assert_eq!(lists.take_left(many, at(100)).len(), TOLD_MAX + 5);
        assert_eq!(lists.take_polled(|_| None).len(), TOLD_MAX);
    }
}
