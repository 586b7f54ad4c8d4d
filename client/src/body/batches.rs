//! Bodies of batches.

use std::collections::BTreeMap;

use history::{BatchFilter, BatchPhase, BatchRefusal, BatchedOperation, CallerName, Timestamp};
use serde::{Deserialize, Serialize};

use super::Listed;

/// A batch to create: one operation on many runs.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateBatch {
    /// Operation on each run.
    pub operation: BatchedOperation,
    /// Filter of the runs; all runs on which the operation is possible by default.
    #[serde(default)]
    pub filter: BatchFilter,
    /// Maximum number of runs per second, 1 to 1,000; 50 by default.
    pub pace: Option<u32>,
    /// Reason, which the histories of the runs record. At most 256 characters.
    pub reason: Option<String>,
    /// Name of the operator; shown in the histories of the runs.
    pub identity: Option<String>,
    /// True to count and list the runs and to change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

bodies! {@request
    /// Stop of a batch.
    StopBatch {
    }
    /// Resumption of a stopped batch.
    ResumeBatch {
    }
    /// Change of the pace of a batch.
    ChangePace {
        /// Maximum number of runs per second, 1 to 1,000.
        pace: u32,
    }
}

answers! {
    /// Runs that a batch would select.
    BatchDryRun {
        /// Number of runs that match the filter.
        count: u64,
        /// True if there may be more runs, because not all were examined.
        #[serde(default)]
        truncated: bool,
        /// The first matching runs, at most 100.
        workflows: Vec<Listed>,
    }
    /// The state of a batch.
    DescribedBatch {
        /// Id of the batch.
        batch_id: String,
        /// Status: `running`, `stopped` or `completed`.
        status: BatchPhase,
        /// Operation on each run.
        operation: BatchedOperation,
        /// Filter of the runs.
        filter: BatchFilter,
        /// Maximum number of runs per second.
        pace: u32,
        /// Reason, which the histories of the runs record.
        reason: Option<String>,
        /// Name of the operator.
        identity: Option<String>,
        /// Name of the credential that created the batch, which the histories of the runs record.
        by: Option<CallerName>,
        /// Time of creation.
        created_at: Timestamp,
        /// Time of completion. The batch is deleted 30 days later.
        completed_at: Option<Timestamp>,
        /// Number of runs that matched the filter when the batch was created. With `workflowIds`, the number of ids.
        estimated_total: u64,
        /// True if more runs may have matched than `estimatedTotal` states, because not all runs were examined.
        #[serde(default)]
        estimate_truncated: bool,
        /// Number of runs that match the filter and that the batch has read so far.
        examined: u64,
        /// Number of runs on which the operation is recorded.
        done: u64,
        /// Number of runs on which the operation was not possible.
        refused: u64,
        /// Number of runs on which the operation was not possible, for each error code.
        refused_by_code: BTreeMap<String, u64>,
        /// The first runs on which the operation was not possible, at most 100.
        refusals: Vec<BatchRefusal>,
    }
    /// A batch in a list.
    ListedBatch {
        /// Id of the batch.
        batch_id: String,
        /// Kind of operation.
        operation: String,
        /// Status: `running`, `stopped` or `completed`.
        status: String,
        /// Time of creation.
        created_at: Timestamp,
        /// Time of completion.
        completed_at: Option<Timestamp>,
    }
    /// A page of batches.
    Batches {
        /// The batches, newest first.
        batches: Vec<ListedBatch>,
        /// Position of the next page; absent on the last page.
        next_page: Option<String>,
    }
}
