//! Ids, and what becomes of a workflow id that is asked for again.

use uuid::Uuid;

/// The position of an event in its history: 1, 2, 3, … without gaps.
pub type EventId = u64;

/// The id of a run; a name for the type, so that signatures say what they mean.
pub type RunId = Uuid;

/// What to do when a workflow id is asked for again after its run has closed (S2.17).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum ReusePolicy {
    /// Only when the last run did not close with success (D10). The default.
    #[default]
    #[n(0)]
    AllowDuplicateFailedOnly,
    /// Always.
    #[n(1)]
    AllowDuplicate,
    /// Never.
    #[n(2)]
    RejectDuplicate,
}

/// What to do when a workflow id is asked for while its run is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "kebab-case")]
pub enum ConflictPolicy {
    /// Refuse the start (S2.16). The default.
    #[default]
    Fail,
    /// Answer with the open run; its start is not looked at.
    UseExisting,
    /// Terminate the open run, then start.
    TerminateExisting,
}
