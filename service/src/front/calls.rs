//! Metrics of the durations of REST and SWF calls.

use std::time::Duration;

use axum::http::StatusCode;
use engine::{BRIEF, LabelValue, MetricsPage};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type ByCall = Family<[(&'static str, LabelValue); 2], Histogram, fn() -> Histogram>;

/// Durations of calls. Each call has up to three series, one for each kind of outcome.
#[derive(Debug)]
pub(crate) struct CallTimes {
    registry: Registry,
    took: ByCall,
}

impl Default for CallTimes {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("baton");
        let constructor: fn() -> Histogram = || Histogram::new(BRIEF);
        let took = Family::new_with_constructor(constructor);
        let help = "Duration of calls until the start of the response, by call and status";
        registry.register("http_request_seconds", help, took.clone());
        Self { registry, took }
    }
}

impl CallTimes {
    pub(crate) fn note(&self, call: &str, status: StatusCode, long: Duration) {
        let class = match status.as_u16() {
            500.. => "5xx",
            400.. => "4xx",
            _ => "2xx",
        };
        let labels = [("call", call.into()), ("status", class.into())];
        self.took.get_or_create(&labels).observe(long.as_secs_f64());
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        page.add(&self.registry);
    }

    /// Records a sample, so that the name of the metric is on the page when a test looks for it.
    #[cfg(test)]
    pub(super) fn sample(&self) {
        self.note("GET /healthz", StatusCode::OK, Duration::ZERO);
    }
}
