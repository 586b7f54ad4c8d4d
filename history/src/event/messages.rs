//! Signals and markers.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{EventId, Origin};
use crate::payload::{self, Payload};
use crate::trace::Traceparent;

/// News from outside.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// What it says.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub input: Option<Payload>,
    /// Who sent it.
    #[n(2)]
    pub identity: Option<String>,
    /// The event of the other run that it comes from, if one decided it.
    #[n(3)]
    pub origin: Option<Origin>,
    /// The trace of whoever sent it, as W3C's `traceparent`. The run stays in its own.
    #[n(4)]
    pub traceparent: Option<Traceparent>,
}

/// A decider's note to itself.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// The note.
    #[n(1)]
    #[serde(default, deserialize_with = "payload::present")]
    pub details: Option<Payload>,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// A note could not be recorded.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MarkerFailed {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// Why.
    #[n(1)]
    pub cause: MarkerFailedCause,
    /// The DeciderCompleted of the turn that decided it.
    #[n(2)]
    pub decision_event_id: EventId,
}

/// Why a marker could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cbor(index_only)]
pub enum MarkerFailedCause {
    /// Names that begin with `baton.` are reserved.
    #[n(0)]
    NameReserved,
    /// The decider's credential does not allow it.
    #[n(1)]
    OperationNotPermitted,
}
