//! Runs: starting them, asking things of them, and what is told of them.

use std::collections::BTreeMap;

use history::event::{ChildPolicy, DeciderTimeout};
use history::{Duration, Event, EventId, LastFailure, Origin, Payload, RetryPolicy, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::{BranchedFrom, PausedActivity, PausedRun};

bodies! {@request
    /// Signals a run.
    SignalWorkflow {
        /// What the signal says.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Who asks.
        identity: Option<String>,
    }
    /// Asks for a run to be canceled.
    CancelWorkflow {
        /// Why. At most 256 characters.
        reason: Option<String>,
        /// Who asks.
        identity: Option<String>,
    }
    /// Ends a run.
    TerminateWorkflow {
        /// Why. At most 256 characters.
        reason: Option<String>,
        /// More of it.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Who asks.
        identity: Option<String>,
    }
}

answers! {
    /// A run that was started.
    Started {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The run was open already, and is used instead of a new one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        existing: bool,
        /// How it ended, where that was waited for and came in time.
        closed: Option<RunResult>,
    }
    /// A request that was recorded.
    Recorded {
        /// The first event that it caused.
        event_id: EventId,
        /// On this run.
        run_id: Uuid,
    }
    /// A run in a list.
    Listed {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The workflow type.
        workflow_type: String,
        /// Whether it is open, and how it closed.
        status: Status,
        /// When it started.
        started_at: Timestamp,
        /// When it closed.
        closed_at: Option<Timestamp>,
        /// Its tags.
        tags: Vec<String>,
        /// Reason that it failed or was terminated with; of a run that timed out, which timeout. Absent if the run closed under a
        /// version that did not store it in lists.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Only for callers who may see payloads.
        details_line: Option<String>,
        /// Nothing will ever wake it but its execution timeout.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
        /// An activity of it is paused and waits for somebody.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        blocked: bool,
        /// It is paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// Its turns were given back or timed out at least twice in a row.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failing: bool,
        /// An activity of it is past its first try.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retrying: bool,
        /// An activity of it was scheduled again, with the same type and input, after it had succeeded.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeating: bool,
    }
    /// A page of runs. It may be short, or empty, and still have a next one.
    Workflows {
        /// The runs.
        workflows: Vec<Listed>,
        /// What to give as `page` for the next page; absent on the last.
        next_page: Option<String>,
        /// How many runs were looked at for this page, those that the filter keeps out, too.
        #[serde(default)]
        looked_at: u64,
    }
    /// How many runs there are.
    Count {
        /// So many.
        count: u64,
        /// There are more runs than were looked at: the numbers are least ones.
        truncated: bool,
        /// How many of them stand how, by the words that `status` takes; `open` counts those here to which no other word applies, so that
        /// the numbers add up to `count`. Words without a run are absent.
        #[serde(default)]
        by_status: BTreeMap<String, u64>,
    }
    /// Something that time will do to a run.
    Deadline {
        /// When.
        at: Timestamp,
        /// What: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-again`, `effects`, ….
        what: String,
        /// The event that set it.
        scheduled_event_id: Option<EventId>,
        /// The name of the activity or timer.
        name: Option<String>,
    }
    /// An open activity.
    OpenActivity {
        /// The decider's name for it.
        activity_id: String,
        /// Its type.
        activity_type: String,
        /// Its task list.
        task_list: String,
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
        /// When it was scheduled.
        scheduled_at: Timestamp,
        /// When a runner took it; absent while it waits for one.
        started_at: Option<Timestamp>,
        /// Which try it is in, or waits for: 1, 2, 3, …
        attempt: u32,
        /// How many tries its retry policy allows; absent without a limit or a policy.
        maximum_attempts: Option<u32>,
        /// When it may be tried again, while it waits for that.
        next_try_at: Option<Timestamp>,
        /// How the newest try ended that was followed by another.
        last_failure: Option<LastFailure>,
        /// Whether it was asked to stop.
        cancel_requested: bool,
        /// That it is paused: not handed out until somebody retries, resumes, completes or fails it.
        paused: Option<PausedActivity>,
        /// When its runner last gave a sign of life.
        last_heartbeat_at: Option<Timestamp>,
    }
    /// An open timer.
    OpenTimer {
        /// Its name.
        timer_id: String,
        /// Its TimerScheduled.
        scheduled_event_id: EventId,
        /// When it expires.
        expires_at: Timestamp,
    }
    /// An update that was accepted and not answered yet.
    OpenUpdate {
        /// The caller's name for it.
        update_id: String,
        /// What kind of update it is.
        name: String,
        /// Its UpdateAccepted.
        accepted_event_id: EventId,
        /// When it was accepted.
        accepted_at: Timestamp,
    }
    /// A child that is not known to have closed.
    OpenChild {
        /// Its workflow id.
        workflow_id: String,
        /// Its ChildScheduled.
        scheduled_event_id: EventId,
        /// Its ChildStarted.
        started_event_id: Option<EventId>,
        /// What becomes of it when this run closes first.
        child_policy: ChildPolicy,
    }
    /// The state of a run.
    Described {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The workflow type.
        workflow_type: String,
        /// The task list of its deciders.
        task_list: String,
        /// Whether it is open, and how it closed.
        status: Status,
        /// When it started.
        started_at: Timestamp,
        /// When it closed.
        closed_at: Option<Timestamp>,
        /// Reason that it failed or was terminated with; of a run that timed out, which timeout.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Only for callers who may see payloads.
        details_line: Option<String>,
        /// From start to close, at most, of all runs that go on for each other.
        execution_timeout: Duration,
        /// From start to close of this run, at most.
        run_timeout: Option<Duration>,
        /// The run that this one goes on for, or tries again.
        continued_from: Option<Uuid>,
        /// Whether and when the workflow is tried again after it failed or took too long.
        retry: Option<RetryPolicy>,
        /// With a retry policy: which try this run is, 1, 2, 3, …
        attempt: Option<u32>,
        /// When this try begins, while it waits for that.
        next_try_at: Option<Timestamp>,
        /// The run that tries again, when this one failed or took too long and has one.
        retried_as: Option<Uuid>,
        /// The run that goes on from an earlier event of this one, or of one before it, since this one was reset.
        reset_as: Option<Uuid>,
        /// The run whose history this one began with, where it goes on from an event of another.
        branched_from: Option<BranchedFrom>,
        /// Its tags.
        tags: Vec<String>,
        /// Whether somebody asked for it to be canceled.
        cancel_requested: bool,
        /// Nothing will ever wake it but its execution timeout: no turn, activity or timer is open, and its last turn named
        /// no signal that it waits for.
        stuck: bool,
        /// An activity of it is paused and waits for somebody.
        #[serde(default)]
        blocked: bool,
        /// An activity of it is past its first try; `openActivities` says which.
        #[serde(default)]
        retrying: bool,
        /// That activities of it were scheduled again, with the same type and input, after they had succeeded.
        repeating: Option<RepeatedActivities>,
        /// That deciders fail at it: its turns were given back or timed out at least twice in a row.
        failing: Option<FailingTurns>,
        /// That it is paused: nothing of it is handed out.
        paused: Option<PausedRun>,
        /// The signals that its last turn said it waits for; `baton.cancel` for a cancel request.
        awaiting: Vec<String>,
        /// The newest event that is news; also in its entity tag.
        version: EventId,
        /// The newest event.
        history_length: EventId,
        /// `none`, `waiting` for a decider, or `started` by one.
        turn: String,
        /// Activities that have not closed.
        open_activities: Vec<OpenActivity>,
        /// Timers that have not expired.
        open_timers: Vec<OpenTimer>,
        /// Children that are not known to have closed.
        #[serde(default)]
        open_children: Vec<OpenChild>,
        /// Updates that were accepted and not answered yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_updates: Vec<OpenUpdate>,
        /// The event of the parent that wanted it, where the run is a child.
        parent: Option<Origin>,
        /// What time will do, in order.
        deadlines: Vec<Deadline>,
        /// What it owes to other runs, in the order in which that was decided: on its way, or waiting to be tried again, which
        /// `deadlines` has as `effects`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outbox: Vec<OwedEffect>,
        /// How often what it owes was tried again.
        #[serde(default, skip_serializing_if = "is_zero")]
        outbox_tries: u32,
        /// Task lists on which something of it waits and nobody polls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unpolled: Vec<UnpolledList>,
    }
    /// A task list that nobody polls.
    UnpolledList {
        /// Its name.
        task_list: String,
        /// Whether it is one of deciders; else it is one of runners.
        decider: bool,
        /// When the last poll of it ended, or the service started, if there was none since.
        since: Timestamp,
    }
    /// Activities that were scheduled again, with the same type and input, after they had succeeded. More often than
    /// not the decider takes its window for the whole history.
    RepeatedActivities {
        /// How many times.
        times: u32,
        /// The newest one's ActivityScheduled.
        event_id: EventId,
        /// The newest one's name.
        activity_id: Option<String>,
    }
    /// Turns in a row that were given back or timed out.
    FailingTurns {
        /// How many.
        turns: u32,
        /// When the first of them was.
        since: Timestamp,
        /// The newest one's DeciderFailed or DeciderTimedOut.
        event_id: EventId,
        /// The DeciderScheduled of the turn that is tried next, or again just now.
        scheduled_event_id: Option<EventId>,
        /// Why the newest was given back, for programs.
        reason: Option<String>,
        /// More of it.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Which of its timeouts ended it, where one did.
        timeout: Option<DeciderTimeout>,
    }
    /// Something that a run owes to another.
    OwedEffect {
        /// `start-child`, `signal`, `request-cancel`, `end-child` or `tell-parent`.
        what: String,
        /// The event that asks for it.
        event_id: EventId,
        /// The run that asked for it, where it was an earlier one of this workflow id.
        run_id: Option<Uuid>,
    }
    /// Events of a run.
    History {
        /// The events, in the order asked for.
        events: Vec<Event>,
        /// The run.
        run_id: Uuid,
        /// The run's newest event.
        last_event_id: EventId,
        /// Whether the run has closed.
        closed: bool,
        /// Where to go on: `after` of the next page, `before` when reversed; absent on the last.
        next: Option<EventId>,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference to the field")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a run ended, or that it has not.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Whether it is open, and how it closed.
    pub status: Status,
    /// The run.
    pub run_id: Uuid,
    /// When it closed.
    pub closed_at: Option<Timestamp>,
    /// What the decider said on success.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Why it failed or was terminated, for programs.
    pub reason: Option<String>,
    /// More of it.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub details: Option<Payload>,
    /// The run that goes on, when it continued as new, is tried again or was reset.
    pub continued_as: Option<Uuid>,
}
