//! The orders of the example, with the outcome scripted for each.

use serde::{Deserialize, Serialize};

/// An order. The last three fields script the behavior of the outside world.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) quantity: u32,
    pub(crate) cents: u64,
    pub(crate) card: String,
    /// The fraud check reports the order.
    #[serde(default)]
    pub(crate) suspicious: bool,
    /// Number of times that the carrier reports to be busy.
    #[serde(default)]
    pub(crate) carrier_busy: u32,
    /// The customer cancels.
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
    /// Returns the orders that ship with the example.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        include_str!("orders.jsonl").lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Returns whether the order's card is declined.
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
