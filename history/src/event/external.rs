//! Attributes of the events about external runs: the origin of a request, and signals and cancel requests to other
//! runs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;
use crate::ids::NamedRun;
use crate::payload::{self, Payload};

/// Event of another run that caused a request. It identifies the request, so that each one is recorded only once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the other run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the event in the other run's history.
    #[n(2)]
    pub event_id: EventId,
}

/// A decider asked for another run to be signaled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalScheduled {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Run id given by the decider; the newest run when absent.
    #[n(1)]
    pub run_id: Option<NamedRun>,
    /// Name of the signal.
    #[n(2)]
    pub name: String,
    /// Payload of the signal.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(4)]
    pub decision_event_id: EventId,
    /// The decider's note, returned with the event.
    #[n(5)]
    pub control: Option<String>,
}

/// The other run received the signal.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalDelivered {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the run that received the signal.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ExternalSignalScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The other run could not be signaled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalFailed {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Id of the ExternalSignalScheduled event; absent if the decision failed immediately.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Run id given by the decider, if there is no ExternalSignalScheduled event.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// The decider's note, if there is no ExternalSignalScheduled event.
    #[n(5)]
    pub control: Option<String>,
}

/// A decider asked for another run to be canceled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelScheduled {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Run id given by the decider; the newest run when absent.
    #[n(1)]
    pub run_id: Option<NamedRun>,
    /// Reason, for people.
    #[n(2)]
    pub reason: Option<String>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// The decider's note, returned with the event.
    #[n(4)]
    pub control: Option<String>,
}

/// The other run received the cancel request.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelDelivered {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Run id of the run that received the cancel request.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the ExternalCancelScheduled event.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The cancel request could not be delivered to the other run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelFailed {
    /// Workflow id of the other run.
    #[n(0)]
    pub workflow_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Id of the ExternalCancelScheduled event; absent if the decision failed immediately.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Run id given by the decider, if there is no ExternalCancelScheduled event.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// The decider's note, if there is no ExternalCancelScheduled event.
    #[n(5)]
    pub control: Option<String>,
}

/// Reason why another run could not be signaled or asked to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ExternalFailedCause {
    /// The workflow id does not exist, or the named run is not its newest.
    #[n(0)]
    WorkflowUnknown,
    /// The run is closed.
    #[n(1)]
    WorkflowClosed,
    /// The run has reached its limit of signals and cancel requests in progress.
    #[n(2)]
    OpenExternalsLimit,
    /// The state of the run has no space for another request.
    #[n(3)]
    StateLimit,
    /// The decider's credential does not allow it.
    #[n(4)]
    OperationNotPermitted,
}
