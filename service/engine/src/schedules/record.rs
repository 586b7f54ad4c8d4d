//! Stored form of a schedule: a head with the next scheduled time for the due index, and a row for lists.

use history::{Fault, Schedule, ScheduleState, ScheduleTimes, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Head, Row};
use uuid::Uuid;

use crate::Refusal;

/// Format number of the records that this module writes.
const FORMAT: u8 = 1;

/// Status in the rows of schedules that are not paused.
const ACTIVE: &str = "active";
pub(super) const PAUSED: &str = "paused";

/// Stored form of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduleRecord {
    format: u8,
    /// Configuration of the schedule.
    pub(crate) schedule: Schedule,
    /// Time when the schedule was created.
    pub(crate) created_at: Timestamp,
    /// State of the schedule.
    pub(crate) state: ScheduleState,
}

impl ScheduleRecord {
    pub(super) fn new(schedule: Schedule, created_at: Timestamp, state: ScheduleState) -> Self {
        Self { format: FORMAT, schedule, created_at, state }
    }

    pub(super) fn decode(head: &Head) -> Result<Self, Refusal> {
        let garbled = |what: String| Refusal::Corrupt { what: format!("a schedule: {what}") };
        let record: Self = history::read_json(&head.body).map_err(|error| garbled(error.to_string()))?;
        match record.format {
            FORMAT => Ok(record),
            other => Err(garbled(format!("format {other}, this version of Baton reads {FORMAT}"))),
        }
    }

    /// Returns the calculator of the schedule's times. The specification was validated before it was stored, so an
    /// error means that the stored data is damaged.
    pub(super) fn times(&self) -> Result<ScheduleTimes, Refusal> {
        let garbled = |fault: Fault| Refusal::Corrupt { what: format!("a schedule: {fault}") };
        ScheduleTimes::new("spec", &self.schedule.spec).map_err(garbled)
    }

    /// Returns the head that stores the schedule. It replaces the head `before`.
    pub(super) fn head(&self, id: Uuid, before: Option<&Head>, now: Timestamp) -> Result<Head, Refusal> {
        let due = self.state.due(self.schedule.rules(), &self.times()?, id, now);
        let body = serde_json::to_vec(self).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
        Ok(Head {
            run: *id.as_bytes(),
            version: before.map_or(1, |head| head.version + 1),
            body: body.into(),
            due: due.map(Timestamp::as_millis),
            row: Some(Row {
                workflow_type: self.schedule.action.workflow_type.as_str().into(),
                status: if self.state.paused.is_some() { PAUSED } else { ACTIVE }.into(),
                flagged: false,
                started_at: self.created_at.as_millis(),
                closed_at: None,
                tags: Vec::new(),
                why: None,
            }),
            expires_at: None,
        })
    }
}

#[cfg(test)]
mod tests;
