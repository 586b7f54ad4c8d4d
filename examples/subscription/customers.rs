//! Data of subscriptions.

use baton_decider_kit::Duration;
use serde::{Deserialize, Serialize};

/// A subscriber.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Customer {
    pub(crate) email: String,
    /// Price of a month in cents.
    pub(crate) cents: u64,
    /// Length of a month: thirty days, or shorter for a demonstration.
    pub(crate) month: Duration,
}

/// Number of months charged so far, and the total amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bill {
    pub(crate) months: u64,
    pub(crate) cents: u64,
}

impl Bill {
    /// Returns the bill after one more month.
    pub(crate) fn and(self, customer: &Customer) -> Self {
        Self { months: self.months + 1, cents: self.cents + customer.cents }
    }
}

impl Customer {
    /// Returns the wait before a retry. If a month has thirty days, the first wait is an hour. The wait doubles with
    /// each attempt, up to a day.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let hour = Duration::from_millis(self.month.as_millis() / 720);
        let day = hour.times(24);
        hour.times(1 << attempt.min(16)).min(day)
    }
}
