//! The state of a run: a fold of its events, and never anything else.

mod activities;
mod branched;
mod clock;
mod counted;
mod deadlines;
mod evolve;
mod future;
mod known;
mod open_counts;
mod pending;
mod requests;
mod standing;
mod start;
mod status;
mod successes;
mod tries;
mod updates;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::{Event, EventId, EventKind, RequestKey, WorkflowStarted};
use crate::ids::RunId;
use crate::time::{Duration, Timestamp};

pub use activities::Activities;
pub use branched::Branched;
pub use clock::{RunClock, RunPause};
pub use deadlines::{Deadline, DeadlineKind};
pub use future::{Coming, ComingKind};
pub use known::{KnownRequest, KnownRequests, RequestMark, Spilled, key_of_update};
pub use open_counts::OpenCounts;
pub use pending::{
    LostTurns, PausedActivity, PendingActivity, PendingChild, PendingExternal, PendingTimer, Released, Turn, TurnLists,
    TurnTask,
};
pub use standing::Standing;
pub use start::RunStart;
pub use status::Status;
pub use successes::{Fingerprint, Repeated, Successes};
pub use tries::{HeldTry, Tries};
pub use updates::{OpenUpdates, PendingUpdate, UpdateStanding};

/// The state of one run.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Run {
    /// How it was started.
    #[n(0)]
    pub started: RunStart,
    /// Whether it is open.
    #[n(1)]
    pub status: Status,
    /// When it closed.
    #[n(2)]
    pub closed_at: Option<Timestamp>,
    /// The newest event; 0 before the first.
    #[n(3)]
    pub last_event_id: EventId,
    /// The newest event's time.
    #[n(4)]
    pub last_timestamp: Timestamp,
    /// The version token: the newest event that is news.
    #[n(5)]
    pub version: EventId,
    /// The turn that waits for a decider.
    #[n(6)]
    pub turn_task: Option<TurnTask>,
    /// The turn that a decider holds.
    #[n(7)]
    pub turn: Option<Turn>,
    /// The DeciderStarted of the last *completed* turn, where the next window begins; 0 before the first.
    #[n(8)]
    pub previous_started_event_id: EventId,
    /// How many turns in a row have failed or timed out since one was completed.
    #[n(9)]
    pub turns_lost: u32,
    /// Open activities, by their ActivityScheduled.
    #[cbor(n(10), default, skip_if = "Activities::is_nothing")]
    pub activities: Activities,
    /// Open timers, by their name.
    #[n(11)]
    pub timers: BTreeMap<String, PendingTimer>,
    /// Whether somebody asked for the run to be canceled.
    #[n(12)]
    pub cancel_requested: bool,
    /// The requests of callers that it knows. Only partly what its history tells.
    #[n(13)]
    pub known: KnownRequests,
    /// Signals and cancel requests on their way to others, by their ExternalSignalScheduled or ExternalCancelScheduled.
    #[cbor(n(14), skip_if = "BTreeMap::is_empty")]
    pub externals: BTreeMap<EventId, PendingExternal>,
    /// The signals that the last completed turn said it waits for.
    #[n(15)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
    /// Open children, by their ChildScheduled.
    #[cbor(n(16), skip_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<EventId, PendingChild>,
    /// Updates that were accepted and not answered, and the newest that were.
    #[cbor(n(17), default, skip_if = "OpenUpdates::is_empty")]
    pub updates: OpenUpdates,
    /// The run that tries again, where this one failed or took too long and has one, or that goes on where it was reset.
    #[cbor(n(18), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub retried_as: Option<Uuid>,
    /// When its clock stood still.
    #[cbor(n(19), default, skip_if = "RunClock::is_plain")]
    pub clock: RunClock,
    /// Whether it is paused; of a run that another goes on for, whether it was.
    #[n(20)]
    pub paused: Option<Box<RunPause>>,
    /// The run whose history it began with, where it branched off one; the newest, where it did so more than once.
    #[n(21)]
    pub branched: Option<Box<Branched>>,
    /// Where its turns wait, if not on the list of its start.
    #[n(22)]
    pub turn_lists: Option<Box<TurnLists>>,
    /// When the newest of its activities was scheduled; a Lambda task is none.
    #[n(23)]
    pub last_activity_at: Option<Timestamp>,
    /// The newest DeciderCompleted that has a context.
    #[n(24)]
    pub context_event_id: Option<EventId>,
    /// What it had open when it closed.
    #[cbor(n(25), default, skip_if = "OpenCounts::is_zero")]
    pub left_open: OpenCounts,
    /// The turns that `turns_lost` counts.
    #[n(26)]
    pub lost_turns: Option<LostTurns>,
    /// The newest activities that succeeded, and whether one of them was scheduled again.
    #[cbor(n(27), default, skip_if = "Successes::is_empty")]
    pub successes: Successes,
    /// Clock of the newest event, if that was behind its timestamp.
    #[n(28)]
    pub last_clock: Option<Timestamp>,
    /// Since when its run timeout counts, if not since its first turn could be taken.
    #[n(29)]
    pub run_from: Option<Timestamp>,
}

/// The DeciderScheduled of a run's first turn.
pub(crate) const FIRST_TURN: EventId = 2;

/// A task that waits for somebody to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRef<'a> {
    /// A turn.
    Turn(&'a TurnTask),
    /// An activity.
    Activity(WaitingActivity<'a>),
}

/// An activity that waits for a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingActivity<'a> {
    /// Its ActivityScheduled.
    pub scheduled_event_id: EventId,
    /// The rest of it.
    pub activity: &'a PendingActivity,
}

impl Run {
    /// The state after event 1.
    pub fn begin(at: Timestamp, started: &WorkflowStarted, key: Option<RequestKey>) -> Self {
        Self {
            started: RunStart::of(at, started),
            last_event_id: 1,
            last_timestamp: at,
            version: 1,
            known: KnownRequests::of_start(key),
            ..Self::default()
        }
    }

    /// The state that a whole history means; `None` when it does not begin with a WorkflowStarted.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut events = events.into_iter();
        let first = events.next()?;
        let EventKind::WorkflowStarted(started) = &first.kind else {
            return None;
        };
        let mut run = Self::begin(first.at(), started, first.key);
        for event in events {
            run.evolve(event);
        }
        Some(run)
    }

    /// Whether an event of this run must be looked at by a decider: in SWF's dialect a child that has begun, too.
    pub fn is_looked_at(&self, kind: &EventKind) -> bool {
        kind.schedules_decider() || (self.started.is_swf() && matches!(kind, EventKind::ChildStarted(_)))
    }

    /// Time of the newest event by the service's clock.
    pub fn last_at(&self) -> Timestamp {
        self.last_clock.unwrap_or(self.last_timestamp)
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// Whether another run goes on for it, which may have yet to begin: it continued as new, is tried again, or
    /// was reset while it was open.
    pub fn goes_on(&self) -> bool {
        self.status == Status::ContinuedAsNew || self.retried_as.is_some()
    }

    /// The run that tries again, where this one failed or took too long and has one.
    pub fn retried_by(&self) -> Option<RunId> {
        self.retried_as.filter(|_| self.status != Status::Terminated)
    }

    /// The run that goes on where this one was reset while it was open.
    pub fn reset_by(&self) -> Option<RunId> {
        self.retried_as.filter(|_| self.status == Status::Terminated)
    }

    /// When its first turn may be taken, where it tries again and has to wait before it does.
    pub fn next_try_at(&self) -> Option<Timestamp> {
        let is_retry = self.started.attempt.is_some_and(|attempt| attempt > 1);
        let first = self.turn_task.as_ref().filter(|task| is_retry && task.scheduled_event_id == FIRST_TURN);
        first.and_then(|task| task.not_before)
    }

    /// The open activity with this name.
    pub fn activity(&self, activity_id: &str) -> Option<(EventId, &PendingActivity)> {
        self.activities.named(activity_id)
    }

    /// The list where its next turn is to wait.
    pub fn next_turn_list(&self) -> &str {
        let lists = self.turn_lists.as_deref();
        let moved =
            lists.and_then(|lists| lists.for_now.as_ref().map(|list| &list.task_list).or(lists.for_good.as_ref()));
        moved.unwrap_or(&self.started.task_list)
    }

    /// How long its next turn may wait to be taken.
    pub fn next_turn_waits(&self) -> Option<Duration> {
        let for_now = self.turn_lists.as_deref().and_then(|lists| lists.for_now.as_ref());
        for_now.and_then(|list| list.schedule_to_start).or(self.started.decider_schedule_to_start)
    }

    /// The list where this turn waits.
    pub fn list_of_turn<'a>(&'a self, task: &'a TurnTask) -> &'a str {
        task.task_list.as_ref().unwrap_or(&self.started.task_list)
    }

    /// The list that the turn was taken from which a decider holds.
    pub fn list_of_held_turn(&self) -> &str {
        let held = self.turn.as_ref().and_then(|turn| turn.task_list.as_ref());
        held.unwrap_or(&self.started.task_list)
    }

    /// The tasks that wait to be taken: the turn first, then activities in the order they were scheduled.
    ///
    /// A turn waits only while no decider holds one. Those that are held back ([`TurnTask::not_before`],
    /// [`PendingActivity::not_before`]) are among them; the caller must not hand them out before their time.
    pub fn waiting_tasks(&self) -> impl Iterator<Item = TaskRef<'_>> {
        let is_paused = self.paused.is_some();
        let turn = if self.turn.is_none() && !is_paused { self.turn_task.as_ref().map(TaskRef::Turn) } else { None };
        let may_be_taken = move |activity: &PendingActivity| {
            !is_paused && activity.held_since().is_none() && activity.paused.is_none()
        };
        let activities = self.activities.iter().filter(move |(_, activity)| may_be_taken(activity));
        turn.into_iter().chain(activities.map(|(scheduled_event_id, activity)| {
            TaskRef::Activity(WaitingActivity { scheduled_event_id: *scheduled_event_id, activity })
        }))
    }

    /// What of the state the history tells at any time: all but the tries of activities, the requests that it knows,
    /// which activities succeeded and how long timers run, of which a run that an earlier version wrote knows less. This is the fold of
    /// the events.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.activities.told();
        self.successes = Successes::default();
        for timer in self.timers.values_mut() {
            timer.after = None;
        }
        self.known.told();
        self
    }

    /// What has been tried of an open activity, to be changed.
    pub(crate) fn tries_mut(&mut self, scheduled_event_id: EventId) -> Option<&mut Tries> {
        let activity = self.activities.get_mut(scheduled_event_id)?;
        Some(activity.tries.get_or_insert_default())
    }

    /// When the run will have been closed for long enough to be forgotten; `None` while it is open.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.closed_at.map(|at| at.plus(self.started.retention))
    }
}
