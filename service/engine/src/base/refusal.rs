//! Errors of the engine, and what a caller should do about each.

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

/// Kind of limit that was reached.
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
    /// Returns the kind as error texts name it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Decider => "a decider task",
            Self::Activity => "an activity task",
        }
    }

    /// Returns the kind that the called endpoint expected instead.
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
    /// The rules of the run refuse it.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The decider no longer holds the turn: [`Fault::TurnLost`] with its cause.
    #[error("you no longer hold this turn: {how}")]
    TurnLost {
        /// Cause.
        how: TurnLoss,
    },
    /// No such domain.
    #[error("no domain `{domain}`")]
    UnknownDomain {
        /// The name given.
        domain: String,
    },
    /// The domain already exists.
    #[error("domain `{domain}` already exists")]
    DomainExists {
        /// The name given.
        domain: String,
    },
    /// The domain is deprecated: nothing can be started or registered in it.
    #[error("domain `{domain}` is deprecated")]
    DomainDeprecated {
        /// Its name.
        domain: String,
    },
    /// The domain cannot be deleted in its current state.
    #[error("domain `{domain}` cannot be deleted: {why}")]
    DomainInUse {
        /// Its name.
        domain: String,
        /// Reason.
        why: &'static str,
    },
    /// No such type.
    #[error("no {kind} type `{name}`")]
    UnknownType {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// The name given, with the version.
        name: String,
    },
    /// The type is already registered.
    #[error("{kind} type `{name}` is already registered")]
    TypeExists {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// The name given, with the version.
        name: String,
    },
    /// The type is deprecated: no run or activity of it can be started.
    #[error("{kind} type `{name}` is deprecated")]
    TypeDeprecated {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Its name, with the version.
        name: String,
    },
    /// The type is not deprecated and therefore cannot be deleted.
    #[error("{kind} type `{name}` is in use")]
    TypeInUse {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Its name, with the version.
        name: String,
    },
    /// The maximum number is reached.
    #[error("limit reached: at most {max} {what}")]
    LimitExceeded {
        /// Kind of thing.
        what: Limited,
        /// The maximum.
        max: usize,
    },
    /// The quota of a domain or of a credential is exceeded.
    #[error(transparent)]
    QuotaExceeded(#[from] Throttled),
    /// Free disk space is below the reserve for open runs, so that no new run is started.
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
    /// No such schedule.
    #[error("no schedule `{schedule}` in domain `{domain}`")]
    UnknownSchedule {
        /// The domain.
        domain: String,
        /// The id given.
        schedule: String,
    },
    /// The schedule already exists.
    #[error("schedule `{schedule}` already exists")]
    ScheduleExists {
        /// The id given.
        schedule: String,
    },
    /// The domain has no run with this workflow id, or its retention is over.
    #[error("no workflow `{workflow_id}` in domain `{domain}`")]
    UnknownWorkflow {
        /// The domain.
        domain: String,
        /// The workflow id given.
        workflow_id: String,
    },
    /// The workflow id has no such run, or its retention is over.
    #[error("no run {run_id} of workflow `{workflow_id}`")]
    UnknownRun {
        /// The workflow id.
        workflow_id: String,
        /// The run id given.
        run_id: Uuid,
    },
    /// Deadlines are not repaired while the clock is doubted.
    #[error("the service's clock says {now} and may be wrong: {why}")]
    ClockSuspect {
        /// Time of the clock.
        now: history::Timestamp,
        /// Reason for the doubt.
        why: String,
    },
    /// A write names a run that is not the newest of its workflow id.
    #[error("run {run_id} is not the current run of workflow `{workflow_id}`; the current run is {current}")]
    RunNotCurrent {
        /// The workflow id.
        workflow_id: String,
        /// The run id given.
        run_id: Uuid,
        /// The newest run.
        current: Uuid,
    },
    /// The decider has no such query.
    #[error("the decider has no query `{name}`")]
    UnknownQuery {
        /// The name given.
        name: String,
        /// Names of queries that the decider reported.
        known: Vec<String>,
    },
    /// The query failed; the run is not affected.
    #[error(
        "query `{name}` failed: {reason}{}",
        message.as_deref().map(|message| format!(": {message}")).unwrap_or_default()
    )]
    QueryFailed {
        /// The query.
        name: String,
        /// Reason for programs.
        reason: String,
        /// Message for people.
        message: Option<String>,
    },
    /// No decider answered the query in time.
    #[error("the query was not answered in time: {}", waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string))]
    QueryTimedOut {
        /// State in which the query was waiting.
        why: &'static str,
        /// Reason why the run's turn is not taken, if there is one.
        waits_for: Option<TurnWait>,
    },
    /// Too many requests are waiting in memory.
    #[error("{found} {what}, at most {max} are allowed")]
    TooManyWaiting {
        /// Number that are waiting.
        found: usize,
        /// Maximum number.
        max: usize,
        /// Kind of request.
        what: &'static str,
    },
    /// No caller waits any more for the queries of this task.
    #[error("the queries of this task have no waiting callers anymore")]
    QueryTaskLost,
    /// The run is open, but must be closed for the request.
    #[error("run {run_id} is open")]
    RunOpen {
        /// The run.
        run_id: Uuid,
    },
    /// The history of another service cannot be imported.
    #[error("the run cannot be imported: {0}")]
    BadHistory(#[from] ImportFault),
    /// The run that is to be imported already exists with another history.
    #[error("run {run_id} already exists with another history")]
    HistoryMismatch {
        /// The run.
        run_id: Uuid,
    },
    /// The task token was not issued by this service.
    #[error("the token is not a task token of this service")]
    BadToken,
    /// A valid token, sent to the endpoint for the other kind of task.
    #[error("the token belongs to {}, expected {}", found.words(), found.other().words())]
    WrongTokenKind {
        /// Kind of task that the token is for.
        found: TokenKind,
    },
    /// The page token is not from this query.
    #[error("the page token is not valid for this list: {why}")]
    BadPage {
        /// Reason.
        why: String,
    },
    /// The run's state, or what one request adds to it, is too large for the store.
    #[error("the state of the run has {found} bytes, at most {max} can be stored")]
    RunTooLarge {
        /// Size.
        found: usize,
        /// Maximum.
        max: usize,
    },
    /// The decider rejected the update. Nothing is recorded.
    #[error("update `{update_id}` was rejected: {reason}")]
    UpdateRejected {
        /// The update's id.
        update_id: String,
        /// Reason for programs.
        reason: String,
        /// Details for people and programs.
        details: Option<history::Payload>,
    },
    /// The update was accepted and then failed.
    #[error("update `{update_id}` was accepted and then failed: {reason}")]
    UpdateFailed {
        /// The update's id.
        update_id: String,
        /// Id of its UpdateFailed event.
        event_id: history::EventId,
        /// Reason for programs.
        reason: String,
        /// Details for people and programs.
        details: Option<history::Payload>,
    },
    /// A run was started for an update and remains open, but the update failed with another refusal.
    #[error("{then}; run {run_id} was started for it and remains open")]
    AfterStart {
        /// The run.
        run_id: Uuid,
        /// Refusal of the update.
        then: Box<Refusal>,
    },
    /// No decider judged the update in time.
    #[error(
        "update `{update_id}` was not answered in time: {}",
        waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string)
    )]
    UpdateTimedOut {
        /// The update's id.
        update_id: String,
        /// Whether a decider already has it and may still accept it.
        recorded: bool,
        /// State in which the update was waiting.
        why: &'static str,
        /// Reason why the run's turn is not taken, if there is one.
        waits_for: Option<TurnWait>,
    },
    /// The store did not accept the write. Nothing was recorded.
    #[error("the store did not accept the write: {why}")]
    Unavailable {
        /// Reason.
        why: String,
        /// Time to wait before the next attempt.
        retry_after: Option<Duration>,
    },
    /// Unknown outcome: the request may or may not have been recorded.
    #[error("the outcome is unknown: {why}")]
    OutcomeUnknown {
        /// Reason.
        why: String,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// Stored bytes cannot be read.
    #[error("stored data cannot be read: {what}")]
    Corrupt {
        /// The unreadable data and where it is.
        what: String,
    },
}

impl Refusal {
    pub(crate) fn unknown_workflow(key: &store::HeadKey) -> Self {
        Self::UnknownWorkflow { domain: key.domain.to_string(), workflow_id: key.workflow_id.to_string() }
    }

    /// Returns the stable error code that callers see.
    pub fn code(&self) -> &'static str {
        self.row().code
    }

    /// Whether the same request may succeed later without a change by the caller.
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
            // A store that failed during a write may have written.
            store::Error::Unknown { why } | store::Error::Failed { why } => Self::OutcomeUnknown { why },
            store::Error::TooLarge { max, found } => Self::RunTooLarge { found, max },
            store::Error::InvalidPage => Self::BadPage { why: "it was changed, or made by another query".to_owned() },
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
