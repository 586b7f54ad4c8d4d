//! State machine of a rider (a query or an update). It is pure. The table below defines it, and the tests have one line
//! for each row of the table.
//!
//! | state | turn | own task | answer | not recorded | task lost | run read | lent | returned | answered |
//! |---|---|---|---|---|---|---|---|---|---|
//! | held | out | – | – | – | – | waits (1) | – | – | held |
//! | waits | out | out | – | – | – | – | lent | – | held |
//! | lent | – | – | – | – | – | – | – | waits | – |
//! | out | – | – | answering | – | waits | waits (2) | – | – | held |
//! | answering | – | – | – | (3) | – | – | – | – | held |
//!
//! The columns are events: a turn takes the rider; a separate task takes it; its answer arrives; the answer could not
//! be recorded; its task is lost; its run was read; it is lent to another node; it returns from that node; it is
//! answered. A dash means that the state does not change.
//!
//! 1. If no turn is outstanding and the run has changed.
//! 2. If the turn that took the rider has ended.
//! 3. A query waits. An update is out again, or waits if its task is lost.
//!
//! Only queries are held, and only updates are lent. Several tasks may have a copy of the same query, because a second
//! answer does no harm. One answer is enough in any state; afterwards the query is held for callers that watch for
//! changes. An update is with a single task or node at a time, which may accept it until it is taken back. An update is
//! removed with its verdict, or as [`ends_unjudged`] defines.

use history::{EventId, Fault, ProposedUpdate, Run, Status, TurnId, UpdateStatus};
use uuid::Uuid;

use crate::Refusal;
use crate::lists::grant::RiderKind;
use crate::riders::outcome::UpdateTurnOutcome;

/// Task that has taken a rider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A regular turn.
    Turn(TurnId),
    /// A separate task for riders with this number: a query task or a speculative turn.
    Own(u64),
}

/// State of a rider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RiderPlace {
    /// The query's callers do not need an answer until the run has changed from this version.
    Held { version: EventId },
    /// The next task takes the rider.
    Waits,
    /// Another node has the rider. No task of this node takes it.
    Lent,
    /// This task has taken the rider.
    Out(By),
    /// The answer of this task is being recorded.
    Answering(By),
}

/// Event that may change the state of riders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RiderEvent {
    /// A task takes the riders.
    Taken(By),
    /// The answer of a task has arrived and is about to be recorded.
    AnswerComes(By),
    /// The answer could not be recorded. Unless the task is lost as well, its decider may answer again.
    AnswerFails { by: By, is_lost: bool },
    /// A task is lost, or did not reach its poller.
    TaskLost(By),
    /// The riders' run was read. `held` is the turn that a decider has; `idle_at` is the run's version if no turn is
    /// outstanding.
    RunSeen { held: Option<TurnId>, idle_at: Option<EventId> },
    /// The riders are lent to another node.
    Lent,
    /// The riders return from another node without a verdict.
    Returned,
    /// A query is answered for this version. It is removed if none of its callers watches for changes.
    Answered { version: EventId },
}

impl RiderPlace {
    /// Returns the state after an event; `None` if it does not change.
    pub(crate) fn after(self, kind: RiderKind, happens: RiderEvent) -> Option<Self> {
        use RiderPlace::{Answering, Held, Lent, Out, Waits};
        match happens {
            RiderEvent::Taken(by) => match self {
                Waits => Some(Out(by)),
                // Only a turn takes a held query; no separate task is created for it.
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

    /// Returns the reason why the rider has no answer yet, for the error text, and true if the rider waits to be taken
    /// by a decider.
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

/// Returns the outcome of an update that no decider will validate any more, when the newest run of its workflow id is
/// read. `run_id` is the run to which the update was sent. The first matching column applies:
///
/// | state | known | replaced | closed | paused | other version |
/// |---|---|---|---|---|---|
/// | waits | accepted | continued | refused | refused | refused |
/// | out | – | continued | refused | – | – |
/// | lent, or answering | – | – | – | – | – |
///
/// The columns are, in this order: the run knows the update; another run is the newest or continues this one; the run
/// has closed; the run is paused; the run has a version other than the one that the update expects.
pub(crate) fn ends_unjudged(
    place: RiderPlace,
    run_id: Uuid,
    asked: &ProposedUpdate,
    run: &Run,
) -> Option<UpdateTurnOutcome> {
    let is_out = match place {
        RiderPlace::Waits | RiderPlace::Held { .. } => false,
        RiderPlace::Out(_) => true,
        // The task or node that has the update determines the outcome.
        RiderPlace::Answering(_) | RiderPlace::Lent => return None,
    };
    // A decider at another node has accepted the update. Its callers read the outcome from the run.
    if !is_out && !is_new(run_id, asked, run) {
        return Some(UpdateTurnOutcome::Accepted);
    }
    if run_id != run.started.run_id || run.status == Status::ContinuedAsNew {
        return Some(UpdateTurnOutcome::Continued);
    }
    let fault = match asked.if_version {
        _ if !run.is_open() => Fault::RunClosed { status: run.status },
        _ if is_out => return None,
        // The update fails at once: the pause lasts until an operator resumes the run, too long for the caller's
        // connection (ADR 11).
        _ if run.paused.is_some() => Fault::RunPaused,
        Some(expected) if expected != run.version => Fault::VersionMismatch { expected, found: run.version },
        Some(_) | None => return None,
    };
    Some(UpdateTurnOutcome::Refused(Refusal::from(fault)))
}

/// Returns true if the run has no record of the update.
pub(crate) fn is_new(run_id: Uuid, asked: &ProposedUpdate, run: &Run) -> bool {
    run_id != run.started.run_id || run.update_status(&asked.update_id) == UpdateStatus::New
}

/// Returns the event to apply to the riders of a run that was read.
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

/// Returns true if no turn of the run is waiting or started.
pub(crate) fn is_idle(run: &Run) -> bool {
    !run.is_open() || run.turn.is_none() && run.turn_task.is_none()
}

/// Returns true if no turn will take a query: either there is no turn, or the waiting turn is not handed out because
/// the run is paused. Queries are answered during a pause too.
pub(crate) fn has_no_turn_to_come(run: &Run) -> bool {
    is_idle(run) || run.turn.is_none() && run.paused.is_some()
}

#[cfg(test)]
mod tests;
