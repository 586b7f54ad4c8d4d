//! Throttled requests: their error, and their lines in the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Minimum interval between two log lines about throttled requests. Our choice.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Bytes,
    /// Open runs.
    OpenRuns,
    /// Polled task lists.
    TaskLists,
    /// Waiting requests.
    Watchers,
}

impl LimitKind {
    /// Returns the name of the limit in the configuration.
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

/// Holder of a quota: a domain or a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QuotaHolder {
    /// A domain.
    Domain(Arc<str>),
    /// A credential.
    Credential(Arc<str>),
}

impl QuotaHolder {
    pub(super) fn domain(name: &str) -> Self {
        Self::Domain(name.into())
    }

    pub(super) fn credential(name: &str) -> Self {
        Self::Credential(name.into())
    }

    /// Returns the kind of holder: `domain` or `credential`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Domain(_) => "domain",
            Self::Credential(_) => "credential",
        }
    }

    /// Returns the holder's name.
    pub fn name(&self) -> Arc<str> {
        match self {
            Self::Domain(name) | Self::Credential(name) => Arc::clone(name),
        }
    }
}

impl std::fmt::Display for QuotaHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}`", self.kind(), self.name())
    }
}

/// Error of a request that exceeds a quota.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{whose} has reached its limit of {max} {}", kind.word())]
pub struct Throttled {
    /// Kind of limit that was exceeded.
    pub kind: LimitKind,
    /// Value of the limit.
    pub max: u64,
    /// Holder of the quota.
    pub whose: QuotaHolder,
    /// Time after which a retry may succeed.
    pub wait: Duration,
}

impl Throttled {
    /// Returns the time to wait in whole seconds.
    pub fn retry_after(&self) -> u64 {
        (self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)).max(1)
    }
}

#[derive(Debug, Default)]
struct ThrottledLine {
    at: Option<Instant>,
    untold: u64,
}

/// Log of throttled requests.
#[derive(Debug, Default)]
pub(super) struct ThrottledLog(Mutex<ThrottledLine>);

impl ThrottledLog {
    /// Logs a throttled request, at most once per second.
    pub(super) fn tell(&self, throttled: &Throttled) {
        let others = {
            let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if line.at.is_some_and(|at| at.elapsed() < LOG_EVERY) {
                line.untold = line.untold.saturating_add(1);
                return;
            }
            line.at = Some(Instant::now());
            std::mem::take(&mut line.untold)
        };
        let Throttled { kind, max, whose, .. } = throttled;
        let (limit, of, name) = (kind.word(), whose.kind(), whose.name());
        tracing::warn!(limit, max, of, %name, others_since = others, "requests are throttled: a quota is exhausted");
    }
}
