//! Requests to a run.

use history::admit::HeldState;
use history::{
    ActivityCommand, Author, Command, Effect, EffectResult, ImportedRun, OutboundAction, OutboundEffect, Payload,
    Start, TaskId,
};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::lists::grant::{Grant, RiderKind, TakenRiders};
use crate::lists::limits::permit::Permit;
use crate::lists::{ListKey, Taker, WaitingTask};
use crate::riders::submitted::{QuerySubmission, SubmittedUpdate, UpdateSubmission};
use crate::riders::waiting::NewQuery;
use crate::{Admitted, Deletion, Refusal, Reset, Started, WasImported, WasReset};

/// Channel for the response to a request.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A response with its channel. The response is sent only once the commit is durable.
pub(crate) struct PendingReply<T> {
    to: Reply<T>,
    answer: Option<Result<T, Refusal>>,
}

impl<T> PendingReply<T> {
    pub(crate) fn new(to: Reply<T>) -> Self {
        Self { to, answer: None }
    }

    /// Sets the response. If an earlier attempt to commit has set a response, replaces it.
    pub(crate) fn set(&mut self, answer: Result<T, Refusal>) {
        self.answer = Some(answer);
    }

    /// Returns the response if it is an error.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.answer.as_ref()?.as_ref().err()
    }

    /// Sends the response that was set.
    pub(crate) fn send(self) {
        drop(self.to.send(self.answer.unwrap_or(Err(Refusal::Stopping))));
    }

    /// Sends this response instead of the response that was set.
    pub(crate) fn send_instead(self, answer: Result<T, Refusal>) {
        drop(self.to.send(answer));
    }
}

/// A request to a run, handled by the run's worker.
#[expect(clippy::large_enum_variant, reason = "the large variant is the frequent one, and a box would be one for each")]
pub(crate) enum RunRequest {
    /// Admitted and committed together with other requests.
    Batched(Batched),
    /// Handled separately.
    Alone(Alone),
}

impl From<Batched> for RunRequest {
    fn from(request: Batched) -> Self {
        Self::Batched(request)
    }
}

impl From<Alone> for RunRequest {
    fn from(request: Alone) -> Self {
        Self::Alone(request)
    }
}

/// A request that can be admitted and committed together with others.
pub(crate) enum Batched {
    /// Admits a command.
    Command { run_id: Option<Uuid>, command: Command, author: Author, reply: PendingReply<Admitted> },
    /// Starts a waiting task for a poller. The response is `None` if the task no longer waits. `start` counts the
    /// starts of the task; it is set when the request is admitted.
    Take {
        task: WaitingTask,
        list: ListKey,
        taker: Taker,
        reply: Reply<Option<Grant>>,
        start: Option<u32>,
        /// Slot of the task on a limited list, which is held until the commit has started the task or has failed.
        permit: Permit,
    },
    /// Applies an effect of another run, except for the start of a child.
    Effect { source: EffectSource, outbound: Box<OutboundEffect>, reply: PendingReply<EffectOutcome> },
    /// Wakes the run: fires the deadlines that are due and offers the waiting tasks.
    Wake { reply: Reply<()> },
}

/// A request that is handled separately.
pub(crate) enum Alone {
    /// Starts a run with this workflow id.
    Start { start: Box<Start>, reply: Reply<Started> },
    /// Starts a child, which is an effect of its parent run.
    StartChild { source: EffectSource, outbound: Box<OutboundEffect>, reply: Reply<EffectOutcome> },
    /// Deletes runs of this workflow id. The response is `None` if the runs must deliver effects first.
    Delete { run_id: Option<Uuid>, deletion: Deletion, reply: Reply<Option<u64>> },
    /// Starts a new run that continues a run from one of its events.
    Reset { run_id: Option<Uuid>, reset: Box<Reset>, reply: Reply<WasReset> },
    /// Imports a run of another service.
    Import { imported: Box<ImportedRun>, reply: Reply<WasImported> },
    /// Takes the run's riders (waiting queries or updates) for a poller. If a turn of the run is waiting, they are
    /// taken with this turn, otherwise as a separate task.
    TakeRiders { run_id: Uuid, kind: RiderKind, taker: Taker, reply: Reply<TakenRiders> },
    /// Adds an update to the run's riders.
    Update { run_id: Option<Uuid>, update: Box<SubmittedUpdate>, reply: Reply<UpdateSubmission> },
    /// Adds a query to the run's riders.
    Query { run_id: Option<Uuid>, query: Box<NewQuery>, reply: Reply<QuerySubmission> },
    /// Hands out the waiting riders as a separate task if possible.
    DispatchRiders { reply: Reply<()> },
    /// Records a heartbeat. The response is the state of the activity.
    Heartbeat { run_id: Uuid, task: TaskId, details: Option<Payload>, reply: Reply<HeldState> },
}

/// Source run of an effect, and the effect's identity.
#[derive(Debug, Clone)]
pub(crate) struct EffectSource {
    pub(crate) key: HeadKey,
    /// Id of the source run, which must deliver the effect.
    pub(crate) run_id: Uuid,
    pub(crate) effect: Effect,
    /// Round in which the effect is delivered; see `Outbox::round`.
    pub(crate) round: u32,
}

/// Outcome of delivering an effect to its target run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectOutcome {
    /// The effect is settled: the target run has applied it, possibly in an earlier delivery, or can never apply it.
    /// The value is the result for the source run.
    Settled(EffectResult),
    /// The effect is no longer in the outbox of the source run.
    Moot,
}

impl RunRequest {
    /// Returns a request to admit a command.
    pub(crate) fn command(run_id: Option<Uuid>, command: Command, author: Author, reply: Reply<Admitted>) -> Self {
        Self::Batched(Batched::Command { run_id, command, author, reply: PendingReply::new(reply) })
    }

    /// Returns a request to apply an effect of another run.
    pub(crate) fn effect(source: EffectSource, outbound: Box<OutboundEffect>, reply: Reply<EffectOutcome>) -> Self {
        match &outbound.task {
            OutboundAction::Start(_) => Self::Alone(Alone::StartChild { source, outbound, reply }),
            OutboundAction::Admit(_) => {
                Self::Batched(Batched::Effect { source, outbound, reply: PendingReply::new(reply) })
            }
        }
    }
}

impl Batched {
    /// Returns the approximate number of bytes that the request adds to a commit.
    pub(crate) fn bytes(&self) -> usize {
        let payload = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
        match self {
            Self::Command { command, .. } => match command {
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
                // A turn with many decisions is committed separately.
                Command::CompleteTurn { answer, .. }
                    if answer.next_task_list.is_none() && answer.decisions.len() <= 64 =>
                {
                    4_096
                }
                Command::CompleteTurn { .. } | Command::AnswerUpdates { .. } => usize::MAX / 2,
                Command::RetryActivities { .. }
                | Command::Pause { .. }
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
            Self::Take { .. } | Self::Wake { .. } => 0,
        }
    }
}
