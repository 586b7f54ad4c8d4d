//! The attributes of events with which a run branches off the history of another.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;

/// The run has the history of another up to here, and goes on for itself.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowReset {
    /// The other run. Its events up to `eventId` are this run's, but for the ids of the run in event 1.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// The last of its events that this run has.
    #[n(1)]
    pub event_id: EventId,
    /// Its workflow id, where that is not this run's own.
    #[n(2)]
    pub workflow_id: Option<String>,
    /// What became of the signals that came to it later.
    #[n(3)]
    pub signals: LaterSignals,
    /// Who did it.
    #[n(4)]
    pub identity: Option<String>,
    /// Why.
    #[n(5)]
    pub reason: Option<String>,
}

/// That another run goes on in place of this one, and with which history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResetPlan {
    /// The run that goes on.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub new_run_id: Uuid,
    /// The run whose history it has, which may be an earlier one.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// The last event of that history that it has.
    #[n(2)]
    pub event_id: EventId,
    /// What becomes of the signals that came to that run later.
    #[n(3)]
    pub signals: LaterSignals,
}

/// What becomes of the signals that came to a run after the event at which another one branches off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum LaterSignals {
    /// The new run has them too, in their order, behind its WorkflowReset; with them the cancel requests, unless the run
    /// closed as canceled.
    #[default]
    #[n(0)]
    Reapply,
    /// The new run does not have them.
    #[n(1)]
    Drop,
}
