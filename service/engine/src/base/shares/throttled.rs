//! Who was put off, and what they are told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often one line is written to the log, at most.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests a second.
    Requests,
    /// Bytes a second.
    Bytes,
    /// Open runs.
    OpenRuns,
    /// Task lists that are polled.
    TaskLists,
    /// Requests that wait.
    Watchers,
}

impl LimitKind {
    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Requests => "requests-per-second",
            Self::Bytes => "bytes-per-second",
            Self::OpenRuns => "open-runs",
            Self::TaskLists => "task-lists",
            Self::Watchers => "watchers",
        }
    }
}

/// Whose limit it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A domain's.
    Domain(Arc<str>),
    /// A credential's.
    Credential(Arc<str>),
}

impl Whose {
    pub(super) fn domain(name: &str) -> Self {
        Self::Domain(name.into())
    }

    pub(super) fn credential(name: &str) -> Self {
        Self::Credential(name.into())
    }

    /// `domain` or `credential`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Domain(_) => "domain",
            Self::Credential(_) => "credential",
        }
    }

    /// Its name.
    pub fn name(&self) -> Arc<str> {
        match self {
            Self::Domain(name) | Self::Credential(name) => Arc::clone(name),
        }
    }
}

impl std::fmt::Display for Whose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}`", self.kind(), self.name())
    }
}

/// A share is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{whose} may have {max} {}, and has them", kind.word())]
pub struct Throttled {
    /// Which limit.
    pub kind: LimitKind,
    /// How much it is.
    pub max: u64,
    /// Whose.
    pub whose: Whose,
    /// When to ask again.
    pub wait: Duration,
}

impl Throttled {
    /// When to ask again, in whole seconds.
    pub fn retry_after(&self) -> u64 {
        (self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)).max(1)
    }
}

#[derive(Debug, Default)]
struct ThrottledLine {
    at: Option<Instant>,
    untold: u64,
}

/// What the log has been told.
#[derive(Debug, Default)]
pub(super) struct ThrottledLog(Mutex<ThrottledLine>);

impl ThrottledLog {
    /// Tells the log, once a second at most.
    pub(super) fn tell(&self, throttled: &Throttled) {
        let others = {
            let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if line.at.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
                line.untold = line.untold.saturating_add(1);
                return;
            }
            line.at = Some(Instant::now());
            std::mem::take(&mut line.untold)
        };
        let Throttled { kind, max, whose, .. } = throttled;
        let (limit, of, name) = (kind.word(), whose.kind(), whose.name());
        tracing::warn!(limit, max, of, %name, others_since = others, "requests are put off: a share is used up");
    }
}
