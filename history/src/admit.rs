//! Admitting commands to a history: which events a command adds, or why it is refused.
//!
//! One [`Transition`] is one commit. It may admit several commands, each on the state that the one before it left, and
//! a refused command leaves it as it was: every check comes before the first event.

mod activities;
mod by_hand;
mod children;
mod deadlines;
mod decisions;
mod others;
mod pause;
mod permitted;
mod reset;
mod room;
mod sending;
mod successor;
mod swf;
#[cfg(test)]
mod tests;
mod updates;
pub(crate) mod validate;

use uuid::Uuid;

pub use children::PARENT_CLOSED;

use activities::Report;
use decisions::Completion;
pub use updates::{may_update, may_update_in, speculative_turn, starting_for};

use crate::author::{Author, CallerName};
use crate::command::{Command, Start, TaskId, TurnId};
use crate::event::{
    ByHand, DeciderFailed, DeciderFailedCause, DeciderScheduled, DeciderStarted, Event, EventId, EventKind, RequestKey,
    WorkflowCancelRequested, WorkflowStarted, WorkflowTerminated,
};
use crate::fault::Fault;
use crate::ids::{ConflictPolicy, ReusePolicy, RunId};
use crate::limits;
use crate::links::Links;
use crate::payload::Payload;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::room::Room;
use crate::rules::signal::Said;
use crate::run::{PendingActivity, Request, Run, Spilled, Status, Tries};
use crate::time::{Duration, Timestamp};

/// What became of a command that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was recorded; the first of its events. For a command without events, such as [`Command::FireDeadlines`] with
    /// nothing due or the start of a try that is not yet the last: the event that would come next.
    Recorded(EventId),
    /// The same request was recorded before, there; nothing was added.
    Repeated(Request),
}

/// Commands admitted to one run, to be committed together.
#[derive(Debug, Clone)]
pub struct Transition {
    pub(crate) run: Run,
    pub(crate) links: Links,
    events: Vec<Event>,
    /// How many of them are those of another run.
    copied: usize,
    has_changed_beside: bool,
    /// What is reserved, once a decision of this command has asked.
    room: Option<Room>,
    /// Who gives the command that is admitted.
    author: Author,
}

/// The events that `command` adds to `run` at `now`.
///
/// # Errors
///
/// The fault that the command is refused with; nothing is recorded then.
pub fn admit(run: &Run, command: &Command, now: Timestamp) -> Result<Vec<Event>, Fault> {
    let mut transition = Transition::of(run.clone());
    transition.admit(command, now)?;
    Ok(transition.events)
}

/// Whether a workflow id whose newest run is `existing` may be started again.
///
/// # Errors
///
/// [`Fault::AlreadyOpen`] while it is open, [`Fault::ReuseRefused`] when the policy refuses.
pub fn may_start(existing: &Run, policy: ReusePolicy) -> Result<(), Fault> {
    let (run_id, status) = (existing.started.run_id, existing.status);
    let allowed = match (policy, status) {
        // The run that goes on is about to be there.
        (_, Status::Open) => return Err(Fault::AlreadyOpen { run_id }),
        (_, _) if existing.goes_on() => return Err(Fault::AlreadyOpen { run_id }),
        (ReusePolicy::AllowDuplicate, _) => true,
        (ReusePolicy::RejectDuplicate, _) => false,
        (ReusePolicy::AllowDuplicateFailedOnly, status) => status != Status::Success,
    };
    if allowed { Ok(()) } else { Err(Fault::ReuseRefused { run_id, status }) }
}

/// What a start does, given the newest run of its workflow id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starting {
    /// It starts a run.
    New,
    /// Nothing: the request was recorded before, by this run.
    Repeated {
        /// Which.
        run_id: Uuid,
    },
    /// It uses the open run, and signals it where it carries a signal.
    Existing {
        /// Which.
        run_id: Uuid,
    },
    /// It terminates the open run, and then starts.
    TerminateFirst,
}

/// What a start does, given the newest run of its workflow id.
///
/// # Errors
///
/// As for [`may_start`]; [`Fault::Invalid`] for policies that contradict each other.
pub fn starting(existing: Option<&Run>, start: &Start) -> Result<Starting, Fault> {
    validate::start(start)?;
    let Some(run) = existing else { return Ok(Starting::New) };
    let run_id = run.started.run_id;
    if let Some(request) = start.key.and_then(|key| run.request(key)) {
        return Ok(Starting::Repeated { run_id: request.run_id });
    }
    match start.conflict_policy {
        ConflictPolicy::UseExisting if run.is_open() => Ok(Starting::Existing { run_id }),
        ConflictPolicy::TerminateExisting if run.is_open() => Ok(Starting::TerminateFirst),
        ConflictPolicy::Fail | ConflictPolicy::UseExisting | ConflictPolicy::TerminateExisting => {
            may_start(run, start.reuse_policy).map(|()| Starting::New)
        }
    }
}

/// Whether a name is acceptable, for requests that are no commands, such as polls.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`], naming `field`.
pub fn check_name(field: &str, name: &str) -> Result<(), Fault> {
    validate::name(field, name)
}

/// Whether the defaults of a workflow type are acceptable.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`], naming the field.
pub fn check_workflow_defaults(defaults: &WorkflowDefaults) -> Result<(), Fault> {
    validate::workflow_defaults(defaults)
}

/// Whether the defaults of an activity type are acceptable.
///
/// # Errors
///
/// As for [`check_workflow_defaults`].
pub fn check_activity_defaults(defaults: &ActivityDefaults) -> Result<(), Fault> {
    validate::activity_defaults(defaults)
}

/// Whether the name of a type, with its version, is acceptable.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`], naming `field`.
pub fn check_type(field: &str, name: &str) -> Result<(), Fault> {
    validate::type_name(field, name)
}

/// Whether a poll's id and the number of its try are acceptable.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`], naming `pollId` or `attempt`.
pub fn check_poll(poll_id: Option<&str>, attempt: Option<u32>) -> Result<(), Fault> {
    validate::poll(poll_id, attempt)
}

/// Whether it can be recorded who does something by hand, and why, for requests that are no commands.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`], naming `identity` or `reason`.
pub fn check_by_hand(by_hand: &ByHand) -> Result<(), Fault> {
    validate::by_hand(by_hand)
}

/// Whether a payload is acceptable, for requests that are no commands, such as heartbeats.
///
/// # Errors
///
/// [`Fault::TooLarge`], naming `field`.
pub fn check_payload(field: &str, payload: Option<&Payload>) -> Result<(), Fault> {
    validate::payload(field, payload)
}

/// The activity that a runner holds with `task`, for requests that are no commands, such as heartbeats.
///
/// # Errors
///
/// [`Fault::RunClosed`] once the run has closed, else [`Fault::ActivityClosed`] when it is no longer the runner's.
pub fn held(run: &Run, task: TaskId) -> Result<&PendingActivity, Fault> {
    must_be_open(run)?;
    let activity = run.activities.get(&task.scheduled_event_id);
    activity.filter(|activity| activity.task(task.scheduled_event_id) == Some(task)).ok_or(Fault::ActivityClosed)
}

/// Whether a decider holds this turn, so that its answer would be heard.
///
/// # Errors
///
/// [`Fault::TurnCompleted`] when it was the last to be completed, else [`Fault::RunClosed`] or [`Fault::TurnLost`].
pub fn must_hold(run: &Run, turn: TurnId) -> Result<(), Fault> {
    if run.turn.as_ref().is_some_and(|held| {
        held.scheduled_event_id == turn.scheduled_event_id && held.started_event_id == turn.started_event_id
    }) {
        return Ok(());
    }
    // Said before "closed", so that a decider which repeats its last answer learns that it was heard.
    if turn.started_event_id == run.previous_started_event_id && turn.started_event_id != 0 {
        return Err(Fault::TurnCompleted);
    }
    must_be_open(run)?;
    Err(Fault::TurnLost)
}

pub(crate) fn must_be_open(run: &Run) -> Result<(), Fault> {
    if run.is_open() { Ok(()) } else { Err(Fault::RunClosed { status: run.status }) }
}

pub(crate) fn must_be_at(run: &Run, expected: Option<EventId>) -> Result<(), Fault> {
    let found = run.version;
    match expected {
        Some(expected) if expected != found => Err(Fault::VersionMoved { expected, found }),
        _ => Ok(()),
    }
}

impl Transition {
    /// A transition of a run that exists and has nothing to do with others.
    pub fn of(run: Run) -> Self {
        Self::linked(run, Links::default())
    }

    /// A transition of a run that exists.
    pub fn linked(run: Run, links: Links) -> Self {
        Self {
            run,
            links,
            events: Vec::new(),
            copied: 0,
            has_changed_beside: false,
            room: None,
            author: Author::default(),
        }
    }

    /// A new run: WorkflowStarted, DeciderScheduled, and the signal that came with its start.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] for a field that is not acceptable.
    pub fn start(start: &Start, run_id: Uuid, now: Timestamp) -> Result<Self, Fault> {
        validate::start(start)?;
        let started = WorkflowStarted {
            workflow_id: start.workflow_id.clone(),
            run_id,
            workflow_type: start.workflow_type.clone(),
            task_list: start.task_list.clone(),
            input: start.input.clone(),
            execution_timeout: start
                .swf
                .as_ref()
                .map_or(start.execution_timeout, |swf| swf.execution_timeout(start.execution_timeout)),
            decider_start_to_close: start.decider_start_to_close,
            decider_schedule_to_start: start.decider_schedule_to_start,
            activity_timeouts: start.activity_timeouts,
            tags: start.tags.clone(),
            retention: start.retention,
            identity: start.identity.clone(),
            start_after: start.start_after.filter(|wait| *wait > Duration::ZERO),
            parent: start.parent.clone(),
            run_timeout: start.run_timeout,
            continued_from: None,
            execution_from: None,
            swf: start.swf.clone(),
            task_priority: start.task_priority,
            retry: start.retry.clone(),
            attempt: start.retry.as_ref().map(|_| 1),
            schedule: start.schedule.clone(),
        };
        let run = Run::begin(now, &started, start.key);
        let (by, author) = (start.by.clone(), Author::named(start.by.clone()));
        let event =
            Event { id: 1, timestamp: now, kind: EventKind::WorkflowStarted(Box::new(started)), key: start.key, by };
        let mut transition = Self { events: vec![event], author, ..Self::of(run) };
        transition.schedule_turn(now);
        if let Some(signal) = start.signal.clone() {
            transition.signal_with_start(signal, start.identity.clone(), now);
        }
        transition.author = Author::default();
        Ok(transition)
    }

    /// The state after everything admitted so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The events to be committed.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether there is anything to commit: events, or what the state has beside them (the tries of activities), or
    /// its [links](Self::links).
    pub fn is_changed(&self) -> bool {
        self.has_changed_beside || !self.events.is_empty()
    }

    /// What the run keeps of its dealings with others, after everything admitted so far. May change without an event.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The same, to have a new run go on with what the one before it has seen, or to forget what nobody asks for again.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Takes over from the run `before`, which this one takes the place of and which is kept until `kept_until`: what that owes and
    /// has seen, and the requests that are known by it.
    pub fn take_over(&mut self, before: &Run, links: Links, kept_until: Timestamp, now: Timestamp) {
        self.links = links.handed_over(before.started.run_id);
        self.run.take_over(before, kept_until, now);
    }

    /// The same, to have it [recall](Run::recall) what the store has of requests.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Ends the commit: takes the requests out of the state that are too many for it, of those that were recorded up to
    /// the event `committed`; see [`Run::spill`].
    pub fn spill(&mut self, committed: EventId, now: Timestamp) -> Spilled {
        self.run.forget_recalled();
        self.run.spill(committed, now)
    }

    /// The state, what the run keeps of its dealings with others, and the events.
    pub fn into_all(self) -> (Run, Links, Vec<Event>) {
        (self.run, self.links, self.events)
    }

    /// The state and the events.
    pub fn into_parts(self) -> (Run, Vec<Event>) {
        (self.run, self.events)
    }

    /// What came of a command the first time, where this is a repeated request: one with the same key that was recorded, of this run
    /// or one of its workflow id before it. One that names a run, `run_id`, repeats only what was recorded there.
    pub fn repeated(&self, command: &Command, run_id: Option<RunId>) -> Option<Request> {
        let request = self.run.request(command.request_key()?)?;
        run_id.is_none_or(|run_id| request.run_id == run_id).then_some(request)
    }

    /// Admits one command that names no run.
    ///
    /// # Errors
    ///
    /// The fault that the command is refused with; the transition is then as it was.
    pub fn admit(&mut self, command: &Command, now: Timestamp) -> Result<Outcome, Fault> {
        match self.repeated(command, None) {
            Some(request) => Ok(Outcome::Repeated(request)),
            None => self.admit_new(command, now),
        }
    }

    /// Admits one command that is not [repeated](Self::repeated), which this author gives: its events have his name, and it decides
    /// no more than he may.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit).
    pub fn admit_of(&mut self, command: &Command, author: &Author, now: Timestamp) -> Result<Outcome, Fault> {
        self.author = author.clone();
        let outcome = self.admit_new(command, now);
        self.author = Author::default();
        outcome
    }

    /// Admits one command that is not [repeated](Self::repeated).
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit).
    pub fn admit_new(&mut self, command: &Command, now: Timestamp) -> Result<Outcome, Fault> {
        // Time never goes back within a run, whatever the clock does.
        let now = now.max(self.run.last_timestamp);
        let first = self.events.len();
        let next = self.run.last_event_id + 1;
        self.room = None;
        let key = command.request_key();
        let mut outcome = Outcome::Recorded(next);
        match command {
            Command::Signal { name, input, identity, if_version, .. } => {
                let (input, identity, if_version) = (input.as_ref(), identity.as_deref(), *if_version);
                self.signal(&Said { name, input, identity, if_version, key }, now)?;
            }
            Command::RequestCancel { reason, identity, .. } => {
                validate::reason("reason", reason.as_deref())?;
                validate::identity(identity.as_deref())?;
                must_be_open(&self.run)?;
                let (reason, identity) = (reason.clone(), identity.clone());
                let request = WorkflowCancelRequested { reason, identity, origin: None };
                self.push_keyed(now, EventKind::WorkflowCancelRequested(request), key);
            }
            Command::Terminate { reason, details, identity, child_policy, .. } => {
                let is_swf = self.run.started.is_swf();
                reason.as_deref().map_or(Ok(()), |reason| validate::reason_of("reason", reason, is_swf))?;
                validate::payload("details", details.as_ref())?;
                validate::identity(identity.as_deref())?;
                must_be_open(&self.run)?;
                let (reason, details, identity) = (reason.clone(), details.clone(), identity.clone());
                let child_policy = child_policy.filter(|_| self.run.started.is_swf());
                let terminated = WorkflowTerminated {
                    reason,
                    details,
                    identity,
                    origin: None,
                    child_policy,
                    reset: None,
                    cause: None,
                };
                self.push_keyed(now, EventKind::WorkflowTerminated(terminated), key);
            }
            Command::StartTurn { scheduled_event_id, identity, poll } => {
                validate::identity(identity.as_deref())?;
                let scheduled_event_id = *scheduled_event_id;
                must_be_open(&self.run)?;
                let is_free = self.run.turn.is_none() && self.run.paused.is_none();
                let task = self.run.turn_task.as_ref().filter(|_| is_free);
                let waits = task.is_some_and(|task| {
                    task.scheduled_event_id == scheduled_event_id && task.not_before.is_none_or(|at| at <= now)
                });
                if !waits {
                    return Err(Fault::TurnNotWaiting { scheduled_event_id });
                }
                let started = DeciderStarted { scheduled_event_id, identity: identity.clone() };
                self.push(now, EventKind::DeciderStarted(started));
                self.links.sent.send(scheduled_event_id, *poll);
            }
            Command::CompleteTurn { turn, decisions, context, awaiting } => {
                let completion = Completion { decisions, context: context.as_ref(), awaiting, moves_to: None };
                self.complete_turn(*turn, &completion, now)?;
            }
            Command::CompleteTurnAndMove { turn, decisions, context, to } => {
                let context = context.as_ref();
                let completion = Completion { decisions, context, awaiting: &[], moves_to: Some(to) };
                self.complete_turn(*turn, &completion, now)?;
            }
            Command::AnswerUpdates { turn, asked, answers, decisions, context, awaiting } => {
                let completion = Completion { decisions, context: context.as_ref(), awaiting, moves_to: None };
                self.answer_updates(turn, asked, answers, &completion, now)?;
            }
            Command::FailTurn { turn, reason, details } => {
                validate::reason("reason", reason.as_deref())?;
                validate::payload("details", details.as_ref())?;
                must_hold(&self.run, *turn)?;
                let cause = DeciderFailedCause::Reported;
                let TurnId { scheduled_event_id, started_event_id } = *turn;
                let (reason, details) = (reason.clone(), details.clone());
                // A turn that waits already has been scheduled without a wait: it is held back from here.
                let wait = turn_backoff(self.run.turns_lost.saturating_add(1));
                let next_not_before = self.run.turn_task.as_ref().map(|_| now.plus(wait));
                let failed =
                    DeciderFailed { scheduled_event_id, started_event_id, cause, reason, details, next_not_before };
                self.push(now, EventKind::DeciderFailed(failed));
            }
            Command::ReturnTurn { turn, poll } => {
                must_hold(&self.run, *turn)?;
                self.turn_must_be_with(*turn, *poll)?;
                let cause = DeciderFailedCause::DeliveryFailed;
                let TurnId { scheduled_event_id, started_event_id } = *turn;
                self.push(
                    now,
                    EventKind::DeciderFailed(DeciderFailed {
                        scheduled_event_id,
                        started_event_id,
                        cause,
                        reason: None,
                        details: None,
                        next_not_before: None,
                    }),
                );
            }
            Command::StartActivity { scheduled_event_id, identity, poll } => {
                self.start_activity(*scheduled_event_id, identity.as_ref(), now)?;
                self.links.sent.send(*scheduled_event_id, *poll);
            }
            Command::SendAgain { scheduled_event_id, lost, poll } => {
                self.send_again(*scheduled_event_id, *lost, *poll)?;
            }
            Command::SucceedActivity { task, result } => self.succeed_activity(*task, result.as_ref(), now)?,
            Command::FailActivity { task, reason, details, non_retryable, retry_after } => {
                let (details, non_retryable, retry_after) = (details.as_ref(), *non_retryable, *retry_after);
                self.fail_activity(*task, &Report { reason, details, non_retryable, retry_after }, now)?;
            }
            Command::Pause { stop_clocks, by_hand, .. } => self.pause(*stop_clocks, by_hand, key, now)?,
            Command::Resume { by_hand, .. } => self.resume(by_hand, key, now)?,
            Command::ActOnActivity { activity_id, act, by_hand, .. } => {
                self.act_on_activity(activity_id, act, by_hand, key, now)?;
            }
            Command::CancelActivity { task, details } => self.activity_canceled(*task, details.as_ref(), now)?,
            Command::ReturnActivity { task, poll } => self.return_activity(*task, *poll, now)?,
            Command::FireDeadlines { beats } => self.fire_deadlines(beats, now),
            Command::TakeSignal { origin, name, input } => {
                outcome = self.take_signal(origin, name, input.as_ref(), now)?;
            }
            Command::TakeCancelRequest { origin, reason } => {
                let (reason, from) = (reason.clone(), Some(origin.clone()));
                let request = WorkflowCancelRequested { reason, identity: None, origin: from };
                outcome = self.take(origin, EventKind::WorkflowCancelRequested(request), now)?;
            }
            Command::TakeParentClose { origin, policy } => outcome = self.take_parent_close(origin, *policy, now)?,
            Command::TakeChildClose { scheduled_event_id, run_id, close } => {
                outcome = self.take_child_close(*scheduled_event_id, *run_id, close, now)?;
            }
            Command::SettleEffect { owner, event_id, kind, round, result } => {
                self.settle(*owner, *event_id, *kind, *round, *result, now);
            }
            Command::SeeToEffects => self.see_to_effects(now),
        }
        if self.events.iter().skip(first).any(|event| self.run.is_looked_at(&event.kind)) {
            self.schedule_turn(now);
        }
        self.end_beyond_limit(now);
        self.forget_sent();
        Ok(outcome)
    }

    pub(crate) fn push(&mut self, now: Timestamp, kind: EventKind) -> EventId {
        self.push_keyed(now, kind, None)
    }

    pub(crate) fn push_keyed(&mut self, now: Timestamp, kind: EventKind, key: Option<RequestKey>) -> EventId {
        self.push_by(now, kind, key, self.author.by.clone())
    }

    /// Records what another caused than whoever gives the command.
    fn push_by(&mut self, now: Timestamp, kind: EventKind, key: Option<RequestKey>, by: Option<CallerName>) -> EventId {
        let event = Event { id: self.run.last_event_id + 1, timestamp: now, kind, key, by };
        self.owe(&event);
        self.take_room(&event.kind);
        self.run.evolve(&event);
        let id = event.id;
        self.events.push(event);
        id
    }

    /// Changes what has been tried of an activity with a retry policy: state without an event.
    fn change_tries(&mut self, scheduled_event_id: EventId, change: impl FnOnce(&mut Tries)) {
        if let Some(tries) = self.run.tries_mut(scheduled_event_id) {
            change(tries);
            self.has_changed_beside = true;
        }
    }

    /// At most one DeciderScheduled since the last DeciderStarted.
    fn schedule_turn(&mut self, now: Timestamp) {
        if !self.run.is_open() || self.run.turn_task.is_some() {
            return;
        }
        let given_back = matches!(
            self.events.last().map(|event| &event.kind),
            Some(EventKind::DeciderFailed(DeciderFailed { cause: DeciderFailedCause::Reported, .. }))
        );
        let scheduled = DeciderScheduled {
            task_list: self.run.next_turn_list().to_owned(),
            start_to_close: self.run.started.decider_start_to_close,
            schedule_to_start: self.run.next_turn_waits(),
            attempt: self.run.turns_lost.saturating_add(1),
            not_before: if self.run.last_event_id == 1 {
                self.run.started.start_after.map(|_| self.run.started.first_turn_at())
            } else {
                given_back.then(|| now.plus(turn_backoff(self.run.turns_lost)))
            },
            task_priority: self.run.started.priority(),
        };
        self.push(now, EventKind::DeciderScheduled(scheduled));
    }
}

/// How long the next turn is held back after this many were lost in a row.
fn turn_backoff(turns_lost: u32) -> Duration {
    let doublings = turns_lost.saturating_sub(1).min(16);
    limits::TURN_BACKOFF_FIRST.times(1 << doublings).min(limits::TURN_BACKOFF_MAX)
}
