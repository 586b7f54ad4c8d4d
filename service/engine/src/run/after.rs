//! What follows from a commit, as a value: the way back from the store to everybody who waits. Pure: reads no clock, wakes
//! nobody. What is decided here is done by `carry_out.rs`, in the order in which it stands.
//!
//! All of it may be lost, as everything in memory may: the due index of the store brings back what matters.

pub(crate) mod facts;
pub(crate) mod notice;

use std::sync::Arc;

use history::{Duration, Effect, EventId, Outbox, PollId, Run, TaskRef, Timestamp};
use store::HeadKey;
use uuid::Uuid;

use crate::base::records::schedule_key;
use crate::base::watch::RunProgress;
use crate::commit::StoredRun;
use crate::lists::sync_match::Reserved;
use crate::lists::{ListKey, Side, WaitingTask, backlog};

/// Something that follows.
pub(crate) enum After {
    /// Somebody has a task that nobody had before the commit, or nobody has it any more.
    InFlight { list: ListKey, run_id: Uuid, scheduled_event_id: EventId, hold: Hold },
    /// A task has come to its end on its list, such as one of a run that was terminated: nobody is to take it any more.
    Withdraw { list: ListKey, run_id: Uuid, scheduled_event_id: EventId },
    /// Somebody must look at the run again by then, or nobody.
    Wake(Option<Timestamp>),
    /// Queries and updates that rode with a turn that is over can ride with the one that begins.
    SettleRiders,
    /// A task was started for a poller who waits, who gets it.
    Grant(Box<Reserved>),
    /// A task waits for whoever polls its list.
    Offer(ListKey, WaitingTask),
    /// Queries and updates that no turn will take along get a task of their own.
    SeeToRiders,
    /// Those who watch the run hear how far it has come.
    Notify(RunProgress),
    /// The schedule that started the run is looked at by then.
    WakeSchedule(HeadKey, Timestamp),
    /// A started task went to this poll. If that was lost on the way, the task is sent again.
    Remember(PollId, ListKey, WaitingTask),
    /// The run owes these to others, who get them in this round.
    Deliver { effects: Vec<Effect>, round: u32 },
}

/// What has become of who has a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Somebody has it, who took it after it had waited for so long.
    Begins { waited: Duration },
    /// Nobody has it any more; where it was a try of an activity that has failed and waits for another, of this type.
    Ends { failed_try: Option<String> },
}

/// What a commit was made with, beside what it left.
pub(crate) struct MadeWith {
    /// Its tasks that were started for pollers who wait.
    pub(crate) reserved: Vec<Reserved>,
    /// Its tasks that nobody waits for.
    pub(crate) unmatched: Vec<(ListKey, WaitingTask)>,
    /// The round of the very commit, whatever others have committed since: in a round there is only one who delivers an effect.
    pub(crate) round: u32,
}

/// What follows from a commit that has landed.
pub(crate) fn of_commit(
    key: &HeadKey,
    before: Option<&StoredRun>,
    next: &StoredRun,
    made: MadeWith,
    now: Timestamp,
) -> Vec<After> {
    let (run, MadeWith { reserved, unmatched, round }) = (next.run(), made);
    let mut after = Vec::with_capacity(6 + reserved.len() + unmatched.len());
    if let Some(before) = before {
        withdraw_ended(key, before.run(), run, &mut after);
    }
    held_and_released(key, before.map(StoredRun::run), run, &mut after);
    after.push(After::Wake(next.head.due.map(Timestamp::from_millis)));
    after.push(After::SettleRiders);
    after.extend(reserved.into_iter().map(|reserved| After::Grant(Box::new(reserved))));
    after.extend(unmatched.into_iter().map(|(list, task)| After::Offer(list, task)));
    after.push(After::SeeToRiders);
    let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
    after.push(After::Notify(RunProgress { run_id, last_event_id, closed }));
    let schedule = run.started.schedule.as_ref().filter(|_| closed && !run.has_successor());
    if let Some(schedule) = schedule {
        // By word of mouth: where it matters, the schedule has a date to look by itself.
        after.push(After::WakeSchedule(schedule_key(&key.domain, &schedule.schedule_id), now));
    }
    let nothing = Outbox::default();
    let owed_before = before.map_or(&nothing, |before| &before.body.links.outbox);
    deliver(next.body.links.outbox.newly_ready(owed_before), round, &mut after);
    after
}

/// What follows when a run is known that was not: where its started tasks went.
pub(crate) fn of_loading(key: &HeadKey, loaded: &StoredRun) -> Vec<After> {
    let sent = loaded.body.links.sent.iter();
    sent.map(|(scheduled_event_id, poll)| remember(key, loaded.run(), scheduled_event_id, poll)).collect()
}

/// What follows from a look at a run, beside what was committed: whatever may have been forgotten of it. What is on its list
/// already stays there. `before` and `round` are of the outbox as the look has found it: what has become ready since is on its way.
pub(crate) fn of_look(key: &HeadKey, loaded: &StoredRun, before: &Outbox, round: u32, now: Timestamp) -> Vec<After> {
    let mut after = of_loading(key, loaded);
    let waiting = backlog::waiting(key, loaded.run()).into_iter();
    let offered = waiting.filter(|(.., not_before)| not_before.is_none_or(|at| at <= now));
    after.extend(offered.map(|(list, task, _)| After::Offer(list, task)));
    let owed = &loaded.body.links.outbox;
    deliver(before.ready().filter(|effect| owed.owes(effect)).collect(), round, &mut after);
    after
}

/// What follows from sending a started task to a poll.
pub(crate) fn remember(key: &HeadKey, run: &Run, scheduled_event_id: EventId, poll: PollId) -> After {
    let (side, name) = match run.activities.get(&scheduled_event_id) {
        Some(activity) => (Side::Activity, activity.task_list.as_str()),
        None => (Side::Decider, run.list_of_held_turn()),
    };
    let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
    let (key, run_id) = (key.clone(), run.started.run_id);
    After::Remember(
        poll,
        list,
        WaitingTask { key, run_id, scheduled_event_id, lost: Some(poll), priority: 0, since: None },
    )
}

fn deliver(effects: Vec<Effect>, round: u32, after: &mut Vec<After>) {
    if !effects.is_empty() {
        after.push(After::Deliver { effects, round });
    }
}

/// Tasks that waited and have come to their end.
fn withdraw_ended(key: &HeadKey, before: &Run, next: &Run, after: &mut Vec<After>) {
    let is_same = before.started.run_id == next.started.run_id;
    for task in before.waiting_tasks() {
        let (side, name, scheduled_event_id, goes_on) = match task {
            TaskRef::Turn(task) => {
                let id = task.scheduled_event_id;
                let waits = next.turn_task.as_ref().is_some_and(|task| task.scheduled_event_id == id);
                let is_held = next.turn.as_ref().is_some_and(|turn| turn.scheduled_event_id == id);
                (Side::Decider, before.list_of_turn(task), id, waits || is_held)
            }
            TaskRef::Activity(task) => {
                let id = task.scheduled_event_id;
                (Side::Activity, task.activity.task_list.as_str(), id, next.activities.contains_key(&id))
            }
        };
        if !(is_same && goes_on) {
            let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
            after.push(After::Withdraw { list, run_id: before.started.run_id, scheduled_event_id });
        }
    }
}

/// Tasks of a run that somebody has, each with its list.
fn held(run: &Run) -> impl Iterator<Item = (Side, &str, EventId)> {
    let turn = run.turn.as_ref().map(|turn| (Side::Decider, run.list_of_held_turn(), turn.scheduled_event_id));
    let activities = run.activities.iter().filter(|(_, activity)| activity.held_since().is_some());
    let activities = activities.map(|(id, activity)| (Side::Activity, activity.task_list.as_str(), *id));
    // A run that has closed has let them go.
    turn.into_iter().chain(activities).filter(|_| run.is_open())
}

/// Whether somebody has this task.
fn is_held(run: &Run, side: Side, scheduled_event_id: EventId) -> bool {
    let is_held = match side {
        Side::Decider => run.turn.as_ref().is_some_and(|turn| turn.scheduled_event_id == scheduled_event_id),
        Side::Activity => run.activities.get(&scheduled_event_id).is_some_and(|it| it.held_since().is_some()),
    };
    is_held && run.is_open()
}

/// How a task of a run is taken that waited before, or was made for who has it.
fn begins(run: &Run, before: Option<&Run>, side: Side, scheduled_event_id: EventId) -> Hold {
    let (since, at) = match side {
        Side::Decider => {
            let task = before.and_then(|before| before.turn_task.as_ref());
            let task = task.filter(|task| task.scheduled_event_id == scheduled_event_id);
            (task.map(|task| task.waits_since), run.turn.as_ref().map(|turn| turn.started_at))
        }
        Side::Activity => {
            let before = before.and_then(|before| before.activities.get(&scheduled_event_id));
            let held_since = run.activities.get(&scheduled_event_id).and_then(|it| it.held_since());
            (before.map(|it| it.waits_since()), held_since)
        }
    };
    Hold::Begins { waited: since.zip(at).map_or(Duration::ZERO, |(since, at)| at.since(since)) }
}

/// How a task of a run is let go.
fn ends(run: &Run, next: Option<&Run>, _: Side, scheduled_event_id: EventId) -> Hold {
    let next = next.and_then(|next| next.activities.get(&scheduled_event_id)).map(|it| it.attempt());
    let activity = run.activities.get(&scheduled_event_id);
    let failed = activity.filter(|activity| next.is_some_and(|next| activity.attempt() < next));
    Hold::Ends { failed_try: failed.map(|activity| activity.activity_type.clone()) }
}

/// Tasks that nobody has any more, and those that somebody has since the commit.
fn held_and_released(key: &HeadKey, before: Option<&Run>, next: &Run, after: &mut Vec<After>) {
    let mut tell = |run: &Run, other: Option<&Run>, hold: fn(&Run, Option<&Run>, Side, EventId) -> Hold| {
        let other = other.filter(|other| other.started.run_id == run.started.run_id);
        for (side, name, scheduled_event_id) in held(run) {
            if !other.is_some_and(|other| is_held(other, side, scheduled_event_id)) {
                let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
                let run_id = run.started.run_id;
                let hold = hold(run, other, side, scheduled_event_id);
                after.push(After::InFlight { list, run_id, scheduled_event_id, hold });
            }
        }
    };
    if let Some(before) = before {
        tell(before, Some(next), ends);
    }
    tell(next, before, begins);
}

#[cfg(test)]
mod tests;
