//! Updates: what an application asks for, what a decider is asked to judge, and what both are answered.

use history::{EventId, Payload, UpdateAnswer, Verdict};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::StartWorkflow;

/// Asks a run's decider to take an update.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateWorkflow {
    /// What it says.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
    /// Your name for this one update, 1 to 256 characters: with it, asking again within a day gets the first answer. The
    /// `Idempotency-Key` when absent, and without one a name that nobody knows.
    pub update_id: Option<String>,
    /// Who asks; shown in the history.
    pub identity: Option<String>,
    /// Starts the run unless one of its workflow id is open, so that its first turn judges the update. Its `workflowId` is the
    /// one in the path; `use-existing` is its conflict policy when absent. A run that was started stays, whatever becomes of
    /// the update.
    pub start: Option<Box<StartWorkflow>>,
}

/// What came of an update that was accepted.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    /// The name of this update.
    pub update_id: String,
    /// The run.
    pub run_id: Uuid,
    /// Whether this very call has started the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// Its UpdateCompleted; while it is not done its UpdateAccepted.
    pub event_id: EventId,
    /// Whether it is done. One that is not was accepted, and a later turn will answer: ask again with the same `updateId`.
    pub done: bool,
    /// The run's version once it was done; also in the entity tag.
    pub version: Option<EventId>,
    /// The decider's answer.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// An update that a decider is asked to judge.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdate {
    /// What to answer with: the caller's name for it.
    pub id: String,
    /// What kind of update it is.
    pub name: String,
    /// What it says.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
    /// Who asks.
    pub identity: Option<String>,
}

/// What a decider says to an update: exactly one of `accepted`, `rejected`, `later` and `failed`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateResult {
    /// The update's id.
    pub id: String,
    /// It is accepted and done; this is the answer, which may be `null`.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub accepted: Option<Payload>,
    /// It is rejected, and nothing of it is recorded.
    pub rejected: Option<Rejection>,
    /// It is accepted, by this turn or an earlier one, and could not be done; that is recorded.
    pub failed: Option<Rejection>,
    /// It is accepted, and a later turn will answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

/// Why an update is rejected, or has failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rejection {
    /// Why, for programs. 1 to 256 characters.
    pub reason: String,
    /// Why, for people and programs.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub details: Option<Payload>,
}

impl UpdateResult {
    /// The answer, taken apart; `None` when it is not exactly one.
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
