//! State machine of a rider (a query or an update), as a pure function. The table below defines the transitions. The
//! tests have one line for each row of the table.
//!
//! | state | turn | own task | answer | not recorded | task lost | run read | lent | returned | answered |
//! |---|---|---|---|---|---|---|---|---|---|
//! | held | out | – | – | – | – | waits (1) | – | – | held |
//! | waits | out | out | – | – | – | – | lent | – | held |
//! | lent | – | – | – | – | – | – | – | waits | – |
//! | out | – | – | answering | – | waits | waits (2) | – | – | held |
//! | answering | – | – | – | (3) | – | – | – | – | held |
//!
//! The columns are events:
//!
//! * turn: a turn takes the rider
//! * own task: a separate task takes the rider
//! * answer: the answer of the rider's task arrives
//! * not recorded: the answer could not be recorded
//! * task lost: the rider's task is lost
//! * run read: the rider's run was read
//! * lent: the rider is lent to another node
//! * returned: the rider returns from that node
//! * answered: the rider is answered
//!
//! A dash means that the state does not change. The notes are:
//!
//! 1. Applies if no turn is outstanding and the run has changed.
//! 2. Applies if the turn that took the rider has ended.
//! 3. A query waits. An update is out again; if its task is lost, the update waits.
//!
//! Only queries are held, and only updates are lent. Several tasks may have a copy of the same query, because a second
//! answer does no harm. One answer is enough in any state. Afterwards the query is held for callers that watch for
//! changes. Only one task or node has an update at a time, and it may accept the update until the update is taken back.
//! An update is removed when it is accepted or rejected, or as [`ends_unjudged`] defines.

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
    /// The query's callers do not need an answer while the run has this version.
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
    /// The answer could not be recorded. If the task is not lost, its decider may answer again.
    AnswerFails { by: By, is_lost: bool },
    /// A task is lost, or did not reach its poller.
    TaskLost(By),
    /// The riders' run was read. `held` is the turn that a decider has. `idle_at` is the run's version if no turn is
    /// outstanding, otherwise `None`.
    RunSeen { held: Option<TurnId>, idle_at: Option<EventId> },
    /// The riders are lent to another node.
    Lent,
    /// The riders return from another node without having been accepted or rejected.
    Returned,
    /// A query is answered for this version. If no caller watches for changes, the query is then removed.
    Answered { version: EventId },
}

impl RiderPlace {
    /// Returns the state after an event; `None` if the state does not change.
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

    /// Returns the reason why the rider has no answer yet, for the error text. Also returns true if the rider waits for
    /// a decider to take it.
    pub(crate) fn why_unanswered(self, kind: RiderKind) -> (&'static str, bool) {
        match (self, kind) {
            (Self::Out(By::Turn(_)) | Self::Answering(_), RiderKind::Query) => {
                ("the decider has not completed the current turn", false)
            }
            (Self::Out(_), RiderKind::Query) | (Self::Out(_) | Self::Answering(_), RiderKind::Update) => {
                ("the decider that received it has not answered", false)
            }
            (Self::Lent, _) => ("no decider of the other node has answered", false),
            (Self::Waits | Self::Held { .. }, RiderKind::Query) => {
                ("no decider that answers queries has taken a task of the run, or a turn is in progress", true)
            }
            (Self::Waits | Self::Held { .. }, RiderKind::Update) => {
                ("no decider that accepts updates has taken a turn of the run, or a turn is in progress", true)
            }
        }
    }
}

/// Returns the outcome of an update that no decider will validate. Called when the newest run of the update's workflow
/// id is read. `run_id` is the run to which the update was sent. The first matching column applies:
///
/// | state | known | replaced | closed | paused | other version |
/// |---|---|---|---|---|---|
/// | waits | accepted | continued | refused | refused | refused |
/// | out | – | continued | refused | – | – |
/// | lent, or answering | – | – | – | – | – |
///
/// The columns mean:
///
/// * known: the run knows the update
/// * replaced: another run is the newest or continues this run
/// * closed: the run has closed
/// * paused: the run is paused
/// * other version: the version of the run is not the version that the update expects
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
    // A decider of another node has accepted the update. Its callers read the outcome from the run.
    if !is_out && !is_new(run_id, asked, run) {
        return Some(UpdateTurnOutcome::Accepted);
    }
    if run_id != run.started.run_id || run.status == Status::ContinuedAsNew {
        return Some(UpdateTurnOutcome::Continued);
    }
    let fault = match asked.if_version {
        _ if !run.is_open() => Fault::RunClosed { status: run.status },
        _ if is_out => return None,
        // The update fails at once, because the pause lasts until an operator resumes the run. The caller's connection
        // cannot wait that long (ADR 11).
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

/// Returns the event to apply to the riders of this run after the run was read.
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

/// Returns true if no turn will take a query. Either the run has no turn, or its waiting turn is not handed out because
/// the run is paused. Queries are answered even while the run is paused.
pub(crate) fn has_no_turn_to_come(run: &Run) -> bool {
    is_idle(run) || run.turn.is_none() && run.paused.is_some()
}

#[cfg(test)]
mod tests;
