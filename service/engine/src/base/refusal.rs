//! Errors of the engine, with the presentation of each error to callers.

use std::time::Duration;

use history::{Fault, ImportFault, TurnLoss};
use uuid::Uuid;

use crate::TurnWait;
use crate::base::admission::Throttled;
use crate::base::disk::room::DiskRoom;

mod row;
mod rows;

pub use row::MayBeRecorded;
pub use row::RefusalRow;

/// Kind of item whose maximum number was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// Domains.
    Domains,
    /// Tags of a domain.
    Tags,
    /// Types of one kind in a domain.
    Types,
    /// Open runs of a domain.
    OpenRuns,
    /// Waiting polls of a task list.
    Pollers,
    /// Secrets that are valid at the same time.
    Secrets,
    /// Total bytes of the names, descriptions and tags of all domains.
    DomainBytes,
    /// Task lists of a domain with settings.
    ListSettings,
    /// Limit groups of a domain.
    LimitGroups,
    /// Task lists of a domain that are paused with stopped clocks, or were so recently.
    StoppedLists,
    /// Total bytes of the settings of a domain's task lists.
    ListSettingsBytes,
    /// Batches of a domain that are not completed.
    Batches,
}

impl std::fmt::Display for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Domains => "domains",
            Self::Tags => "tags of a domain",
            Self::Types => "types of one kind in a domain",
            Self::OpenRuns => "open runs in a domain",
            Self::Pollers => "waiting polls on a list",
            Self::DomainBytes => {
                "bytes of names, descriptions and tags of all domains; shorten some, or delete domains"
            }
            Self::ListSettings => "task lists with settings in a domain",
            Self::LimitGroups => "limit groups in a domain",
            Self::StoppedLists => {
                "task lists in a domain whose clocks are stopped or were stopped in the last 30 days; pause the list \
                 without this option"
            }
            Self::ListSettingsBytes => "bytes of settings of all task lists of a domain; remove some",
            Self::Batches => "batches in a domain that are not completed",
            Self::Secrets => "valid secrets at the same time; a rotation without an overlap ends the earlier ones",
        })
    }
}

/// Kind of task that a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A decider task.
    Decider,
    /// An activity task.
    Activity,
}

impl TokenKind {
    /// Returns the kind as it appears in error texts.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Decider => "a decider task",
            Self::Activity => "an activity task",
        }
    }

    /// Returns the other kind, which the called endpoint expected.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Decider => Self::Activity,
            Self::Activity => Self::Decider,
        }
    }
}

/// Error of a request to the engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The rules of the crate `history` do not allow the request.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The decider no longer holds the turn. Same as [`Fault::TurnLost`], but with the cause.
    #[error("you no longer hold this turn: {how}")]
    TurnLost {
        /// Cause of the loss.
        how: TurnLoss,
    },
    /// There is no such domain.
    #[error("no domain `{domain}`")]
    UnknownDomain {
        /// Name of the domain in the request.
        domain: String,
    },
    /// The domain already exists.
    #[error("domain `{domain}` already exists")]
    DomainExists {
        /// Name of the domain in the request.
        domain: String,
    },
    /// The domain is deprecated. No run can be started and no type registered in it.
    #[error("domain `{domain}` is deprecated")]
    DomainDeprecated {
        /// Name of the domain.
        domain: String,
    },
    /// The domain cannot be deleted in its current state.
    #[error("domain `{domain}` cannot be deleted: {why}")]
    DomainInUse {
        /// Name of the domain.
        domain: String,
        /// Reason why the domain cannot be deleted.
        why: &'static str,
    },
    /// There is no such type.
    #[error("no {kind} type `{name}`")]
    UnknownType {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Name of the type in the request, with its version.
        name: String,
    },
    /// The type is already registered.
    #[error("{kind} type `{name}` is already registered")]
    TypeExists {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Name of the type in the request, with its version.
        name: String,
    },
    /// The type is deprecated. No run or activity of this type can be started.
    #[error("{kind} type `{name}` is deprecated")]
    TypeDeprecated {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Name of the type, with its version.
        name: String,
    },
    /// The type cannot be deleted, because it is not deprecated.
    #[error("{kind} type `{name}` is in use")]
    TypeInUse {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Name of the type, with its version.
        name: String,
    },
    /// A maximum number is reached.
    #[error("limit reached: at most {max} {what}")]
    LimitExceeded {
        /// Kind of item that is limited.
        what: Limited,
        /// Maximum number of these items.
        max: usize,
    },
    /// The quota of a domain or of a credential is exceeded.
    #[error(transparent)]
    QuotaExceeded(#[from] Throttled),
    /// Free disk space is below the reserve for open runs, so no new run can start.
    #[error("no run can be started: {room}")]
    InsufficientStorage {
        /// Free space and reserve.
        room: DiskRoom,
    },
    /// The disk is so full that the store only deletes.
    #[error(
        "the disk of the store is full: {} MiB are free, and writes need {} MiB; reading and deleting still work",
        free >> 20, least.div_ceil(1 << 20)
    )]
    DiskFull {
        /// Free bytes.
        free: u64,
        /// Required free bytes.
        least: u64,
    },
    /// There is no such schedule.
    #[error("no schedule `{schedule}` in domain `{domain}`")]
    UnknownSchedule {
        /// Domain in the request.
        domain: String,
        /// Schedule id in the request.
        schedule: String,
    },
    /// There is no such batch.
    #[error("no batch `{batch}` in domain `{domain}`")]
    UnknownBatch {
        /// Domain in the request.
        domain: String,
        /// Batch id in the request.
        batch: String,
    },
    /// The batch is running, but the request requires that it is stopped or completed.
    #[error("batch `{batch}` is running")]
    BatchRunning {
        /// Id of the batch.
        batch: String,
    },
    /// The batch is completed and cannot change.
    #[error("batch `{batch}` is completed")]
    BatchCompleted {
        /// Id of the batch.
        batch: String,
    },
    /// There is no such limit group.
    #[error("no limit group `{group}` in domain `{domain}`")]
    UnknownLimitGroup {
        /// Domain in the request.
        domain: String,
        /// Name of the group in the request.
        group: String,
    },
    /// The limit group is used by task lists.
    #[error("limit group `{group}` is used by task list `{list}`")]
    LimitGroupInUse {
        /// Name of the group.
        group: String,
        /// One of the task lists that use it.
        list: String,
    },
    /// The task list is already paused.
    #[error("task list `{list}` is already paused")]
    ListAlreadyPaused {
        /// Name of the list.
        list: String,
    },
    /// The task list is not paused.
    #[error("task list `{list}` is not paused")]
    ListNotPaused {
        /// Name of the list.
        list: String,
    },
    /// The schedule already exists.
    #[error("schedule `{schedule}` already exists")]
    ScheduleExists {
        /// Schedule id in the request.
        schedule: String,
    },
    /// The domain has no run with this workflow id, or the retention period of the run has ended.
    #[error("no workflow `{workflow_id}` in domain `{domain}`")]
    UnknownWorkflow {
        /// Domain in the request.
        domain: String,
        /// Workflow id in the request.
        workflow_id: String,
    },
    /// The workflow id has no run with this run id, or the retention period of the run has ended.
    #[error("no run {run_id} of workflow `{workflow_id}`")]
    UnknownRun {
        /// Workflow id in the request.
        workflow_id: String,
        /// Run id in the request.
        run_id: Uuid,
    },
    /// The clock is doubted. Deadlines cannot be repaired until the clock is confirmed or corrected.
    #[error("the service's clock shows {now} and may be wrong: {why}")]
    ClockSuspect {
        /// Time that the clock shows.
        now: history::Timestamp,
        /// Reason why the clock is doubted.
        why: String,
    },
    /// A write request names a run that is not the newest of its workflow id.
    #[error("run {run_id} is not the current run of workflow `{workflow_id}`; the current run is {current}")]
    RunNotCurrent {
        /// Workflow id in the request.
        workflow_id: String,
        /// Run id in the request.
        run_id: Uuid,
        /// Id of the newest run.
        current: Uuid,
    },
    /// The decider has no query with this name.
    #[error("the decider has no query `{name}`")]
    UnknownQuery {
        /// Name of the query in the request.
        name: String,
        /// Names of the queries that the decider reported.
        known: Vec<String>,
    },
    /// The query failed; the run is not affected.
    #[error(
        "query `{name}` failed: {reason}{}",
        message.as_deref().map(|message| format!(": {message}")).unwrap_or_default()
    )]
    QueryFailed {
        /// Name of the query.
        name: String,
        /// Machine-readable reason.
        reason: String,
        /// Human-readable message.
        message: Option<String>,
    },
    /// No decider answered the query in time.
    #[error("the query was not answered in time: {}", waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string))]
    QueryTimedOut {
        /// State of the query, for the error text.
        why: &'static str,
        /// Reason why the run's turn has not been started; `None` if the query waits for something else.
        waits_for: Option<TurnWait>,
    },
    /// Too many requests are waiting in memory.
    #[error("{found} {what}, at most {max} are allowed")]
    TooManyWaiting {
        /// Number of requests that are waiting.
        found: usize,
        /// Maximum number of requests that may wait.
        max: usize,
        /// Kind of the waiting requests.
        what: &'static str,
    },
    /// All callers that waited for the queries of this query task have stopped waiting.
    #[error("the queries of this task have no waiting callers anymore")]
    QueryTaskLost,
    /// The requested output of an activity is not kept.
    #[error("no output of activity `{activity_id}` is kept from this position")]
    OutputNotKept {
        /// Activity id in the request.
        activity_id: String,
    },
    /// The output of other running activities leaves no room.
    #[error("the output of running activities fills the memory for output")]
    OutputFull,
    /// The run is open, but the request requires that it has closed.
    #[error("run {run_id} is open")]
    RunOpen {
        /// Id of the open run.
        run_id: Uuid,
    },
    /// The history from another service cannot be imported.
    #[error("the run cannot be imported: {0}")]
    BadHistory(#[from] ImportFault),
    /// The run to be imported already exists with a different history.
    #[error("run {run_id} already exists with another history")]
    HistoryMismatch {
        /// Id of the existing run.
        run_id: Uuid,
    },
    /// The task token was not issued by this service.
    #[error("the token is not a task token of this service")]
    BadToken,
    /// The token is valid, but belongs to the kind of task that the called endpoint does not handle.
    #[error("the token belongs to {}, expected {}", found.words(), found.other().words())]
    WrongTokenKind {
        /// Kind of task that the token is for.
        found: TokenKind,
    },
    /// The page token does not belong to this list request.
    #[error("the page token is not valid for this list: {why}")]
    BadPage {
        /// Reason why the page token is not valid.
        why: String,
    },
    /// The run's state, or the data that a single request adds to the state, is too large for the store.
    #[error("the state of the run has {found} bytes, at most {max} can be stored")]
    RunTooLarge {
        /// Size in bytes.
        found: usize,
        /// Maximum size in bytes.
        max: usize,
    },
    /// The decider rejected the update. Nothing is recorded.
    #[error("update `{update_id}` was rejected: {reason}")]
    UpdateRejected {
        /// Id of the update.
        update_id: String,
        /// Machine-readable reason.
        reason: String,
        /// Details, for people and programs.
        details: Option<history::Payload>,
    },
    /// The update was accepted and then failed.
    #[error("update `{update_id}` was accepted and then failed: {reason}")]
    UpdateFailed {
        /// Id of the update.
        update_id: String,
        /// Id of the update's UpdateFailed event.
        event_id: history::EventId,
        /// Machine-readable reason.
        reason: String,
        /// Details, for people and programs.
        details: Option<history::Payload>,
    },
    /// A run was started for an update and remains open, but the update then failed.
    #[error("{then}; run {run_id} was started for it and remains open")]
    AfterStart {
        /// Id of the started run.
        run_id: Uuid,
        /// Error of the update.
        then: Box<Refusal>,
    },
    /// No decider answered the update in time.
    #[error(
        "update `{update_id}` was not answered in time: {}",
        waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string)
    )]
    UpdateTimedOut {
        /// Id of the update.
        update_id: String,
        /// True if a decider already has the update and may still accept it.
        recorded: bool,
        /// State of the update, for the error text.
        why: &'static str,
        /// Reason why the run's turn has not been started; `None` if the update waits for something else.
        waits_for: Option<TurnWait>,
    },
    /// The store did not accept the write. Nothing was recorded.
    #[error("the store did not accept the write: {why}")]
    Unavailable {
        /// Reason given by the store.
        why: String,
        /// Time to wait before the next attempt, if known.
        retry_after: Option<Duration>,
    },
    /// Unknown outcome: the request may or may not have been recorded.
    #[error("the outcome is unknown: {why}")]
    OutcomeUnknown {
        /// Reason why the outcome is unknown.
        why: String,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// Stored data cannot be decoded.
    #[error("stored data cannot be read: {what}")]
    Corrupt {
        /// Description of the data and its location.
        what: String,
    },
}

impl Refusal {
    pub(crate) fn unknown_workflow(key: &store::HeadKey) -> Self {
        Self::UnknownWorkflow { domain: key.domain.to_string(), workflow_id: key.workflow_id.to_string() }
    }

    /// Returns the stable error code that is sent to callers.
    pub fn code(&self) -> &'static str {
        self.row().code
    }

    /// Returns true if the same request may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.row().is_retryable
    }

    /// Returns whether the request may have been recorded.
    pub fn recorded(&self) -> MayBeRecorded {
        self.row().recorded
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotApplied { why, retry_after } => Self::Unavailable { why, retry_after },
            store::Error::Full { free, least } => Self::DiskFull { free, least },
            // If a write to the store failed, the store may nevertheless have applied it.
            store::Error::Unknown { why } | store::Error::Failed { why } => Self::OutcomeUnknown { why },
            store::Error::TooLarge { max, found } => Self::RunTooLarge { found, max },
            store::Error::InvalidPage => {
                Self::BadPage { why: "it was changed, or belongs to another query".to_owned() }
            }
            store::Error::Corrupt { what } => Self::Corrupt { what },
            in_use @ store::Error::InUse { .. } => Self::Unavailable { why: in_use.to_string(), retry_after: None },
        }
    }
}

impl From<history::codec::Error> for Refusal {
    fn from(error: history::codec::Error) -> Self {
        Self::Corrupt { what: error.to_string() }
    }
}
