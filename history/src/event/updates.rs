//! The attributes of events about updates: requests that a decider takes and answers (S1-E).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::EventId;
use crate::payload::{self, Payload};

/// A decider took an update. What it says is here, so that whoever folds the history knows it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateAccepted {
    /// The caller's name for this one update.
    #[n(0)]
    pub update_id: String,
    /// What kind of update it is.
    #[n(1)]
    pub name: String,
    /// What it says.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Who asked for it.
    #[n(3)]
    pub identity: Option<String>,
    /// The DeciderCompleted of the turn that took it.
    #[n(4)]
    pub decision_event_id: EventId,
}

/// An update is done. Stands in the commit of its UpdateAccepted, or in that of a later turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateCompleted {
    /// The caller's name for it.
    #[n(0)]
    pub update_id: String,
    /// Its UpdateAccepted.
    #[n(1)]
    pub accepted_event_id: EventId,
    /// The answer.
    #[n(2)]
    #[serde(default, deserialize_with = "payload::present")]
    pub result: Option<Payload>,
    /// The DeciderCompleted of the turn that answered.
    #[n(3)]
    pub decision_event_id: EventId,
}

/// An update was accepted by an earlier turn, and could not be done.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateFailed {
    /// The caller's name for it.
    #[n(0)]
    pub update_id: String,
    /// Its UpdateAccepted.
    #[n(1)]
    pub accepted_event_id: EventId,
    /// Why, for programs.
    #[n(2)]
    pub reason: String,
    /// Why, for people and programs.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that said so.
    #[n(4)]
    pub decision_event_id: EventId,
}
