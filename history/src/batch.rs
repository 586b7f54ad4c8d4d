//! Batches: one operation on many runs, at a limited pace.
//!
//! A batch is not a run. Its state says what the next step is ([`BatchState::step`]). A step reads the next page of the
//! list of runs and stores the selected runs as a [plan](BatchPlan), operates on these runs, then stores the outcomes.
//! If a node stops in between, the next node finds the plan and operates on the same runs again. It uses the same
//! idempotency keys, so that no run is changed twice and no outcome is counted twice.

mod definition;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::limits;
use crate::time::{Duration, Timestamp};

pub use definition::{Batch, BatchAction, BatchFilter, BatchedOperation, check_pace};

/// Phase of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BatchPhase {
    /// The batch operates on runs.
    #[default]
    Running,
    /// An operator has stopped the batch; it can be resumed.
    Stopped,
    /// The batch has operated on all selected runs.
    Completed,
}

impl BatchPhase {
    /// Returns the word used in lists and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
        }
    }
}

/// A run that a batch has selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SelectedRun {
    /// Workflow id.
    pub workflow_id: String,
    /// Run id.
    pub run_id: Uuid,
}

/// Position in the list of runs from which the next page is read.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchCursor {
    /// Number of the filter's workflow ids that have been read completely. 0 if the filter names none.
    #[serde(default)]
    pub ids: usize,
    /// Position in the list of the filter, or in the list of the next workflow id, in the form of the caller. Absent at
    /// the beginning of the list.
    pub page: Option<String>,
    /// True if the list has been read completely.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_at_end: bool,
}

/// Runs on which a batch is about to operate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchPlan {
    /// Number of the plan in its batch: 1, 2, 3, …
    pub number: u64,
    /// The runs.
    pub runs: Vec<SelectedRun>,
    /// Number of times that the service could not record the operation on the remaining runs.
    #[serde(default)]
    pub attempts: u32,
}

/// A page of the list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPage {
    /// Runs that match the filter.
    pub runs: Vec<SelectedRun>,
    /// Workflow ids of the filter that have no matching run.
    pub missing: Vec<String>,
    /// Position of the next page.
    pub next: BatchCursor,
}

/// A run on which a batch could not operate.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchRefusal {
    /// Workflow id.
    pub workflow_id: String,
    /// Run id; absent if no run of the workflow id matched the filter.
    pub run_id: Option<Uuid>,
    /// Error code.
    pub code: String,
    /// Error text.
    pub reason: String,
}

/// Outcome of a batch's operation on one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The operation is recorded.
    Done,
    /// The operation is not possible.
    Refused {
        /// Error code.
        code: String,
        /// Error text.
        reason: String,
    },
    /// The service could not record the operation, and tries it again later.
    Retry {
        /// Error code.
        code: String,
        /// Error text.
        reason: String,
    },
}

/// Counts of a batch since its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchCounts {
    /// Number of runs that match the filter and have been read so far.
    pub examined: u64,
    /// Number of runs on which the operation is recorded.
    pub done: u64,
    /// Number of runs on which the operation was not possible, by error code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
}

/// Next step of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchStep {
    /// Nothing: the batch is stopped or completed.
    Rest,
    /// Nothing before this time.
    Wait(Timestamp),
    /// Read a page with this number of runs, and store it as a plan.
    Read {
        /// Maximum number of runs.
        limit: usize,
    },
    /// Operate on the runs of the plan.
    Operate,
}

/// Stored state of a batch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchState {
    /// Phase.
    pub phase: BatchPhase,
    /// Maximum number of runs per second.
    pub pace: u32,
    /// Position of the next page.
    pub cursor: BatchCursor,
    /// Runs on which the batch is about to operate.
    pub plan: Option<BatchPlan>,
    /// Number of plans so far.
    pub plans: u64,
    /// Time before which no step is made.
    pub next_at: Timestamp,
    /// Time at which the page of the plan was read.
    pub read_at: Timestamp,
    /// Counts.
    pub counts: BatchCounts,
    /// First refusals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<BatchRefusal>,
    /// Time of completion.
    pub completed_at: Option<Timestamp>,
}

impl BatchState {
    /// Returns the state of a new batch.
    pub fn begin(pace: u32, now: Timestamp) -> Self {
        Self {
            phase: BatchPhase::Running,
            pace,
            cursor: BatchCursor::default(),
            plan: None,
            plans: 0,
            next_at: now,
            read_at: now,
            counts: BatchCounts::default(),
            refusals: Vec::new(),
            completed_at: None,
        }
    }

    /// Returns the next step.
    pub fn step(&self, now: Timestamp) -> BatchStep {
        // A later time was stored while the clock was ahead.
        let waits = self.next_at > now && self.next_at <= now.plus(limits::BATCH_WAIT_MAX);
        match (self.phase, &self.plan) {
            (BatchPhase::Stopped | BatchPhase::Completed, _) => BatchStep::Rest,
            (BatchPhase::Running, _) if waits => BatchStep::Wait(self.next_at),
            (BatchPhase::Running, Some(_)) => BatchStep::Operate,
            (BatchPhase::Running, None) => BatchStep::Read { limit: self.page_size() },
        }
    }

    /// Returns the time of the next step for the due index.
    pub fn due(&self) -> Option<Timestamp> {
        (self.phase == BatchPhase::Running).then_some(self.next_at)
    }

    /// Returns the number of runs of one step: those of a second, but at most a page.
    fn page_size(&self) -> usize {
        usize::try_from(self.pace).unwrap_or(usize::MAX).clamp(1, limits::BATCH_PAGE_MAX)
    }

    /// Stores a page as the plan of the next operations.
    pub fn plan(&mut self, page: BatchPage, now: Timestamp) {
        self.counts.examined = self.counts.examined.saturating_add(page.runs.len() as u64);
        for workflow_id in page.missing {
            let reason = "no run of this workflow id matches the filter".to_owned();
            self.refuse(BatchRefusal { workflow_id, run_id: None, code: "unknown-workflow".to_owned(), reason });
        }
        self.cursor = page.next;
        (self.read_at, self.next_at) = (now, now);
        if page.runs.is_empty() {
            self.complete_at_end(now);
        } else {
            self.plans += 1;
            self.plan = Some(BatchPlan { number: self.plans, runs: page.runs, attempts: 0 });
        }
    }

    /// Stores the outcomes of the operations on the runs of a plan, in their order. Returns false if that plan is no
    /// longer the current one, because another node has stored its outcomes.
    pub fn apply(&mut self, number: u64, outcomes: Vec<(SelectedRun, BatchOutcome)>, now: Timestamp) -> bool {
        let Some(plan) = self.plan.take_if(|plan| plan.number == number) else { return false };
        let size = plan.runs.len() as u64;
        let (attempts, mut left) = (plan.attempts + 1, Vec::new());
        for (run, outcome) in outcomes {
            match outcome {
                BatchOutcome::Done => self.counts.done += 1,
                BatchOutcome::Retry { .. } if attempts < limits::BATCH_ATTEMPTS_MAX => left.push(run),
                BatchOutcome::Refused { code, reason } | BatchOutcome::Retry { code, reason } => {
                    let SelectedRun { workflow_id, run_id } = run;
                    self.refuse(BatchRefusal { workflow_id, run_id: Some(run_id), code, reason });
                }
            }
        }
        if left.is_empty() {
            let interval = (size * 1_000).div_ceil(u64::from(self.pace.max(1)));
            self.next_at = self.read_at.plus(Duration::from_millis(interval)).max(now);
            self.complete_at_end(now);
        } else {
            self.plans += 1;
            self.plan = Some(BatchPlan { number: self.plans, runs: left, attempts });
            let backoff = Duration::from_secs(1 << attempts.min(6)).min(limits::BATCH_WAIT_MAX);
            (self.read_at, self.next_at) = (now, now.plus(backoff));
        }
        true
    }

    fn complete_at_end(&mut self, now: Timestamp) {
        if self.cursor.is_at_end && self.plan.is_none() {
            self.phase = BatchPhase::Completed;
            self.completed_at = Some(now);
        }
    }

    fn refuse(&mut self, mut refusal: BatchRefusal) {
        let count = self.counts.refused.entry(refusal.code.clone()).or_default();
        *count = count.saturating_add(1);
        if self.refusals.len() < limits::BATCH_REFUSALS_MAX {
            let end = refusal.reason.floor_char_boundary(limits::BATCH_REFUSAL_BYTES_MAX);
            refusal.reason.truncate(end);
            self.refusals.push(refusal);
        }
    }

    /// Stops a running batch. Its current step still finishes.
    pub fn stop(&mut self) {
        if self.phase == BatchPhase::Running {
            self.phase = BatchPhase::Stopped;
        }
    }

    /// Resumes a stopped batch.
    pub fn resume(&mut self, now: Timestamp) {
        if self.phase == BatchPhase::Stopped {
            self.phase = BatchPhase::Running;
            self.complete_at_end(now);
        }
    }

    /// Changes the pace. It applies from the next step on.
    pub fn set_pace(&mut self, pace: u32) {
        self.pace = pace;
    }
}
