//! Attributes of the update events. An update is a request that a decider accepts and answers.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::EventId;
use crate::payload::{self, Payload};

/// A decider accepted an update. Contains the input, so that the state can be rebuilt from the history alone.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateAccepted {
    /// Update id chosen by the caller.
    #[n(0)]
    pub update_id: String,
    /// Name of the update.
    #[n(1)]
    pub name: String,
    /// Input of the update.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Identity of the caller.
    #[n(3)]
    pub identity: Option<String>,
    /// Id of the DeciderCompleted event of the turn that accepted the update.
    #[n(4)]
    pub decision_event_id: EventId,
}

/// An update succeeded. Recorded by the turn that accepted it, or by a later turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateCompleted {
    /// Update id chosen by the caller.
    #[n(0)]
    pub update_id: String,
    /// Id of the UpdateAccepted event.
    #[n(1)]
    pub accepted_event_id: EventId,
    /// Result returned to the caller.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that answered the update.
    #[n(3)]
    pub decision_event_id: EventId,
}

/// An update failed after it had been accepted.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateFailed {
    /// Update id chosen by the caller.
    #[n(0)]
    pub update_id: String,
    /// Id of the UpdateAccepted event.
    #[n(1)]
    pub accepted_event_id: EventId,
    /// Failure code, for programs.
    #[n(2)]
    pub reason: String,
    /// Failure details, for people and programs.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that failed the update.
    #[n(4)]
    pub decision_event_id: EventId,
}
