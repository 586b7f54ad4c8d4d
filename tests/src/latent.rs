//! A store whose commits take time, so that a test can do something at each instant of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::{Cas, Error, Store};

use crate::intercepted::{Commit, Intercepted, Interceptor};

/// Commits take this long until they are in the store, and as long again until that is known.
pub struct Latent {
    store: Arc<dyn Store>,
    latency: Duration,
}

impl Latent {
    /// A store over another. A commit takes twice the `latency` and whatever the other takes.
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
