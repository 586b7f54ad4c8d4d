//! The orders: what a shop's customers asked for, and what is going to happen to each.

use serde::{Deserialize, Serialize};

/// One order. The last three fields script what the outside world will do with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) quantity: u32,
    pub(crate) cents: u64,
    pub(crate) card: String,
    /// The fraud check will not like it.
    #[serde(default)]
    pub(crate) suspicious: bool,
    /// How often the carrier will say that it is busy.
    #[serde(default)]
    pub(crate) carrier_busy: u32,
    /// The customer will think again.
    #[serde(default)]
    pub(crate) cancels: bool,
}

/// How an order is going to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Shipped,
    Declined,
    Suspicious,
    Canceled,
}

impl Order {
    /// The orders that ship with the example.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        include_str!("orders.jsonl").lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Whether its card will be declined.
    pub(crate) fn is_declined(&self) -> bool {
        self.card.ends_with("0000")
    }

    /// How it is going to end.
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
