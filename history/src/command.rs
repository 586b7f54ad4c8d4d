//! Commands: everything that may change a run, whoever asks: there is one way.

mod by_hand;
mod requests;

use std::collections::BTreeMap;

use crate::caller::CallerName;
use crate::decision::Decision;
use crate::event::{ByHand, ChildPolicy, EventId, EventKind, Origin, RequestKey, TurnList};
use crate::ids::RunId;
use crate::links::{EffectKind, PollId};
use crate::payload::Payload;
use crate::surroundings::Surroundings;
use crate::time::{Duration, Timestamp};

pub use by_hand::{ActivityCommand, OptionsChange};

/// Names a turn that a decider holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnId {
    /// Its DeciderScheduled.
    pub scheduled_event_id: EventId,
    /// Its DeciderStarted.
    pub started_event_id: EventId,
}

/// Names an activity that a runner holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// Its ActivityScheduled.
    pub scheduled_event_id: EventId,
    /// Its ActivityStarted; 0 with a retry policy, which has it recorded only when the activity closes.
    pub started_event_id: EventId,
    /// With a retry policy which start of it this is, 1, 2, 3, …; otherwise 0.
    pub start: u32,
}

/// The newest heartbeat of an activity. Not an event; it is kept beside the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    /// The activity's ActivityScheduled.
    pub scheduled_event_id: EventId,
    /// When it came.
    pub at: Timestamp,
    /// What the runner said.
    pub details: Option<Payload>,
}

/// An update that a turn was asked to judge. It lives nowhere but in memory until a decider accepts it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedUpdate {
    /// The caller's name for it. 1 to 256 characters.
    pub update_id: String,
    /// What kind of update it is. 1 to 256 characters.
    pub name: String,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
    /// Who asks.
    pub identity: Option<String>,
    /// Not to be accepted unless the run's version is this one.
    pub if_version: Option<EventId>,
    /// The name of the credential of whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CallerName>,
}

/// What a decider says to an update.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAnswer {
    /// Which.
    pub update_id: String,
    /// What.
    pub verdict: Verdict,
}

/// A decider's verdict on an update.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is accepted, by this turn or an earlier one, and done.
    Done {
        /// The answer.
        #[serde(default, deserialize_with = "crate::payload_present")]
        result: Option<Payload>,
    },
    /// It is accepted, by this turn or an earlier one, and could not be done. Recorded, unlike a rejection.
    Failed {
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        #[serde(default, deserialize_with = "crate::payload_present")]
        details: Option<Payload>,
    },
    /// It is rejected, and nothing of it is recorded. Where an earlier turn accepted it, it has failed.
    Rejected {
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        #[serde(default, deserialize_with = "crate::payload_present")]
        details: Option<Payload>,
    },
    /// It is accepted, by this turn or an earlier one, and a later turn will answer.
    Later,
}

/// The turn of a decider that was asked to judge updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweredTurn {
    /// A turn like any other, to which the updates were added.
    Held(TurnId),
    /// A turn of which nothing is recorded, made for the updates alone. It is recorded when there is something to record
    /// beside it, and when nothing has happened since.
    Speculative {
        /// The newest recorded event that the decider saw.
        last_event_id: EventId,
        /// When the decider took it: the time of its DeciderStarted, and the only clock that the decider has.
        started_at: Timestamp,
        /// Who the decider is.
        identity: Option<String>,
        /// With what credential it took the turn.
        by: Option<CallerName>,
    },
}

/// What a decider answers a turn with, and what the service knows beside it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnAnswer {
    /// What to do, in order.
    pub decisions: Vec<Decision>,
    /// What the decider wants to be told on the next turn.
    pub context: Option<Payload>,
    /// The signals that it waits for, by name; [`AWAITING_CANCEL`](crate::limits::AWAITING_CANCEL) for a cancel request.
    pub awaiting: Vec<String>,
    /// Where later turns wait; where they did when absent.
    pub moves_to: Option<TurnList>,
    /// What the service knows of what the decisions name.
    pub surroundings: Surroundings,
}

impl From<Vec<Decision>> for TurnAnswer {
    fn from(decisions: Vec<Decision>) -> Self {
        Self { decisions, ..Self::default() }
    }
}

/// Anything that may change a run, but for its start, which is [`Start`](crate::Start).
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// External: news.
    Signal {
        /// Its name.
        name: String,
        /// What it says.
        input: Option<Payload>,
        /// Who sends it.
        identity: Option<String>,
        /// The request's key.
        key: Option<RequestKey>,
        /// Refuse it unless the run's version is this one.
        if_version: Option<EventId>,
    },
    /// External: ask the decider to cancel the run.
    RequestCancel {
        /// Why.
        reason: Option<String>,
        /// Who asks.
        identity: Option<String>,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// External: end the run, whatever its decider thinks.
    Terminate {
        /// Why.
        reason: Option<String>,
        /// More of it.
        details: Option<Payload>,
        /// In runs over SWF's wire: what becomes of the children, instead of what the run's policy says.
        child_policy: Option<ChildPolicy>,
        /// Who asks.
        identity: Option<String>,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// External: somebody who operates the run does something to one of its activities.
    ActOnActivity {
        /// The decider's name for it; the open one with this name.
        activity_id: String,
        /// What is done.
        act: ActivityCommand,
        /// Who does it, and why.
        by_hand: ByHand,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// External: somebody has the run wait.
    Pause {
        /// Whether its timers and all timeouts wait, too.
        stop_clocks: bool,
        /// Who does it, and why.
        by_hand: ByHand,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// External: somebody has a paused run go on.
    Resume {
        /// Who does it, and why.
        by_hand: ByHand,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// External: somebody repairs deadlines that were set while the service's clock was ahead.
    RepairDeadlines {
        /// The newest heartbeats of the run's activities, which are repaired beside it.
        beats: Vec<Heartbeat>,
        /// How long timers run that an earlier version set, by their TimerScheduled, as far as they are [wanted](crate::Run::timers_without_span).
        timers: BTreeMap<EventId, Duration>,
        /// Who does it, and why.
        by_hand: ByHand,
        /// The request's key.
        key: Option<RequestKey>,
    },
    /// Service: a decider takes the waiting turn.
    StartTurn {
        /// The turn's DeciderScheduled.
        scheduled_event_id: EventId,
        /// Who takes it.
        identity: Option<String>,
        /// The poll that it goes to.
        poll: Option<PollId>,
    },
    /// Decider: the answer.
    CompleteTurn {
        /// The turn.
        turn: TurnId,
        /// What it says.
        answer: Box<TurnAnswer>,
    },
    /// Decider: the answer, with what it says to updates. Recorded all together, or not at all.
    AnswerUpdates {
        /// The turn.
        turn: AnsweredTurn,
        /// The updates that it was asked to judge.
        asked: Vec<ProposedUpdate>,
        /// What it says to them, and to updates that earlier turns accepted.
        answers: Vec<UpdateAnswer>,
        /// What else it says.
        beside: Box<TurnAnswer>,
    },
    /// Decider: gives the turn back.
    FailTurn {
        /// The turn.
        turn: TurnId,
        /// Why.
        reason: Option<String>,
        /// More of it.
        details: Option<Payload>,
    },
    /// Service: the turn could not be delivered.
    ReturnTurn {
        /// The turn.
        turn: TurnId,
        /// The poll that it went to.
        poll: Option<PollId>,
    },
    /// Service: a runner takes a waiting activity.
    StartActivity {
        /// The activity's ActivityScheduled.
        scheduled_event_id: EventId,
        /// Who takes it.
        identity: Option<String>,
        /// The poll that it goes to.
        poll: Option<PollId>,
    },
    /// Service: a started task goes to another poll, as the answer to the one that it went to was lost. Records nothing.
    SendAgain {
        /// The event that scheduled it.
        scheduled_event_id: EventId,
        /// Where it went.
        lost: PollId,
        /// Where it goes.
        poll: Option<PollId>,
    },
    /// Activity: done.
    SucceedActivity {
        /// The activity.
        task: TaskId,
        /// The result.
        result: Option<Payload>,
    },
    /// Activity: could not be done.
    FailActivity {
        /// The activity.
        task: TaskId,
        /// Why, for programs. Only a run that was started over SWF's wire may have none.
        reason: Option<String>,
        /// Why, for people and programs.
        details: Option<Payload>,
        /// Another try cannot help.
        non_retryable: bool,
        /// Try again after this long, whatever the retry policy has for the wait.
        retry_after: Option<Duration>,
    },
    /// Activity: stopped, as it was asked to.
    CancelActivity {
        /// The activity.
        task: TaskId,
        /// What was done.
        details: Option<Payload>,
    },
    /// Service: the activity could not be delivered.
    ReturnActivity {
        /// The activity.
        task: TaskId,
        /// The poll that it went to.
        poll: Option<PollId>,
    },
    /// Service: everything whose time has come.
    FireDeadlines {
        /// The newest heartbeats of the run's activities.
        beats: Vec<Heartbeat>,
    },
    /// Another run: news, as its decider decided.
    TakeSignal {
        /// From where.
        origin: Origin,
        /// Its name.
        name: String,
        /// What it says.
        input: Option<Payload>,
    },
    /// Another run: asks the decider to cancel the run.
    TakeCancelRequest {
        /// From where.
        origin: Origin,
        /// Why.
        reason: Option<String>,
    },
    /// Another run: this one's parent, which has closed.
    TakeParentClose {
        /// The event of the parent that wanted this run.
        origin: Origin,
        /// What becomes of this run.
        policy: ChildPolicy,
    },
    /// Another run: a child of this one, which has closed.
    TakeChildClose {
        /// The child's ChildScheduled.
        scheduled_event_id: EventId,
        /// The child's run.
        run_id: RunId,
        /// The event that closed it.
        close: Box<EventKind>,
    },
    /// Service: what became of an effect on another run. Recorded nothing when it is known already.
    SettleEffect {
        /// The run that asked for it: this one, or one before it.
        owner: RunId,
        /// The event that asked for it.
        event_id: EventId,
        /// What was to be done.
        kind: EffectKind,
        /// The [round](crate::Outbox::round) in which it was delivered. What was refused counts in that round only.
        round: u32,
        /// What became of it.
        result: EffectResult,
    },
    /// Service: looks after effects on other runs, by another round of deliveries.
    SeeToEffects,
}

/// What became of an effect on another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectResult {
    /// This run has taken it.
    Done {
        /// Which.
        run_id: RunId,
    },
    /// There is no such run, or it is not the newest of its workflow id.
    Unknown,
    /// The run has closed.
    Closed,
    /// It was to be started, and a run of its workflow id is open.
    AlreadyOpen,
    /// It was to be started, and its workflow id was used before.
    ReuseRefused,
    /// It was to be started, and never can be as it is wanted.
    NeverStarts,
}

impl Command {
    /// A decider's answer to the turn that it holds.
    pub fn complete(turn: TurnId, answer: impl Into<TurnAnswer>) -> Self {
        Self::CompleteTurn { turn, answer: Box::new(answer.into()) }
    }
}
