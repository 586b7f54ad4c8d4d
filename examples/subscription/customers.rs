//! What a subscription is about.

use baton_decider_kit::Duration;
use serde::{Deserialize, Serialize};

/// Who subscribes, to what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Customer {
    pub(crate) email: String,
    /// What a month costs.
    pub(crate) cents: u64,
    /// How long a month is: thirty days, but for those who watch.
    pub(crate) month: Duration,
}

/// What has come of it so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bill {
    pub(crate) months: u64,
    pub(crate) cents: u64,
}

impl Bill {
    /// With one month more.
    pub(crate) fn and(self, customer: &Customer) -> Self {
        Self { months: self.months + 1, cents: self.cents + customer.cents }
    }
}

impl Customer {
    /// The wait before something is tried again: an hour, were a month thirty days, and twice as long each time, up to a
    /// day.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let hour = Duration::from_millis(self.month.as_millis() / 720);
        let day = hour.times(24);
        hour.times(1 << attempt.min(16)).min(day)
    }
}
