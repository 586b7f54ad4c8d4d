//! The page of metrics: what was counted, and what is read off at the moment of asking.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write as _};
use std::sync::Arc;

use history::{Standing, Timestamp};
use prometheus_client::encoding::text::encode;

use crate::Metrics;
use crate::base::shares::ThrottledCounts;
use crate::lists::{ListKey, Side};
use crate::registry::run_counts::{GAUGES, Gauged};

/// Lists of a domain that have series of their own, and lists of all domains together. Ours: scrapes stay below 1 MB.
const LISTS_OF_A_DOMAIN: usize = 100;
const LISTS_SHOWN: usize = 300;

/// Stands for all other lists of a domain. A list of this name is among them.
const OTHER_LISTS: &str = "*";

/// Tasks and pollers that wait, by list.
pub(crate) type Depth = (ListKey, usize, usize);

/// Those with the most tasks, and of equals with the most pollers, by name; of each domain the others as one.
pub(crate) fn shown(mut lists: Vec<Depth>) -> Vec<Depth> {
    lists.sort_unstable_by(|(one, tasks, pollers), (other, other_tasks, other_pollers)| {
        let sizes = (Reverse(tasks), Reverse(pollers)).cmp(&(Reverse(other_tasks), Reverse(other_pollers)));
        let names = || (&one.domain, one.side, &one.name).cmp(&(&other.domain, other.side, &other.name));
        sizes.then_with(names)
    });
    let mut of_domain: HashMap<Arc<str>, usize> = HashMap::new();
    let mut others: BTreeMap<(Arc<str>, Side), (usize, usize)> = BTreeMap::new();
    let mut shown = Vec::new();
    for (list, tasks, pollers) in lists {
        let count = of_domain.entry(Arc::clone(&list.domain)).or_default();
        if &*list.name != OTHER_LISTS && *count < LISTS_OF_A_DOMAIN && shown.len() < LISTS_SHOWN {
            *count += 1;
            shown.push((list, tasks, pollers));
        } else {
            let sums = others.entry((list.domain, list.side)).or_default();
            *sums = (sums.0 + tasks, sums.1 + pollers);
        }
    }
    let others = others
        .into_iter()
        .map(|((domain, side), (tasks, pollers))| (ListKey { domain, side, name: OTHER_LISTS.into() }, tasks, pollers));
    shown.extend(others);
    shown
}

/// What is read off at the moment of asking.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) cached_runs: usize,
    pub(crate) cached_bytes: usize,
    pub(crate) agenda: usize,
    pub(crate) watched_runs: usize,
    pub(crate) askers: usize,
    pub(crate) updates: usize,
    pub(crate) lists: Vec<Depth>,
    pub(crate) store: store::Stats,
    pub(crate) runs: Option<Gauged>,
    pub(crate) is_clock_doubted: bool,
}

impl Metrics {
    /// All of it, to which others may add what they have.
    pub(crate) fn page(&self, gauges: &Gauges) -> MetricsPage {
        let mut text = String::with_capacity(4_096);
        let written = encode(&mut text, &self.registry);
        // What is cheap to read now and pointless to keep up to date comes before the end mark.
        let text = text.trim_end_matches(END).to_owned();
        let mut page = MetricsPage { text, written };
        gauges.write(&mut page);
        page
    }

    /// A page that has a number of each metric of the engine, for whoever holds other texts against their names.
    pub fn sample() -> MetricsPage {
        let throttled = ThrottledCounts::default();
        let labels = ["open-runs", "domain", "default"].map(Arc::from);
        let [limit, of, name] = labels;
        drop(throttled.get_or_create(&[("limit", limit), ("of", of), ("name", name)]));
        let metrics = Self::new(&throttled);
        // These have no number before there is a first.
        metrics.put_off("unavailable");
        metrics.denied("unauthorized");
        metrics.refused("unavailable");
        metrics.issuer_keys_fetched("corp", true);
        let at = Timestamp::from_millis(1);
        let by_domain = BTreeMap::from([("default".to_owned(), [0; GAUGES])]);
        metrics.page(&Gauges {
            lists: vec![(ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() }, 0, 0)],
            runs: Some(Gauged { by_domain, all_at: at, flagged_at: at }),
            ..Gauges::default()
        })
    }
}

/// What ends a page.
const END: &str = "# EOF\n";

/// Whether a number only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It does.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The page while it is written, in the Prometheus text format.
#[derive(Debug)]
pub struct MetricsPage {
    text: String,
    written: std::fmt::Result,
}

impl MetricsPage {
    /// The page as a whole.
    pub fn end(self) -> String {
        if let Err(error) = self.written {
            tracing::error!(%error, "metrics could not be written");
        }
        self.text + END
    }

    /// Writes a number with its labels, each as `name="value"`.
    pub fn family<N: Display>(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        numbers: impl IntoIterator<Item = (String, N)>,
    ) {
        let (kind, suffix) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        };
        let text = &mut self.text;
        let write = || {
            writeln!(text, "# HELP baton_{name} {help}.\n# TYPE baton_{name} {kind}")?;
            for (labels, number) in numbers {
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                writeln!(text, "baton_{name}{suffix}{labels} {number}")?;
            }
            Ok(())
        };
        self.written = self.written.and_then(|()| write());
    }
}

impl Gauges {
    fn write(&self, text: &mut MetricsPage) {
        let store = self.store;
        for (name, kind, help, number) in [
            ("cached_runs", MetricKind::Gauge, "Runs in memory", self.cached_runs as u64),
            ("cached_bytes", MetricKind::Gauge, "Memory that they take", self.cached_bytes as u64),
            ("agenda_runs", MetricKind::Gauge, "Runs whose next instant is known in memory", self.agenda as u64),
            ("watched_runs", MetricKind::Gauge, "Runs that somebody waits for", self.watched_runs as u64),
            ("queries_waiting", MetricKind::Gauge, "Callers who wait for an answer or for news", self.askers as u64),
            ("updates_waiting", MetricKind::Gauge, "Updates that wait to be judged", self.updates as u64),
            (
                "clock_doubted",
                MetricKind::Gauge,
                "1 while the clock is too far ahead to be believed and nothing is deleted by retention",
                u64::from(self.is_clock_doubted),
            ),
            ("store_commits", MetricKind::Counter, "Commits of the store", store.commits),
            ("store_syncs", MetricKind::Counter, "Times that the disk was asked to keep what was written", store.syncs),
            ("store_bytes_written", MetricKind::Counter, "Bytes written to the store", store.bytes_written),
            ("store_bytes_on_disk", MetricKind::Gauge, "Bytes that the store occupies", store.bytes_on_disk),
            (
                "store_opens_put_off",
                MetricKind::Counter,
                "Times that the store could not open a file for want of descriptors or memory",
                store.opens_put_off,
            ),
            ("store_write_units", MetricKind::Counter, "Write units that the database bills", store.write_units),
            ("store_read_units", MetricKind::Counter, "Read units that the database bills", store.read_units),
        ] {
            text.family(name, kind, help, [(String::new(), number)]);
        }
        let of_list = |list: &ListKey| {
            let side = match list.side {
                Side::Decider => "decider",
                Side::Activity => "activity",
            };
            format!("domain={},side=\"{side}\",list={}", LabelValue(&list.domain), LabelValue(&list.name))
        };
        let tasks = self.lists.iter().map(|(list, tasks, _)| (of_list(list), *tasks as u64));
        text.family("tasks_waiting", MetricKind::Gauge, "Tasks that wait for somebody", tasks);
        let pollers = self.lists.iter().map(|(list, _, pollers)| (of_list(list), *pollers as u64));
        text.family("pollers_waiting", MetricKind::Gauge, "Polls that wait for a task", pollers);
        if let Some(runs) = &self.runs {
            runs.write(text);
        }
    }
}

impl Gauged {
    fn write(&self, text: &mut MetricsPage) {
        let words = std::iter::once(Standing::Open).chain(Standing::FLAGGED);
        for (index, standing) in words.enumerate() {
            let of = |(domain, gauges): (&String, &[u64; GAUGES])| {
                (format!("domain={}", LabelValue(domain)), gauges.get(index).copied().unwrap_or_default())
            };
            let help = match standing {
                Standing::Open => "Runs that are open, however they stand",
                Standing::Paused => "Open runs that are paused",
                Standing::Blocked => "Open runs with an activity that is paused, where no other state comes first",
                Standing::Stuck => "Open runs that nothing will wake, where no other state comes first",
                Standing::Failing => "Open runs at whose turns deciders fail, where no other state comes first",
                Standing::Retrying => "Open runs with an activity past its first try, where no other state comes first",
                Standing::Closed(_) => "Closed runs",
            };
            text.family(&format!("runs_{}", standing.word()), MetricKind::Gauge, help, self.by_domain.iter().map(of));
        }
        for (name, help, at) in [
            ("runs_counted_timestamp_seconds", "When all open runs were counted", self.all_at),
            ("runs_flagged_counted_timestamp_seconds", "When the others of these states were", self.flagged_at),
        ] {
            text.family(name, MetricKind::Gauge, help, [(String::new(), at.as_millis() / 1_000)]);
        }
    }
}

/// The value of a label, in quotes, with what may not stand in them as it is. The library writes values as they are.
///
/// Source: the Prometheus text format, which `OpenMetrics` has the same: backslash, newline, double quote, and nothing else.
struct LabelValue<'a>(&'a str);

impl std::fmt::Display for LabelValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_lists_are_told_in_less_than_a_megabyte_and_all_are_counted() {
        let list = |domain: &str, number: usize| ListKey {
            domain: domain.into(),
            side: if number.is_multiple_of(2) { Side::Decider } else { Side::Activity },
            name: format!("{number:0>200}").into(),
        };
        let mut lists: Vec<Depth> =
            (0..100_000).map(|number| (list(&format!("d{}", number % 10), number), number, 1)).collect();
        // Its own name would be that of the others.
        lists.push((ListKey { domain: "d0".into(), side: Side::Decider, name: OTHER_LISTS.into() }, 200_000, 1));
        let expected: usize = lists.iter().map(|(_, tasks, _)| tasks).sum();
        let lists = shown(lists);
        assert_eq!(lists.iter().map(|(_, tasks, _)| tasks).sum::<usize>(), expected);
        assert_eq!(lists.iter().map(|(_, _, pollers)| pollers).sum::<usize>(), 100_001);
        assert_eq!(lists.first().map(|(_, tasks, _)| *tasks), Some(99_999), "the largest come first");
        assert!(lists.len() <= LISTS_SHOWN + 20, "{}", lists.len());
        let keys: std::collections::HashSet<_> = lists.iter().map(|(list, ..)| list.clone()).collect();
        assert_eq!(keys.len(), lists.len(), "each has one series");
        let gauges = Gauges { lists, ..Gauges::default() };
        let text = Metrics::new(&ThrottledCounts::default()).page(&gauges).end();
        assert!(text.len() < 1_000_000, "{}", text.len());
    }

    #[test]
    fn the_lists_of_one_domain_leave_room_for_those_of_others() {
        let of = |domain: &str, number: usize| {
            let list = ListKey { domain: domain.into(), side: Side::Decider, name: number.to_string().into() };
            (list, 1_000 - number, 0)
        };
        let lists: Vec<Depth> =
            (0..500).map(|number| of("a", number)).chain((900..910).map(|number| of("b", number))).collect();
        let shown = shown(lists);
        let count = |domain: &str| shown.iter().filter(|(list, ..)| &*list.domain == domain).count();
        assert_eq!((count("a"), count("b")), (LISTS_OF_A_DOMAIN + 1, 10));
    }

    #[test]
    fn values_of_labels_are_escaped_as_the_text_format_has_it_and_no_further() {
        for (value, written) in [
            ("orders", r#""orders""#),
            (r#"a"b"#, r#""a\"b""#),
            (r"a\b", r#""a\\b""#),
            ("a\nb", r#""a\nb""#),
            ("tab\tnul\0quote' é 漢 \u{200b}", "\"tab\tnul\0quote' é 漢 \u{200b}\""),
        ] {
            assert_eq!(LabelValue(value).to_string(), written);
        }
    }
}
