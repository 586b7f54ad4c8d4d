//! Reports to operators which lists have waiting tasks but no pollers, and later when these lists are polled again.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use history::{Duration, Timestamp};
use lru::LruCache;

use crate::lists::ListKey;

/// Time without a poller after which a list with tasks is reported. Our choice: longer than a deployment, and longer
/// than the time between two polls of most pollers.
const UNPOLLED_AFTER: Duration = Duration::from_secs(60);

/// Maximum number of remembered reports. If a report is forgotten, the service does not report that the list is polled
/// again. Our choice: at about 200 bytes each, the reports take at most 2 MB.
const REPORTED_MAX: usize = 10_000;

/// Current state of a list with tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingList {
    pub(crate) list: ListKey,
    pub(crate) tasks: usize,
    /// Time when the list's first task began to wait, if known.
    pub(crate) waits_since: Option<Timestamp>,
    /// End of the list's last poll; `None` while it is polled.
    pub(crate) unpolled_since: Option<Timestamp>,
}

impl WaitingList {
    /// If tasks have waited on the list without a poller for long enough to report, returns the start of this period.
    fn left_since(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.unpolled_since?.max(self.waits_since.unwrap_or_default());
        (self.tasks > 0 && now.since(since) >= UNPOLLED_AFTER).then_some(since)
    }
}

/// Lists that were reported as having no poller, each with the start of the period without a poller.
#[derive(Debug)]
pub(crate) struct ReportedUnpolled(Mutex<LruCache<ListKey, Timestamp>>);

impl Default for ReportedUnpolled {
    fn default() -> Self {
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut reported = LruCache::unbounded();
        reported.resize(NonZeroUsize::new(REPORTED_MAX).unwrap_or(NonZeroUsize::MIN));
        Self(Mutex::new(reported))
    }
}

impl ReportedUnpolled {
    /// Returns the lists that must be reported, with the start of the period without a poller. A reported list is not
    /// returned again until it has been polled.
    pub(crate) fn take_unreported(&self, lists: Vec<WaitingList>, now: Timestamp) -> Vec<(WaitingList, Timestamp)> {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = lists.into_iter().filter_map(|it| it.left_since(now).map(|since| (it, since)));
        let mut left: Vec<_> = left.filter(|(it, _)| !reported.contains(&it.list)).collect();
        // Reports the lists in the order in which they lost their pollers.
        left.sort_by(|(one, a), (other, b)| (a, &one.list).cmp(&(b, &other.list)));
        for (it, since) in &left {
            reported.put(it.list.clone(), *since);
        }
        left
    }

    /// Returns the lists that have been polled since they were reported, and forgets their reports.
    pub(crate) fn take_polled(&self, unpolled_since: impl Fn(&ListKey) -> Option<Timestamp>) -> Vec<ListKey> {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_polled = |(list, since): &(&ListKey, &Timestamp)| unpolled_since(list).is_none_or(|end| end > **since);
        let polled: Vec<ListKey> = reported.iter().filter(is_polled).map(|(list, _)| list.clone()).collect();
        for list in &polled {
            reported.pop(list);
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
    fn a_list_is_reported_after_a_minute_without_a_poller() {
        let lists = ReportedUnpolled::default();
        for (case, is_reported) in [
            (waiting("polled", 0, None), false),
            (waiting("left-a-minute-ago", 0, Some(40)), true),
            (waiting("left-later", 0, Some(41)), false),
            (waiting("task-a-minute-ago", 40, Some(0)), true),
            (waiting("task-later", 41, Some(0)), false),
            (WaitingList { waits_since: None, ..waiting("of-unknown-age", 0, Some(40)) }, true),
            (WaitingList { tasks: 0, ..waiting("without-tasks", 0, Some(0)) }, false),
        ] {
            assert_eq!(!lists.take_unreported(vec![case.clone()], at(100)).is_empty(), is_reported, "{case:?}");
        }
    }

    #[test]
    fn a_list_is_reported_once_and_again_when_it_is_polled() {
        let lists = ReportedUnpolled::default();
        let left = |now| lists.take_unreported(vec![waiting("b", 0, Some(30)), waiting("a", 0, Some(20))], at(now));
        let names =
            |now: u64| left(now).into_iter().map(|(it, since)| (it.list.name.to_string(), since)).collect::<Vec<_>>();
        assert_eq!(names(100), [("a".to_owned(), at(20)), ("b".to_owned(), at(30))]);
        assert_eq!(names(200), []);
        let is_b = |list: &ListKey| &*list.name == "b";
        assert_eq!(lists.take_polled(|list| Some(at(if is_b(list) { 30 } else { 20 }))), []);
        // A list counts as polled while a poll is in progress, and if a short poll has ended between two checks.
        assert_eq!(lists.take_polled(|list| (!is_b(list)).then_some(at(20))), [ListKey::new("d", true, "b")]);
        assert_eq!(lists.take_polled(|_| Some(at(150))), [ListKey::new("d", true, "a")]);
        assert_eq!(lists.take_polled(|_| None), []);
        assert_eq!(names(300).len(), 2, "unpolled again");
    }

    #[test]
    fn remembered_lists_are_bounded() {
        let lists = ReportedUnpolled::default();
        let many = (0..REPORTED_MAX + 5).map(|number| waiting(&number.to_string(), 0, Some(0))).collect();
        assert_eq!(lists.take_unreported(many, at(100)).len(), REPORTED_MAX + 5);
        assert_eq!(lists.take_polled(|_| None).len(), REPORTED_MAX);
    }
}
