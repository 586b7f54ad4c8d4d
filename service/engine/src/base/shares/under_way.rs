//! Admitted requests under way: their waiting and their bytes are charged to the quotas that admitted them.

use std::sync::{Arc, Mutex, PoisonError};

use super::rate::{Debt, Rate};
use super::{LimitKind, Shares, Throttled, UsedShare, Watcher, Whose};

tokio::task_local! {
    /// The request of the current task.
    static UNDER_WAY: UnderWay;
}

/// Domain and credential of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asking<'a> {
    /// Name of the credential, if credentials are configured.
    pub credential: Option<&'a str>,
    /// Domain, if the request is for one.
    pub domain: Option<&'a str>,
    /// Whether the request is for a task that was handed out. Such a request is never throttled.
    pub is_of_task: bool,
}

impl Shares {
    /// Admits a request. Returns `None` if no limit applies to it.
    ///
    /// # Errors
    ///
    /// If a quota is exceeded, with the time to wait.
    pub fn admit(self: &Arc<Self>, asking: Asking<'_>) -> Result<Option<UnderWay>, Throttled> {
        if !self.has_limits() {
            return Ok(None);
        }
        let whose = [asking.credential.map(Whose::credential), asking.domain.map(Whose::domain)];
        let shares: Vec<Arc<UsedShare>> = whose.into_iter().flatten().filter_map(|whose| self.share(whose)).collect();
        for share in shares.iter().filter(|_| !asking.is_of_task) {
            if let Some(wait) = share.bytes.as_ref().and_then(Debt::unpaid) {
                return Err(self.throttled(share, LimitKind::Bytes, wait));
            }
            if let Some(wait) = share.requests.as_ref().and_then(Rate::refuses) {
                return Err(self.throttled(share, LimitKind::Requests, wait));
            }
        }
        Ok((!shares.is_empty()).then(|| UnderWay::new(self, shares)))
    }
}

/// An admitted request. All clones are of the same request.
#[derive(Debug, Clone)]
pub struct UnderWay(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Arc<Shares>,
    of: Vec<Arc<UsedShare>>,
    /// Filled when the request begins to wait.
    watchers: Mutex<Vec<Watcher>>,
}

impl UnderWay {
    pub(super) fn new(shares: &Arc<Shares>, of: Vec<Arc<UsedShare>>) -> Self {
        Self(Arc::new(Inner { shares: Arc::clone(shares), of, watchers: Mutex::default() }))
    }

    /// Runs a future as part of the request.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        UNDER_WAY.scope(self.clone(), work).await
    }

    /// Runs a function as part of the request.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        UNDER_WAY.sync_scope(self.clone(), work)
    }

    /// Whether a limit of bytes applies to the request.
    pub fn counts_bytes(&self) -> bool {
        self.0.of.iter().any(|share| share.bytes.is_some())
    }

    /// Adds transferred bytes.
    pub fn add_bytes(&self, bytes: u64) {
        for debt in self.0.of.iter().filter_map(|share| share.bytes.as_ref()) {
            Debt::add(debt, bytes);
        }
    }

    fn watch(&self) -> Result<(), Throttled> {
        let mut watchers = self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.is_empty() {
            *watchers = self.0.of.iter().map(|share| self.0.shares.watcher(share)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

/// Counts the current request as waiting until it ends.
///
/// # Errors
///
/// If the maximum number of requests is already waiting.
pub fn watch() -> Result<(), Throttled> {
    UNDER_WAY.try_with(UnderWay::watch).unwrap_or(Ok(()))
}
