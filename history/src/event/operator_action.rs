//! Operator that made a manual change.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Operator that made a manual change, and the reason.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperatorAction {
    /// Identity of the operator.
    #[n(0)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(1)]
    pub reason: Option<String>,
}
