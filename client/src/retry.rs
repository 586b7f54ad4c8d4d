//! Retries with exponential backoff and jitter. This is the only module that uses the `backoff` crate.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff as _;

use crate::Error;

/// First delay between two attempts. Each further delay is 1.5 times as long as the previous delay. The actual delay is
/// random and deviates by up to half of this length.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Maximum delay between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Time limit for retries while the service is unavailable or busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// No retries.
    None,
    /// Retries until this time has passed since the first attempt.
    For(Duration),
    /// Unlimited retries.
    Endless,
}

/// The delays between the attempts of one call.
#[derive(Debug)]
pub struct Waits {
    backoff: backoff::ExponentialBackoff,
}

impl Waits {
    /// Creates the delays for a time limit.
    pub fn new(patience: Patience) -> Self {
        let limit = match patience {
            Patience::None => Some(Duration::ZERO),
            Patience::For(limit) => Some(limit),
            Patience::Endless => None,
        };
        let backoff = ExponentialBackoffBuilder::new()
            .with_initial_interval(FIRST_WAIT)
            .with_max_interval(LONGEST_WAIT)
            .with_max_elapsed_time(limit)
            .build();
        Self { backoff }
    }

    /// Starts again with the first delay. Call this after a success.
    pub fn reset(&mut self) {
        self.backoff.reset();
    }

    /// Returns the delay before the next attempt after this error. Returns `None` if a retry cannot succeed or the time
    /// limit has passed.
    pub fn after(&mut self, error: &Error) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        let wait = self.backoff.next_backoff()?;
        Some(error.retry_after().map_or(wait, |requested| requested.max(wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Problem;

    fn refused(retryable: bool, retry_after: Option<Duration>) -> Error {
        let problem = Problem { retryable, ..Problem::default() };
        Error::Refused { problem: Box::new(problem), retry_after }
    }

    #[test]
    fn waits_grow_and_stay_under_the_longest() {
        let mut waits = Waits::new(Patience::Endless);
        let all: Vec<Duration> = (0..50).filter_map(|_| waits.after(&refused(true, None))).collect();
        assert_eq!(all.len(), 50, "endless");
        assert!(all[0] <= FIRST_WAIT * 3 / 2, "{:?}", all[0]);
        assert!(all[49] >= LONGEST_WAIT / 2 && all[49] <= LONGEST_WAIT * 3 / 2, "{:?}", all[49]);
    }

    #[test]
    fn a_request_that_cannot_succeed_is_not_retried() {
        assert_eq!(Waits::new(Patience::Endless).after(&refused(false, None)), None);
        assert_eq!(Waits::new(Patience::None).after(&refused(true, None)), None);
    }

    #[test]
    fn the_service_may_ask_for_a_longer_wait() {
        let requested = Duration::from_secs(30);
        assert_eq!(Waits::new(Patience::Endless).after(&refused(true, Some(requested))), Some(requested));
    }
}
