//! Metrics of the HTTP endpoints and the process, in addition to those of the engine.

use engine::{MetricKind, MetricsPage, PageLabels};
use history::Timestamp;
use store_archive::ShippingStatus;

use super::{Front, process};
use crate::audit::AuditCounts;
use crate::budget::Budget;
use crate::fair::Waited;
use crate::otlp::SpanCounts;
use crate::reload::Reloads;
use crate::tls::TlsStatus;

impl Front {
    pub(super) fn write(&self, page: &mut MetricsPage) {
        self.call_times().write(page);
        process::write(page);
        self.budget().write(page);
        self.places().waits().write(page);
        self.reloads().write(page);
        let help = "1 for each domain that the configuration names but that does not exist";
        let unknown =
            self.unknown_domains().into_iter().map(|domain| (vec![("domain", domain.as_str().into())], 1_u64));
        page.family("unknown_domains", MetricKind::Gauge, help, unknown);
        if let Some(tls) = self.0.tls.get() {
            tls.write(page, self.engine().clock().now());
        }
        if let Some(audit) = self.0.audit.get() {
            audit.write(page);
        }
        if let Some(ship) = self.shipping_status() {
            write_shipping(page, &ship);
        }
        if let Some(spans) = self.0.spans.get() {
            spans.write(page);
        }
    }
}

fn write_shipping(page: &mut MetricsPage, ship: &ShippingStatus) {
    let help = "Age of the oldest commit that is not in the archive; 0 if there is none";
    page.family("ship_lag_seconds", MetricKind::Gauge, help, [(PageLabels::new(), ship.lag.as_secs_f64())]);
    let help = "1 while the archive cannot be written";
    page.family("ship_failing", MetricKind::Gauge, help, [(PageLabels::new(), u64::from(ship.error.is_some()))]);
}

impl Budget {
    fn write(&self, page: &mut MetricsPage) {
        let help = "Bytes of requests and responses in memory";
        page.family("bytes_in_flight", MetricKind::Gauge, help, [(PageLabels::new(), self.taken())]);
        let help = "Requests refused because too many bytes were in flight";
        page.family("requests_overloaded", MetricKind::Counter, help, [(PageLabels::new(), self.put_off())]);
    }
}

impl Waited {
    fn write(&self, page: &mut MetricsPage) {
        for (name, kind, help, number) in [
            ("requests_queued", MetricKind::Gauge, "Requests waiting for a processor slot", self.now as u64),
            ("request_queue_waits", MetricKind::Counter, "Requests that waited for a processor slot", self.times),
            ("request_queue_refusals", MetricKind::Counter, "Requests refused because too many waited", self.refused),
        ] {
            page.family(name, kind, help, [(PageLabels::new(), number)]);
        }
        let help = "Total time that requests waited for a processor slot";
        page.family(
            "request_queue_wait_seconds",
            MetricKind::Counter,
            help,
            [(PageLabels::new(), self.long.as_secs_f64())],
        );
    }
}

impl Reloads {
    fn write(&self, page: &mut MetricsPage) {
        let all = self.all();
        let reloads = all.iter().flat_map(|(what, tally)| {
            let of = |outcome: &str| vec![("file", (*what).into()), ("outcome", outcome.into())];
            [(of("applied"), tally.taken), (of("rejected"), tally.refused)]
        });
        page.family("reloads", MetricKind::Counter, "Reloads of files, by outcome", reloads);
        let refused = all.iter().map(|(what, tally)| (vec![("file", (*what).into())], u64::from(tally.is_refused)));
        let help = "1 while a rejected file is present and its earlier content is in force";
        page.family("reload_failing", MetricKind::Gauge, help, refused);
    }
}

impl TlsStatus {
    fn write(&self, page: &mut MetricsPage, now: Timestamp) {
        let left = self.until().since(now).as_millis() / 1_000;
        for (name, kind, help, number) in [
            ("tls_certificate_remaining_seconds", MetricKind::Gauge, "Remaining validity of the certificate", left),
            ("tls_handshakes_failed", MetricKind::Counter, "Failed TLS handshakes", self.handshakes_failed()),
        ] {
            page.family(name, kind, help, [(PageLabels::new(), number)]);
        }
    }
}

impl AuditCounts {
    fn write(&self, page: &mut MetricsPage) {
        for (name, help, number) in [
            ("audit_log_entries", "Written entries of the audit log", self.entries()),
            ("audit_log_failures", "Requests refused because the audit log could not be written", self.failures()),
            ("audit_log_syncs", "Syncs of the audit log", self.syncs()),
        ] {
            page.family(name, MetricKind::Counter, help, [(PageLabels::new(), number)]);
        }
    }
}

impl SpanCounts {
    fn write(&self, page: &mut MetricsPage) {
        let help = "Spans waiting for the collector or being sent to it";
        page.family("spans_waiting", MetricKind::Gauge, help, [(PageLabels::new(), self.waiting() as u64)]);
        let help = "Spans accepted by the collector";
        page.family("spans_exported", MetricKind::Counter, help, [(PageLabels::new(), self.all_exported())]);
        let help = "Dropped spans, by reason";
        let dropped = self.dropped_by_why().map(|(why, count)| (vec![("reason", why.into())], count));
        page.family("spans_dropped", MetricKind::Counter, help, dropped);
    }
}

#[cfg(test)]
mod tests;
