//! Bodies of updates: the caller's request with its response, and the update that a decider receives with its verdict.

use history::{EventId, Payload, UpdateAnswer, Verdict};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::StartWorkflow;

/// An update that a caller sends to a run's decider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateWorkflow {
    /// Input of the update.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
    /// Id of this update, 1 to 256 characters. If an update with the same id is sent again within a day, the response
    /// is the same. Defaults to the `Idempotency-Key`; without such a key, to a random id.
    pub update_id: Option<String>,
    /// Name of the caller; recorded in the history.
    pub identity: Option<String>,
    /// Run to start if the workflow id has no open run. The first turn of this run validates the update. The
    /// `workflowId` is the one in the path, and the conflict policy is `use-existing` by default. The run stays open
    /// even if the update is rejected.
    pub start: Option<Box<StartWorkflow>>,
}

/// The outcome of an accepted update.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    /// Id of the update.
    pub update_id: String,
    /// Run id.
    pub run_id: Uuid,
    /// True if this request started the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// Event id of the update's UpdateCompleted. Until the update is completed, the event id of its UpdateAccepted.
    pub event_id: EventId,
    /// True if the update is completed. If false, the update was accepted and a later turn will complete it. To get its
    /// result, send the request again with the same `updateId`.
    pub done: bool,
    /// Version of the run after the update was completed. The entity tag of the response contains this version.
    pub version: Option<EventId>,
    /// Result of the update.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// An update that a decider must validate.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdate {
    /// Id of the update, which the decider's result must contain.
    pub id: String,
    /// Name of the update.
    pub name: String,
    /// Input of the update.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
    /// Name of the caller.
    pub identity: Option<String>,
}

/// A decider's verdict on an update: exactly one of `accepted`, `rejected`, `later` and `failed`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateResult {
    /// Id of the update.
    pub id: String,
    /// Result of the update; may be `null`. If present, the update is accepted and completed.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub accepted: Option<Payload>,
    /// Reason for the rejection. If present, the update is rejected, and no event is recorded for it.
    pub rejected: Option<Rejection>,
    /// Reason for the failure. If present, an update that this turn or an earlier turn has accepted fails, and the
    /// failure is recorded.
    pub failed: Option<Rejection>,
    /// True to accept the update now and complete it in a later turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

/// Reason why an update was rejected or failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rejection {
    /// Reason, for programs. 1 to 256 characters.
    pub reason: String,
    /// Details, for people and programs.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub details: Option<Payload>,
}

impl UpdateResult {
    /// Returns the verdict; `None` if there is no verdict, or more than one.
    pub fn answer(self) -> Option<UpdateAnswer> {
        let verdict = match (self.accepted, self.rejected, self.failed, self.later) {
            (Some(result), None, None, false) => Verdict::Done { result: Some(result) },
            (None, Some(Rejection { reason, details }), None, false) => Verdict::Rejected { reason, details },
            (None, None, Some(Rejection { reason, details }), false) => Verdict::Failed { reason, details },
            (None, None, None, true) => Verdict::Later,
            _ => return None,
        };
        Some(UpdateAnswer { update_id: self.id, verdict })
    }
}

impl From<UpdateAnswer> for UpdateResult {
    fn from(answer: UpdateAnswer) -> Self {
        let mut result = Self { id: answer.update_id, ..Self::default() };
        match answer.verdict {
            Verdict::Done { result: it } => {
                result.accepted = it.or_else(|| Some(Payload::from_trusted("null")));
            }
            Verdict::Rejected { reason, details } => result.rejected = Some(Rejection { reason, details }),
            Verdict::Failed { reason, details } => result.failed = Some(Rejection { reason, details }),
            Verdict::Later => result.later = true,
        }
        result
    }
}
