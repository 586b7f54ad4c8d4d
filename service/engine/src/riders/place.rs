//! Where a rider is, and what becomes of it there. Pure: the table below is the machine, and its tests are a line a case.
//!
//! | it | a turn takes it | a task of its own takes it | its answer comes | that is not recorded | its task is lost | its run is seen | it is lent | it comes back | it is answered |
//! |---|---|---|---|---|---|---|---|---|---|
//! | is held | out | – | – | – | – | waits, where no turn comes and the run has moved on | – | – | held |
//! | waits | out | out | – | – | – | – | lent | – | held |
//! | is lent | – | – | – | – | – | – | – | waits | – |
//! | is out | – | – | being answered | – | waits | waits, where its turn is over | – | – | held |
//! | is being answered | – | – | – | a query waits; an update is out as before, or waits where its task is lost, too | – | – | – | – | held |
//!
//! Only queries are held, only updates are lent. A query is copied: two answers to it harm nobody, one counts wherever it is by
//! then, and those who go on watching hold it from there. An update is in one pair of hands, and whoever has it may accept
//! it until it is taken back; it leaves with its verdict, or as [`ends_unjudged`] has it.

use history::{EventId, Fault, ProposedUpdate, Run, Status, TurnId, UpdateStatus};
use uuid::Uuid;

use crate::Refusal;
use crate::lists::grant::RiderKind;
use crate::riders::heard::UpdateHeard;

/// The task that has taken riders along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A turn like any other.
    Turn(TurnId),
    /// One that was made for them, by its number: one that only asks, or a speculative turn.
    Own(u64),
}

/// Where a rider is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RiderPlace {
    /// Nobody needs an answer before the run has moved on from this version.
    Held { version: EventId },
    /// The next task takes it along.
    Waits,
    /// Another node has it, and no task of this one takes it along.
    Lent,
    /// This task has taken it along.
    Out(By),
    /// The answer of this task is being recorded.
    Answering(By),
}

/// What happens to riders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happens {
    /// A task takes them along.
    Taken(By),
    /// The answer of a task has come, and is about to be recorded.
    AnswerComes(By),
    /// It was not recorded. Unless the task is lost with that, it may be answered again.
    AnswerFails { by: By, is_lost: bool },
    /// A task is lost, or has gone astray on its way to whoever took it.
    TaskLost(By),
    /// Their run is like this: the turn that a decider has, and the version at which no turn will come.
    RunSeen { held: Option<TurnId>, idle_at: Option<EventId> },
    /// They are lent to another node.
    Lent,
    /// They come back from there without a verdict.
    Returned,
    /// A query is answered of this version. Where nobody goes on watching it is gone.
    Answered { version: EventId },
}

impl RiderPlace {
    /// Where it is after that; `None` where it stays.
    pub(crate) fn after(self, kind: RiderKind, happens: Happens) -> Option<Self> {
        use RiderPlace::{Answering, Held, Lent, Out, Waits};
        match happens {
            Happens::Taken(by) => match self {
                Waits => Some(Out(by)),
                // No task is made for it.
                Held { .. } => matches!(by, By::Turn(_)).then_some(Out(by)),
                Lent | Out(_) | Answering(_) => None,
            },
            Happens::AnswerComes(by) => (self == Out(by)).then_some(Answering(by)),
            Happens::AnswerFails { by, is_lost } => (self == Answering(by)).then_some(match kind {
                RiderKind::Update if !is_lost => Out(by),
                RiderKind::Query | RiderKind::Update => Waits,
            }),
            Happens::TaskLost(by) => (self == Out(by)).then_some(Waits),
            Happens::RunSeen { held, idle_at } => match self {
                Out(By::Turn(turn)) => (held != Some(turn)).then_some(Waits),
                Held { version } => idle_at.is_some_and(|now| now != version).then_some(Waits),
                Waits | Lent | Out(By::Own(_)) | Answering(_) => None,
            },
            Happens::Lent => (self == Waits).then_some(Lent),
            Happens::Returned => (self == Lent).then_some(Waits),
            Happens::Answered { version } => (kind == RiderKind::Query).then_some(Held { version }),
        }
    }

    /// Why there is no answer yet, for who asked, and whether it waits for a decider to take it.
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

/// What is heard of an update that no decider will judge any more, when the newest run of its workflow id is seen; `run_id` is the
/// run that it was put to. The first of these that is so:
///
/// | it | the run knows it | another run is the newest, or goes on for it | the run has closed | is paused | is not at its version |
/// |---|---|---|---|---|---|
/// | waits | accepted | gone on | refused | refused | refused |
/// | is out | – | gone on | refused | – | – |
/// | is lent, or being answered | – | – | – | – | – |
pub(crate) fn ends_unjudged(place: RiderPlace, run_id: Uuid, asked: &ProposedUpdate, run: &Run) -> Option<UpdateHeard> {
    let is_out = match place {
        RiderPlace::Waits | RiderPlace::Held { .. } => false,
        RiderPlace::Out(_) => true,
        // Who has it says what becomes of it.
        RiderPlace::Answering(_) | RiderPlace::Lent => return None,
    };
    // A decider at another node has accepted it: whoever waits for it looks at the run.
    if !is_out && !is_new(run_id, asked, run) {
        return Some(UpdateHeard::Accepted);
    }
    if run_id != run.started.run_id || run.status == Status::ContinuedAsNew {
        return Some(UpdateHeard::GoneOn);
    }
    let fault = match asked.if_version {
        _ if !run.is_open() => Fault::RunClosed { status: run.status },
        _ if is_out => return None,
        // Its caller waits on a line, and somebody has to see to the run first (ADR 11).
        _ if run.paused.is_some() => Fault::RunPaused,
        Some(expected) if expected != run.version => Fault::VersionMoved { expected, found: run.version },
        Some(_) | None => return None,
    };
    Some(UpdateHeard::Refused(Refusal::from(fault)))
}

/// Whether its run knows nothing of an update.
pub(crate) fn is_new(run_id: Uuid, asked: &ProposedUpdate, run: &Run) -> bool {
    run_id != run.started.run_id || run.update_status(&asked.update_id) == UpdateStatus::New
}

/// What a look at a run says to its riders.
pub(crate) fn seen(run: &Run) -> Happens {
    let held = run.turn.as_ref().filter(|_| run.is_open());
    Happens::RunSeen {
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

/// Whether no turn will take a query along: none is outstanding, or the one that waits is not handed out, as the run is
/// paused. To be asked is nothing that a pause keeps from a run.
pub(crate) fn has_no_turn_to_come(run: &Run) -> bool {
    is_idle(run) || run.turn.is_none() && run.paused.is_some()
}

#[cfg(test)]
mod tests;
