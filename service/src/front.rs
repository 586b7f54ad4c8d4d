//! State shared by all HTTP endpoints: the engine, the memory budget, the concurrency slots of requests (`fair.rs`),
//! and the results of reloading files.

pub(crate) mod calls;
mod metrics;
mod probe;
mod process;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::extract::FromRef;
use engine::Engine;
use store_archive::ShippingStatus;

use crate::audit::AuditCounts;
use crate::budget::{BYTES_IN_FLIGHT_MAX, Budget};
use crate::fair::Places;
use crate::front::calls::CallTimes;
use crate::front::probe::StoreProbe;
use crate::otlp::SpanCounts;
use crate::reload::Reloads;
use crate::tls::TlsStatus;

/// Settings of [`Front`] that an operator can change.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// Maximum number of bytes of requests and responses in flight.
    pub bytes_in_flight_max: usize,
    /// Number of requests that are processed at once; if `None`, a number that depends on the processors.
    pub max_concurrent_requests: Option<usize>,
}

impl Default for FrontSettings {
    fn default() -> Self {
        Self { bytes_in_flight_max: BYTES_IN_FLIGHT_MAX, max_concurrent_requests: None }
    }
}

/// State shared by all endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<FrontParts>);

struct FrontParts {
    engine: Arc<Engine>,
    budget: Arc<Budget>,
    places: Arc<Places>,
    reloads: Arc<Reloads>,
    calls: CallTimes,
    probe: StoreProbe,
    /// TLS status of the listener; unset if it has no TLS.
    tls: OnceLock<Arc<TlsStatus>>,
    /// Counters of the audit log; unset if there is none.
    audit: OnceLock<Arc<AuditCounts>>,
    /// Status of shipping, which continuously copies the store to an archive; unset if the store is not shipped.
    shipping: OnceLock<ShippingStatusFn>,
    /// Counters of spans; unset if they are not exported.
    spans: OnceLock<Arc<SpanCounts>>,
    /// Domains that the configuration names but that do not exist.
    unknown_domains: Mutex<BTreeSet<String>>,
}

/// Function that returns the current status of shipping.
type ShippingStatusFn = Box<dyn Fn() -> ShippingStatus + Send + Sync>;

impl Front {
    /// Returns a front for this engine.
    pub fn of(engine: Arc<Engine>, settings: &FrontSettings) -> Self {
        let probe = StoreProbe::of(Arc::clone(engine.store()));
        Self(Arc::new(FrontParts {
            engine,
            budget: Budget::new(settings.bytes_in_flight_max),
            places: Places::new(settings.max_concurrent_requests),
            reloads: Arc::default(),
            calls: CallTimes::default(),
            probe,
            tls: OnceLock::new(),
            audit: OnceLock::new(),
            shipping: OnceLock::new(),
            spans: OnceLock::new(),
            unknown_domains: Mutex::default(),
        }))
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// Returns the memory budget of requests and responses.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }

    /// Returns the concurrency slots that requests need while they are processed. Under load, domains take turns in
    /// getting them.
    pub fn places(&self) -> &Arc<Places> {
        &self.0.places
    }

    /// Returns the results of reloading files.
    pub fn reloads(&self) -> &Arc<Reloads> {
        &self.0.reloads
    }

    /// Returns the error of the store; `None` if the store responds. Results are reused for a few seconds.
    pub(crate) async fn store_error(&self) -> Option<String> {
        self.0.probe.trouble().await
    }

    /// Returns the recorded durations of calls.
    pub(crate) fn call_times(&self) -> &CallTimes {
        &self.0.calls
    }

    /// Adds the TLS status to the metrics.
    pub fn set_tls(&self, standing: &Arc<TlsStatus>) {
        drop(self.0.tls.set(Arc::clone(standing)));
    }

    /// Returns whether the listener has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.0.tls.get().is_some()
    }

    /// Adds the audit log to the metrics.
    pub fn set_audit_log(&self, counts: &Arc<AuditCounts>) {
        drop(self.0.audit.set(Arc::clone(counts)));
    }

    /// Adds the status of shipping (see `--ship-to`) to the metrics and the readiness check.
    pub fn set_shipping(&self, tell: impl Fn() -> ShippingStatus + Send + Sync + 'static) {
        drop(self.0.shipping.set(Box::new(tell)));
    }

    /// Returns the status of shipping; `None` if the store is not shipped.
    pub(crate) fn shipping_status(&self) -> Option<ShippingStatus> {
        self.0.shipping.get().map(|tell| tell())
    }

    /// Adds the counters of spans to the metrics.
    pub fn set_spans(&self, counts: &Arc<SpanCounts>) {
        drop(self.0.spans.set(Arc::clone(counts)));
    }

    /// Adds these domains, which the configuration names but which do not exist, to the metrics.
    pub fn set_unknown_domains(&self, domains: BTreeSet<String>) {
        *self.0.unknown_domains.lock().unwrap_or_else(PoisonError::into_inner) = domains;
    }

    /// Returns the domains that the configuration names but that do not exist.
    pub fn unknown_domains(&self) -> BTreeSet<String> {
        self.0.unknown_domains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renders all metrics in Prometheus text format. With many task lists, this takes some milliseconds of processor
    /// time.
    pub fn render_metrics(&self) -> String {
        let mut page = self.engine().metrics_page();
        self.write(&mut page);
        page.end()
    }
}

/// Lets handlers extract the engine instead of the whole front.
impl FromRef<Front> for Arc<Engine> {
    fn from_ref(front: &Front) -> Self {
        Arc::clone(front.engine())
    }
}

impl From<Arc<Engine>> for Front {
    /// Returns a front with default settings.
    fn from(engine: Arc<Engine>) -> Self {
        Self::of(engine, &FrontSettings::default())
    }
}
