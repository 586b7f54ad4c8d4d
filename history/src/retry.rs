//! Retry policies: whether something that failed is tried again, and when.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::bounded;
use crate::factor::Factor;
use crate::ids::EventId;
use crate::limits::{self, NON_RETRYABLE_REASONS_MAX};
use crate::time::Duration;

/// When something that failed is tried again, and when no more.
///
/// The wait before the second try is [`initial_interval`](Self::initial_interval); before each further one it is
/// [`backoff_coefficient`](Self::backoff_coefficient) times as long, up to [`maximum_interval`](Self::maximum_interval).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The wait before the second try; more than zero. One second unless given.
    #[n(0)]
    pub initial_interval: Duration,
    /// How much longer each wait is than the one before; 1 keeps it constant. Two unless given.
    #[n(1)]
    pub backoff_coefficient: Factor,
    /// The longest wait; a hundred times the first when absent.
    #[n(2)]
    pub maximum_interval: Option<Duration>,
    /// How many tries there are in all, at least 1; no limit when absent.
    #[n(3)]
    pub maximum_attempts: Option<u32>,
    /// Failures with one of these reasons are not tried again.
    #[n(4)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = NON_RETRYABLE_REASONS_MAX)))]
    pub non_retryable_reasons: Vec<String>,
    /// Up to this share of each wait is left out, by chance, so that many that failed together do not come back
    /// together; 0 to 1. None unless given.
    #[n(5)]
    #[serde(skip_serializing_if = "Factor::is_zero")]
    pub jitter: Factor,
    /// What becomes of it when its tries have run out. It fails unless given.
    #[cbor(n(6), skip_if = "WhenExhausted::is_fail")]
    #[serde(skip_serializing_if = "WhenExhausted::is_fail")]
    pub when_exhausted: WhenExhausted,
}

/// What becomes of something whose tries have run out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum WhenExhausted {
    /// It fails.
    #[default]
    #[n(0)]
    Fail,
    /// It stays open, is paused, and waits for somebody to retry, complete or fail it.
    #[n(1)]
    Pause,
}

impl WhenExhausted {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
    fn is_fail(&self) -> bool {
        *self == Self::Fail
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_interval: limits::RETRY_INTERVAL_DEFAULT,
            backoff_coefficient: limits::RETRY_COEFFICIENT_DEFAULT,
            maximum_interval: None,
            maximum_attempts: None,
            non_retryable_reasons: Vec::new(),
            jitter: Factor::ZERO,
            when_exhausted: WhenExhausted::Fail,
        }
    }
}

/// Reads a policy out of a request, where an unknown field is a mistake. For `#[serde(deserialize_with = "…")]`.
///
/// # Errors
///
/// The deserializer's.
pub fn retry_of_request<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RetryPolicy>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct StrictPolicy {
        initial_interval: Option<Duration>,
        backoff_coefficient: Option<Factor>,
        maximum_interval: Option<Duration>,
        maximum_attempts: Option<u32>,
        #[serde(default, deserialize_with = "bounded::list::<NON_RETRYABLE_REASONS_MAX, _, _>")]
        non_retryable_reasons: Vec<String>,
        jitter: Option<Factor>,
        #[serde(default)]
        when_exhausted: WhenExhausted,
    }
    let strict = Option::<StrictPolicy>::deserialize(deserializer)?;
    let default = RetryPolicy::default();
    Ok(strict.map(|it| RetryPolicy {
        initial_interval: it.initial_interval.unwrap_or(default.initial_interval),
        backoff_coefficient: it.backoff_coefficient.unwrap_or(default.backoff_coefficient),
        maximum_interval: it.maximum_interval,
        maximum_attempts: it.maximum_attempts,
        non_retryable_reasons: it.non_retryable_reasons,
        jitter: it.jitter.unwrap_or(default.jitter),
        when_exhausted: it.when_exhausted,
    }))
}

impl RetryPolicy {
    /// Whether there is another try after this many have failed.
    pub fn allows_after(&self, failures: u32) -> bool {
        self.maximum_attempts.is_none_or(|attempts| failures < attempts)
    }

    /// Whether another try may help after a failure with this reason.
    pub fn retries(&self, reason: &str) -> bool {
        !self.non_retryable_reasons.iter().any(|known| known == reason)
    }

    /// The wait after this many failures, without jitter.
    pub fn interval(&self, failures: u32) -> Duration {
        let longest = self
            .maximum_interval
            .unwrap_or_else(|| self.initial_interval.times(limits::RETRY_INTERVAL_MAX_TIMES))
            .min(limits::SPAN_MAX);
        // Beyond that every wait is the longest, whatever the coefficient is.
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = std::time::Duration::from(self.initial_interval).as_secs_f64()
            * self.backoff_coefficient.as_f64().powi(exponent);
        let bound = std::time::Duration::from(longest).as_secs_f64();
        std::time::Duration::try_from_secs_f64(seconds.min(bound)).map_or(longest, Duration::from).min(longest)
    }

    /// The wait after this many failures, with its jitter: the same for the same `chance`.
    pub fn wait(&self, failures: u32, chance: u64) -> Duration {
        let interval = self.interval(failures).as_millis();
        let share = u128::from(self.jitter.thousandths().min(1_000)) * u128::from(chance >> 32);
        let left_out = (u128::from(interval) * share / 1_000) >> 32;
        Duration::from_millis(interval.saturating_sub(u64::try_from(left_out).unwrap_or(interval)))
    }
}

/// A number that looks random and is the same for the same try of the same thing: rules have no dice (the finalizer
/// of `SplitMix64` over what tells the try apart).
pub(crate) fn chance(run_id: Uuid, event_id: EventId, failures: u32) -> u64 {
    let (high, low) = run_id.as_u64_pair();
    [high, low, event_id, u64::from(failures)].into_iter().fold(0x9E37_79B9_7F4A_7C15, |mixed: u64, word| {
        let mut z = (mixed ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(initial: u64, coefficient: f64, maximum: Option<u64>) -> RetryPolicy {
        RetryPolicy {
            initial_interval: Duration::from_secs(initial),
            backoff_coefficient: coefficient.try_into().unwrap(),
            maximum_interval: maximum.map(Duration::from_secs),
            ..RetryPolicy::default()
        }
    }

    #[test]
    fn waits_grow_by_the_coefficient_up_to_the_longest() {
        let cases: &[(RetryPolicy, &[u64])] = &[
            (policy(1, 2.0, Some(10)), &[1_000, 2_000, 4_000, 8_000, 10_000, 10_000]),
            (policy(3, 1.0, None), &[3_000, 3_000, 3_000]),
            (policy(2, 1.5, None), &[2_000, 3_000, 4_500, 6_750]),
            (policy(8, 2.0, Some(4)), &[4_000, 4_000]),
        ];
        for (policy, expected) in cases {
            let found: Vec<_> =
                (1..).zip(*expected).map(|(failures, _)| policy.interval(failures).as_millis()).collect();
            assert_eq!(found, *expected, "{policy:?}");
        }
        for failures in [1_000, u32::MAX] {
            assert_eq!(policy(1, 2.0, None).interval(failures), Duration::from_secs(100), "a hundred times the first");
            assert_eq!(policy(1, 1e6, Some(7)).interval(failures), Duration::from_secs(7));
            let longest = RetryPolicy { initial_interval: limits::SPAN_MAX, ..RetryPolicy::default() };
            assert_eq!(longest.interval(failures), limits::SPAN_MAX);
        }
    }

    #[test]
    fn jitter_leaves_out_up_to_its_share_and_is_the_same_for_the_same_try() {
        let policy = RetryPolicy { jitter: 0.25.try_into().unwrap(), ..policy(100, 1.0, None) };
        let waits: Vec<_> =
            (0..500).map(|event_id| policy.wait(1, chance(Uuid::from_u128(7), event_id, 1)).as_millis()).collect();
        assert!(waits.iter().all(|wait| (75_000..=100_000).contains(wait)), "{waits:?}");
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*least < 76_000 && *most > 99_000, "{least} to {most}");
        assert_eq!(policy.wait(1, chance(Uuid::from_u128(7), 499, 1)).as_millis(), waits[499]);
        assert_ne!(chance(Uuid::from_u128(7), 5, 1), chance(Uuid::from_u128(7), 5, 2));
        assert_ne!(chance(Uuid::from_u128(7), 5, 1), chance(Uuid::from_u128(8), 5, 1));
        let all = RetryPolicy { jitter: Factor::ONE, ..policy };
        assert_eq!(all.wait(1, 0), Duration::from_secs(100));
        assert!(all.wait(1, u64::MAX) < Duration::from_millis(2));
    }
}
