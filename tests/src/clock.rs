//! Simulated time that tests advance. The clocks of nodes differ from it by small offsets, or by large offsets in
//! worlds that set clocks.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use engine::Clock;
use history::{Duration, Timestamp};
use tokio::sync::Notify;

/// Start of simulated time, in milliseconds since 1970.
const BEGIN: u64 = 1_700_000_000_000;

/// Simulated time.
pub(crate) struct Time {
    now: AtomicU64,
    moved: Notify,
}

impl Time {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicU64::new(BEGIN), moved: Notify::new() })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_millis(), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

/// Maximum time by which a node's clock is normally ahead.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(2);

/// Maximum offset of a clock that is set, in either direction.
pub(crate) const CLOCK_SET_MAX: Duration = Duration::from_days(2);

/// Clock of one node: simulated time with an offset that can be set.
pub(crate) struct NodeClock {
    time: Arc<Time>,
    /// Offset from simulated time, in milliseconds.
    off: Arc<AtomicI64>,
}

impl NodeClock {
    pub(crate) fn new(time: Arc<Time>, ahead: Duration) -> Self {
        let off = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
        Self { time, off: Arc::new(AtomicI64::new(off)) }
    }
}

#[async_trait]
impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.now().as_millis().saturating_add_signed(self.off.load(Ordering::SeqCst)))
    }

    fn steady(&self) -> Option<std::time::Duration> {
        Some(self.time.now().since(Timestamp::from_millis(BEGIN)).into())
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

/// Clocks of all nodes that have ever existed. While faults are injected, each clock is set separately, ahead or back.
#[derive(Default)]
pub(crate) struct Clocks(Mutex<Vec<Arc<AtomicI64>>>);

impl Clocks {
    pub(crate) fn add(&self, clock: &NodeClock) {
        self.all().push(Arc::clone(&clock.off));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<AtomicI64>>> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Sets one of the clocks, chosen at random.
    pub(crate) fn set_one(&self, random: &mut fastrand::Rng) {
        let span = match random.u32(..5) {
            0 | 1 => 0,
            2 => 90_000,
            3 => 3_600_000,
            _ => i64::try_from(CLOCK_SET_MAX.as_millis()).unwrap_or(i64::MAX),
        };
        let off = random.i64(-span..=span);
        let off = if off < 0 { off } else { off + Self::small(random) };
        let all = self.all();
        if let Some(clock) = all.get(random.usize(..all.len().max(1))) {
            clock.store(off, Ordering::SeqCst);
        }
    }

    /// Corrects all clocks, to within the normal offset of nodes.
    pub(crate) fn set_right(&self, random: &mut fastrand::Rng) {
        for clock in self.all().iter() {
            clock.store(Self::small(random), Ordering::SeqCst);
        }
    }

    fn small(random: &mut fastrand::Rng) -> i64 {
        random.i64(0..i64::try_from(AHEAD_MAX.as_millis()).unwrap_or(i64::MAX))
    }
}
