//! Time that goes on when it is told to. Every node sees it a little differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use engine::Clock;
use history::{Duration, Timestamp};
use tokio::sync::Notify;

/// Time itself.
pub(crate) struct Time {
    now: AtomicU64,
    moved: Notify,
}

impl Time {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicU64::new(1_700_000_000_000), moved: Notify::new() })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_millis(), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

/// The most that a node is ahead of time.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(2);

/// What one node takes for the time: ahead by a fixed span.
pub(crate) struct NodeClock {
    pub(crate) time: Arc<Time>,
    pub(crate) ahead: Duration,
}

#[async_trait]
impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.time.now().plus(self.ahead)
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let moved = self.time.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.now() >= at {
                return;
            }
            moved.await;
        }
    }
}
