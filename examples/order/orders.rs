//! The orders of the example. Each order determines its own outcome.

use serde::{Deserialize, Serialize};

/// An order. The last three fields determine what the simulated customer, fraud check and carrier do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) quantity: u32,
    pub(crate) cents: u64,
    pub(crate) card: String,
    /// True if the fraud check reports the order as suspicious.
    #[serde(default)]
    pub(crate) suspicious: bool,
    /// Number of shipping attempts for which the carrier reports that it is busy.
    #[serde(default)]
    pub(crate) carrier_busy: u32,
    /// True if the customer cancels the order.
    #[serde(default)]
    pub(crate) cancels: bool,
}

/// Outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Shipped,
    Declined,
    Suspicious,
    Canceled,
}

impl Order {
    /// Returns the orders that the example contains.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        include_str!("orders.jsonl").lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Returns true if the order's card is declined.
    pub(crate) fn is_declined(&self) -> bool {
        self.card.ends_with("0000")
    }

    /// Returns the outcome of the order.
    pub(crate) fn ending(&self) -> Ending {
        if self.suspicious {
            Ending::Suspicious
        } else if self.cancels {
            Ending::Canceled
        } else if self.is_declined() {
            Ending::Declined
        } else {
            Ending::Shipped
        }
    }
}
