//! The attributes of events about other runs: where something came from, and signals and cancel requests sent to others.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;
use crate::ids::NamedRun;
use crate::payload::{self, Payload};

/// The event of another run that something comes from: with it, whatever comes from there is recorded once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The other run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its event.
    #[n(2)]
    pub event_id: EventId,
}

/// A decider wants another run to be signaled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalScheduled {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The other run, as the decider named it; the newest one when absent.
    #[n(1)]
    pub run_id: Option<NamedRun>,
    /// The signal's name.
    #[n(2)]
    pub name: String,
    /// What it says.
    #[n(3)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(4)]
    pub decision_event_id: EventId,
    /// The decider's note, which comes back with the event.
    #[n(5)]
    pub control: Option<String>,
}

/// The other run has the signal.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalDelivered {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The run that has it.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ExternalSignalScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The other run could not be signaled.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalSignalFailed {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Why.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Its ExternalSignalScheduled; absent when it was not even tried.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(3)]
    pub decision_event_id: EventId,
    /// The other run, as the decider named it, where there is no ExternalSignalScheduled to say.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// The decider's note, likewise.
    #[n(5)]
    pub control: Option<String>,
}

/// A decider wants another run to be asked to cancel.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelScheduled {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The other run, as the decider named it; the newest one when absent.
    #[n(1)]
    pub run_id: Option<NamedRun>,
    /// Why.
    #[n(2)]
    pub reason: Option<String>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(3)]
    pub decision_event_id: EventId,
    /// The decider's note, which comes back with the event.
    #[n(4)]
    pub control: Option<String>,
}

/// The other run has been asked.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelDelivered {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The run that was asked.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Its ExternalCancelScheduled.
    #[n(2)]
    pub scheduled_event_id: EventId,
}

/// The other run could not be asked.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCancelFailed {
    /// The other run's workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// Why.
    #[n(1)]
    pub cause: ExternalFailedCause,
    /// Its ExternalCancelScheduled; absent when it was not even tried.
    #[n(2)]
    pub scheduled_event_id: Option<EventId>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(3)]
    pub decision_event_id: EventId,
    /// The other run, as the decider named it, where there is no ExternalCancelScheduled to say.
    #[n(4)]
    pub run_id: Option<NamedRun>,
    /// The decider's note, likewise.
    #[n(5)]
    pub control: Option<String>,
}

/// Why another run could not be signaled or asked to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum ExternalFailedCause {
    /// There is no such workflow id, or the run named is not its newest.
    #[n(0)]
    WorkflowUnknown,
    /// The run has closed.
    #[n(1)]
    WorkflowClosed,
    /// As many signals and cancel requests to others are under way as may be.
    #[n(2)]
    OpenExternalsLimit,
    /// The state of the run has no room for another.
    #[n(3)]
    StateLimit,
    /// The decider's credential does not allow it.
    #[n(4)]
    OperationNotPermitted,
}
