//! Attributes of the events about other runs: the origin of a request from another run, and signals and cancel requests
//! to other runs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;
use crate::ids::NamedRun;
use crate::payload::{self, Payload};

/// Event in the history of another run that caused a request to this run. The event identifies the request, so that the
/// service records each request only once.
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
    /// Text from the decision, which the service stored for later use by the decider.
    #[n(5)]
    pub control: Option<String>,
}

/// The other run received the signal.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalDelivered {
    /// Workflow id of the run that received the signal.
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
    /// Workflow id of the run to which the signal was addressed.
    #[n(0)]
    pub workflow_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Id of the ExternalSignalScheduled event; absent if the decision failed at once.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Run id given by the decider, present if there is no ExternalSignalScheduled event.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// Text from the decision. Present only if there is no ExternalSignalScheduled event.
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
    /// Text from the decision, which the service stored for later use by the decider.
    #[n(4)]
    pub control: Option<String>,
}

/// The other run received the cancel request.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelDelivered {
    /// Workflow id of the run that received the cancel request.
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
    /// Workflow id of the run to which the cancel request was addressed.
    #[n(0)]
    pub workflow_id: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Id of the ExternalCancelScheduled event; absent if the decision failed at once.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(3)]
    pub decision_event_id: EventId,
    /// Run id given by the decider, present if there is no ExternalCancelScheduled event.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// Text from the decision. Present only if there is no ExternalCancelScheduled event.
    #[n(5)]
    pub control: Option<String>,
}

/// Reason why a signal or cancel request to another run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ExternalFailedCause {
    /// No run has the workflow id, or the named run is not the newest run of the workflow id.
    #[n(0)]
    WorkflowUnknown,
    /// The other run is closed.
    #[n(1)]
    WorkflowClosed,
    /// This run has reached its limit of pending signals and cancel requests to other runs.
    #[n(2)]
    OpenExternalsLimit,
    /// The state of this run has no space for another request.
    #[n(3)]
    StateLimit,
    /// The decider's credential does not permit the decision.
    #[n(4)]
    OperationNotPermitted,
}
