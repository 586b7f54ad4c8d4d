//! Clock and random numbers. All other modules of the service get the time and random ids from this module.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use history::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Source of time. Tests use other implementations.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed instant, independent of changes to the wall clock. Returns `None` if this clock
    /// cannot measure it.
    fn steady(&self) -> Option<Duration> {
        None
    }

    /// Waits until [`now`](Self::now) is at or after `at`. May return earlier, so callers must check the time again.
    async fn sleep_until(&self, at: Timestamp);
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn steady(&self) -> Option<Duration> {
        // This clock also advances while the machine is suspended. Otherwise, resuming would be mistaken for a jump of
        // the wall clock. Apple's monotonic clock advances during suspension, too.
        #[cfg(target_os = "linux")]
        const STEADY: ClockId = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const STEADY: ClockId = ClockId::Monotonic;
        let since = clock_gettime(STEADY);
        Some(Duration::new(u64::try_from(since.tv_sec).ok()?, u32::try_from(since.tv_nsec).ok()?))
    }

    async fn sleep_until(&self, at: Timestamp) {
        /// Maximum sleep before the wall clock is read again, because it may be set during the sleep. Our choice.
        const RECHECK_AFTER: Duration = Duration::from_secs(10);
        let wait = Duration::from(at.since(self.now()));
        tokio::time::sleep(wait.min(RECHECK_AFTER)).await;
    }
}

/// Generator of ids.
#[derive(Debug)]
pub(crate) struct Ids {
    random: Mutex<fastrand::Rng>,
}

impl Ids {
    /// Creates a generator of unpredictable ids. With a seed, it generates the same sequence of ids each time.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let random = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { random: Mutex::new(random) }
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock().expect("drawing a number does not panic"))
    }

    /// Generates a run id. It is a `UUIDv7`, so that run ids sort by the time of their start.
    pub(crate) fn run_id(&self, now: Timestamp) -> Uuid {
        let mut bytes = [0; 10];
        self.with(|random| random.fill(&mut bytes));
        uuid::Builder::from_unix_timestamp_millis(now.as_millis(), &bytes).into_uuid()
    }

    /// Generates an operation id.
    pub(crate) fn op(&self) -> u64 {
        self.with(|random| random.u64(..))
    }

    /// Returns a random duration of at most `longest`.
    pub(crate) fn up_to(&self, longest: Duration) -> Duration {
        longest.mul_f64(self.with(fastrand::Rng::f64))
    }
}

/// Maximum time by which the clock may be ahead of the newest known time. A clock that is further ahead is doubted. Our
/// choice: shorter than a usual retention period, and longer than the service is down for an update.
pub const CLOCK_AHEAD_MAX: history::Duration = history::Duration::from_days(1);

/// The newest time that the clock has shown while it was not doubted. Data that has expired by this time may be
/// deleted.
#[derive(Debug, Default)]
pub(crate) struct NewestTime(AtomicU64);

impl NewestTime {
    pub(crate) fn set(&self, newest: Timestamp) {
        self.0.store(newest.as_millis(), Ordering::Relaxed);
    }

    /// Returns the time until which a closed run must be kept if the clock was far behind the newest known time when
    /// the run closed; otherwise `None`. Without this correction, the run's retention period would end too early once
    /// the clock is right again.
    pub(crate) fn kept_until(&self, closed_at: Timestamp, retention: history::Duration) -> Option<Timestamp> {
        let newest = Timestamp::from_millis(self.0.load(Ordering::Relaxed));
        (newest.since(closed_at) > CLOCK_AHEAD_MAX).then(|| newest.plus(retention))
    }

    /// Returns a time that has certainly passed: the clock's time, or the newest known time if the clock is doubted.
    pub(crate) fn past(&self, now: Timestamp) -> Timestamp {
        let newest = Timestamp::from_millis(self.0.load(Ordering::Relaxed));
        let is_doubted = newest > Timestamp::default() && now.since(newest) > CLOCK_AHEAD_MAX;
        if is_doubted { newest } else { now }
    }
}

/// Smallest jump of the clock, or lag behind the newest known time, that is reported. Our choice: more than a time
/// synchronization service corrects in one step.
pub const CLOCK_MOVED_MIN: history::Duration = history::Duration::from_secs(60);

/// A jump of a node's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockMove {
    /// Time that the clock would have shown without the jump; after a restart, the newest known time.
    pub from: Timestamp,
    /// Time that the clock showed after the jump.
    pub to: Timestamp,
    /// Address of the node, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Status of the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockStanding {
    /// Time that the clock shows.
    pub now: Timestamp,
    /// The newest time that was recorded by any node that shares the store.
    pub newest: Option<Timestamp>,
    /// Time by which the clock is behind `newest`; `None` if it is at most [`CLOCK_MOVED_MIN`].
    pub behind: Option<history::Duration>,
    /// True if the clock is doubted, because it is too far ahead of the newest known time.
    pub is_doubted: bool,
    /// Jumps that no operator has confirmed, oldest first.
    pub moves: Vec<ClockMove>,
}
