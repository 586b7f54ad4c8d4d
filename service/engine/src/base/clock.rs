//! The one place where the service reads time and draws random numbers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use history::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Time, as the engine sees it. Tests bring their own.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Time since some instant of this process, which setting the clock does not change; `None` if the clock cannot tell.
    fn steady(&self) -> Option<Duration> {
        None
    }

    /// Returns once [`now`](Self::now) is at or after `at`; may return early, callers look again.
    async fn sleep_until(&self, at: Timestamp);
}

/// The machine's clock.
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
        // One that goes on while the machine sleeps, so that waking up is no jump of the clock. Apple's monotonic one does.
        #[cfg(target_os = "linux")]
        const STEADY: ClockId = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const STEADY: ClockId = ClockId::Monotonic;
        let since = clock_gettime(STEADY);
        Some(Duration::new(u64::try_from(since.tv_sec).ok()?, u32::try_from(since.tv_nsec).ok()?))
    }

    async fn sleep_until(&self, at: Timestamp) {
        /// The wall clock may be set while we sleep, so never sleep long without looking at it.
        const LOOK_AGAIN: Duration = Duration::from_secs(10);
        let wait = Duration::from(at.since(self.now()));
        tokio::time::sleep(wait.min(LOOK_AGAIN)).await;
    }
}

/// Where ids come from.
#[derive(Debug)]
pub(crate) struct Ids {
    random: Mutex<fastrand::Rng>,
}

impl Ids {
    /// Ids nobody can foresee; with a seed, the same ones every time.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let random = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { random: Mutex::new(random) }
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock().expect("drawing a number does not panic"))
    }

    /// A run id: a `UUIDv7`, so that run ids sort by their start.
    pub(crate) fn run_id(&self, now: Timestamp) -> Uuid {
        let mut bytes = [0; 10];
        self.with(|random| random.fill(&mut bytes));
        uuid::Builder::from_unix_timestamp_millis(now.as_millis(), &bytes).into_uuid()
    }

    /// An operation id.
    pub(crate) fn op(&self) -> u64 {
        self.with(|random| random.u64(..))
    }

    /// A length of time of at most `longest`.
    pub(crate) fn up_to(&self, longest: Duration) -> Duration {
        longest.mul_f64(self.with(fastrand::Rng::f64))
    }
}

/// How far the clock may be beyond the newest time that was seen. Ours: less than any retention that somebody would miss, and
/// more than a service is down for an update.
pub const CLOCK_AHEAD_MAX: history::Duration = history::Duration::from_days(1);

/// The newest time that was seen and believed, for all that forgets by the clock.
#[derive(Debug, Default)]
pub(crate) struct NewestTime(AtomicU64);

impl NewestTime {
    pub(crate) fn set(&self, newest: Timestamp) {
        self.0.store(newest.as_millis(), Ordering::Relaxed);
    }

    /// Until when a run is kept that was closed by a clock which is far behind the newest time that was seen: otherwise it would be past its
    /// retention as soon as the clock is right. `None` if the clock is not.
    pub(crate) fn kept_until(&self, closed_at: Timestamp, retention: history::Duration) -> Option<Timestamp> {
        let newest = Timestamp::from_millis(self.0.load(Ordering::Relaxed));
        (newest.since(closed_at) > CLOCK_AHEAD_MAX).then(|| newest.plus(retention))
    }

    /// How far time has come for sure: what the clock says, unless it is too far ahead to be believed.
    pub(crate) fn past(&self, now: Timestamp) -> Timestamp {
        let newest = Timestamp::from_millis(self.0.load(Ordering::Relaxed));
        let is_doubted = newest > Timestamp::default() && now.since(newest) > CLOCK_AHEAD_MAX;
        if is_doubted { newest } else { now }
    }
}

/// By how much a clock may jump, or be behind the newest time that was seen, before that is told. Ours: more than a clock is
/// drawn to the right time by.
pub const CLOCK_MOVED_MIN: history::Duration = history::Duration::from_secs(60);

/// A jump of a node's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockMove {
    /// What the clock would have said, had it gone on; after a restart the newest time that was seen before.
    pub from: Timestamp,
    /// What it said.
    pub to: Timestamp,
    /// The node's address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The clock as it is now, and what has been noticed of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockStanding {
    /// What it says.
    pub now: Timestamp,
    /// The newest time that any node over this store has seen.
    pub newest: Option<Timestamp>,
    /// By how much it is behind that; `None` up to [`CLOCK_MOVED_MIN`].
    pub behind: Option<history::Duration>,
    /// Whether it is too far ahead to be believed.
    pub is_doubted: bool,
    /// Jumps that no operator has confirmed, oldest first.
    pub moves: Vec<ClockMove>,
}
