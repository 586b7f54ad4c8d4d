//! Why the engine did not do what was asked, and what the caller should make of it.

use std::time::Duration;

use history::{Fault, ImportFault, TurnLoss};
use uuid::Uuid;

use crate::TurnWait;
use crate::base::disk::room::DiskRoom;
use crate::base::shares::Throttled;

mod row;
mod rows;

pub use row::MayBeRecorded;
pub use row::RefusalRow;

/// What there can be only so many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// Domains.
    Domains,
    /// Tags of a domain.
    Tags,
    /// Types of one kind in a domain.
    Types,
    /// Runs that are open in a domain.
    OpenRuns,
    /// Polls that wait on a list.
    Pollers,
    /// Secrets that are good at once.
    Secrets,
    /// Bytes of what all domains say of themselves.
    DomainBytes,
}

impl std::fmt::Display for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Domains => "domains",
            Self::Tags => "tags of a domain",
            Self::Types => "types of one kind in a domain",
            Self::OpenRuns => "open runs in a domain",
            Self::Pollers => "polls that wait on a list",
            Self::DomainBytes => {
                "bytes of names, descriptions and tags of all domains together; shorten some, or delete domains"
            }
            Self::Secrets => "secrets that are good at once; a rotation without an overlap ends those before",
        })
    }
}

/// The kind of task that a token names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A decider task.
    Decider,
    /// An activity task.
    Activity,
}

impl TokenKind {
    /// The kind as error texts name it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Decider => "a decider task",
            Self::Activity => "an activity task",
        }
    }

    /// The kind that the called endpoint expected instead.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Decider => Self::Activity,
            Self::Activity => Self::Decider,
        }
    }
}

/// Why the engine did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The rules refuse it.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The turn is no longer the decider's, and this is why: [`Fault::TurnLost`], looked into.
    #[error("you no longer hold this turn: {how}")]
    TurnLost {
        /// How it was lost.
        how: TurnLoss,
    },
    /// No such domain.
    #[error("no domain `{domain}`")]
    UnknownDomain {
        /// The name given.
        domain: String,
    },
    /// The domain exists already.
    #[error("domain `{domain}` exists already")]
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
    /// The domain cannot be deleted as it is.
    #[error("domain `{domain}` cannot be deleted: {why}")]
    DomainInUse {
        /// Its name.
        domain: String,
        /// What keeps it.
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
    /// The type is registered already.
    #[error("{kind} type `{name}` is registered already")]
    TypeExists {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// The name given, with the version.
        name: String,
    },
    /// The type is deprecated: nothing new of it is to begin.
    #[error("{kind} type `{name}` is deprecated")]
    TypeDeprecated {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Its name, with the version.
        name: String,
    },
    /// The type is not deprecated, and so cannot be deleted.
    #[error("{kind} type `{name}` is in use")]
    TypeInUse {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Its name, with the version.
        name: String,
    },
    /// There are as many of these as may be.
    #[error("there can be at most {max} {what}")]
    LimitExceeded {
        /// Of what.
        what: Limited,
        /// How many.
        max: usize,
    },
    /// A domain, or the holder of a credential, has as much of the service as is configured for it.
    #[error(transparent)]
    QuotaExceeded(#[from] Throttled),
    /// The disk has less free than is kept for runs that are open, and this would be another one.
    #[error("no run is started now: {room}")]
    DiskLow {
        /// What is free, and what is kept.
        room: DiskRoom,
    },
    /// The disk is so full that the store writes nothing but what deletes.
    #[error(
        "the disk of the store is full: {} MiB are free, and {} MiB are needed to write; reading and deleting go on",
        free >> 20, least.div_ceil(1 << 20)
    )]
    DiskFull {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
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
    /// The schedule exists already.
    #[error("schedule `{schedule}` exists already")]
    ScheduleExists {
        /// The id given.
        schedule: String,
    },
    /// The domain never had a run with this workflow id, or it is past its retention.
    #[error("no workflow `{workflow_id}` in domain `{domain}`")]
    UnknownWorkflow {
        /// The domain.
        domain: String,
        /// The workflow id given.
        workflow_id: String,
    },
    /// The workflow id never had this run, or it is past its retention.
    #[error("no run {run_id} of workflow `{workflow_id}`")]
    UnknownRun {
        /// The workflow id.
        workflow_id: String,
        /// The run id given.
        run_id: Uuid,
    },
    /// Deadlines are not repaired by a clock that may be wrong.
    #[error("the service's clock says {now}, which may be wrong: {why}")]
    ClockDoubted {
        /// What the clock says.
        now: history::Timestamp,
        /// What speaks against it.
        why: String,
    },
    /// A write names a run that is not the newest of its workflow id.
    #[error("run {run_id} is not the current run of workflow `{workflow_id}`, {current} is")]
    RunNotCurrent {
        /// The workflow id.
        workflow_id: String,
        /// The run id given.
        run_id: Uuid,
        /// The newest run.
        current: Uuid,
    },
    /// The decider knows no such query.
    #[error("the decider knows no query `{name}`")]
    UnknownQuery {
        /// The name given.
        name: String,
        /// The names that it knows, as far as it says.
        known: Vec<String>,
    },
    /// The query failed, and nothing else did.
    #[error("query `{name}` failed: {reason}{}", message.as_deref().map(|message| format!(": {message}")).unwrap_or_default())]
    QueryFailed {
        /// The query.
        name: String,
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: Option<String>,
    },
    /// No decider answered the query in time.
    #[error("no answer in time: {}", waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string))]
    NotAnswered {
        /// What it waited for.
        why: &'static str,
        /// What keeps the run's turn from being taken, if anything does.
        waits_for: Option<TurnWait>,
    },
    /// More is asked at once than fits into memory.
    #[error("{found} {what}, at most {max} may")]
    TooManyWaiting {
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
        /// Of what.
        what: &'static str,
    },
    /// Nobody waits any more for what a task asked.
    #[error("nobody waits any more for what this task asked")]
    QueryTaskLost,
    /// The run is open, and was to be closed.
    #[error("run {run_id} is open")]
    RunOpen {
        /// Which.
        run_id: Uuid,
    },
    /// A history of another service that is not taken over.
    #[error("the run cannot be taken over: {0}")]
    BadHistory(#[from] ImportFault),
    /// The run is there with another history than the one that is to be taken over.
    #[error("run {run_id} is there already, with another history")]
    RunDiffers {
        /// Which.
        run_id: Uuid,
    },
    /// A task token that this service never gave out.
    #[error("not a task token of this service")]
    BadToken,
    /// A good token at the endpoint for the other kind of task.
    #[error("this is the token of {}, expected one of {}", found.words(), found.other().words())]
    WrongTokenKind {
        /// The kind of task that the token names.
        found: TokenKind,
    },
    /// A page token that does not come from this query.
    #[error("not a page of this list: {why}")]
    BadPage {
        /// What is wrong with it.
        why: String,
    },
    /// The run's state, or what one request adds to it, is larger than the store can take.
    #[error("{found} bytes of state in one run, at most {max} can be kept")]
    RunTooLarge {
        /// The size.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// The decider rejected the update. Nothing is recorded.
    #[error("update `{update_id}` is rejected: {reason}")]
    UpdateRejected {
        /// The update's name.
        update_id: String,
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        details: Option<history::Payload>,
    },
    /// The update was accepted, and could not be done.
    #[error("update `{update_id}` was accepted, and could not be done: {reason}")]
    UpdateFailed {
        /// The update's name.
        update_id: String,
        /// Its UpdateFailed.
        event_id: history::EventId,
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        details: Option<history::Payload>,
    },
    /// A run was started for an update, and stays; and then this became of the update.
    #[error("{then}; run {run_id} was started for it, and stays")]
    AfterStart {
        /// The run.
        run_id: Uuid,
        /// What became of the update.
        then: Box<Refusal>,
    },
    /// No decider has judged the update in time.
    #[error(
        "update `{update_id}` was not answered in time: {}",
        waits_for.as_ref().map_or((*why).to_owned(), TurnWait::to_string)
    )]
    UpdateNotAnswered {
        /// The update's name.
        update_id: String,
        /// Whether a decider has it and may accept it still.
        recorded: bool,
        /// What stood in the way.
        why: &'static str,
        /// What keeps the run's turn from being taken, if anything does.
        waits_for: Option<TurnWait>,
    },
    /// The store did not take it. Nothing was recorded.
    #[error("the store did not take it: {why}")]
    Unavailable {
        /// What stood in the way.
        why: String,
        /// How long to wait before asking again.
        retry_after: Option<Duration>,
    },
    /// Whether it was recorded is not known.
    #[error("the outcome is not known: {why}")]
    OutcomeUnknown {
        /// What was lost.
        why: String,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// Stored bytes cannot be read.
    #[error("stored data cannot be read: {what}")]
    Corrupt {
        /// What, and where.
        what: String,
    },
}

impl Refusal {
    pub(crate) fn unknown_workflow(key: &store::HeadKey) -> Self {
        Self::UnknownWorkflow { domain: key.domain.to_string(), workflow_id: key.workflow_id.to_string() }
    }

    /// The stable code of the wire.
    pub fn code(&self) -> &'static str {
        self.row().code
    }

    /// Whether the same request may succeed later, with nothing changed by the caller.
    pub fn is_retryable(&self) -> bool {
        self.row().is_retryable
    }

    /// Whether the request may have left a trace.
    pub fn recorded(&self) -> MayBeRecorded {
        self.row().recorded
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotApplied { why, retry_after } => Self::Unavailable { why, retry_after },
            store::Error::Full { free, least } => Self::DiskFull { free, least },
            // A store that failed while it wrote may have written.
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
