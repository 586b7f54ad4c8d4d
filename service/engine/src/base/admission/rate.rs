//! Rate limits per second, with a burst after idle time. This is the only module that uses the `governor` crate.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, Reference as _};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// Maximum time for which the bytes of earlier concurrent requests can throttle later requests. Our choice: equal to
/// the longest time that a request may wait.
const DEBT_MAX: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);

/// Time from tokio's clock, which tests can control.
#[derive(Debug, Clone)]
struct Time {
    began: Instant,
}

impl Clock for Time {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.began.elapsed().into()
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Time, NoOpMiddleware<Nanos>>;

/// Limit on requests per second.
#[derive(Debug)]
pub(super) struct Rate {
    limiter: Limiter,
    time: Time,
}

fn at_least_one(number: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(number).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN)
}

impl Rate {
    pub(super) fn new(per_second: u64, burst: u64) -> Self {
        let time = Time { began: Instant::now() };
        let quota = Quota::per_second(at_least_one(per_second)).allow_burst(at_least_one(burst));
        Self { limiter: RateLimiter::direct_with_clock(quota, time.clone()), time }
    }

    /// Counts one request toward the limit. If the limit is exceeded, returns the time to wait.
    pub(super) fn refuses(&self) -> Option<Duration> {
        let not_until = self.limiter.check().err()?;
        Some(not_until.earliest_possible().duration_since(self.time.now()).into())
    }
}

/// Limit on bytes per second. The size of a request is known only when the request ends, so its bytes become a debt for
/// which later requests have to wait. The `governor` crate does not support such debts.
#[derive(Debug)]
pub(super) struct Debt {
    per_second: u64,
    /// Time at which the debt will be paid. A time in the past stands for unused capacity; it is at most one second
    /// ago.
    paid_at: Mutex<Instant>,
}

impl Debt {
    pub(super) fn new(per_second: u64) -> Self {
        Self { per_second, paid_at: Mutex::new(saved(Instant::now())) }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.paid_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds transferred bytes to the debt.
    pub(super) fn add(&self, bytes: u64) {
        let nanos = u128::from(bytes) * SECOND.as_nanos() / u128::from(self.per_second.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(DEBT_MAX + SECOND);
        let now = Instant::now();
        let mut paid_at = self.lock();
        *paid_at = ((*paid_at).max(saved(now)) + takes).min(now + DEBT_MAX);
    }

    /// Returns the time to wait until the debt is paid; `None` if there is no debt.
    pub(super) fn unpaid(&self) -> Option<Duration> {
        Some(self.lock().saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }
}

fn saved(now: Instant) -> Instant {
    now.checked_sub(SECOND).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_pass_at_once_and_then_so_many_a_second() {
        let rate = Rate::new(10, 3);
        for _ in 0..3 {
            assert_eq!(rate.refuses(), None);
        }
        assert_eq!(rate.refuses(), Some(SECOND / 10));
        tokio::time::advance(SECOND / 10).await;
        assert_eq!((rate.refuses(), rate.refuses()), (None, Some(SECOND / 10)));
        tokio::time::advance(SECOND * 60).await;
        assert_eq!([(); 4].map(|()| rate.refuses().is_none()), [true, true, true, false], "a rest is worth no more");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_paid_for_by_those_that_follow() {
        let debt = Debt::new(1_000);
        assert_eq!(debt.unpaid(), None);
        debt.add(1_000);
        assert_eq!(debt.unpaid(), None, "so many may come at once");
        debt.add(1);
        assert_eq!(debt.unpaid(), Some(SECOND / 1_000));
        debt.add(499);
        assert_eq!(debt.unpaid(), Some(SECOND / 2));
        tokio::time::advance(SECOND * 499 / 1_000).await;
        assert_eq!(debt.unpaid(), Some(SECOND / 1_000));
        tokio::time::advance(SECOND / 1_000).await;
        assert_eq!(debt.unpaid(), None);
        tokio::time::advance(SECOND * 60).await;
        debt.add(1_001);
        assert_eq!(debt.unpaid(), Some(SECOND / 1_000), "a rest is worth no more than a second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_debt_is_no_longer_than_a_minute() {
        let debt = Debt::new(1_000);
        debt.add(u64::MAX);
        debt.add(u64::MAX);
        assert_eq!(debt.unpaid(), Some(DEBT_MAX));
    }
}
