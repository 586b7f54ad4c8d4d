//! A clock that tests advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use engine::Clock;
use history::{Duration, Timestamp};
use tokio::sync::Notify;

/// Default start of the clock, in milliseconds since 1970: 2023-11-14T22:13:20Z.
pub const BEGIN: u64 = 1_700_000_000_000;

/// A clock that stands still until a test advances it. It begins at [`BEGIN`] by default.
pub struct ManualClock {
    now: AtomicU64,
    moved: Notify,
}

impl ManualClock {
    /// Creates a clock that begins at [`BEGIN`].
    pub fn new() -> Arc<Self> {
        Self::at(BEGIN)
    }

    /// Creates a clock that begins at this instant, in milliseconds since 1970.
    pub fn at(millis: u64) -> Arc<Self> {
        Arc::new(Self { now: AtomicU64::new(millis), moved: Notify::new() })
    }

    /// Advances the time, and wakes tasks whose sleep has ended.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_millis(), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // The waiter is registered before the time is read, so that it cannot miss an advance.
            moved.as_mut().enable();
            if self.now() >= at {
                return;
            }
            moved.await;
        }
    }
}
