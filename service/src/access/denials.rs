//! Who was not let in: counted, told in the log, and slowed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use engine::Engine;

/// Wrong secrets and signatures that are heard out in a second, of all callers together; further ones are told to wait. Ours: a
/// program with an old secret tries a few times a second, and nobody finds a secret of 256 bits at any rate.
const GUESSES_PER_SECOND_MAX: u32 = 20;

/// A span in which so many guesses are heard out, and one line is written to the log.
const SPAN: Duration = Duration::from_secs(1);

/// Why somebody was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No credential, or one that is not known.
    Unauthorized,
    /// One that is known, and no longer good.
    Expired,
    /// One that is known, and not yet good.
    Early,
    /// One that was revoked, or that expired, while the request was under way.
    Revoked,
    /// A certificate, and no credential's.
    Certificate,
    /// A token that is not believed.
    Token,
    /// One that may not do this.
    Forbidden,
    /// Too many that are not known.
    TooManyGuesses,
}

impl Denied {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Expired => "expired",
            Self::Early => "early",
            Self::Revoked => "revoked",
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::Forbidden => "forbidden",
            Self::TooManyGuesses => "too-many-guesses",
        }
    }
}

#[derive(Debug, Default)]
struct DenialSpan {
    began: Option<Instant>,
    guesses: u32,
    /// Lines of the log.
    told: u32,
    /// Denials that had no line.
    untold: u64,
}

/// What becomes of those who are not let in.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    span: Mutex<DenialSpan>,
}

impl Denials {
    fn now<T>(&self, change: impl FnOnce(&mut DenialSpan) -> T) -> T {
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if span.began.is_none_or(|began| now.duration_since(began) >= SPAN) {
            *span = DenialSpan { began: Some(now), untold: span.untold, ..DenialSpan::default() };
        }
        change(&mut span)
    }

    /// Somebody shows a secret, or a signature, that is nobody's. Whether they are to wait before they try another. Who shows
    /// one that is known never is.
    pub(crate) fn has_guessed_too_often(&self) -> bool {
        self.now(|span| {
            span.guesses = span.guesses.saturating_add(1);
            span.guesses > GUESSES_PER_SECOND_MAX
        })
    }

    /// Counts it, and tells it in the log, once a second at most. Never what was shown, which may be half a secret.
    pub(crate) fn note(&self, engine: &Engine, denied: Denied, who: Option<&str>, what: &str) {
        engine.metrics().denied(denied.word());
        let others = self.now(|span| {
            span.told = span.told.saturating_add(1);
            if span.told > 1 {
                span.untold = span.untold.saturating_add(1);
                return None;
            }
            Some(std::mem::take(&mut span.untold))
        });
        if let Some(others) = others {
            let who = who.unwrap_or("nobody");
            tracing::warn!(why = denied.word(), who, what, others_since = others, "somebody was not let in");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_guesses_are_heard_out_in_a_second_and_then_as_many_again() {
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
