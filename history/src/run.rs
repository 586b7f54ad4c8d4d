//! State of a run: the result of applying all of its events in order.

mod activities;
mod attempts;
mod branched;
mod clock;
mod condition;
mod counted;
mod deadlines;
mod evolve;
mod known;
mod open_counts;
mod pending;
mod requests;
mod start;
mod status;
mod stopped_lists;
mod successes;
mod upcoming;
mod updates;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::event::{Event, EventId, EventKind, RequestKey, WorkflowStarted};
use crate::ids::RunId;
use crate::time::{Duration, Timestamp};

pub use activities::Activities;
pub use attempts::{Attempts, HeldAttempt};
pub use branched::Branched;
pub use clock::{RunClock, RunPause};
pub use condition::RunCondition;
pub use deadlines::{Deadline, DeadlineKind};
pub use known::{KnownRequest, KnownRequests, RequestMark, Spilled, SpilledMark, key_of_update};
pub use open_counts::OpenCounts;
pub use pending::{
    LostTurns, PausedActivity, PendingActivity, PendingChild, PendingExternal, PendingTimer, Released, Turn, TurnLists,
    TurnTask,
};
pub use start::RunStart;
pub use status::Status;
pub(crate) use stopped_lists::ListClocks;
pub use stopped_lists::{ListStop, ListStops, StoppedLists, WaitEnd, add_list_stop};
pub use successes::{Fingerprint, Repeated, Successes};
pub use upcoming::{UpcomingChange, UpcomingKind};
pub use updates::{OpenUpdates, PendingUpdate, UpdateStatus};

/// State of one run.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Run {
    /// Start attributes.
    #[n(0)]
    pub started: RunStart,
    /// Status of the run.
    #[n(1)]
    pub status: Status,
    /// Time at which the run closed.
    #[n(2)]
    pub closed_at: Option<Timestamp>,
    /// Id of the newest event; 0 before the first.
    #[n(3)]
    pub last_event_id: EventId,
    /// Timestamp of the newest event.
    #[n(4)]
    pub last_timestamp: Timestamp,
    /// Version of the run: the id of the newest event that changed something that callers can observe.
    #[n(5)]
    pub version: EventId,
    /// Turn that waits for a decider.
    #[n(6)]
    pub turn_task: Option<TurnTask>,
    /// Turn that a decider holds.
    #[n(7)]
    pub turn: Option<Turn>,
    /// Id of the DeciderStarted event of the last *completed* turn; 0 before the first. The window of the next turn
    /// begins there.
    #[n(8)]
    pub previous_started_event_id: EventId,
    /// Number of consecutive turns that failed or timed out since the last completed turn.
    #[n(9)]
    pub turns_lost: u32,
    /// Open activities, by the id of their ActivityScheduled event.
    #[cbor(n(10), default, skip_if = "Activities::is_nothing")]
    pub activities: Activities,
    /// Open timers, by timer id.
    #[n(11)]
    pub timers: BTreeMap<String, PendingTimer>,
    /// True if a request to cancel the run was recorded.
    #[n(12)]
    pub cancel_requested: bool,
    /// Requests with idempotency keys that the run has recorded. Only some of these requests can be derived from the
    /// history.
    #[n(13)]
    pub known: KnownRequests,
    /// Signals and cancel requests that were sent to other runs and have no outcome yet, by the id of their
    /// ExternalSignalScheduled or ExternalCancelScheduled event.
    #[cbor(n(14), skip_if = "BTreeMap::is_empty")]
    pub externals: BTreeMap<EventId, PendingExternal>,
    /// Signals that the decider awaits, as declared by the last completed turn.
    #[n(15)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub awaiting: Vec<String>,
    /// Open children, by the id of their ChildScheduled event.
    #[cbor(n(16), skip_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<EventId, PendingChild>,
    /// Accepted updates that have no answer yet.
    #[cbor(n(17), default, skip_if = "OpenUpdates::is_empty")]
    pub updates: OpenUpdates,
    /// Id of the run that makes the next attempt after this run failed or timed out, or that continues this run after a
    /// reset.
    #[cbor(n(18), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub retried_as: Option<Uuid>,
    /// Periods in which the run's clock was stopped.
    #[cbor(n(19), default, skip_if = "RunClock::is_plain")]
    pub clock: RunClock,
    /// Current pause of the run. For a closed run that has a successor, the pause at the time of its close.
    #[n(20)]
    pub paused: Option<Box<RunPause>>,
    /// Run from which this run's history was copied in a reset. After several resets, the run copied by the most recent
    /// reset.
    #[n(21)]
    pub branched: Option<Box<Branched>>,
    /// Task lists of the run's turns. Absent if all turns wait on the list given at the start.
    #[n(22)]
    pub turn_lists: Option<Box<TurnLists>>,
    /// Time at which the newest activity was scheduled, not counting Lambda tasks.
    #[n(23)]
    pub last_activity_at: Option<Timestamp>,
    /// Id of the newest DeciderCompleted event with a decider context.
    #[n(24)]
    pub context_event_id: Option<EventId>,
    /// Numbers of items that were open when the run closed.
    #[cbor(n(25), default, skip_if = "OpenCounts::is_zero")]
    pub left_open: OpenCounts,
    /// Data on the turns counted in `turns_lost`.
    #[n(26)]
    pub lost_turns: Option<LostTurns>,
    /// Activities that succeeded recently. They are remembered to detect a decider that schedules an activity again.
    #[cbor(n(27), default, skip_if = "Successes::is_empty")]
    pub successes: Successes,
    /// Time of the service's clock at the newest event. Present only if the clock was behind the event's timestamp.
    #[n(28)]
    pub last_clock: Option<Timestamp>,
    /// Time from which the run timeout counts. Absent if it counts from the time at which the first turn became
    /// available.
    #[n(29)]
    pub run_from: Option<Timestamp>,
}

/// Id of the DeciderScheduled event of a run's first turn.
pub(crate) const FIRST_TURN: EventId = 2;

/// A task that waits for a decider or a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRef<'a> {
    /// Turn.
    Turn(&'a TurnTask),
    /// Activity.
    Activity(WaitingActivity<'a>),
}

/// Activity that waits for a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingActivity<'a> {
    /// Id of the activity's ActivityScheduled event.
    pub scheduled_event_id: EventId,
    /// State of the activity.
    pub activity: &'a PendingActivity,
}

impl Run {
    /// Creates the state after event 1.
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

    /// Returns the state after a whole history, or `None` if the history does not begin with WorkflowStarted.
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

    /// Returns `true` if a turn must be scheduled, so that a decider reacts to the event. In SWF runs, this includes
    /// ChildStarted.
    pub fn needs_decider(&self, kind: &EventKind) -> bool {
        kind.schedules_decider() || (self.started.is_swf() && matches!(kind, EventKind::ChildStarted(_)))
    }

    /// Returns the time of the service's clock at the newest event.
    pub fn last_at(&self) -> Timestamp {
        self.last_clock.unwrap_or(self.last_timestamp)
    }

    /// Returns `true` if the run is open.
    pub fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// Returns `true` if another run continues this run, or will do so when it starts. This is the case if this run
    /// continued as new, is retried, or was reset while it was open.
    pub fn has_successor(&self) -> bool {
        self.status == Status::ContinuedAsNew || self.retried_as.is_some()
    }

    /// Returns the id of the run that makes the next attempt after this run failed or timed out.
    pub fn retried_by(&self) -> Option<RunId> {
        self.retried_as.filter(|_| self.status != Status::Terminated)
    }

    /// Returns the id of the run that continues after this run was reset while it was open.
    pub fn reset_by(&self) -> Option<RunId> {
        self.retried_as.filter(|_| self.status == Status::Terminated)
    }

    /// Returns the time at which the first turn becomes available, if this run is a retry that still waits for that
    /// time.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        let is_retry = self.started.attempt.is_some_and(|attempt| attempt > 1);
        let first = self.turn_task.as_ref().filter(|task| is_retry && task.scheduled_event_id == FIRST_TURN);
        first.and_then(|task| task.not_before)
    }

    /// Returns the open activity with this id.
    pub fn activity(&self, activity_id: &str) -> Option<(EventId, &PendingActivity)> {
        self.activities.named(activity_id)
    }

    /// Returns the task list for the next turn.
    pub fn next_turn_list(&self) -> &str {
        let lists = self.turn_lists.as_deref();
        let moved =
            lists.and_then(|lists| lists.for_now.as_ref().map(|list| &list.task_list).or(lists.for_good.as_ref()));
        moved.unwrap_or(&self.started.task_list)
    }

    /// Returns the schedule-to-start timeout of the next turn, or `None` if the next turn has no such timeout.
    pub fn next_turn_waits(&self) -> Option<Duration> {
        let for_now = self.turn_lists.as_deref().and_then(|lists| lists.for_now.as_ref());
        for_now.and_then(|list| list.schedule_to_start).or(self.started.decider_schedule_to_start)
    }

    /// Returns the task list on which this turn waits.
    pub fn list_of_turn<'a>(&'a self, task: &'a TurnTask) -> &'a str {
        task.task_list.as_ref().unwrap_or(&self.started.task_list)
    }

    /// Returns the concurrency key of an activity: its own key or, without one, the run's key.
    pub fn key_of<'a>(&'a self, activity: &'a PendingActivity) -> Option<&'a str> {
        activity.concurrency_key.as_deref().or(self.started.concurrency_key.as_deref())
    }

    /// Returns the task list from which the held turn was taken.
    pub fn list_of_held_turn(&self) -> &str {
        let held = self.turn.as_ref().and_then(|turn| turn.task_list.as_ref());
        held.unwrap_or(&self.started.task_list)
    }

    /// Returns the tasks that wait for a decider or a runner: first the turn, then the activities in the order in which
    /// they were scheduled.
    ///
    /// The turn is included only if no decider holds another turn. Delayed tasks are included; the caller must not hand
    /// them out before [`TurnTask::not_before`] or [`PendingActivity::not_before`].
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

    /// Returns only those parts of the state that can always be derived from the history. The attempts of activities,
    /// the known requests, the successful activities and the durations of timers are removed, because states written by
    /// earlier versions of Baton lack some of them.
    #[must_use]
    pub fn history_derived(mut self) -> Self {
        self.activities.keep_history_derived();
        self.successes = Successes::default();
        for timer in self.timers.values_mut() {
            timer.after = None;
        }
        self.known.keep_history_derived();
        self
    }

    /// Returns the attempts of an open activity, to modify them.
    pub(crate) fn attempts_mut(&mut self, scheduled_event_id: EventId) -> Option<&mut Attempts> {
        let activity = self.activities.get_mut(scheduled_event_id)?;
        Some(activity.attempts.get_or_insert_default())
    }

    /// Returns the time at which the retention of the closed run ends, or `None` while the run is open.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.closed_at.map(|at| at.plus(self.started.retention))
    }
}
