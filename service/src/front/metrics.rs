//! Metrics that the front adds to those of the engine.

use engine::{MetricKind, MetricsPage, PageLabels};
use history::Timestamp;
use store_archive::ShipStanding;

use super::{Front, process};
use crate::audit::AuditCounts;
use crate::budget::Budget;
use crate::fair::Waited;
use crate::otlp::SpanCounts;
use crate::reload::Reloads;
use crate::tls::TlsStanding;

impl Front {
    pub(super) fn write(&self, page: &mut MetricsPage) {
        self.call_times().write(page);
        process::write(page);
        self.budget().write(page);
        self.places().waits().write(page);
        self.reloads().write(page);
        let help = "1 for each domain that the configuration names and that does not exist";
        let unknown =
            self.unknown_domains().into_iter().map(|domain| (vec![("domain", domain.as_str().into())], 1_u64));
        page.family("unknown_domains", MetricKind::Gauge, help, unknown);
        if let Some(tls) = self.0.tls.get() {
            tls.write(page, self.engine().clock().now());
        }
        if let Some(audit) = self.0.audit.get() {
            audit.write(page);
        }
        if let Some(ship) = self.ship_standing() {
            write_shipping(page, &ship);
        }
        if let Some(spans) = self.0.spans.get() {
            spans.write(page);
        }
    }
}

fn write_shipping(page: &mut MetricsPage, ship: &ShipStanding) {
    let help = "How long the oldest commit has waited that is not in the archive, 0 where none waits";
    page.family("ship_lag_seconds", MetricKind::Gauge, help, [(PageLabels::new(), ship.lag.as_secs_f64())]);
    let help = "1 while the archive cannot be written";
    page.family("ship_failing", MetricKind::Gauge, help, [(PageLabels::new(), u64::from(ship.error.is_some()))]);
}

impl Budget {
    fn write(&self, page: &mut MetricsPage) {
        let help = "Bytes of requests and answers in memory";
        page.family("bytes_in_flight", MetricKind::Gauge, help, [(PageLabels::new(), self.taken())]);
        let help = "Requests that were put off as too many bytes were in flight";
        page.family("requests_overloaded", MetricKind::Counter, help, [(PageLabels::new(), self.put_off())]);
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
            page.family(name, kind, help, [(PageLabels::new(), number)]);
        }
        let help = "How long requests waited for places to be worked on";
        page.family("place_wait_seconds", MetricKind::Counter, help, [(PageLabels::new(), self.long.as_secs_f64())]);
    }
}

impl Reloads {
    fn write(&self, page: &mut MetricsPage) {
        let all = self.all();
        let reloads = all.iter().flat_map(|(what, tally)| {
            let of = |outcome: &str| vec![("what", (*what).into()), ("outcome", outcome.into())];
            [(of("taken"), tally.taken), (of("refused"), tally.refused)]
        });
        page.family("reloads", MetricKind::Counter, "Files that were read again, by what came of it", reloads);
        let refused = all.iter().map(|(what, tally)| (vec![("what", (*what).into())], u64::from(tally.is_refused)));
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
            page.family(name, kind, help, [(PageLabels::new(), number)]);
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
            page.family(name, MetricKind::Counter, help, [(PageLabels::new(), number)]);
        }
    }
}

impl SpanCounts {
    fn write(&self, page: &mut MetricsPage) {
        let help = "Spans that wait to be sent to the collector, or are on their way";
        page.family("spans_waiting", MetricKind::Gauge, help, [(PageLabels::new(), self.waiting() as u64)]);
        let help = "Spans that the collector has taken";
        page.family("spans_exported", MetricKind::Counter, help, [(PageLabels::new(), self.all_exported())]);
        let help = "Spans that nobody will see, by why";
        let dropped = self.dropped_by_why().map(|(why, count)| (vec![("why", why.into())], count));
        page.family("spans_dropped", MetricKind::Counter, help, dropped);
    }
}

#[cfg(test)]
mod tests;
