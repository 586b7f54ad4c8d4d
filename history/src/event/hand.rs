//! Who did something by hand.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Who did something by hand, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ByHand {
    /// Who.
    #[n(0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
