//! Attributes of the events of a reset, with which a new run branches off the history of another.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;

/// The run branched off another run: it shares that run's history up to a certain event and continues from there.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowReset {
    /// Run id of the other run. Its events up to `eventId` are also this run's events, except for the run ids in
    /// event 1.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the last shared event.
    #[n(1)]
    pub event_id: EventId,
    /// Workflow id of the other run, if it differs from this run's.
    #[n(2)]
    pub workflow_id: Option<String>,
    /// Treatment of the signals that the other run received later.
    #[n(3)]
    pub signals: LaterSignals,
    /// Identity of the operator.
    #[n(4)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(5)]
    pub reason: Option<String>,
}

/// A reset that terminates this run: the run that continues, and the history it takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResetPlan {
    /// Run id of the run that continues.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub new_run_id: Uuid,
    /// Run id of the run whose history it takes over, which may be an earlier run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the last event that it takes over.
    #[n(2)]
    pub event_id: EventId,
    /// Treatment of the signals that the other run received later.
    #[n(3)]
    pub signals: LaterSignals,
}

/// Treatment of the signals that a run received after the event at which another branches off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum LaterSignals {
    /// The new run receives them again, in order, after its WorkflowReset event. Cancel requests are reapplied too,
    /// unless the run closed as canceled.
    #[default]
    #[n(0)]
    Reapply,
    /// The new run does not receive them.
    #[n(1)]
    Drop,
}
