//! Who did something by hand.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Who did something by hand, and why.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ByHand {
    /// Who.
    #[n(0)]
    pub identity: Option<String>,
    /// Why.
    #[n(1)]
    pub reason: Option<String>,
}
