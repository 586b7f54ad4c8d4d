//! Table of all refusals.

use history::{Fault, ImportFault, TurnLoss};

use super::row::RefusalRow;
use super::{Refusal, TokenKind};

const PUT_DOWN: &str = "drop your answer and poll again; the turn is given to a decider again";

const REPEATED: &str = "if you repeated your answer, the first one was recorded; otherwise drop it";

impl From<&Fault> for RefusalRow {
    fn from(fault: &Fault) -> Self {
        let (status, advice) = match fault {
            Fault::RunClosed { .. } => (409, "nothing more can happen to this run; start another one"),
            Fault::AlreadyOpen { .. } => (409, "use the open run, or choose another workflow id"),
            Fault::ReuseRefused { .. } => (409, "choose another workflow id, or start with another reusePolicy"),
            Fault::TurnLost => (409, PUT_DOWN),
            Fault::TurnNotWaiting { .. } | Fault::ActivityNotWaiting { .. } => (409, "poll again"),
            Fault::TurnCompleted | Fault::ActivityClosed => (409, REPEATED),
            Fault::RunPaused => (409, "resume the run first, or wait until somebody does"),
            Fault::AlreadyPaused => (409, "nothing is left to do; resume it to have it go on"),
            Fault::NotPaused => (409, "nothing is left to do: it goes on"),
            Fault::ActivityNotRetryable { .. } => (409, "read the run again: its open activities say how they stand"),
            Fault::NotAResetPoint { .. } => (409, "choose one of the events that `before` and `after` name"),
            Fault::ResetRefused { .. } => (409, "choose another event"),
            Fault::CancelNotRequested => {
                (409, "answer with success or failure; canceled is for activities that were asked to stop")
            }
            Fault::UpdateUnknown { .. } => {
                (409, "answer what the task asks, each once; what nobody waits for any more is not asked again")
            }
            Fault::UpdateKnown { .. } => (409, "drop your answer and poll again"),
            Fault::StateLimit { .. } => (409, "wait until some of what is open in the run is over, then ask again"),
            Fault::OpenUpdatesLimit { .. } => (429, "wait until the run has answered some of them"),
            Fault::VersionMoved { .. } => (412, "read the run again and decide anew"),
            Fault::Invalid { .. } => (400, "correct the field"),
            Fault::TooLarge { .. } => (413, "make it smaller, or keep the content elsewhere and pass where it is"),
        };
        Self::new(status, fault.code(), advice)
    }
}

/// Returns the row of a lost turn, depending on how it was lost.
fn turn_lost(how: &TurnLoss) -> RefusalRow {
    let row = RefusalRow::from(&Fault::TurnLost);
    match how {
        TurnLoss::TimedOut { .. } => RefusalRow {
            advice: "drop your answer and poll again; the turn is given to a decider again. `deciderStartToClose` at \
             the start of a run \
                     says how long a turn may take",
            ..row
        },
        TurnLoss::Answered { .. } => RefusalRow { advice: "drop your answer; the history has the first one", ..row },
        TurnLoss::GivenBack { .. } | TurnLoss::NeverWas => row,
    }
}

impl Refusal {
    /// Returns the presentation of the refusal to the caller.
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
                row(404, "unknown-workflow", "correct the workflow id; runs are forgotten after their retention")
            }
            Self::UnknownRun { .. } => {
                row(404, "unknown-run", "correct the run id, or leave it out for the newest run")
            }
            Self::UnknownType { .. } => row(404, "unknown-type", "register it, or correct the name and the version"),
            Self::UnknownSchedule { .. } => row(404, "unknown-schedule", "correct the id, or create the schedule"),
            Self::UnknownQuery { .. } => {
                row(404, "unknown-query", "correct the name; `known` has those that the decider knows")
            }
            Self::DomainExists { .. } => row(409, "domain-exists", "use it"),
            Self::DomainDeprecated { .. } => {
                row(409, "domain-deprecated", "use another domain, or bring this one back with undeprecate")
            }
            Self::DomainInUse { .. } => row(
                409,
                "domain-in-use",
                "deprecate it, delete its runs and schedules or wait for their retention, and ask again",
            ),
            Self::LimitExceeded { .. } => row(409, "limit-exceeded", "use or change one of those that there are"),
            Self::TypeExists { .. } => row(409, "type-exists", "use it, or register another version"),
            Self::TypeDeprecated { .. } => {
                row(409, "type-deprecated", "use another version, or bring this one back with undeprecate")
            }
            Self::TypeInUse { .. } => row(409, "type-in-use", "deprecate it first"),
            Self::ScheduleExists { .. } => row(409, "schedule-exists", "change it with PUT, or choose another id"),
            Self::ClockDoubted { .. } => row(
                409,
                "clock-doubted",
                "correct the clocks of all nodes (NTP); where this one is right: POST /v1/clock/confirm, then ask \
                 again",
            ),
            Self::RunNotCurrent { .. } => row(409, "run-not-current", "leave the run id out to reach the current run"),
            Self::RunOpen { .. } => row(409, "run-open", "terminate it first, or with the same call: `terminate=true`"),
            Self::BadHistory(ImportFault::Open { .. }) => {
                row(400, "bad-history", "export it again once it has closed; an open run goes on where it is")
            }
            Self::BadHistory(_) => {
                row(400, "bad-history", "export it again, and pass on its events exactly as they came")
            }
            Self::RunDiffers { .. } => row(
                409,
                "run-differs",
                "compare the two histories; delete the run that is there, if it is not the right one, and import again",
            ),
            Self::QueryTaskLost => row(409, "query-task-lost", "drop your answer and poll again"),
            Self::QueryFailed { .. } => {
                row(422, "query-failed", "read the reason; the run goes on as if nothing had been asked")
            }
            Self::UpdateRejected { .. } => row(422, "update-rejected", "read the reason; nothing of it is recorded"),
            Self::UpdateFailed { .. } => {
                row(422, "update-failed", "read the reason; the history has the update").perhaps_recorded()
            }
            Self::TooManyWaiting { .. } => {
                row(429, "too-many-waiting", "ask again after a moment; ask the same of many callers by the same input")
                    .retryable()
            }
            Self::QuotaExceeded(_) => row(
                429,
                "quota-exceeded",
                "ask again after as many seconds as Retry-After says; whoever looks after the service may raise the \
                 limit",
            )
            .retryable(),
            Self::DiskLow { .. } => row(
                507,
                "disk-low",
                "ask again later; whoever looks after the service makes room on the disk, or lowers --disk-reserve",
            )
            .retryable(),
            Self::DiskFull { .. } => row(
                507,
                "disk-full",
                "ask again later; whoever looks after the service makes room on the disk, or deletes closed runs",
            )
            .retryable(),
            Self::NotAnswered { .. } => row(
                504,
                "query-not-answered",
                "ask again; see to it that a decider polls the run's task list and answers queries",
            )
            .retryable(),
            Self::UpdateNotAnswered { recorded, .. } => {
                let row = row(
                    504,
                    "update-not-answered",
                    "ask again with the same updateId; see to it that a decider polls the run's task list and takes \
                     updates",
                );
                if *recorded { row.retryable().perhaps_recorded() } else { row.retryable() }
            }
            Self::BadToken => row(400, "bad-token", "pass on the token exactly as the poll gave it"),
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
            Self::BadPage { .. } => row(400, "bad-page", "pass on nextPage exactly as it came, with the same filters"),
            Self::RunTooLarge { .. } => row(
                413,
                "run-too-large",
                "have fewer activities and timers open at once, or shorter names; of a schedule, fewer times that wait",
            ),
            Self::Unavailable { .. } => row(503, "unavailable", "ask again after a moment").retryable(),
            Self::Stopping => row(503, "stopping", "ask again after a moment").retryable(),
            Self::OutcomeUnknown { .. } => {
                row(503, "outcome-unknown", "ask again; with an Idempotency-Key that is always safe")
                    .retryable()
                    .perhaps_recorded()
            }
            Self::Corrupt { .. } => row(500, "corrupt", "tell the operator; `baton fsck` says more"),
        }
    }
}
