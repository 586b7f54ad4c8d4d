//! What can be asked of a run.

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

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// Something that is asked of a run.
pub(crate) enum RunRequest {
    /// Start a run of this workflow id.
    Start { start: Box<Start>, reply: Reply<Started> },
    /// Delete runs of this workflow id; `None` when they must first deliver what they owe to others.
    Delete { run_id: Option<Uuid>, deletion: Deletion, reply: Reply<Option<u64>> },
    /// Have a new run go on from an event of a run.
    Reset { run_id: Option<Uuid>, reset: Box<Reset>, reply: Reply<WasReset> },
    /// Take over a run of another service.
    Import { imported: Box<ImportedRun>, reply: Reply<WasImported> },
    /// Admit a command.
    Tell { run_id: Option<Uuid>, command: Command, author: Author, reply: Reply<Admitted> },
    /// Take a waiting task; `None` when it no longer waits.
    Take { task: WaitingTask, list: ListKey, taker: Taker, reply: Reply<Option<Grant>> },
    /// Take the riders of a run with a task of their own, or with a turn if one waits by now.
    TakeRiders { run_id: Uuid, kind: RiderKind, taker: Taker, reply: Reply<TakenRiders> },
    /// Put an update.
    Update { run_id: Option<Uuid>, put: Box<PutUpdate>, reply: Reply<Putting> },
    /// Put a query.
    Pose { run_id: Option<Uuid>, query: Box<NewQuery>, reply: Reply<Posing> },
    /// See to the riders that are there.
    SeeToRiders { reply: Reply<()> },
    /// Take an effect of another run.
    Effect { source: EffectSource, errand: Box<OutboundEffect>, reply: Reply<EffectOutcome> },
    /// See whether time has done something, and offer what waits.
    Look { reply: Option<Reply<()>> },
    /// Record a heartbeat; answers whether the activity should stop.
    Beat { run_id: Uuid, task: TaskId, details: Option<Payload>, reply: Reply<bool> },
}

/// Where an effect comes from.
#[derive(Debug, Clone)]
pub(crate) struct EffectSource {
    pub(crate) key: HeadKey,
    /// The run that asked for it.
    pub(crate) run_id: Uuid,
    pub(crate) effect: Effect,
    /// In which round it is delivered.
    pub(crate) round: u32,
}

/// What became of an effect at the run that it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectOutcome {
    /// It has it, now or from before; or will never have it, for this reason.
    Settled(EffectResult),
    /// Its source no longer owes it.
    Moot,
}

impl RunRequest {
    /// About how many bytes it adds to a commit.
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
                // A whole turn's decisions: let it fill a commit of its own.
                Command::CompleteTurn { answer, .. } if answer.moves_to.is_none() && answer.decisions.len() <= 64 => {
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
            Self::Effect { errand, .. } => match &errand.task {
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
