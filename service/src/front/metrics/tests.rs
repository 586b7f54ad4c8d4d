//! Checks that the metrics match the documents, the dashboard and the alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Engine, Metrics, Settings, SystemClock};
use store::memory::Memory;

use super::*;
use crate::following::StandbyView;

const METRICS: &str = include_str!("../../../../docs/metrics.md");
const RUNBOOKS: &str = include_str!("../../../../docs/alerts.md");
const ALERTS: &str = include_str!("../../../../docs/operating/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../../docs/operating/dashboard.json");

/// Returns all metrics by the names that the documents use, with kind and labels.
async fn metrics() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let engine = Engine::open(Arc::new(Memory::new()), Arc::new(SystemClock), Settings::default()).await.unwrap();
    let front = Front::from(engine);
    front.reloads().expect("credentials");
    front.set_unknown_domains(BTreeSet::from(["shopp".to_owned()]));
    front.call_times().sample();
    front.set_tls(&Arc::new(TlsStatus::of(Timestamp::from_millis(1))));
    front.set_audit_log(&Arc::default());
    front.set_shipping(|| {
        let lag = std::time::Duration::from_millis(1_500);
        ShippingStatus { lag, shipped: 1, error: None }
    });
    front.set_spans(&Arc::default());
    let mut page = Metrics::sample();
    front.write(&mut page);
    let standby = StandbyView::default();
    standby.followed(std::time::Duration::ZERO);
    standby.write(&mut page);
    let text = page.end();
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let metric = |(name, kind): (&str, &str)| {
        let (documented, written) = match kind {
            "counter" => (format!("{name}_total"), format!("{name}_total")),
            "gauge" => (name.to_owned(), name.to_owned()),
            "histogram" => (name.to_owned(), format!("{name}_bucket")),
            kind => panic!("{name} is a {kind}"),
        };
        assert!(kind == "counter" || !name.ends_with("_total"), "{name}");
        let is_of_it = |line: &&&str| line.split(['{', ' ']).next() == Some(&*written);
        let sample = samples.iter().find(is_of_it).unwrap_or_else(|| panic!("{name} has no number"));
        let labels = sample.split_once('{').map_or("", |(_, rest)| rest.split_once('}').unwrap().0);
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        (documented, (kind.to_owned(), labels.filter(|label| label != "le").collect()))
    };
    families.map(metric).collect()
}

/// Names in the documents that look like names of metrics but are names of crates.
const CRATES: [&str; 4] = ["baton_client", "baton_decider_kit", "baton_engine", "baton_runner_kit"];

/// Returns all pages of `docs` by path.
fn pages() -> BTreeMap<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Returns the words in a text that look like names of metrics.
fn named(text: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_of_name(c));
    let ours = words.filter(|word| word.starts_with("baton_") || word.starts_with("process_"));
    ours.filter(|word| !CRATES.contains(word)).map(str::to_owned).collect()
}

/// Returns whether this is the name of one of these metrics. A histogram is exported under three names, which also
/// count.
fn is_metric(metrics: &BTreeMap<String, (String, BTreeSet<String>)>, name: &str) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    let is_histogram = |name: &str| metrics.get(name).is_some_and(|(kind, _)| kind == "histogram");
    of_histogram.is_some_and(is_histogram) || metrics.contains_key(name)
}

#[tokio::test]
async fn the_docs_list_exactly_the_metrics_with_their_labels() {
    let (_, table) = METRICS.split_once("| metric |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let first = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
    let documented = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(|name| {
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        (name.to_owned(), labels.map(str::to_owned).collect())
    });
    let documented: BTreeMap<String, BTreeSet<String>> = documented.collect();
    let found: BTreeMap<_, _> = metrics().await.into_iter().map(|(name, (_, labels))| (name, labels)).collect();
    assert_eq!(documented, found);
}

#[tokio::test]
async fn pages_alerts_and_panels_name_only_existing_metrics() {
    let metrics = metrics().await;
    let pages = pages();
    assert!(pages.len() > 30, "the pages are found");
    let pages = pages.values().map(String::as_str);
    let rules = [ALERTS, DASHBOARD, include_str!("../../../../docs/operating/alerts.test.yaml")];
    for page in pages.chain(rules) {
        for name in named(page) {
            assert!(is_metric(&metrics, &name), "{name}");
        }
    }
    assert!(named(DASHBOARD).len() > 20 && named(ALERTS).len() > 10);
    assert!(!is_metric(&metrics, "baton_commits_total_bucket") && !is_metric(&metrics, "baton_turn_seconds_total"));
}

#[test]
fn alerts_and_runbooks_match_and_each_alert_has_a_test() {
    let alerts: BTreeSet<&str> = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let (_, runbooks) = RUNBOOKS.split_once("\n## Runbooks\n").unwrap();
    let headings: BTreeSet<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(alerts, headings);
    assert!(alerts.len() > 10);
    for alert in &alerts {
        let link = format!("alerts.md#{}", alert.to_lowercase());
        assert_eq!(ALERTS.matches(&link).count(), 1, "{alert}");
    }
    let tested = include_str!("../../../../docs/operating/alerts.test.yaml");
    // In the tests of the alerts, a link to the runbook of an alert means that the test expects this alert to fire.
    let rings = |alert: &&&str| tested.contains(&format!("'docs/alerts.md#{}'", alert.to_lowercase()));
    let asked: BTreeSet<&str> = tested.lines().filter_map(|line| line.trim().strip_prefix("alertname: ")).collect();
    assert_eq!(asked, alerts);
    assert_eq!(alerts.iter().find(|alert| !rings(alert)), None, "a case in which it rings");
}

#[test]
fn the_dashboard_is_json_and_each_panel_has_a_query() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| target["expr"].as_str().is_some_and(|expr| !expr.is_empty())), "{panel}");
    }
    assert!(panels.len() > 15);
    for name in ["baton_ship_lag_seconds", "baton_ship_failing", "baton_standby_lag_seconds", "baton_standby_failing"] {
        assert!(named(DASHBOARD).contains(name), "{name}");
    }
}
