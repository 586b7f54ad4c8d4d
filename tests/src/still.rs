//! Nodes whose clock stands still, for tests of single steps.

use std::sync::Arc;

use async_trait::async_trait;
use engine::{Clock, Engine, Settings};
use history::Timestamp;
use store::Store;

/// A clock that stands still: nothing becomes due.
struct Still;

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    async fn sleep_until(&self, _: Timestamp) {
        std::future::pending::<()>().await;
    }
}

/// Opens a node over a store, with a clock that stands still.
///
/// # Panics
///
/// If the store does not open.
pub async fn open(store: Arc<dyn Store>, seed: u64) -> Arc<Engine> {
    let settings = Settings { seed: Some(seed), ..Settings::default() };
    Engine::open(store, Arc::new(Still), settings).await.expect("a store that can be opened")
}
