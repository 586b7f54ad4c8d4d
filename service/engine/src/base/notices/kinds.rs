//! Kinds of notices, and the task list that a notice may name.

use std::sync::Arc;
use std::time::Duration;

/// Maximum number of log lines of one kind per [`NoticeKind::span`]. Our choice: few enough to read, but enough to show
/// whether the events have a common cause.
pub(super) const KIND_LINES_MAX: u32 = 10;

/// Period of the rate limit for most kinds. Our choice: operators review about a minute of a log at a time.
const SPAN: Duration = Duration::from_secs(60);

/// Period of the rate limit for a doubted clock. Our choice: longer than for other kinds, because the clock stays
/// doubted for a day unless an operator confirms it.
const CLOCK_SPAN: Duration = Duration::from_secs(3_600);

/// Kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NoticeKind {
    /// A run is failing.
    Failing,
    /// A run is blocked.
    Blocked,
    /// A run is stuck.
    Stuck,
    /// A list with tasks has no poller.
    Unpolled,
    /// A list that was reported as having no poller is polled again.
    PolledAgain,
    /// A task did not reach its poller.
    DeliveryFailed,
    /// The clock is doubted.
    ClockSuspect,
}

impl NoticeKind {
    /// Every kind.
    pub(super) const ALL: [Self; 7] = [
        Self::Failing,
        Self::Blocked,
        Self::Stuck,
        Self::Unpolled,
        Self::PolledAgain,
        Self::DeliveryFailed,
        Self::ClockSuspect,
    ];

    /// Returns the index of this kind in [`ALL`](Self::ALL).
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    pub(super) const fn span(self) -> Duration {
        match self {
            Self::ClockSuspect => CLOCK_SPAN,
            _ => SPAN,
        }
    }

    pub(super) const fn lines_max(self) -> u32 {
        match self {
            Self::ClockSuspect => 1,
            _ => KIND_LINES_MAX,
        }
    }
}

/// The task list that a notice names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NoticeList {
    pub(crate) domain: Arc<str>,
    /// `decider` or `activity`.
    pub(crate) side: &'static str,
    pub(crate) name: Arc<str>,
}
