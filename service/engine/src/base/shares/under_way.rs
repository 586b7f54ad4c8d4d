//! A request that was admitted, as long as it is under way: what it waits for and what it transfers goes on its shares.

use std::sync::{Arc, Mutex, PoisonError};

use super::rate::{Debt, Rate};
use super::{LimitKind, Shares, Throttled, UsedShare, Watcher, Whose};

tokio::task_local! {
    /// The request that this task works on.
    static UNDER_WAY: UnderWay;
}

/// Whose request it is, and of what domain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asking<'a> {
    /// The name of the credential, where there are any.
    pub credential: Option<&'a str>,
    /// The domain, where the request is about one.
    pub domain: Option<&'a str>,
    /// Whether it names a task that was handed out. Such a request is never put off.
    pub is_of_task: bool,
}

impl Shares {
    /// Admits a request; nothing where no limit is on it.
    ///
    /// # Errors
    ///
    /// Where a share that it goes on is used up, with when to ask again.
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

/// See the module. All clones are of one request.
#[derive(Debug, Clone)]
pub struct UnderWay(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Arc<Shares>,
    of: Vec<Arc<UsedShare>>,
    /// Once it has begun to wait.
    watchers: Mutex<Vec<Watcher>>,
}

impl UnderWay {
    pub(super) fn new(shares: &Arc<Shares>, of: Vec<Arc<UsedShare>>) -> Self {
        Self(Arc::new(Inner { shares: Arc::clone(shares), of, watchers: Mutex::default() }))
    }

    /// Does this as part of the request.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        UNDER_WAY.scope(self.clone(), work).await
    }

    /// The same, for what does not wait by itself.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        UNDER_WAY.sync_scope(self.clone(), work)
    }

    /// Whether somebody wants to know of its bytes.
    pub fn counts_bytes(&self) -> bool {
        self.0.of.iter().any(|share| share.bytes.is_some())
    }

    /// Adds bytes that came or went.
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

/// Says that the request that this is done for is about to wait for something. It counts as one that does until it is over.
///
/// # Errors
///
/// Where as many wait as may.
pub fn watch() -> Result<(), Throttled> {
    UNDER_WAY.try_with(UnderWay::watch).unwrap_or(Ok(()))
}
