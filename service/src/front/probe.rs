//! Health check of the store, performed at a limited rate.

use std::sync::Arc;
use std::time::Duration;

use store::{HeadKey, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time for which a result is reused. Our choice: readiness may be checked at any rate, but reads of DynamoDB are
/// billed.
const HOLDS: Duration = Duration::from_secs(5);

/// Timeout of the check. Our choice: half of Kubernetes's default timeout for a readiness probe, which is one second
/// (`timeoutSeconds`).
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Key that the check reads. It never exists, because a domain without a name is reserved for the service.
const NOTHING: (&str, &str) = ("", "probe");

/// Health check of the store.
pub(crate) struct StoreProbe {
    store: Arc<dyn Store>,
    /// Time and result of the last check. The lock is held during a check, so that callers wait for the result of a
    /// check in progress.
    asked: Mutex<Option<(Instant, Option<String>)>>,
}

impl StoreProbe {
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, asked: Mutex::default() }
    }

    /// Returns the error of the store; `None` if the store responds.
    pub(crate) async fn trouble(&self) -> Option<String> {
        let mut asked = self.asked.lock().await;
        if let Some((at, trouble)) = &*asked
            && at.elapsed() < HOLDS
        {
            return trouble.clone();
        }
        let key = HeadKey::new(NOTHING.0, NOTHING.1);
        let trouble = match tokio::time::timeout(ANSWERS_WITHIN, self.store.load(&key)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it has not responded within {} ms", ANSWERS_WITHIN.as_millis())),
        };
        *asked = Some((Instant::now(), trouble.clone()));
        trouble
    }
}

#[cfg(test)]
mod tests {
    use store::fault::{Chances, FaultStore};
    use store::memory::Memory;

    use super::*;

    fn probe(chances: Chances) -> (Arc<FaultStore<Memory>>, StoreProbe) {
        let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 1, chances));
        (Arc::clone(&store), StoreProbe::of(store))
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_store_is_reported_and_checked_again_later() {
        let (store, refusing) = probe(Chances { not_applied: 1_000, ..Chances::NONE });
        assert!(refusing.trouble().await.is_some());
        store.set_on(false);
        tokio::time::advance(Duration::from_millis(4_999)).await;
        assert!(refusing.trouble().await.is_some(), "as it was");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(refusing.trouble().await, None);

        let (_, silent) = probe(Chances { delay: 1_000, delay_max: Duration::from_secs(3_600), ..Chances::NONE });
        let began = Instant::now();
        let trouble = silent.trouble().await.unwrap();
        assert!(trouble.contains("within 500 ms") && began.elapsed() < ANSWERS_WITHIN * 2, "{trouble}");
    }
}
