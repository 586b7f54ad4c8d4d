//! Selects the task lists that have separate series in metrics. For all other lists, the figures are summed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use history::Timestamp;

use crate::base::metrics::measured::{LimitedUse, ListDepth};
use crate::lists::matching::LimitedDepth;
use crate::lists::{ListKey, Side};

/// Maximum number of lists of one domain that have separate series. [`LISTS_SHOWN`] is the maximum for all domains
/// together. Our choice: the response to a scrape stays below 1 MB.
const LISTS_OF_A_DOMAIN: usize = 100;
const LISTS_SHOWN: usize = 300;

/// Label for the sum over all other lists of a domain. If a list has this name, it is included in the sum.
const OTHER_LISTS: &str = "*";

/// A list with the number of its tasks, the number of tasks that pollers wait for, and the time when its oldest task
/// began to wait.
type Depth = (ListKey, usize, usize, Option<Timestamp>);

/// The figures of [`Depth`], summed over several lists.
type Sums = (usize, usize, Option<Timestamp>);

/// Returns the figures of the lists for metrics.
pub(crate) fn list_depths(lists: Vec<Depth>) -> Vec<ListDepth> {
    let depth = |(ListKey { domain, side, name }, tasks, pollers, oldest): Depth| {
        let side = side.word();
        ListDepth { domain, side, name, tasks, pollers, oldest }
    };
    shown(lists).into_iter().map(depth).collect()
}

/// Selects at most the permitted number of lists: those with the most tasks, then those with the most pollers, then by
/// name. Sums the other lists of each domain.
fn shown(mut lists: Vec<Depth>) -> Vec<Depth> {
    lists.sort_unstable_by(|(one, tasks, pollers, _), (other, other_tasks, other_pollers, _)| {
        let sizes = (Reverse(tasks), Reverse(pollers)).cmp(&(Reverse(other_tasks), Reverse(other_pollers)));
        let names = || (&one.domain, one.side, &one.name).cmp(&(&other.domain, other.side, &other.name));
        sizes.then_with(names)
    });
    let mut of_domain: HashMap<Arc<str>, usize> = HashMap::new();
    let mut others: BTreeMap<(Arc<str>, Side), Sums> = BTreeMap::new();
    let mut shown = Vec::new();
    for (list, tasks, pollers, oldest) in lists {
        let count = of_domain.entry(Arc::clone(&list.domain)).or_default();
        if &*list.name != OTHER_LISTS && *count < LISTS_OF_A_DOMAIN && shown.len() < LISTS_SHOWN {
            *count += 1;
            shown.push((list, tasks, pollers, oldest));
        } else {
            let sums = others.entry((list.domain, list.side)).or_default();
            *sums = (sums.0 + tasks, sums.1 + pollers, sums.2.into_iter().chain(oldest).min());
        }
    }
    let others = others.into_iter().map(|((domain, side), (tasks, pollers, oldest))| {
        (ListKey { domain, side, name: OTHER_LISTS.into() }, tasks, pollers, oldest)
    });
    shown.extend(others);
    shown
}

/// Returns the figures of limited lists for metrics: of at most the permitted number of lists, those with the most held
/// back tasks first, then those with the most running tasks, then by name. The other lists of each domain are summed.
pub(crate) fn limited_uses(mut lists: Vec<LimitedDepth>) -> Vec<LimitedUse> {
    lists.sort_unstable_by(|one, other| {
        let sizes =
            (Reverse(one.held_back), Reverse(one.running)).cmp(&(Reverse(other.held_back), Reverse(other.running)));
        sizes.then_with(|| one.list.cmp(&other.list))
    });
    let mut of_domain: HashMap<Arc<str>, usize> = HashMap::new();
    let mut others: BTreeMap<(Arc<str>, Side), LimitedUse> = BTreeMap::new();
    let mut shown = Vec::new();
    for LimitedDepth { list: ListKey { domain, side, name }, running, max_running, held_back } in lists {
        let count = of_domain.entry(Arc::clone(&domain)).or_default();
        let (of, running) = (side, u64::from(running));
        let (side, max_running) = (side.word(), max_running.map(u64::from));
        if &*name != OTHER_LISTS && *count < LISTS_OF_A_DOMAIN && shown.len() < LISTS_SHOWN {
            *count += 1;
            shown.push(LimitedUse { domain, side, name, running, max_running, held_back });
            continue;
        }
        let none =
            || LimitedUse { domain: Arc::clone(&domain), side, name: OTHER_LISTS.into(), ..LimitedUse::default() };
        let sums = others.entry((Arc::clone(&domain), of)).or_insert_with(none);
        sums.running += running;
        sums.max_running = [sums.max_running, max_running].into_iter().flatten().reduce(|one, other| one + other);
        sums.held_back += held_back;
    }
    shown.extend(others.into_values());
    shown
}

#[cfg(test)]
mod tests {
    use crate::Metrics;
    use crate::base::admission::ThrottledCounts;
    use crate::views::metrics_page::Gauges;

    use super::*;

    #[test]
    fn metrics_of_100000_lists_stay_below_one_megabyte() {
        let list = |domain: &str, number: usize| ListKey {
            domain: domain.into(),
            side: if number.is_multiple_of(2) { Side::Decider } else { Side::Activity },
            name: format!("{number:0>200}").into(),
        };
        let depth = |number| (list(&format!("d{}", number % 10), number), number, 1, None);
        let mut lists: Vec<Depth> = (0..100_000).map(depth).collect();
        // This list has the name that is also used for the sum of the others.
        lists.push((ListKey { domain: "d0".into(), side: Side::Decider, name: OTHER_LISTS.into() }, 200_000, 1, None));
        let expected: usize = lists.iter().map(|(_, tasks, ..)| tasks).sum();
        let depths = list_depths(lists.clone());
        let lists = shown(lists);
        assert_eq!(lists.iter().map(|(_, tasks, ..)| tasks).sum::<usize>(), expected);
        assert_eq!(lists.iter().map(|(_, _, pollers, _)| pollers).sum::<usize>(), 100_001);
        assert_eq!(lists.first().map(|(_, tasks, ..)| *tasks), Some(99_999), "the largest come first");
        assert!(lists.len() <= LISTS_SHOWN + 20, "{}", lists.len());
        let keys: std::collections::HashSet<_> = lists.iter().map(|(list, ..)| list.clone()).collect();
        assert_eq!(keys.len(), lists.len(), "each has one series");
        let gauges = Gauges { lists: depths, ..Gauges::default() };
        let text = Metrics::new(&ThrottledCounts::default()).page(&gauges, Timestamp::default()).end();
        assert!(text.len() < 1_000_000, "{}", text.len());
    }

    #[test]
    fn lists_of_one_domain_leave_series_for_other_domains() {
        let of = |domain: &str, number: usize| {
            let list = ListKey { domain: domain.into(), side: Side::Decider, name: number.to_string().into() };
            (list, 1_000 - number, 0, None)
        };
        let lists: Vec<Depth> =
            (0..500).map(|number| of("a", number)).chain((900..910).map(|number| of("b", number))).collect();
        let shown = shown(lists);
        let count = |domain: &str| shown.iter().filter(|(list, ..)| &*list.domain == domain).count();
        assert_eq!((count("a"), count("b")), (LISTS_OF_A_DOMAIN + 1, 10));
    }

    #[test]
    fn limited_lists_beyond_a_hundred_of_a_domain_are_summed() {
        let depth = |number: usize| LimitedDepth {
            list: ListKey { domain: "d".into(), side: Side::Activity, name: format!("{number:03}").into() },
            running: 2,
            max_running: (number.is_multiple_of(2)).then_some(3),
            held_back: number,
        };
        let uses = limited_uses((0..LISTS_OF_A_DOMAIN + 4).map(depth).collect());
        assert_eq!(uses.len(), LISTS_OF_A_DOMAIN + 1);
        assert_eq!(uses.first().map(|of| of.held_back), Some(LISTS_OF_A_DOMAIN + 3), "the most held back come first");
        let others = uses.last().unwrap();
        assert_eq!((&*others.name, others.running, others.max_running), (OTHER_LISTS, 8, Some(6)));
        assert_eq!(others.held_back, 1 + 2 + 3);
    }
}
