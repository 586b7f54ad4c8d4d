//! Counts, logs and limits denied requests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use engine::Engine;

/// Maximum number of failed secrets and signatures per second, counted for all callers together. Further failures in
/// the same second are reported as "too many attempts". Our choice: a program with an outdated secret retries a few
/// times per second. The rate is no risk, because a secret of 256 bits cannot be guessed at any rate.
const GUESSES_PER_SECOND_MAX: u32 = 20;

/// Length of a period. Failures are counted per period, and at most one denial is logged per period.
const SPAN: Duration = Duration::from_secs(1);

/// Reason for denying a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The request has no credential, or an unknown one.
    Unauthorized,
    /// The credential has expired.
    Expired,
    /// The credential is not valid yet.
    NotYetValid,
    /// The credential was revoked or has expired during the request.
    Revoked,
    /// The certificate belongs to no credential.
    Certificate,
    /// The token is not trusted.
    Token,
    /// The credential lacks the permission.
    Forbidden,
    /// Too many requests with an unknown secret or a wrong signature arrived within a second.
    TooManyFailedAttempts,
}

impl Denied {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Revoked => "revoked",
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::Forbidden => "forbidden",
            Self::TooManyFailedAttempts => "too-many-failed-attempts",
        }
    }
}

#[derive(Debug, Default)]
struct DenialSpan {
    began: Option<Instant>,
    guesses: u32,
    /// Number of denials in the current period, of which only the first is logged.
    logged: u32,
    /// Number of denials since the last denial that was logged.
    unlogged: u64,
}

/// Counter and limiter of denied requests.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    span: Mutex<DenialSpan>,
}

impl Denials {
    fn now<T>(&self, change: impl FnOnce(&mut DenialSpan) -> T) -> T {
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if span.began.is_none_or(|began| now.duration_since(began) >= SPAN) {
            *span = DenialSpan { began: Some(now), unlogged: span.unlogged, ..DenialSpan::default() };
        }
        change(&mut span)
    }

    /// Counts a failed secret or signature. Returns true if too many have failed in this period; the response then
    /// tells the client to retry later. Requests with valid credentials are never delayed.
    pub(crate) fn has_guessed_too_often(&self) -> bool {
        self.now(|span| {
            span.guesses = span.guesses.saturating_add(1);
            span.guesses > GUESSES_PER_SECOND_MAX
        })
    }

    /// Counts a denial, and logs at most one per second. The credential that the request presented is never logged,
    /// because it may be part of a secret.
    pub(crate) fn note(&self, engine: &Engine, denied: Denied, who: Option<&str>, what: &str) {
        engine.metrics().denied(denied.word());
        let others = self.now(|span| {
            span.logged = span.logged.saturating_add(1);
            if span.logged > 1 {
                span.unlogged = span.unlogged.saturating_add(1);
                return None;
            }
            Some(std::mem::take(&mut span.unlogged))
        });
        if let Some(others) = others {
            let who = who.unwrap_or("unknown");
            tracing::warn!(reason = denied.word(), caller = who, needed = what, suppressed = others, "request denied");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn guesses_are_limited_per_second() {
        let denials = Denials::default();
        for _ in 0..2 {
            for guess in 0..GUESSES_PER_SECOND_MAX {
                assert!(!denials.has_guessed_too_often(), "{guess}");
            }
            assert!(denials.has_guessed_too_often());
            tokio::time::advance(Duration::from_millis(999)).await;
            assert!(denials.has_guessed_too_often());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }
}
