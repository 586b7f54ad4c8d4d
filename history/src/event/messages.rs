//! Attributes of signals and markers.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{EventId, Origin};
use crate::payload::{self, Payload};
use crate::trace::Traceparent;

/// An application or another run sent a signal.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// Name of the signal.
    #[n(0)]
    pub name: String,
    /// Payload of the signal.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Identity of the sender.
    #[n(2)]
    pub identity: Option<String>,
    /// Event in the history of the run that sent the signal; absent if an application sent the signal.
    #[n(3)]
    pub origin: Option<Origin>,
    /// W3C `traceparent` of the sender of the signal. The run stays in the trace in which it was started.
    #[n(4)]
    pub traceparent: Option<Traceparent>,
}

/// A decider recorded a marker for its own use.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// Name of the marker.
    #[n(0)]
    pub name: String,
    /// Payload of the marker.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A marker could not be recorded.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MarkerFailed {
    /// Name of the marker.
    #[n(0)]
    pub name: String,
    /// Cause, for programs.
    #[n(1)]
    pub cause: MarkerFailedCause,
    /// Id of the DeciderCompleted event of the turn that made the decision.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Reason why a marker could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum MarkerFailedCause {
    /// Names that begin with `baton.` are reserved.
    #[n(0)]
    NameReserved,
    /// The decider's credential does not permit the decision.
    #[n(1)]
    OperationNotPermitted,
}
