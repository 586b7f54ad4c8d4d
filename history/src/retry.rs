//! Retry policies: whether a failed activity or workflow is retried, and when.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::bounded;
use crate::factor::Factor;
use crate::ids::EventId;
use crate::limits::{self, NON_RETRYABLE_REASONS_MAX};
use crate::time::Duration;

/// Retry policy of an activity or workflow.
///
/// The delay before the second attempt is the initial interval. Each further delay is the previous delay times the
/// backoff coefficient, up to the maximum interval.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Delay before the second attempt; more than zero. One second when absent.
    #[n(0)]
    pub initial_interval: Duration,
    /// Ratio of each delay to the previous delay; with 1, all delays are equal. Two when absent.
    #[n(1)]
    pub backoff_coefficient: Factor,
    /// Longest delay. When absent, a hundred times the initial interval.
    #[n(2)]
    pub maximum_interval: Option<Duration>,
    /// Maximum number of attempts, at least 1; unlimited when absent.
    #[n(3)]
    pub maximum_attempts: Option<u32>,
    /// Failure reasons after which there is no retry.
    #[n(4)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = NON_RETRYABLE_REASONS_MAX)))]
    pub non_retryable_reasons: Vec<String>,
    /// Largest fraction of each delay (0 to 1) that is randomly subtracted, so that tasks that failed together are not
    /// retried together. Zero when absent.
    #[n(5)]
    #[serde(skip_serializing_if = "Factor::is_zero")]
    pub jitter: Factor,
    /// Behavior when all attempts have failed; `fail` when absent.
    #[cbor(n(6), skip_if = "WhenExhausted::is_fail")]
    #[serde(skip_serializing_if = "WhenExhausted::is_fail")]
    pub when_exhausted: WhenExhausted,
}

/// Behavior of an activity or workflow when all attempts have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum WhenExhausted {
    /// The activity or workflow fails.
    #[default]
    #[n(0)]
    Fail,
    /// The activity stays open and is paused until an operator retries, completes or fails it.
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

/// Deserializes a retry policy of a request, and rejects unknown fields. Used as `#[serde(deserialize_with = "…")]`.
///
/// # Errors
///
/// Fails if `deserializer` fails, or if the policy has unknown fields.
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
    /// Returns `true` if another attempt is allowed after this number of failures.
    pub fn allows_after(&self, failures: u32) -> bool {
        self.maximum_attempts.is_none_or(|attempts| failures < attempts)
    }

    /// Returns `true` if failures with this reason are retried.
    pub fn retries(&self, reason: &str) -> bool {
        !self.non_retryable_reasons.iter().any(|known| known == reason)
    }

    /// Returns the delay after this number of failures, without jitter.
    pub fn interval(&self, failures: u32) -> Duration {
        let longest = self
            .maximum_interval
            .unwrap_or_else(|| self.initial_interval.times(limits::RETRY_INTERVAL_MAX_TIMES))
            .min(limits::SPAN_MAX);
        // If the number of failures exceeds the largest exponent, every delay has reached its maximum.
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = std::time::Duration::from(self.initial_interval).as_secs_f64()
            * self.backoff_coefficient.as_f64().powi(exponent);
        let bound = std::time::Duration::from(longest).as_secs_f64();
        std::time::Duration::try_from_secs_f64(seconds.min(bound)).map_or(longest, Duration::from).min(longest)
    }

    /// Returns the delay after this number of failures. The jitter is derived from `chance`.
    pub fn wait(&self, failures: u32, chance: u64) -> Duration {
        let interval = self.interval(failures).as_millis();
        let share = u128::from(self.jitter.thousandths().min(1_000)) * u128::from(chance >> 32);
        let left_out = (u128::from(interval) * share / 1_000) >> 32;
        Duration::from_millis(interval.saturating_sub(u64::try_from(left_out).unwrap_or(interval)))
    }
}

/// Returns a pseudo-random number for an attempt, computed with the finalizer of `SplitMix64`. It is always the same
/// for the same attempt, because the rules must be deterministic.
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
    fn delays_grow_by_the_coefficient_up_to_the_maximum() {
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
    fn jitter_is_bounded_and_deterministic() {
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
