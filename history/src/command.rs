//! Commands: every request that can change a run, from any source.

mod operator;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::caller::CallerName;
use crate::decision::Decision;
use crate::decision_context::DecisionContext;
use crate::event::{ChildPolicy, EventId, EventKind, OperatorAction, Origin, RequestKey, TurnList};
use crate::ids::RunId;
use crate::links::{EffectKind, PollId};
use crate::payload::Payload;
use crate::run::StoppedLists;
use crate::time::{Duration, Timestamp};

pub use operator::{ActivityCommand, OptionsChange};

/// Identifies a turn that a decider holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnId {
    /// Id of the turn's DeciderScheduled event.
    pub scheduled_event_id: EventId,
    /// Id of the turn's DeciderStarted event.
    pub started_event_id: EventId,
}

/// Identifies an activity that a runner holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// Id of the activity's ActivityScheduled event.
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event. It is 0 if the activity has a retry policy, because the event is
    /// then recorded only when the activity closes.
    pub started_event_id: EventId,
    /// Number of the start (1, 2, 3, …) if the activity has a retry policy; otherwise 0.
    pub start: u32,
}

/// Latest heartbeat of an activity. It is not an event and is stored apart from the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    /// Id of the activity's ActivityScheduled event.
    pub scheduled_event_id: EventId,
    /// Time at which the heartbeat arrived.
    pub at: Timestamp,
    /// Details from the runner.
    pub details: Option<Payload>,
}

/// An update that a decider is asked to accept or reject. It is kept in memory only until it is accepted.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedUpdate {
    /// Update id chosen by the caller. 1 to 256 characters.
    pub update_id: String,
    /// Name of the update. 1 to 256 characters.
    pub name: String,
    /// Input of the update.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
    /// Identity of the caller.
    pub identity: Option<String>,
    /// Required version of the run; the update cannot be accepted at any other version.
    pub if_version: Option<EventId>,
    /// Name of the caller's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CallerName>,
}

/// A decider's answer to one update.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAnswer {
    /// Update id.
    pub update_id: String,
    /// The decider's verdict.
    pub verdict: Verdict,
}

/// A decider's verdict on an update.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The update was accepted, by this turn or an earlier turn, and has succeeded.
    Done {
        /// Result returned to the caller.
        #[serde(default, deserialize_with = "crate::payload_present")]
        result: Option<Payload>,
    },
    /// The update was accepted, by this turn or an earlier turn, and has failed. Unlike a rejection, a failure is
    /// recorded.
    Failed {
        /// Failure code, for programs.
        reason: String,
        /// Failure details, for people and programs.
        #[serde(default, deserialize_with = "crate::payload_present")]
        details: Option<Payload>,
    },
    /// The update is rejected, and nothing is recorded. If an earlier turn has accepted the update, it fails instead.
    Rejected {
        /// Failure code, for programs.
        reason: String,
        /// Failure details, for people and programs.
        #[serde(default, deserialize_with = "crate::payload_present")]
        details: Option<Payload>,
    },
    /// The update was accepted, by this turn or an earlier turn, and a later turn will answer it.
    Later,
}

/// Turn in which a decider was asked to accept or reject updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweredTurn {
    /// A regular turn, whose task also contained the updates.
    Held(TurnId),
    /// A turn that the service created only for the updates. It has no events yet. Its events are recorded with the
    /// decider's answer, unless the answer has nothing to record or the run has recorded other events in the meantime.
    Speculative {
        /// Id of the newest recorded event that the decider saw.
        last_event_id: EventId,
        /// Time at which the decider took the turn. It becomes the time of the DeciderStarted event, which deciders use
        /// as their clock.
        started_at: Timestamp,
        /// Identity of the decider.
        identity: Option<String>,
        /// Name of the credential that took the turn.
        by: Option<CallerName>,
    },
}

/// A decider's answer to a turn, with information added by the service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnAnswer {
    /// Decisions, in order.
    pub decisions: Vec<Decision>,
    /// Payload that the service returns to the decider with its next turn.
    pub context: Option<Payload>,
    /// Names of the signals that the decider waits for; [`AWAITING_CANCEL`](crate::limits::AWAITING_CANCEL) stands
    /// for a cancel request.
    pub awaiting: Vec<String>,
    /// Task list for later turns; absent if the list does not change.
    pub next_task_list: Option<TurnList>,
    /// Information of the service about the types and capacities that the decisions need.
    pub decision_context: DecisionContext,
}

impl From<Vec<Decision>> for TurnAnswer {
    fn from(decisions: Vec<Decision>) -> Self {
        Self { decisions, ..Self::default() }
    }
}

/// A request that can change a run. Starting a run is not included; see [`Start`](crate::Start).
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// An application sends a signal.
    Signal {
        /// Name of the signal.
        name: String,
        /// Payload of the signal.
        input: Option<Payload>,
        /// Identity of the caller.
        identity: Option<String>,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
        /// Required version of the run; the command fails at any other version.
        if_version: Option<EventId>,
    },
    /// An application asks the decider to cancel the run.
    RequestCancel {
        /// Reason, for people.
        reason: Option<String>,
        /// Identity of the caller.
        identity: Option<String>,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An application terminates the run without asking its decider.
    Terminate {
        /// Reason, for people.
        reason: Option<String>,
        /// Details.
        details: Option<Payload>,
        /// Child policy used instead of the run's own policy. Only in runs over SWF's protocol.
        child_policy: Option<ChildPolicy>,
        /// Identity of the caller.
        identity: Option<String>,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An operator changes one of the run's activities.
    ActOnActivity {
        /// Id of the open activity.
        activity_id: String,
        /// Change to make.
        act: ActivityCommand,
        /// Identity of the operator, and the reason.
        operator: OperatorAction,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An operator retries all activities of the run that are blocked or wait for their next attempt.
    RetryActivities {
        /// If given, only activities whose last failure has this reason.
        failure_reason: Option<String>,
        /// Identity of the operator, and the reason.
        operator: OperatorAction,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An operator pauses the run.
    Pause {
        /// True if the run's timers and timeouts also stop.
        stop_clocks: bool,
        /// Identity of the operator, and the reason.
        operator: OperatorAction,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An operator resumes a paused run.
    Resume {
        /// Identity of the operator, and the reason.
        operator: OperatorAction,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// An operator repairs deadlines that were set while the service's clock was ahead.
    RepairDeadlines {
        /// Latest heartbeats of the run's activities. The repair also applies to deadlines that count from them.
        heartbeats: Vec<Heartbeat>,
        /// Durations of timers that were set by an earlier version, which did not store them. The key is the id of the
        /// TimerScheduled event. Each timer listed by [`timers_without_span`](crate::Run::timers_without_span) needs an
        /// entry.
        timers: BTreeMap<EventId, Duration>,
        /// Identity of the operator, and the reason.
        operator: OperatorAction,
        /// Idempotency key of the request.
        key: Option<RequestKey>,
    },
    /// The service hands the waiting turn to a decider.
    StartTurn {
        /// Id of the turn's DeciderScheduled event.
        scheduled_event_id: EventId,
        /// Identity of the decider.
        identity: Option<String>,
        /// Poll that receives the turn.
        poll: Option<PollId>,
    },
    /// A decider answers its turn.
    CompleteTurn {
        /// Turn that the decider holds.
        turn: TurnId,
        /// Answer of the decider.
        answer: Box<TurnAnswer>,
    },
    /// A decider answers its turn and updates. Everything is recorded together, or nothing is.
    AnswerUpdates {
        /// Turn that the decider answers.
        turn: AnsweredTurn,
        /// Updates that the decider was asked to accept or reject.
        proposed: Vec<ProposedUpdate>,
        /// Answers to the proposed updates, and to updates that earlier turns accepted.
        answers: Vec<UpdateAnswer>,
        /// Decisions and other parts of the answer.
        rest: Box<TurnAnswer>,
    },
    /// A decider reports that its turn failed.
    FailTurn {
        /// Turn that the decider holds.
        turn: TurnId,
        /// Failure code.
        reason: Option<String>,
        /// Failure details.
        details: Option<Payload>,
    },
    /// The service reports that a turn could not be delivered.
    ReturnTurn {
        /// Turn that was started for the poll.
        turn: TurnId,
        /// Poll that was to receive the turn.
        poll: Option<PollId>,
    },
    /// The service hands a waiting activity to a runner.
    StartActivity {
        /// Id of the activity's ActivityScheduled event.
        scheduled_event_id: EventId,
        /// Identity of the runner.
        identity: Option<String>,
        /// Poll that receives the activity.
        poll: Option<PollId>,
    },
    /// The service sends a started task to another poll because the response to the previous poll was lost. Records no
    /// event.
    Redeliver {
        /// Id of the event that scheduled the task.
        scheduled_event_id: EventId,
        /// Poll whose response was lost.
        lost: PollId,
        /// Poll that now receives the task.
        poll: Option<PollId>,
    },
    /// A runner completed its activity.
    SucceedActivity {
        /// Activity that the runner holds.
        task: TaskId,
        /// Result.
        result: Option<Payload>,
    },
    /// A runner reports that its activity failed.
    FailActivity {
        /// Activity that the runner holds.
        task: TaskId,
        /// Failure code, for programs. Only a run started over SWF's protocol may omit it.
        reason: Option<String>,
        /// Failure details, for people and programs.
        details: Option<Payload>,
        /// True if a retry cannot help.
        non_retryable: bool,
        /// Delay before the next attempt, instead of the backoff of the retry policy.
        retry_after: Option<Duration>,
    },
    /// A runner stopped its activity on request.
    CancelActivity {
        /// Activity that the runner holds.
        task: TaskId,
        /// Details from the runner.
        details: Option<Payload>,
    },
    /// The service reports that an activity could not be delivered.
    ReturnActivity {
        /// Activity that was started for the poll.
        task: TaskId,
        /// Poll that was to receive the activity.
        poll: Option<PollId>,
    },
    /// The service applies every deadline that has passed.
    FireDeadlines {
        /// Latest heartbeats of the run's activities.
        heartbeats: Vec<Heartbeat>,
        /// Pauses of task lists that stop schedule-to-start timeouts.
        stopped: Arc<StoppedLists>,
    },
    /// Another run delivers a signal.
    TakeSignal {
        /// Event of the sending run that requested the signal.
        origin: Origin,
        /// Name of the signal.
        name: String,
        /// Payload of the signal.
        input: Option<Payload>,
    },
    /// Another run asks the decider to cancel this run.
    TakeCancelRequest {
        /// Event of the requesting run that requested the cancellation.
        origin: Origin,
        /// Reason, for people.
        reason: Option<String>,
    },
    /// The parent of this run reports that the parent has closed.
    TakeParentClose {
        /// Event of the parent that started this run.
        origin: Origin,
        /// Policy to apply to this run.
        policy: ChildPolicy,
    },
    /// A child of this run reports that the child has closed.
    TakeChildClose {
        /// Id of this run's ChildScheduled event.
        scheduled_event_id: EventId,
        /// Run id of the child.
        run_id: RunId,
        /// Event that closed the child.
        close: Box<EventKind>,
    },
    /// The service reports the outcome of an effect on another run. Records no event if the run already knows the
    /// outcome.
    SettleEffect {
        /// Run that requested the effect: this run, or a predecessor.
        owner: RunId,
        /// Id of the event that requested the effect.
        event_id: EventId,
        /// Kind of effect.
        kind: EffectKind,
        /// [Round](crate::Outbox::round) of deliveries to which the outcome belongs. A failure is ignored if a later
        /// round has begun.
        round: u32,
        /// Outcome.
        result: EffectResult,
    },
    /// The service starts another round of deliveries of the run's pending effects.
    RetryEffects,
}

/// Outcome of an effect on another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectResult {
    /// The other run accepted the effect.
    Done {
        /// Run id of the other run.
        run_id: RunId,
    },
    /// The other run does not exist, or is not the newest run of its workflow id.
    Unknown,
    /// The other run is closed.
    Closed,
    /// The run could not be started, because a run with its workflow id is open.
    AlreadyOpen,
    /// The run could not be started, because the reuse policy does not allow its workflow id again.
    ReuseRefused,
    /// The run could not be started, and retrying cannot help.
    NeverStarts,
}

impl Command {
    /// Creates the command for a decider's answer to the turn that it holds.
    pub fn complete(turn: TurnId, answer: impl Into<TurnAnswer>) -> Self {
        Self::CompleteTurn { turn, answer: Box::new(answer.into()) }
    }
}
