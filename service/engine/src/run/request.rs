//! Requests to a run.

use history::{
    ActivityCommand, Author, Command, Effect, EffectResult, ImportedRun, OutboundAction, OutboundEffect, Payload,
    Start, TaskId,
};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::lists::grant::{Grant, RiderKind, TakenRiders};
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::riders::put::{Posing, PutUpdate, Putting};
use crate::riders::waiting::NewQuery;
use crate::{Admitted, Deletion, Refusal, Reset, Started, WasImported, WasReset};

/// Channel for the answer to a request.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A request to a run.
pub(crate) enum RunRequest {
    /// Starts a run of this workflow id.
    Start { start: Box<Start>, reply: Reply<Started> },
    /// Deletes runs of this workflow id. The answer is `None` if they must deliver effects first.
    Delete { run_id: Option<Uuid>, deletion: Deletion, reply: Reply<Option<u64>> },
    /// Continues a run in a new run from one of its events.
    Reset { run_id: Option<Uuid>, reset: Box<Reset>, reply: Reply<WasReset> },
    /// Imports a run of another service.
    Import { imported: Box<ImportedRun>, reply: Reply<WasImported> },
    /// Admits a command.
    Tell { run_id: Option<Uuid>, command: Command, author: Author, reply: Reply<Admitted> },
    /// Starts a waiting task. The answer is `None` if it no longer waits.
    Take { task: WaitingTask, list: ListKey, taker: Taker, reply: Reply<Option<Grant>> },
    /// Takes the riders of a run with a separate task, or with a turn if one waits by now.
    TakeRiders { run_id: Uuid, kind: RiderKind, taker: Taker, reply: Reply<TakenRiders> },
    /// Adds an update.
    Update { run_id: Option<Uuid>, put: Box<PutUpdate>, reply: Reply<Putting> },
    /// Adds a query.
    Pose { run_id: Option<Uuid>, query: Box<NewQuery>, reply: Reply<Posing> },
    /// Hands out the waiting riders if possible.
    SeeToRiders { reply: Reply<()> },
    /// Applies an effect of another run.
    Effect { source: EffectSource, outbound: Box<OutboundEffect>, reply: Reply<EffectOutcome> },
    /// Wakes the run: fires its deadlines and offers its waiting tasks.
    Look { reply: Option<Reply<()>> },
    /// Records a heartbeat. The answer is true if the activity should stop.
    Beat { run_id: Uuid, task: TaskId, details: Option<Payload>, reply: Reply<bool> },
}

/// Origin of an effect.
#[derive(Debug, Clone)]
pub(crate) struct EffectSource {
    pub(crate) key: HeadKey,
    /// The run that owes it.
    pub(crate) run_id: Uuid,
    pub(crate) effect: Effect,
    /// Round in which it is delivered.
    pub(crate) round: u32,
}

/// Outcome of an effect at the run that it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectOutcome {
    /// The run has applied it, now or earlier, or can never apply it for the given reason.
    Settled(EffectResult),
    /// Its source no longer owes it.
    Moot,
}

impl RunRequest {
    /// Returns the approximate size in bytes that the request adds to a commit.
    pub(crate) fn bytes(&self) -> usize {
        let payload = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
        match self {
            Self::Tell { command, .. } => match command {
                Command::Signal { input, .. } => payload(input),
                Command::Terminate { details, .. }
                | Command::FailTurn { details, .. }
                | Command::FailActivity { details, .. }
                | Command::CancelActivity { details, .. } => payload(details),
                Command::SucceedActivity { result, .. } => payload(result),
                Command::ActOnActivity { act, .. } => match act {
                    ActivityCommand::Succeed { result } => payload(result),
                    ActivityCommand::Fail { details, .. } => payload(details),
                    ActivityCommand::Retry
                    | ActivityCommand::Pause
                    | ActivityCommand::Resume
                    | ActivityCommand::Change(_) => 0,
                },
                // The decisions of a large turn fill a separate commit.
                Command::CompleteTurn { answer, .. }
                    if answer.next_task_list.is_none() && answer.decisions.len() <= 64 =>
                {
                    4_096
                }
                Command::CompleteTurn { .. } | Command::AnswerUpdates { .. } => usize::MAX / 2,
                Command::Pause { .. }
                | Command::Resume { .. }
                | Command::RepairDeadlines { .. }
                | Command::RequestCancel { .. }
                | Command::StartTurn { .. }
                | Command::ReturnTurn { .. }
                | Command::StartActivity { .. }
                | Command::Redeliver { .. }
                | Command::ReturnActivity { .. }
                | Command::FireDeadlines { .. }
                | Command::TakeSignal { .. }
                | Command::TakeCancelRequest { .. }
                | Command::TakeParentClose { .. }
                | Command::TakeChildClose { .. }
                | Command::SettleEffect { .. }
                | Command::RetryEffects => 0,
            },
            Self::Effect { outbound, .. } => match &outbound.task {
                OutboundAction::Admit(Command::TakeSignal { input, .. }) => payload(input),
                OutboundAction::Admit(Command::TakeChildClose { close, .. }) => close.payload().map_or(0, Payload::len),
                OutboundAction::Admit(_) | OutboundAction::Start(_) => 0,
            },
            Self::Start { .. }
            | Self::Delete { .. }
            | Self::Reset { .. }
            | Self::Import { .. }
            | Self::Take { .. }
            | Self::TakeRiders { .. }
            | Self::Pose { .. }
            | Self::SeeToRiders { .. }
            | Self::Update { .. }
            | Self::Look { .. }
            | Self::Beat { .. } => 0,
        }
    }
}
