//! Bodies of updates: the caller's request and response, and a decider's request and verdict.

use history::{EventId, Payload, UpdateAnswer, Verdict};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::StartWorkflow;

/// An update for a run's decider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateWorkflow {
    /// Input of the update.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
    /// Id of this update, 1 to 256 characters. Repeating it within a day returns the first answer. Defaults to the
    /// `Idempotency-Key`, and without one to a random id.
    pub update_id: Option<String>,
    /// Name of the caller; shown in the history.
    pub identity: Option<String>,
    /// Run to start if the workflow id has no open run, so that its first turn judges the update. Its `workflowId` is
    /// the one in the path, and its conflict policy is `use-existing` by default. The run stays open even if the
    /// update is rejected.
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
    /// Event id of its UpdateCompleted, or of its UpdateAccepted until then.
    pub event_id: EventId,
    /// True if the update is completed. Otherwise it was accepted and a later turn will complete it: send the request
    /// again with the same `updateId`.
    pub done: bool,
    /// Version of the run after the completion; also in the entity tag.
    pub version: Option<EventId>,
    /// Result of the update.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// An update for a decider to judge.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdate {
    /// Id of the update; identifies it in its result.
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
    /// Result of an update that is accepted and completed; may be `null`.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub accepted: Option<Payload>,
    /// Reason for rejecting the update. Nothing is recorded.
    pub rejected: Option<Rejection>,
    /// Reason why an update failed that this turn or an earlier one accepted. The failure is recorded.
    pub failed: Option<Rejection>,
    /// True if the update is accepted and a later turn will complete it.
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
    /// Returns the verdict, or `None` unless exactly one is present.
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
