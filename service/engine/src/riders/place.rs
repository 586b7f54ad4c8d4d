//! State machine of a rider. It is pure; the table below defines it, and the tests have one line per case.
//!
//! | state | turn | own task | answer | not recorded | task lost | run read | lent | returned | answered |
//! |---|---|---|---|---|---|---|---|---|---|
//! | held | out | – | – | – | – | waits (1) | – | – | held |
//! | waits | out | out | – | – | – | – | lent | – | held |
//! | lent | – | – | – | – | – | – | – | waits | – |
//! | out | – | – | answering | – | waits | waits (2) | – | – | held |
//! | answering | – | – | – | (3) | – | – | – | – | held |
//!
//! The columns are events: a turn takes the rider, a separate task takes it, its answer arrives, the answer is not
//! recorded, its task is lost, its run is read, it is lent, it returns from another node, it is answered.
//!
//! 1. If no turn is coming and the run has changed.
//! 2. If its turn is over.
//! 3. A query waits. An update is out again, or waits if its task is lost.
//!
//! Only queries are held, and only updates are lent. A query is copied: a second answer does no harm. One answer
//! counts in any state, and callers that watch for changes then hold the query. An update has a single holder,
//! which may accept it until it is taken back. It leaves with its verdict, or according to [`ends_unjudged`].

use history::{EventId, Fault, ProposedUpdate, Run, Status, TurnId, UpdateStatus};
use uuid::Uuid;

use crate::Refusal;
use crate::lists::grant::RiderKind;
use crate::riders::outcome::UpdateTurnOutcome;

/// Task that has taken riders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A regular turn.
    Turn(TurnId),
    /// The number of a separate task for riders: a query task or a speculative turn.
    Own(u64),
}

/// State of a rider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RiderPlace {
    /// No caller needs an answer until the run has changed from this version.
    Held { version: EventId },
    /// The next task takes it.
    Waits,
    /// Another node has it; no task of this node takes it.
    Lent,
    /// This task has taken it.
    Out(By),
    /// The answer of this task is being recorded.
    Answering(By),
}

/// Event of riders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RiderEvent {
    /// A task takes them.
    Taken(By),
    /// The answer of a task has arrived and is about to be recorded.
    AnswerComes(By),
    /// The answer was not recorded. Unless the task is lost as well, it may be answered again.
    AnswerFails { by: By, is_lost: bool },
    /// A task is lost, or did not reach its poller.
    TaskLost(By),
    /// Their run was read: the turn that a decider holds, and the version at which no turn is coming.
    RunSeen { held: Option<TurnId>, idle_at: Option<EventId> },
    /// They are lent to another node.
    Lent,
    /// They return from another node without a verdict.
    Returned,
    /// A query is answered for this version. It is removed if no caller watches for changes.
    Answered { version: EventId },
}

impl RiderPlace {
    /// Returns the state after an event; `None` if it does not change.
    pub(crate) fn after(self, kind: RiderKind, happens: RiderEvent) -> Option<Self> {
        use RiderPlace::{Answering, Held, Lent, Out, Waits};
        match happens {
            RiderEvent::Taken(by) => match self {
                Waits => Some(Out(by)),
                // No separate task is made for it.
                Held { .. } => matches!(by, By::Turn(_)).then_some(Out(by)),
                Lent | Out(_) | Answering(_) => None,
            },
            RiderEvent::AnswerComes(by) => (self == Out(by)).then_some(Answering(by)),
            RiderEvent::AnswerFails { by, is_lost } => (self == Answering(by)).then_some(match kind {
                RiderKind::Update if !is_lost => Out(by),
                RiderKind::Query | RiderKind::Update => Waits,
            }),
            RiderEvent::TaskLost(by) => (self == Out(by)).then_some(Waits),
            RiderEvent::RunSeen { held, idle_at } => match self {
                Out(By::Turn(turn)) => (held != Some(turn)).then_some(Waits),
                Held { version } => idle_at.is_some_and(|now| now != version).then_some(Waits),
                Waits | Lent | Out(By::Own(_)) | Answering(_) => None,
            },
            RiderEvent::Lent => (self == Waits).then_some(Lent),
            RiderEvent::Returned => (self == Lent).then_some(Waits),
            RiderEvent::Answered { version } => (kind == RiderKind::Query).then_some(Held { version }),
        }
    }

    /// Returns why there is no answer yet, for the caller, and whether the rider waits for a decider to take it.
    pub(crate) fn why_unanswered(self, kind: RiderKind) -> (&'static str, bool) {
        match (self, kind) {
            (Self::Out(By::Turn(_)) | Self::Answering(_), RiderKind::Query) => {
                ("the decider that has the turn has not completed it", false)
            }
            (Self::Out(_), RiderKind::Query) | (Self::Out(_) | Self::Answering(_), RiderKind::Update) => {
                ("the decider that was asked has not answered", false)
            }
            (Self::Lent, _) => ("no decider has answered at the node where it was asked for", false),
            (Self::Waits | Self::Held { .. }, RiderKind::Query) => {
                ("no decider that answers queries took a task of the run, or a turn is under way", true)
            }
            (Self::Waits | Self::Held { .. }, RiderKind::Update) => {
                ("no decider that takes updates took a turn of the run, or a turn is under way", true)
            }
        }
    }
}

/// Returns the outcome of an update that no decider will judge any more, when the newest run of its workflow id is
/// read; `run_id` is the run that it was put to. The first matching column applies:
///
/// | state | known | replaced | closed | paused | other version |
/// |---|---|---|---|---|---|
/// | waits | accepted | gone on | refused | refused | refused |
/// | out | – | gone on | refused | – | – |
/// | lent, or answering | – | – | – | – | – |
///
/// The columns are, in this order: the run knows the update; another run is the newest or continues this one; the
/// run has closed; the run is paused; the run has another version than the update expects.
pub(crate) fn ends_unjudged(
    place: RiderPlace,
    run_id: Uuid,
    asked: &ProposedUpdate,
    run: &Run,
) -> Option<UpdateTurnOutcome> {
    let is_out = match place {
        RiderPlace::Waits | RiderPlace::Held { .. } => false,
        RiderPlace::Out(_) => true,
        // Its holder determines the outcome.
        RiderPlace::Answering(_) | RiderPlace::Lent => return None,
    };
    // A decider at another node has accepted it; its callers read the outcome from the run.
    if !is_out && !is_new(run_id, asked, run) {
        return Some(UpdateTurnOutcome::Accepted);
    }
    if run_id != run.started.run_id || run.status == Status::ContinuedAsNew {
        return Some(UpdateTurnOutcome::Continued);
    }
    let fault = match asked.if_version {
        _ if !run.is_open() => Fault::RunClosed { status: run.status },
        _ if is_out => return None,
        // An operator must resume the run first, while the caller waits on a connection (ADR 11).
        _ if run.paused.is_some() => Fault::RunPaused,
        Some(expected) if expected != run.version => Fault::VersionMismatch { expected, found: run.version },
        Some(_) | None => return None,
    };
    Some(UpdateTurnOutcome::Refused(Refusal::from(fault)))
}

/// Whether its run has no record of an update.
pub(crate) fn is_new(run_id: Uuid, asked: &ProposedUpdate, run: &Run) -> bool {
    run_id != run.started.run_id || run.update_status(&asked.update_id) == UpdateStatus::New
}

/// Returns the event for the riders of a run that was read.
pub(crate) fn seen(run: &Run) -> RiderEvent {
    let held = run.turn.as_ref().filter(|_| run.is_open());
    RiderEvent::RunSeen {
        held: held.map(|turn| TurnId {
            scheduled_event_id: turn.scheduled_event_id,
            started_event_id: turn.started_event_id,
        }),
        idle_at: has_no_turn_to_come(run).then_some(run.version),
    }
}

/// Whether no turn is outstanding.
pub(crate) fn is_idle(run: &Run) -> bool {
    !run.is_open() || run.turn.is_none() && run.turn_task.is_none()
}

/// Whether no turn will take a query: none is outstanding, or the waiting one is not handed out because the run is
/// paused. A pause does not stop queries.
pub(crate) fn has_no_turn_to_come(run: &Run) -> bool {
    is_idle(run) || run.turn.is_none() && run.paused.is_some()
}

#[cfg(test)]
mod tests;
