//! A store with slow commits, so that a test can act at each instant of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::{Cas, Error, Store};

use crate::intercepted::{Commit, Intercepted, Interceptor};

/// Time until a commit is in the store, and again until that is known.
pub struct Latent {
    store: Arc<dyn Store>,
    latency: Duration,
}

impl Latent {
    /// Creates a store over another. A commit takes twice the `latency` longer.
    pub fn over(store: Arc<dyn Store>, latency: Duration) -> Arc<dyn Store> {
        Arc::new(Intercepted(Self { store, latency }))
    }
}

#[async_trait]
impl Interceptor for Latent {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        tokio::time::sleep(self.latency).await;
        let outcome = self.store.commit(key, expect, head, parts).await;
        tokio::time::sleep(self.latency).await;
        outcome
    }
}
