//! Page of metrics, with counters and with gauges that are read when the page is requested.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use history::{RunCondition, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::Metrics;
use crate::base::admission::ThrottledCounts;
use crate::base::clock::ClockStanding;
use crate::base::disk::room::DiskRoom;
use crate::base::metrics::label::LabelValue;
use crate::base::metrics::measured::{LimitedUse, ListDepth};
use crate::registry::run_counts::{GAUGES, Gauged};

/// Gauges that are read when the page is requested.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) cached_runs: usize,
    pub(crate) cached_bytes: usize,
    pub(crate) agenda: usize,
    pub(crate) watched_runs: usize,
    pub(crate) query_callers: usize,
    pub(crate) updates: usize,
    /// Activities with output, bytes of their output, and chunks that were dropped to make room.
    pub(crate) outputs: (usize, usize, u64),
    pub(crate) lists: Vec<ListDepth>,
    pub(crate) limited: Vec<LimitedUse>,
    pub(crate) node_versions: BTreeMap<String, Option<String>>,
    pub(crate) disk: Option<DiskRoom>,
    pub(crate) store: store::Stats,
    pub(crate) runs: Option<Gauged>,
    pub(crate) clock: ClockStanding,
    pub(crate) clocks_apart: BTreeMap<String, history::Duration>,
}

impl Metrics {
    /// Renders all metrics of the engine into a page to which callers can add other metrics.
    pub(crate) fn page(&self, gauges: &Gauges, now: Timestamp) -> MetricsPage {
        let mut page = MetricsPage::default();
        page.add(&self.registry);
        // These gauges are read only when the page is requested, because reading them is cheap.
        gauges.write(&mut page, now);
        page
    }

    /// Returns a page with a value for each metric of the engine, so that tests can compare the names of all metrics
    /// with the documentation.
    pub fn sample() -> MetricsPage {
        let throttled = ThrottledCounts::default();
        let labels = ["open-runs", "domain", "default"].map(Arc::from);
        let [limit, scope, name] = labels;
        drop(throttled.get_or_create(&[("limit", limit), ("scope", scope), ("name", name)]));
        let metrics = Self::new(&throttled);
        // These metrics have no series before their first value.
        metrics.put_off("unavailable");
        metrics.denied("unauthorized");
        metrics.refused("unavailable");
        metrics.issuer_keys_fetched("corp", true);
        metrics.measured.sample();
        let at = Timestamp::from_millis(1);
        let by_domain = BTreeMap::from([("default".to_owned(), [0; GAUGES])]);
        let gauges = Gauges {
            lists: vec![ListDepth {
                domain: "d".into(),
                side: "decider",
                name: "l".into(),
                tasks: 0,
                pollers: 0,
                oldest: None,
            }],
            limited: vec![LimitedUse {
                domain: "d".into(),
                side: "decider",
                name: "l".into(),
                running: 0,
                max_running: Some(1),
                held_back: 0,
            }],
            node_versions: BTreeMap::from([("n".to_owned(), None)]),
            disk: Some(DiskRoom { free: 0, reserve: 0, least: 0 }),
            runs: Some(Gauged { by_domain, all_at: at, flagged_at: at }),
            ..Gauges::default()
        };
        metrics.page(&gauges, at)
    }
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Value that only increases.
    Counter,
    /// Value that increases and decreases.
    Gauge,
}

/// Value of a metric on a page.
#[derive(Debug, Clone)]
pub enum PageNumber {
    /// Integer.
    Whole(u64),
    /// Floating-point number.
    Measured(f64),
}

impl From<u64> for PageNumber {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for PageNumber {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<f64> for PageNumber {
    fn from(number: f64) -> Self {
        Self::Measured(number)
    }
}

/// Labels of a value, each with its name.
pub type PageLabels = Vec<(&'static str, LabelValue)>;

/// A metric whose values are read when the page is requested.
#[derive(Debug)]
struct ReadOff {
    name: String,
    help: String,
    kind: MetricKind,
    numbers: Vec<(PageLabels, PageNumber)>,
}

impl Collector for ReadOff {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metric_type = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
        };
        // The library appends a full stop to the help text of registered metrics, but not to the help text of
        // collectors.
        let help = format!("{}.", self.help);
        let mut family = encoder.encode_descriptor(&self.name, &help, None, metric_type)?;
        for (labels, number) in &self.numbers {
            // If there are no labels, no braces are written.
            if labels.is_empty() {
                number.encode(self.kind, &mut family)?;
            } else {
                number.encode(self.kind, &mut family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl PageNumber {
    fn encode(&self, kind: MetricKind, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (MetricKind::Counter, Self::Whole(number)) => metric.encode_counter::<PageLabels, _, f64>(number, None),
            (MetricKind::Counter, Self::Measured(number)) => metric.encode_counter::<PageLabels, _, f64>(number, None),
            (MetricKind::Gauge, Self::Whole(number)) => metric.encode_gauge(number),
            (MetricKind::Gauge, Self::Measured(number)) => metric.encode_gauge(number),
        }
    }
}

/// Histogram of the sync latencies that the store has measured.
#[derive(Debug)]
struct StoreSyncLatency(store::LatencyHistogram);

impl Collector for StoreSyncLatency {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Duration of syncs of the log to the disk.";
        let mut metric = encoder.encode_descriptor("baton_store_sync_seconds", help, None, MetricType::Histogram)?;
        let (sum, count) = (self.0.sum(), self.0.count());
        metric.encode_histogram::<PageLabels>(sum, count, &self.0.buckets(), None)
    }
}

/// A page to which metrics can be added.
#[derive(Debug, Default)]
pub struct MetricsPage {
    /// Text of the engine's counters.
    counted: String,
    /// Gauges and other metrics that were added to the page.
    read_off: Registry,
}

/// Last line of a page, as `OpenMetrics` requires.
const END: &str = "# EOF\n";

impl MetricsPage {
    /// Returns the whole page in the text format of `OpenMetrics`.
    pub fn end(self) -> String {
        let mut text = self.counted;
        if let Err(error) = encode(&mut text, &self.read_off) {
            tracing::error!(%error, "metrics could not be written");
        }
        text
    }

    /// Adds the metrics of a registry.
    pub fn add(&mut self, registry: &Registry) {
        if let Err(error) = encode(&mut self.counted, registry) {
            tracing::error!(%error, "metrics could not be written");
        }
        self.counted.truncate(self.counted.trim_end_matches(END).len());
    }

    /// Adds a metric with its values by labels.
    pub fn family<N: Into<PageNumber>>(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        numbers: impl IntoIterator<Item = (PageLabels, N)>,
    ) {
        self.family_of_process(&format!("baton_{name}"), kind, help, numbers);
    }

    /// Adds a metric whose name has no `baton_` prefix. Used for metrics that every process has.
    pub fn family_of_process<N: Into<PageNumber>>(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        numbers: impl IntoIterator<Item = (PageLabels, N)>,
    ) {
        let numbers = numbers.into_iter().map(|(labels, number)| (labels, number.into())).collect();
        let read_off = ReadOff { name: name.to_owned(), help: help.to_owned(), kind, numbers };
        self.read_off.register_collector(Box::new(read_off));
    }
}

impl Gauges {
    fn write_limited(&self, text: &mut MetricsPage) {
        let lists = &self.limited;
        let running = lists.iter().map(|list| (list.labels(), list.running));
        text.family("list_running", MetricKind::Gauge, "Running tasks of limited lists", running);
        let maxima = lists.iter().filter_map(|list| Some((list.labels(), list.max_running?)));
        let help = "Maximum number of running tasks of lists with such a limit";
        text.family("list_max_running", MetricKind::Gauge, help, maxima);
        let held = lists.iter().map(|list| (list.labels(), list.held_back));
        let help = "Waiting tasks that a limit or a pause of their list holds back";
        text.family("list_held_back_tasks", MetricKind::Gauge, help, held);
    }

    fn write_clock(&self, text: &mut MetricsPage) {
        for (name, help, number) in [
            (
                "clock_suspect",
                "1 while retention deletes nothing because the clock may be too far ahead",
                u64::from(self.clock.is_doubted),
            ),
            ("clock_jumps", "Unconfirmed jumps of clocks of nodes over this store", self.clock.moves.len() as u64),
            (
                "clock_behind_seconds",
                "Lag of the clock behind the newest time seen over this store; 0 if at most a minute",
                self.clock.behind.unwrap_or_default().as_millis() / 1_000,
            ),
            (
                "clock_skew_seconds",
                "Largest difference to the clock of another node; 0 if at most a minute",
                self.clocks_apart.values().max().copied().unwrap_or_default().as_millis() / 1_000,
            ),
        ] {
            text.family(name, MetricKind::Gauge, help, [(PageLabels::new(), number)]);
        }
        let zones = [(PageLabels::from([("version", history::zone_tables().as_str().into())]), 1_u64)];
        text.family("tzdata_info", MetricKind::Gauge, "1, with the version of the time-zone tables in use", zones);
    }

    fn write(&self, text: &mut MetricsPage, now: Timestamp) {
        let store = self.store;
        for (name, kind, help, number) in [
            ("cached_runs", MetricKind::Gauge, "Runs in the cache", self.cached_runs as u64),
            ("cached_bytes", MetricKind::Gauge, "Size of the runs in the cache", self.cached_bytes as u64),
            ("wakes_scheduled", MetricKind::Gauge, "Runs whose next wake is known in memory", self.agenda as u64),
            ("watched_runs", MetricKind::Gauge, "Runs with waiting callers", self.watched_runs as u64),
            (
                "queries_waiting",
                MetricKind::Gauge,
                "Callers waiting for an answer or a change",
                self.query_callers as u64,
            ),
            ("updates_waiting", MetricKind::Gauge, "Updates waiting for a decider", self.updates as u64),
            ("activity_outputs", MetricKind::Gauge, "Activities whose output is kept", self.outputs.0 as u64),
            ("activity_output_bytes", MetricKind::Gauge, "Memory for the output of activities", self.outputs.1 as u64),
            (
                "activity_output_chunks_dropped",
                MetricKind::Counter,
                "Chunks of output that were dropped early to make room",
                self.outputs.2,
            ),
            ("store_commits", MetricKind::Counter, "Commits of the store", store.commits),
            ("store_syncs", MetricKind::Counter, "Syncs of the store", store.syncs),
            ("store_bytes_written", MetricKind::Counter, "Bytes written to the store", store.bytes_written),
            ("store_bytes_on_disk", MetricKind::Gauge, "Size of the store on disk", store.bytes_on_disk),
            (
                "store_opens_deferred",
                MetricKind::Counter,
                "Files that could not be opened because descriptors or memory were short",
                store.opens_put_off,
            ),
            ("store_write_units", MetricKind::Counter, "Write units billed by DynamoDB", store.write_units),
            ("store_read_units", MetricKind::Counter, "Read units billed by DynamoDB", store.read_units),
        ] {
            text.family(name, kind, help, [(PageLabels::new(), number)]);
        }
        text.read_off.register_collector(Box::new(StoreSyncLatency(store.sync_latency)));
        self.write_clock(text);
        if let Some(DiskRoom { free, reserve, least }) = self.disk {
            for (name, help, number) in [
                ("disk_free_bytes", "Free bytes on the disk of the store", free),
                ("disk_reserve_bytes", "Bytes of the disk reserved for open runs; 0 for none", reserve),
                ("disk_minimum_bytes", "Free bytes that the store needs to write anything but deletions", least),
            ] {
                text.family(name, MetricKind::Gauge, help, [(PageLabels::new(), number)]);
            }
        }
        let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
        for version in self.node_versions.values() {
            *nodes.entry(version.as_deref().unwrap_or("unknown")).or_default() += 1;
        }
        let help = "Live nodes over the store, by version; absent if the store is not shared";
        let nodes = nodes.into_iter().map(|(version, count)| (vec![("version", version.into())], count));
        text.family("nodes", MetricKind::Gauge, help, nodes);
        let lists = &self.lists;
        let tasks = lists.iter().map(|list| (list.labels(), list.tasks as u64));
        text.family("tasks_waiting", MetricKind::Gauge, "Waiting tasks", tasks);
        let pollers = lists.iter().map(|list| (list.labels(), list.pollers as u64));
        text.family("pollers_waiting", MetricKind::Gauge, "Waiting polls", pollers);
        let age = |since: Option<Timestamp>| since.map_or(0, |since| now.since(since).as_millis() / 1_000);
        let oldest = lists.iter().map(|list| (list.labels(), age(list.oldest)));
        let help = "Age of the oldest waiting task; 0 if none waits";
        text.family("oldest_task_seconds", MetricKind::Gauge, help, oldest);
        self.write_limited(text);
        if let Some(runs) = &self.runs {
            runs.write(text);
        }
    }
}

impl Gauged {
    fn write(&self, text: &mut MetricsPage) {
        let words = std::iter::once(RunCondition::Open).chain(RunCondition::FLAGGED);
        for (index, standing) in words.enumerate() {
            let of = |(domain, gauges): (&String, &[u64; GAUGES])| {
                (vec![("domain", domain.as_str().into())], gauges.get(index).copied().unwrap_or_default())
            };
            let help = match standing {
                RunCondition::Open => "Open runs in any state",
                RunCondition::Paused => "Open runs that are paused",
                RunCondition::Blocked => "Open runs with a paused activity, if no earlier state applies",
                RunCondition::Stuck => "Open runs that nothing will wake, if no earlier state applies",
                RunCondition::Failing => "Open runs whose turns keep failing, if no earlier state applies",
                RunCondition::Retrying => {
                    "Open runs with an activity past its first attempt, if no earlier state applies"
                }
                RunCondition::Repeating => {
                    "Open runs with an activity scheduled again after it succeeded, if no earlier state applies"
                }
                RunCondition::Closed(_) => "Closed runs",
            };
            text.family(&format!("runs_{}", standing.word()), MetricKind::Gauge, help, self.by_domain.iter().map(of));
        }
        for (name, help, at) in [
            ("runs_counted_timestamp_seconds", "Time at which open runs were last counted", self.all_at),
            ("runs_flagged_counted_timestamp_seconds", "Time at which flagged runs were last counted", self.flagged_at),
        ] {
            text.family(name, MetricKind::Gauge, help, [(PageLabels::new(), at.as_millis() / 1_000)]);
        }
    }
}
