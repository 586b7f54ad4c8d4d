//! A store with slow commits, so that a test can act at each instant of a commit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::{Cas, Error, Store};

use crate::intercepted::{Commit, Intercepted, Interceptor};

/// A store with delayed commits. Each commit waits for the latency before it is written, and again before its outcome
/// is returned.
pub struct Latent {
    store: Arc<dyn Store>,
    latency: Duration,
}

impl Latent {
    /// Creates such a store over another store.
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
