//! Computes the consequences of a commit: metrics, spans, tasks to hand out, wakes, notifications and deliveries of
//! effects. The functions are pure: they read no clock and change nothing. `apply_after.rs` applies the consequences in
//! the same order.
//!
//! All consequences are in memory and may be lost. The store's due index wakes the run again, which restores those that
//! matter.

pub(crate) mod facts;
pub(crate) mod notice;

use std::sync::Arc;

use history::trace::Span;
use history::{Duration, Effect, EventId, Outbox, PollId, Run, TaskRef, Timestamp};
use store::HeadKey;
use uuid::Uuid;

use crate::Refusal;
use crate::base::metrics::measured::CommitFacts;
use crate::base::notices::RunNotice;
use crate::base::records::schedule_key;
use crate::base::watch::RunProgress;
use crate::commit::StoredRun;
use crate::lists::sync_match::Reserved;
use crate::lists::{ListKey, Side, WaitingTask, backlog};

/// A consequence of a commit.
pub(crate) enum After {
    /// Count and measure the commit for metrics.
    Count(Box<CommitCounts>),
    /// Export these spans, which have ended.
    SendSpans(Vec<Span>),
    /// Notify operators about the run.
    Report(Box<RunNotice>),
    /// Put these pollers back on their lists without a task, because the run has closed.
    ReturnPollers(Vec<Reserved>),
    /// Record for the list's statistics that a task was started, or that a started task has ended or waits again.
    InFlight { list: ListKey, run_id: Uuid, scheduled_event_id: EventId, hold: Hold },
    /// Take a task off its list because it must not be started any more, for example because its run was terminated.
    Withdraw { list: ListKey, run_id: Uuid, scheduled_event_id: EventId },
    /// Schedule the run's next wake for this time; `None` if none is needed.
    Wake(Option<Timestamp>),
    /// Update the run's riders (waiting queries and updates). Riders of a turn that has ended can be taken by the next
    /// turn.
    SettleRiders,
    /// Send a task, which this commit started for a waiting poller, to that poller.
    Grant(Box<Reserved>),
    /// Put a task that waits for a poll on its list.
    Offer(ListKey, WaitingTask),
    /// Create a separate task for waiting riders if no turn will take them.
    DispatchRiders,
    /// Notify the run's watchers of its progress.
    Notify(RunProgress),
    /// Schedule a wake of the schedule that started the run.
    WakeSchedule(HeadKey, Timestamp),
    /// Remember that a started task was sent to this poll. If the response to the poll is lost, the task is sent again.
    Remember(PollId, ListKey, WaitingTask),
    /// Free the slots of the run's tasks on limited lists that are not among these running tasks.
    Reconcile { run_id: Uuid, running: Vec<EventId> },
    /// Deliver these effects, which the run owes to other runs, in this round (see `Outbox::round`).
    Deliver { effects: Vec<Effect>, round: u32 },
}

/// Change of a task that is in flight, which means that it was started and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The task was started after it had waited for this duration.
    Begins { waited: Duration, concurrency_key: Option<Arc<str>> },
    /// The task is no longer in flight. `failed_try` is the activity's type if the task was a failed attempt that will
    /// be retried.
    Ends { failed_try: Option<String> },
}

/// Figures of a commit for metrics.
pub(crate) struct CommitCounts {
    /// Number of recorded events.
    pub(crate) events: usize,
    /// Duration of the store's write, including repeated attempts.
    pub(crate) took: std::time::Duration,
    pub(crate) facts: CommitFacts,
    /// Number of marks (records of remembered requests) that were written to the store before the commit.
    pub(crate) marks_written: usize,
    /// Number of remembered requests that were dropped before the end of the period for which they should be
    /// remembered.
    pub(crate) forgotten_early: u64,
}

/// Consequences of a commit that failed or must be retried.
pub(crate) struct AfterFailure<'a> {
    /// Pollers whose tasks were not started, or possibly not started if the outcome of the commit is unknown.
    pub(crate) reserved: Vec<Reserved>,
    /// The error of the commit; `None` if the commit is retried.
    pub(crate) refusal: Option<&'a Refusal>,
    /// True if the run must be woken soon, because the commit may or may not have started its tasks.
    pub(crate) wakes_again: bool,
}

/// Inputs from which the consequences of a commit are computed, except for the run's state.
pub(crate) struct MadeWith {
    /// Id of the run that was committed.
    pub(crate) run_id: Uuid,
    pub(crate) counts: Box<CommitCounts>,
    pub(crate) spans: Vec<Span>,
    pub(crate) notice: Option<RunNotice>,
    /// Pollers for which the commit started tasks.
    pub(crate) reserved: Vec<Reserved>,
    /// Tasks of the commit for which no poller waited.
    pub(crate) unmatched: Vec<(ListKey, WaitingTask)>,
    /// Delivery round of this commit, even if other nodes have committed later rounds: within a round, each effect is
    /// delivered by one node only.
    pub(crate) round: u32,
}

/// Returns the consequences of a commit that failed with this error, or that is retried if there is no error.
pub(crate) fn of_failure(reserved: Vec<Reserved>, refusal: Option<&Refusal>) -> AfterFailure<'_> {
    AfterFailure { reserved, refusal, wakes_again: refusal.is_some() }
}

/// Returns the consequences of a successful commit. `next` is the run's state after it, or a later state if other nodes
/// have already written further commits.
pub(crate) fn of_commit(
    key: &HeadKey,
    before: Option<&StoredRun>,
    next: &StoredRun,
    made: MadeWith,
    now: Timestamp,
) -> Vec<After> {
    let run = next.run();
    let MadeWith { run_id, counts, spans, notice, reserved, unmatched, round } = made;
    let mut after = Vec::with_capacity(7 + 2 * reserved.len() + unmatched.len());
    after.push(After::Count(counts));
    if !spans.is_empty() {
        after.push(After::SendSpans(spans));
    }
    after.extend(notice.map(|notice| After::Report(Box::new(notice))));
    if let Some(before) = before {
        withdraw_ended(key, before.run(), run, &mut after);
    }
    held_and_released(key, before.map(StoredRun::run), run, &mut after);
    after.push(After::Wake(next.head.due.map(Timestamp::from_millis)));
    after.push(After::SettleRiders);
    if run.started.run_id == run_id {
        for reserved in reserved {
            let (scheduled_event_id, poll) = (reserved.scheduled_event_id, reserved.poller.taker.poll);
            // If the outcome of the commit was unknown for a while, another node may have sent the task to another
            // poll.
            let poll = poll.filter(|poll| next.body.links.sent.poll_of(scheduled_event_id) == Some(*poll));
            after.extend(poll.map(|poll| remember(key, run, scheduled_event_id, poll)));
            after.push(After::Grant(Box::new(reserved)));
        }
        after.extend(unmatched.into_iter().map(|(list, task)| After::Offer(list, task)));
    } else {
        // The run of this commit has closed since, so its tasks must not be handed out.
        after.push(After::ReturnPollers(reserved));
    }
    after.push(After::DispatchRiders);
    let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
    after.push(After::Notify(RunProgress { run_id, last_event_id, closed }));
    let schedule = run.started.schedule.as_ref().filter(|_| closed && !run.has_successor());
    if let Some(schedule) = schedule {
        // Best effort: if this notification is lost, the schedule still wakes at its next due time.
        after.push(After::WakeSchedule(schedule_key(&key.domain, &schedule.schedule_id), now));
    }
    let nothing = Outbox::default();
    let owed_before = before.map_or(&nothing, |before| &before.body.links.outbox);
    deliver(next.body.links.outbox.newly_ready(owed_before), round, &mut after);
    after
}

/// Returns the consequences of loading a run: the polls to which its started tasks were sent must be remembered.
pub(crate) fn of_loading(key: &HeadKey, loaded: &StoredRun) -> Vec<After> {
    let sent = loaded.body.links.sent.iter();
    sent.map(|(scheduled_event_id, poll)| remember(key, loaded.run(), scheduled_event_id, poll)).collect()
}

/// Returns the consequences of a wake, apart from those of its commit: all tasks and effects of the run that memory may
/// have lost. Tasks that are already on their list stay there. `before` and `round` are the outbox and its round when
/// the wake began, because effects that became ready since then are already being delivered.
pub(crate) fn of_wake(key: &HeadKey, loaded: &StoredRun, before: &Outbox, round: u32, now: Timestamp) -> Vec<After> {
    let mut after = of_loading(key, loaded);
    let waiting = backlog::waiting(key, loaded.run()).into_iter();
    let offered = waiting.filter(|(.., not_before)| not_before.is_none_or(|at| at <= now));
    after.extend(offered.map(|(list, task, _)| After::Offer(list, task)));
    let running = backlog::running(loaded.run()).map(|(_, _, id)| id).collect();
    after.push(After::Reconcile { run_id: loaded.run().started.run_id, running });
    let owed = &loaded.body.links.outbox;
    deliver(before.ready().filter(|effect| owed.owes(effect)).collect(), round, &mut after);
    after
}

/// Returns the consequences of sending a started task to a poller.
pub(crate) fn of_grant(key: &HeadKey, run: &Run, scheduled_event_id: EventId, poll: Option<PollId>) -> Vec<After> {
    poll.map(|poll| remember(key, run, scheduled_event_id, poll)).into_iter().collect()
}

fn remember(key: &HeadKey, run: &Run, scheduled_event_id: EventId, poll: PollId) -> After {
    let (side, name) = match run.activities.get(&scheduled_event_id) {
        Some(activity) => (Side::Activity, activity.task_list.as_str()),
        None => (Side::Decider, run.list_of_held_turn()),
    };
    let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
    let (key, run_id) = (key.clone(), run.started.run_id);
    After::Remember(
        poll,
        list,
        WaitingTask {
            key,
            run_id,
            scheduled_event_id,
            lost: Some(poll),
            priority: 0,
            since: None,
            concurrency_key: None,
        },
    )
}

fn deliver(effects: Vec<Effect>, round: u32, after: &mut Vec<After>) {
    if !effects.is_empty() {
        after.push(After::Deliver { effects, round });
    }
}

/// Adds a [`Withdraw`](After::Withdraw) for each task that waited before the commit and has ended.
fn withdraw_ended(key: &HeadKey, before: &Run, next: &Run, after: &mut Vec<After>) {
    let is_same = before.started.run_id == next.started.run_id;
    for task in before.waiting_tasks() {
        let (side, name, scheduled_event_id, continues) = match task {
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
        if !(is_same && continues) {
            let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
            after.push(After::Withdraw { list, run_id: before.started.run_id, scheduled_event_id });
        }
    }
}

/// Returns true if this task is in flight.
fn is_held(run: &Run, side: Side, scheduled_event_id: EventId) -> bool {
    let is_held = match side {
        Side::Decider => run.turn.as_ref().is_some_and(|turn| turn.scheduled_event_id == scheduled_event_id),
        Side::Activity => run.activities.get(&scheduled_event_id).is_some_and(|it| it.held_since().is_some()),
    };
    is_held && run.is_open()
}

/// Describes the start of a task. The task either waited before this commit or was created by it.
fn hold_begun(run: &Run, before: Option<&Run>, side: Side, scheduled_event_id: EventId) -> Hold {
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
    let key = match run.activities.get(&scheduled_event_id).filter(|_| side == Side::Activity) {
        Some(activity) => run.started.key_of(activity.concurrency_key.as_deref()),
        None => run.started.concurrency_key.as_deref(),
    };
    let waited = since.zip(at).map_or(Duration::ZERO, |(since, at)| at.since(since));
    Hold::Begins { waited, concurrency_key: key.map(Arc::from) }
}

/// Describes the end of a task that was in flight.
fn hold_ended(run: &Run, next: Option<&Run>, _: Side, scheduled_event_id: EventId) -> Hold {
    let next = next.and_then(|next| next.activities.get(&scheduled_event_id)).map(|it| it.attempt());
    let activity = run.activities.get(&scheduled_event_id);
    let failed = activity.filter(|activity| next.is_some_and(|next| activity.attempt() < next));
    Hold::Ends { failed_try: failed.map(|activity| activity.activity_type.clone()) }
}

/// Adds the tasks that are no longer in flight, then those that were started.
fn held_and_released(key: &HeadKey, before: Option<&Run>, next: &Run, after: &mut Vec<After>) {
    let mut add_changes = |run: &Run, other: Option<&Run>, hold: fn(&Run, Option<&Run>, Side, EventId) -> Hold| {
        let other = other.filter(|other| other.started.run_id == run.started.run_id);
        for (side, name, scheduled_event_id) in backlog::running(run) {
            if !other.is_some_and(|other| is_held(other, side, scheduled_event_id)) {
                let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
                let run_id = run.started.run_id;
                let hold = hold(run, other, side, scheduled_event_id);
                after.push(After::InFlight { list, run_id, scheduled_event_id, hold });
            }
        }
    };
    if let Some(before) = before {
        add_changes(before, Some(next), hold_ended);
    }
    add_changes(next, before, hold_begun);
}

#[cfg(test)]
mod tests;
