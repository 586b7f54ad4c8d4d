//! A request that was admitted, as long as it is under way: what it waits for and what it transfers goes on its shares.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Debt, Shares, Throttled, UsedShare, Watcher};

tokio::task_local! {
    /// The request that this task works on.
    static UNDER_WAY: UnderWay;
}

/// See the module. All clones are of one request.
#[derive(Debug, Clone)]
pub(crate) struct UnderWay(Arc<Inner>);

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
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        UNDER_WAY.scope(self.clone(), work).await
    }

    /// The same, for what does not wait by itself.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        UNDER_WAY.sync_scope(self.clone(), work)
    }

    /// Whether somebody wants to know of its bytes.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.0.of.iter().any(|share| share.bytes.is_some())
    }

    /// Adds bytes that came or went.
    pub(crate) fn add_bytes(&self, bytes: u64) {
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
pub(crate) fn watch() -> Result<(), Throttled> {
    UNDER_WAY.try_with(UnderWay::watch).unwrap_or(Ok(()))
}
