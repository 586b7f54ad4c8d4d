//! Attributes of the events of a reset. A reset starts a new run that branches off the history of another run.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::EventId;

/// The run branched off another run: its history begins with the events of the other run up to `eventId`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowReset {
    /// Run id of the run whose history was copied. The copied events, up to `eventId`, are the first events of this
    /// run, except that event 1 contains the ids of this run.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the last copied event.
    #[n(1)]
    pub event_id: EventId,
    /// Workflow id of the run whose history was copied, if it differs from the workflow id of this run.
    #[n(2)]
    pub workflow_id: Option<String>,
    /// Treatment of signals and cancel requests that the run `runId` received after the event `eventId`.
    #[n(3)]
    pub signals: LaterSignals,
    /// Identity of the operator.
    #[n(4)]
    pub identity: Option<String>,
    /// Reason, for people.
    #[n(5)]
    pub reason: Option<String>,
}

/// Reset that terminates this run: the id of the new run, and the events that the new run copies from a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResetPlan {
    /// Run id of the new run.
    #[n(0)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub new_run_id: Uuid,
    /// Run id of the run whose history the new run copies. This may be the terminated run or an earlier run.
    #[n(1)]
    #[cbor(with = "crate::stored_uuid::uuid")]
    pub run_id: Uuid,
    /// Id of the last copied event.
    #[n(2)]
    pub event_id: EventId,
    /// Treatment of signals that came after the last copied event.
    #[n(3)]
    pub signals: LaterSignals,
}

/// Treatment, in a reset, of signals and cancel requests that the old run received after the last copied event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum LaterSignals {
    /// The new run gets these later signals and cancel requests again, in order, after its WorkflowReset event. If the
    /// old run closed as canceled, the new run gets no cancel requests again.
    #[default]
    #[n(0)]
    Reapply,
    /// The new run does not get the later signals and cancel requests.
    #[n(1)]
    Drop,
}
