//! Admitted requests in progress. Their waiting time and bytes are charged to the quotas that were checked on
//! admission.

use std::sync::{Arc, Mutex, PoisonError};

use crate::base::admission::quotas::{QuotaUse, Quotas, Watcher};
use crate::base::admission::rate::{Debt, Rate};
use crate::base::admission::throttled::{LimitKind, QuotaHolder, Throttled};

tokio::task_local! {
    /// The request that the current tokio task is handling.
    static ADMITTED: ChargedRequest;
}

/// Domain and credential of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestOrigin<'a> {
    /// Name of the credential, if credentials are configured.
    pub credential: Option<&'a str>,
    /// Domain; `None` if the request concerns no domain.
    pub domain: Option<&'a str>,
    /// True if the request is about a task that was already handed out. Such a request is never throttled.
    pub is_of_task: bool,
}

impl Quotas {
    /// Admits a request. Returns `None` if no limit applies to it.
    ///
    /// # Errors
    ///
    /// If a quota is exceeded, with the time to wait.
    pub fn admit(self: &Arc<Self>, asking: RequestOrigin<'_>) -> Result<Option<ChargedRequest>, Throttled> {
        if !self.has_limits() {
            return Ok(None);
        }
        let whose = [asking.credential.map(QuotaHolder::credential), asking.domain.map(QuotaHolder::domain)];
        let uses: Vec<Arc<QuotaUse>> = whose.into_iter().flatten().filter_map(|whose| self.use_of(whose)).collect();
        for used in uses.iter().filter(|_| !asking.is_of_task) {
            if let Some(wait) = used.bytes.as_ref().and_then(Debt::unpaid) {
                return Err(self.throttled(used, LimitKind::Bytes, wait));
            }
            if let Some(wait) = used.requests.as_ref().and_then(Rate::refuses) {
                return Err(self.throttled(used, LimitKind::Requests, wait));
            }
        }
        Ok((!uses.is_empty()).then(|| ChargedRequest::new(self, uses)))
    }
}

/// An admitted request. All clones refer to the same request.
#[derive(Debug, Clone)]
pub struct ChargedRequest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    quotas: Arc<Quotas>,
    of: Vec<Arc<QuotaUse>>,
    /// Counts the request as waiting, once in each quota. Empty until the request begins to wait.
    watchers: Mutex<Vec<Watcher>>,
}

impl ChargedRequest {
    pub(super) fn new(quotas: &Arc<Quotas>, of: Vec<Arc<QuotaUse>>) -> Self {
        Self(Arc::new(Inner { quotas: Arc::clone(quotas), of, watchers: Mutex::default() }))
    }

    /// Runs a future during which this request is the current request.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        ADMITTED.scope(self.clone(), work).await
    }

    /// Runs a function during which this request is the current request.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        ADMITTED.sync_scope(self.clone(), work)
    }

    /// Returns true if a bandwidth limit applies to the request.
    pub fn counts_bytes(&self) -> bool {
        self.0.of.iter().any(|used| used.bytes.is_some())
    }

    /// Charges transferred bytes to the bandwidth limits.
    pub fn add_bytes(&self, bytes: u64) {
        for debt in self.0.of.iter().filter_map(|used| used.bytes.as_ref()) {
            Debt::add(debt, bytes);
        }
    }

    fn count_waiting(&self) -> Result<(), Throttled> {
        let mut watchers = self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.is_empty() {
            *watchers = self.0.of.iter().map(|used| self.0.quotas.watcher(used)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

/// Counts the current request as waiting until it ends.
///
/// # Errors
///
/// If the maximum number of waiting requests is reached.
pub fn count_waiting() -> Result<(), Throttled> {
    ADMITTED.try_with(ChargedRequest::count_waiting).unwrap_or(Ok(()))
}
