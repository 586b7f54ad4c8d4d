//! Stored form of a batch: a head with the time of the batch's next step for the due index, and a row for lists.

use history::{Batch, BatchState, CallerName, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use store::{Head, Row};
use uuid::Uuid;

use crate::Refusal;

/// Format number of the records that this module writes.
const FORMAT: u8 = 1;

/// Estimated number of runs that a batch selects, counted when the batch was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Estimate {
    /// Number of runs.
    pub(crate) total: u64,
    /// True if not all runs were examined, so that there may be more.
    #[serde(default)]
    pub(crate) is_cut: bool,
}

/// Stored form of a batch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BatchRecord {
    format: u8,
    /// Definition of the batch.
    pub(crate) batch: Batch,
    /// Name of the credential that created the batch. The histories of the runs record it as the author.
    pub(crate) by: Option<CallerName>,
    /// Time when the batch was created.
    pub(crate) created_at: Timestamp,
    /// Estimated number of runs.
    pub(crate) estimate: Estimate,
    /// State of the batch.
    pub(crate) state: BatchState,
}

impl BatchRecord {
    pub(super) fn new(batch: Batch, by: Option<CallerName>, estimate: Estimate, state: BatchState) -> Self {
        Self { format: FORMAT, batch, by, created_at: state.read_at, estimate, state }
    }

    pub(super) fn decode(head: &Head) -> Result<Self, Refusal> {
        let garbled = |what: String| Refusal::Corrupt { what: format!("a batch: {what}") };
        let record: Self = history::read_json(&head.body).map_err(|error| garbled(error.to_string()))?;
        match record.format {
            FORMAT => Ok(record),
            other => Err(garbled(format!("format {other}, this program reads {FORMAT}"))),
        }
    }

    /// Returns the head that stores the batch and replaces `before`.
    pub(super) fn head(&self, id: Uuid, before: Option<&Head>) -> Result<Head, Refusal> {
        let body = serde_json::to_vec(self).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
        let completed_at = self.state.completed_at;
        Ok(Head {
            run: *id.as_bytes(),
            version: before.map_or(1, |head| head.version + 1),
            body: body.into(),
            due: self.state.due().map(Timestamp::as_millis),
            row: Some(Row {
                workflow_type: self.batch.operation.r#type.word().into(),
                status: self.state.phase.word().into(),
                flagged: false,
                started_at: self.created_at.as_millis(),
                closed_at: completed_at.map(Timestamp::as_millis),
                tags: Vec::new(),
                why: None,
            }),
            expires_at: completed_at.map(|at| at.plus(limits::BATCH_RETENTION).as_millis()),
        })
    }
}
