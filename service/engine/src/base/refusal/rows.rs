//! Table of the presentation of all errors.

use history::{Fault, ImportFault, TurnLoss};

use super::row::RefusalRow;
use super::{Refusal, TokenKind};

const PUT_DOWN: &str = "drop your answer and poll again; the turn goes to a decider again";

const REPEATED: &str = "if you repeated your answer, the first one was recorded; otherwise drop your answer";

impl From<&Fault> for RefusalRow {
    fn from(fault: &Fault) -> Self {
        let (status, advice) = match fault {
            Fault::RunClosed { .. } => (409, "start another run; a closed run cannot change"),
            Fault::AlreadyOpen { .. } => (409, "use the open run, or choose another workflow id"),
            Fault::ReuseRefused { .. } => (409, "choose another workflow id, or start with a different `reusePolicy`"),
            Fault::TurnLost => (409, PUT_DOWN),
            Fault::TurnNotWaiting { .. } | Fault::ActivityNotWaiting { .. } => (409, "poll again"),
            Fault::TurnCompleted | Fault::ActivityClosed => (409, REPEATED),
            Fault::NoDecider => (409, "cancel or terminate the run, or change its activity; it accepts nothing else"),
            Fault::RunPaused => (409, "resume the run, or wait until an operator resumes it"),
            Fault::AlreadyPaused => (409, "nothing to do; resume it when it should continue"),
            Fault::NotPaused => (409, "nothing to do; it is not paused"),
            Fault::ActivityNotRetryable { .. } => (409, "describe the run to see the state of its open activities"),
            Fault::InvalidResetPoint { .. } => (409, "choose the event in `before` or in `after`"),
            Fault::ResetNotPossible { .. } => (409, "choose another event"),
            Fault::CancelNotRequested => {
                (409, "answer with success or failure; `canceled` is only for activities with a cancel request")
            }
            Fault::UnknownUpdate { .. } => {
                (409, "answer each update of the task once; updates without waiting callers are not sent again")
            }
            Fault::UpdateAlreadyAccepted { .. } => (409, "drop your answer and poll again"),
            Fault::StateLimit { .. } => {
                (409, "wait until some of the run's open activities, timers or children have closed, then retry")
            }
            Fault::OpenUpdatesLimit { .. } => (429, "wait until the run has completed some of them, then retry"),
            Fault::VersionMismatch { .. } => (412, "describe the run and decide again with its new version"),
            Fault::Invalid { .. } => (400, "correct the field"),
            Fault::TooLarge { .. } => (413, "shorten it, or store the content elsewhere and send a reference"),
        };
        Self::new(status, fault.code(), advice)
    }
}

/// Returns the presentation of a lost turn, depending on the cause of the loss.
fn turn_lost(how: &TurnLoss) -> RefusalRow {
    let row = RefusalRow::from(&Fault::TurnLost);
    match how {
        TurnLoss::TimedOut { .. } => RefusalRow {
            advice: "drop your answer and poll again; the turn goes to a decider again. To allow more \
                     time, start runs with a longer `deciderStartToClose`",
            ..row
        },
        TurnLoss::Answered { .. } => RefusalRow { advice: "drop your answer; the first one is in the history", ..row },
        TurnLoss::GivenBack { .. } | TurnLoss::NeverWas => row,
    }
}

impl Refusal {
    /// Returns the presentation of the error to callers.
    pub fn row(&self) -> RefusalRow {
        const fn row(status: u16, code: &'static str, advice: &'static str) -> RefusalRow {
            RefusalRow::new(status, code, advice)
        }
        match self {
            Self::Fault(fault) => fault.into(),
            Self::TurnLost { how } => turn_lost(how),
            Self::AfterStart { then, .. } => then.row().perhaps_recorded(),
            Self::UnknownDomain { .. } => {
                row(404, "unknown-domain", "create it with POST /v1/domains, or correct the name")
            }
            Self::UnknownWorkflow { .. } => {
                row(404, "unknown-workflow", "correct the workflow id; closed runs are deleted after their retention")
            }
            Self::UnknownRun { .. } => row(404, "unknown-run", "correct the run id, or omit it for the newest run"),
            Self::UnknownType { .. } => row(404, "unknown-type", "register it, or correct the name and the version"),
            Self::UnknownSchedule { .. } => row(404, "unknown-schedule", "correct the id, or create the schedule"),
            Self::UnknownBatch { .. } => {
                row(404, "unknown-batch", "correct the id; completed batches are deleted after 30 days")
            }
            Self::BatchRunning { .. } => row(409, "batch-running", "stop it first, or wait until it is completed"),
            Self::BatchCompleted { .. } => row(409, "batch-completed", "create another batch"),
            Self::UnknownLimitGroup { .. } => row(404, "unknown-limit-group", "create it, or correct the name"),
            Self::LimitGroupInUse { .. } => {
                row(409, "limit-group-in-use", "change or remove the settings of that list first")
            }
            Self::ListAlreadyPaused { .. } => {
                row(409, "task-list-already-paused", "nothing to do; resume it when it should continue")
            }
            Self::ListNotPaused { .. } => row(409, "task-list-not-paused", "nothing to do; it is not paused"),
            Self::UnknownQuery { .. } => {
                row(404, "unknown-query", "correct the name; `known` lists the decider's queries")
            }
            Self::DomainExists { .. } => row(409, "domain-exists", "use the existing domain, or choose another name"),
            Self::DomainDeprecated { .. } => {
                row(409, "domain-deprecated", "use another domain, or undeprecate this one")
            }
            Self::DomainInUse { .. } => row(
                409,
                "domain-in-use",
                "deprecate it, delete its schedules and open batches, delete its runs or wait for their retention, \
                 then retry",
            ),
            Self::LimitExceeded { .. } => row(409, "limit-exceeded", "use or change an existing one, or delete one"),
            Self::TypeExists { .. } => row(409, "type-exists", "use the existing type, or register another version"),
            Self::TypeDeprecated { .. } => row(409, "type-deprecated", "use another version, or undeprecate this one"),
            Self::TypeInUse { .. } => row(409, "type-in-use", "deprecate it first"),
            Self::ScheduleExists { .. } => row(409, "schedule-exists", "change it with PUT, or choose another id"),
            Self::ClockSuspect { .. } => row(
                409,
                "clock-suspect",
                "correct the clocks of all nodes (NTP), or if this clock is right, call POST /v1/clock/confirm; then \
                 retry",
            ),
            Self::RunNotCurrent { .. } => row(409, "run-not-current", "omit the run id to use the current run"),
            Self::RunOpen { .. } => {
                row(409, "run-open", "terminate it first, or repeat the call with `terminate=true`")
            }
            Self::BadHistory(ImportFault::Open { .. }) => {
                row(400, "bad-history", "export it after it has closed; open runs cannot be imported")
            }
            Self::BadHistory(_) => row(400, "bad-history", "export it again, and send its events unchanged"),
            Self::HistoryMismatch { .. } => row(
                409,
                "history-mismatch",
                "compare the two histories; if the existing run is the wrong one, delete it and import again",
            ),
            Self::OutputNotKept { .. } => row(
                404,
                "output-not-kept",
                "correct the activity id, or read from the start; a node keeps output in memory, until an hour after \
                 the activity has ended",
            ),
            Self::OutputFull => {
                row(429, "output-limit-exceeded", "continue without this output, or retry after a moment").retryable()
            }
            Self::QueryTaskLost => row(409, "query-task-lost", "drop your answer and poll again"),
            Self::QueryFailed { .. } => row(422, "query-failed", "see `reason` and `message`; the run is not affected"),
            Self::UpdateRejected { .. } => row(422, "update-rejected", "see `reason`; nothing is recorded"),
            Self::UpdateFailed { .. } => {
                row(422, "update-failed", "see `reason`; the update is in the history").perhaps_recorded()
            }
            Self::TooManyWaiting { .. } => {
                row(429, "too-many-waiting", "retry after a moment; equal queries with equal inputs share an answer")
                    .retryable()
            }
            Self::QuotaExceeded(_) => {
                row(429, "quota-exceeded", "retry after the delay in Retry-After; the operator can raise the limit")
                    .retryable()
            }
            Self::InsufficientStorage { .. } => row(
                507,
                "insufficient-storage",
                "retry later; the operator must free space on the disk or lower --disk-reserve",
            )
            .retryable(),
            Self::DiskFull { .. } => {
                row(507, "disk-full", "retry later; the operator must free space on the disk or delete closed runs")
                    .retryable()
            }
            Self::QueryTimedOut { .. } => row(
                504,
                "query-timed-out",
                "retry; make sure that a decider polls the run's task list and answers queries",
            )
            .retryable(),
            Self::UpdateTimedOut { recorded, .. } => {
                let row = row(
                    504,
                    "update-timed-out",
                    "retry with the same `updateId`; make sure that a decider polls the run's task list and accepts \
                     updates",
                );
                if *recorded { row.retryable().perhaps_recorded() } else { row.retryable() }
            }
            Self::BadToken => row(400, "bad-token", "send the token unchanged, as returned by the poll"),
            Self::WrongTokenKind { found: TokenKind::Decider } => row(
                400,
                "bad-token",
                "answer it at /v1/decider-tasks/{token}/complete or /v1/decider-tasks/{token}/fail, \
                 or in a decider exchange",
            ),
            Self::WrongTokenKind { found: TokenKind::Activity } => row(
                400,
                "bad-token",
                "answer it at /v1/activity-tasks/{token}/success, /failure or /canceled, or in an activity exchange",
            ),
            Self::BadPage { .. } => row(400, "bad-page", "send `nextPage` unchanged, with the same filters"),
            Self::RunTooLarge { .. } => row(
                413,
                "run-too-large",
                "open fewer activities and timers at once, or use shorter names; for a schedule, let fewer actions \
                 wait",
            ),
            Self::Unavailable { .. } => row(503, "unavailable", "retry after a moment").retryable(),
            Self::Stopping => row(503, "stopping", "retry after a moment").retryable(),
            Self::OutcomeUnknown { .. } => {
                row(503, "outcome-unknown", "retry; with an Idempotency-Key this is always safe")
                    .retryable()
                    .perhaps_recorded()
            }
            Self::Corrupt { .. } => row(500, "corrupt", "report it to the operator; `baton fsck` shows details"),
        }
    }
}
