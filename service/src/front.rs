//! What the ways in stand on: the engine, and beside it what this process may take, whose turn it is, and how its files stand.

pub(crate) mod calls;
mod metrics;
mod probe;
mod process;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::extract::FromRef;
use engine::Engine;
use store_embedded::archive::ShipStanding;

use crate::audit::AuditCounts;
use crate::budget::{BYTES_IN_FLIGHT_MAX, Budget};
use crate::fair::Places;
use crate::front::calls::CallTimes;
use crate::front::probe::StoreProbe;
use crate::otlp::SpanCounts;
use crate::reload::Reloads;
use crate::tls::TlsStanding;

/// What an operator may set of it.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// The most bytes of requests and answers in flight.
    pub bytes_in_flight_max: usize,
    /// How many requests are worked on at once; as the processors are when `None`.
    pub requests_at_once: Option<usize>,
}

impl Default for FrontSettings {
    fn default() -> Self {
        Self { bytes_in_flight_max: BYTES_IN_FLIGHT_MAX, requests_at_once: None }
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<FrontParts>);

struct FrontParts {
    engine: Arc<Engine>,
    budget: Arc<Budget>,
    places: Arc<Places>,
    reloads: Arc<Reloads>,
    calls: CallTimes,
    probe: StoreProbe,
    /// Of the listener, where it has TLS.
    tls: OnceLock<Arc<TlsStanding>>,
    /// Of the audit log, where there is one.
    audit: OnceLock<Arc<AuditCounts>>,
    /// How the store is shipped, where it is.
    shipping: OnceLock<ShipTeller>,
    /// Of spans, where they go somewhere.
    spans: OnceLock<Arc<SpanCounts>>,
    /// Domains that the configuration names and that do not exist.
    unknown_domains: Mutex<BTreeSet<String>>,
}

/// Tells how a store is shipped; nothing where it is not.
type ShipTeller = Box<dyn Fn() -> Option<ShipStanding> + Send + Sync>;

impl Front {
    /// The front of this engine.
    pub fn of(engine: Arc<Engine>, settings: &FrontSettings) -> Self {
        let probe = StoreProbe::of(Arc::clone(engine.store()));
        Self(Arc::new(FrontParts {
            engine,
            budget: Budget::new(settings.bytes_in_flight_max),
            places: Places::new(settings.requests_at_once),
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

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// What requests and answers may take of this process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }

    /// Where requests are worked on, one domain in turn with another.
    pub fn places(&self) -> &Arc<Places> {
        &self.0.places
    }

    /// What came of files that were read again.
    pub fn reloads(&self) -> &Arc<Reloads> {
        &self.0.reloads
    }

    /// What is wrong with the store; `None` where it answers. It is asked every few seconds at most.
    pub(crate) async fn store_trouble(&self) -> Option<String> {
        self.0.probe.trouble().await
    }

    /// How long calls take.
    pub(crate) fn call_times(&self) -> &CallTimes {
        &self.0.calls
    }

    /// Has the metrics tell how TLS stands.
    pub fn tells_of_tls(&self, standing: &Arc<TlsStanding>) {
        drop(self.0.tls.set(Arc::clone(standing)));
    }

    /// Whether the listener has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.0.tls.get().is_some()
    }

    /// Has the metrics tell of the audit log.
    pub fn tells_of_audit_log(&self, counts: &Arc<AuditCounts>) {
        drop(self.0.audit.set(Arc::clone(counts)));
    }

    /// Has the metrics, and whoever asks how the service is, tell how the store is shipped, where it is.
    pub fn tells_of_shipping(&self, tell: impl Fn() -> Option<ShipStanding> + Send + Sync + 'static) {
        drop(self.0.shipping.set(Box::new(tell)));
    }

    /// How the store is shipped, where it is.
    pub(crate) fn ship_standing(&self) -> Option<ShipStanding> {
        self.0.shipping.get().and_then(|tell| tell())
    }

    /// Has the metrics tell what becomes of spans.
    pub fn tells_of_spans(&self, counts: &Arc<SpanCounts>) {
        drop(self.0.spans.set(Arc::clone(counts)));
    }

    /// Has the metrics name these domains, which the configuration names and which do not exist.
    pub fn note_unknown_domains(&self, domains: BTreeSet<String>) {
        *self.0.unknown_domains.lock().unwrap_or_else(PoisonError::into_inner) = domains;
    }

    /// Returns the domains that the configuration names and that do not exist.
    pub fn unknown_domains(&self) -> BTreeSet<String> {
        self.0.unknown_domains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that is measured, as Prometheus text. Takes some milliseconds of a processor where there are many lists.
    pub fn render_metrics(&self) -> String {
        let mut page = self.engine().metrics_page();
        self.write(&mut page);
        page.end()
    }
}

/// Most calls need the engine alone.
impl FromRef<Front> for Arc<Engine> {
    fn from_ref(front: &Front) -> Self {
        Arc::clone(front.engine())
    }
}

impl From<Arc<Engine>> for Front {
    /// With what is set where nobody says otherwise.
    fn from(engine: Arc<Engine>) -> Self {
        Self::of(engine, &FrontSettings::default())
    }
}
