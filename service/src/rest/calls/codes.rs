//! Descriptions and error codes that several calls share.

/// Description of the header that the response to a poll has if there is no task.
pub(super) const NO_POLLERS: &str = "Task lists of the domain that have waiting tasks and no pollers, as \
     `name;decider;since=…` or `name;activity;since=…`, at most ten. Only for callers that may read the domain's runs.";

/// Description of a run's `ETag`.
pub(super) const ETAG: &str = "Run and version, for `If-Match`.";

/// Description of a query result's `ETag`.
pub(super) const QUERY_ETAG: &str =
    "Run, version that the answer reflects, and result, for `If-None-Match` and `If-Match`.";

/// Error codes of calls that name a run.
pub(super) const NO_RUN: &[&str] = &["unknown-run", "unknown-workflow"];

/// Error codes of calls that name a type.
pub(super) const NO_TYPE: &[&str] = &["unknown-type"];

/// Error codes of calls that start a run.
pub(super) const NO_START: &[&str] =
    &["domain-deprecated", "type-deprecated", "workflow-already-open", "workflow-id-reuse-refused"];

/// Error codes of calls that write to a run.
pub(super) const NO_WRITE: &[&str] = &["run-closed", "run-not-current"];

/// Error codes of calls that send something to the decider of a run.
pub(super) const NO_DECIDER: &[&str] = &["no-decider"];

/// Error codes of calls that answer a turn.
pub(super) const NO_TURN: &[&str] =
    &["query-task-lost", "run-closed", "turn-completed", "turn-lost", "unknown-update", "update-already-accepted"];

/// Error codes of calls that answer an activity.
pub(super) const NO_ACTIVITY: &[&str] = &["activity-closed", "run-closed"];

/// Error codes of calls that name a schedule.
pub(super) const NO_SCHEDULE: &[&str] = &["unknown-schedule"];

/// Error codes of calls that name a batch.
pub(super) const NO_BATCH: &[&str] = &["unknown-batch"];

/// Error codes of calls with a token.
pub(super) const BAD_TOKEN: &[&str] = &["bad-token"];
