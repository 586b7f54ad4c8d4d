//! What the front adds to the page of metrics.

use engine::{MetricKind, MetricsPage};
use history::Timestamp;

use super::Front;
use crate::audit::AuditCounts;
use crate::budget::Budget;
use crate::fair::Waited;
use crate::reload::Reloads;
use crate::tls::TlsStanding;

impl Front {
    pub(super) fn write(&self, page: &mut MetricsPage) {
        self.budget().write(page);
        self.places().waits().write(page);
        self.reloads().write(page);
        if let Some(tls) = self.0.tls.get() {
            tls.write(page, self.engine().clock().now());
        }
        if let Some(audit) = self.0.audit.get() {
            audit.write(page);
        }
    }
}

impl Budget {
    fn write(&self, page: &mut MetricsPage) {
        let help = "Bytes of requests and answers in memory";
        page.family("bytes_in_flight", MetricKind::Gauge, help, [(String::new(), self.taken())]);
        let help = "Requests that were put off as too many bytes were in flight";
        page.family("requests_overloaded", MetricKind::Counter, help, [(String::new(), self.put_off())]);
    }
}

impl Waited {
    fn write(&self, page: &mut MetricsPage) {
        for (name, kind, help, number) in [
            (
                "requests_waiting_for_place",
                MetricKind::Gauge,
                "Requests that wait for a place to be worked on",
                self.now as u64,
            ),
            ("place_waits", MetricKind::Counter, "Times that a request waited for one", self.times),
            ("place_refusals", MetricKind::Counter, "Requests that were put off as too many waited", self.refused),
        ] {
            page.family(name, kind, help, [(String::new(), number)]);
        }
        let help = "How long requests waited for places to be worked on";
        page.family("place_wait_seconds", MetricKind::Counter, help, [(String::new(), self.long.as_secs_f64())]);
    }
}

impl Reloads {
    fn write(&self, page: &mut MetricsPage) {
        let all = self.all();
        let reloads = all.iter().flat_map(|(what, tally)| {
            let of = |outcome| format!("what=\"{what}\",outcome=\"{outcome}\"");
            [(of("taken"), tally.taken), (of("refused"), tally.refused)]
        });
        page.family("reloads", MetricKind::Counter, "Files that were read again, by what came of it", reloads);
        let refused = all.iter().map(|(what, tally)| (format!("what=\"{what}\""), u64::from(tally.is_refused)));
        let help = "1 while what is in the file is refused and what was there before is in force";
        page.family("reload_refused", MetricKind::Gauge, help, refused);
    }
}

impl TlsStanding {
    fn write(&self, page: &mut MetricsPage, now: Timestamp) {
        let left = self.until().since(now).as_millis() / 1_000;
        for (name, kind, help, number) in [
            ("tls_certificate_left_seconds", MetricKind::Gauge, "Until the certificate of the listener expires", left),
            (
                "tls_handshakes_failed",
                MetricKind::Counter,
                "Connections that ended before they were encrypted",
                self.handshakes_failed(),
            ),
        ] {
            page.family(name, kind, help, [(String::new(), number)]);
        }
    }
}

impl AuditCounts {
    fn write(&self, page: &mut MetricsPage) {
        for (name, help, number) in [
            ("audit_log_entries", "Entries of the audit log that were written", self.entries()),
            ("audit_log_failures", "Requests that were refused as the audit log could not be written", self.failures()),
            ("audit_log_syncs", "Times that the disk was asked to keep the audit log", self.syncs()),
        ] {
            page.family(name, MetricKind::Counter, help, [(String::new(), number)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use engine::{Engine, Metrics, Settings, SystemClock};
    use store::memory::Memory;

    use super::*;

    /// Every metric there is.
    async fn names() -> BTreeSet<String> {
        let engine = Engine::open(Arc::new(Memory::new()), Arc::new(SystemClock), Settings::default()).await.unwrap();
        let front = Front::from(engine);
        front.reloads().expect("credentials");
        front.tells_of_tls(&Arc::new(TlsStanding::of(Timestamp::from_millis(1))));
        front.tells_of_audit_log(&Arc::default());
        let mut page = Metrics::sample();
        front.write(&mut page);
        let text = page.end();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| line.split(['{', ' ']).next());
        let families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        assert_eq!(families.len(), names.len(), "each has a number");
        for family in families {
            let (name, kind) = family.split_once(' ').unwrap();
            let written = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            assert!(names.contains(&written), "{family}: counters end in _total, and nothing else does");
            assert!(kind == "counter" || kind == "gauge" && !name.ends_with("_total"), "{family}");
        }
        names
    }

    #[tokio::test]
    async fn the_table_of_metrics_in_the_docs_has_all_and_no_others() {
        let page = include_str!("../../../docs/operating.md");
        let (_, table) = page.split_once("| metric |").unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        let first = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
        let documented: BTreeSet<String> = first
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .map(|name| name.split('{').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(documented, names().await);
    }

    #[tokio::test]
    async fn no_page_and_no_example_names_a_metric_that_is_not_there() {
        let names = names().await;
        for page in [
            include_str!("../../../docs/operating.md"),
            include_str!("../../../docs/dynamodb.md"),
            include_str!("../../../docs/performance.md"),
            include_str!("../../../docs/request-reply.md"),
            include_str!("../../../docs/schedules.md"),
            include_str!("../../../docs/rest.md"),
        ] {
            for found in page.split("baton_").skip(1) {
                let end = found.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(found.len());
                let name = format!("baton_{}", found.get(..end).unwrap_or_default());
                assert!(names.contains(&name), "{name}");
            }
        }
    }
}
