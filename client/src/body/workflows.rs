//! Bodies of calls about runs: starting and changing them, and reading their state.

use std::collections::BTreeMap;

use history::event::{ChildPolicy, DeciderTimeout};
use history::{Duration, Event, EventId, LastFailure, Origin, Payload, RetryPolicy, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::{BranchedFrom, PausedActivity, PausedRun};

bodies! {@request
    /// A signal to a run.
    SignalWorkflow {
        /// Input of the signal.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Name of the caller; shown in the history.
        identity: Option<String>,
    }
    /// A request to cancel a run.
    CancelWorkflow {
        /// Reason for the request. At most 256 characters.
        reason: Option<String>,
        /// Name of the caller; shown in the history.
        identity: Option<String>,
    }
    /// Termination of a run.
    TerminateWorkflow {
        /// Reason for the termination. At most 256 characters.
        reason: Option<String>,
        /// Details of the termination.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Name of the caller; shown in the history.
        identity: Option<String>,
    }
}

answers! {
    /// A started run.
    Started {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// True if the run was already open and is used instead of a new one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        existing: bool,
        /// Outcome of the run, if the caller waited for it and it closed in time.
        closed: Option<RunResult>,
    }
    /// A recorded request.
    Recorded {
        /// Event id of the first event that the request caused.
        event_id: EventId,
        /// Run id.
        run_id: Uuid,
    }
    /// A run in a list.
    Listed {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Workflow type.
        workflow_type: String,
        /// Status of the run: open, or how it closed.
        status: Status,
        /// Time when it started.
        started_at: Timestamp,
        /// Time when it closed.
        closed_at: Option<Timestamp>,
        /// Tags.
        tags: Vec<String>,
        /// Reason for its failure or termination; the name of the timeout for a run that timed out. Absent if the run
        /// closed under a version that did not store reasons in lists.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Only for callers that may see payloads.
        details_line: Option<String>,
        /// True if only its execution timeout can wake it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
        /// True if one of its activities is paused and waits for an operator.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        blocked: bool,
        /// True if the run is paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// True if its turns failed or timed out at least twice in a row.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failing: bool,
        /// True if one of its activities is past its first attempt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retrying: bool,
        /// True if one of its activities was scheduled again, with the same type and input, after it had succeeded.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeating: bool,
    }
    /// A page of runs. It may be short or empty and still have a next page.
    Workflows {
        /// Runs on this page.
        workflows: Vec<Listed>,
        /// Value of `page` for the next page; absent on the last one.
        next_page: Option<String>,
        /// Number of runs examined for this page, including those that the filter excludes.
        #[serde(default)]
        examined: u64,
    }
    /// Number of runs.
    Count {
        /// Number of runs that match.
        count: u64,
        /// True if not all runs were examined; the numbers are then lower bounds.
        truncated: bool,
        /// Number of runs for each value of `status`; values without runs are absent. Runs are counted as `open` only
        /// if no other value applies to them, so that the numbers add up to `count`.
        #[serde(default)]
        by_status: BTreeMap<String, u64>,
    }
    /// Runs of a workflow type with the same failure.
    GroupedFailures {
        /// Status of the runs: `blocked`, or `failed` for closed runs.
        status: String,
        /// Workflow type.
        workflow_type: String,
        /// Reason: of the last failure of a blocked activity, or of the close of a failed run. Absent if there is none,
        /// for example after a timeout.
        reason: Option<String>,
        /// Number of runs.
        runs: u64,
        /// Time of the earliest of these failures.
        first_at: Timestamp,
        /// Time of the latest of these failures.
        last_at: Timestamp,
    }
    /// Failures of a domain. At most 1,000 blocked runs and 10,000 failed runs are examined, the newest first.
    Failures {
        /// Groups of failures, at most 100, those with the most runs first.
        failures: Vec<GroupedFailures>,
        /// True if not all runs were examined, or if there are more groups; the numbers are then lower bounds.
        truncated: bool,
    }
    /// A scheduled deadline of a run.
    Deadline {
        /// Time when it is due.
        at: Timestamp,
        /// Kind of deadline: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-retry`, `effects`, ….
        kind: String,
        /// Event id of the event that set it.
        scheduled_event_id: Option<EventId>,
        /// Name of the activity or timer.
        name: Option<String>,
    }
    /// An open activity.
    OpenActivity {
        /// Name of the activity, chosen by the decider.
        activity_id: String,
        /// Type.
        activity_type: String,
        /// Task list.
        task_list: String,
        /// Event id of its ActivityScheduled.
        scheduled_event_id: EventId,
        /// Time when it was scheduled.
        scheduled_at: Timestamp,
        /// Time when a runner took it; absent while it waits for one.
        started_at: Option<Timestamp>,
        /// Number of the current or next attempt: 1, 2, 3, …
        attempt: u32,
        /// Maximum number of attempts of its retry policy; absent without a limit or a policy.
        maximum_attempts: Option<u32>,
        /// Earliest time of the next attempt, while it waits for that.
        next_attempt_at: Option<Timestamp>,
        /// Outcome of the last attempt that was followed by another.
        last_failure: Option<LastFailure>,
        /// True if its cancellation was requested.
        cancel_requested: bool,
        /// Pause of the activity; absent unless it is paused. It is not dispatched until an operator retries,
        /// resumes, completes or fails it.
        paused: Option<PausedActivity>,
        /// Time of its runner's last heartbeat.
        last_heartbeat_at: Option<Timestamp>,
    }
    /// An open timer.
    OpenTimer {
        /// Name of the timer.
        timer_id: String,
        /// Event id of its TimerScheduled.
        scheduled_event_id: EventId,
        /// Time when it expires.
        expires_at: Timestamp,
    }
    /// An update that was accepted and is not yet completed.
    OpenUpdate {
        /// Id of the update.
        update_id: String,
        /// Name of the update.
        name: String,
        /// Event id of its UpdateAccepted.
        accepted_event_id: EventId,
        /// Time when it was accepted.
        accepted_at: Timestamp,
    }
    /// A child that is not known to have closed.
    OpenChild {
        /// Workflow id of the child.
        workflow_id: String,
        /// Event id of its ChildScheduled.
        scheduled_event_id: EventId,
        /// Event id of its ChildStarted.
        started_event_id: Option<EventId>,
        /// Action on the child if this run closes first.
        child_policy: ChildPolicy,
    }
    /// The state of a run.
    Described {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Workflow type.
        workflow_type: String,
        /// Task list of its deciders.
        task_list: String,
        /// Status of the run: open, or how it closed.
        status: Status,
        /// Time when it started.
        started_at: Timestamp,
        /// Time when it closed.
        closed_at: Option<Timestamp>,
        /// Reason for its failure or termination; the name of the timeout for a run that timed out.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Only for callers that may see payloads.
        details_line: Option<String>,
        /// Maximum time from the start to the close, including all runs that continue it.
        execution_timeout: Duration,
        /// Maximum time from the start to the close of this run only.
        run_timeout: Option<Duration>,
        /// Run id of the run that this one continues or retries.
        continued_from: Option<Uuid>,
        /// Retry policy for a workflow that fails or times out.
        retry: Option<RetryPolicy>,
        /// Number of the attempt, with a retry policy: 1, 2, 3, …
        attempt: Option<u32>,
        /// Time when this attempt begins, while it waits for that.
        next_attempt_at: Option<Timestamp>,
        /// Run id of the retry, if this run failed or timed out and is retried.
        retried_as: Option<Uuid>,
        /// Run id of the run that continues from an earlier event, if this run was reset.
        reset_as: Option<Uuid>,
        /// Origin of the run, if it began with the history of another.
        branched_from: Option<BranchedFrom>,
        /// Tags.
        tags: Vec<String>,
        /// True if its cancellation was requested.
        cancel_requested: bool,
        /// True if only its execution timeout can wake it: no turn, activity or timer is open, and its last turn
        /// awaits no signal.
        stuck: bool,
        /// True if one of its activities is paused and waits for an operator.
        #[serde(default)]
        blocked: bool,
        /// True if one of its activities, as listed in `openActivities`, is past its first attempt.
        #[serde(default)]
        retrying: bool,
        /// Activities that were scheduled again, with the same type and input, after they had succeeded.
        repeating: Option<RepeatedActivities>,
        /// Failures of its deciders; present if its turns failed or timed out at least twice in a row.
        failing: Option<FailingTurns>,
        /// Pause of the run; absent unless it is paused. None of its tasks is dispatched.
        paused: Option<PausedRun>,
        /// Names of the signals that its last turn awaits; `baton.cancel` for a cancel request.
        awaiting: Vec<String>,
        /// Version of the run; also in the entity tag.
        version: EventId,
        /// Event id of the newest event.
        history_length: EventId,
        /// State of its turn: `none`, `waiting` for a decider, or `started` by one.
        turn: String,
        /// Activities that have not closed.
        open_activities: Vec<OpenActivity>,
        /// Timers that have not expired.
        open_timers: Vec<OpenTimer>,
        /// Children that are not known to have closed.
        #[serde(default)]
        open_children: Vec<OpenChild>,
        /// Updates that were accepted and are not yet completed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open_updates: Vec<OpenUpdate>,
        /// Event of the parent that started the run, if it is a child.
        parent: Option<Origin>,
        /// Scheduled deadlines in order of time.
        deadlines: Vec<Deadline>,
        /// Undelivered effects on other runs, in the order of their decisions. They are in delivery, or wait for the
        /// next attempt, which is in `deadlines` as `effects`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outbox: Vec<OutboxEffect>,
        /// Number of times that the delivery of `outbox` was retried.
        #[serde(default, skip_serializing_if = "is_zero")]
        outbox_retries: u32,
        /// Task lists with waiting tasks of this run and without pollers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        no_pollers: Vec<ListWithoutPollers>,
    }
    /// A task list without pollers.
    ListWithoutPollers {
        /// Name of the task list.
        task_list: String,
        /// True for a list of turns, false for a list of activities.
        decider: bool,
        /// Time when the last poll ended, or when the service started if there was no poll since.
        since: Timestamp,
    }
    /// Activities that were scheduled again, with the same type and input, after they had succeeded. The usual cause
    /// is a decider that treats its window as the whole history.
    RepeatedActivities {
        /// Number of repetitions.
        times: u32,
        /// Event id of the newest repetition's ActivityScheduled.
        event_id: EventId,
        /// Name of the newest repetition's activity.
        activity_id: Option<String>,
    }
    /// Turns in a row that failed or timed out.
    FailingTurns {
        /// Number of these turns.
        turns: u32,
        /// Time when the first of them failed.
        since: Timestamp,
        /// Event id of the newest DeciderFailed or DeciderTimedOut.
        event_id: EventId,
        /// Event id of the DeciderScheduled of the next or current attempt.
        scheduled_event_id: Option<EventId>,
        /// Reason for the newest failure, for programs.
        reason: Option<String>,
        /// Details of the newest failure.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Timeout that ended the newest turn, if it timed out.
        timeout: Option<DeciderTimeout>,
    }
    /// An undelivered effect of a run on another run.
    OutboxEffect {
        /// Kind of effect: `start-child`, `signal`, `request-cancel`, `end-child` or `notify-parent`.
        kind: String,
        /// Event id of the event that requested it.
        event_id: EventId,
        /// Run id of the run that requested it, if it is an earlier one of this workflow id.
        run_id: Option<Uuid>,
    }
    /// A page of a run's events.
    History {
        /// Events in the requested order.
        events: Vec<Event>,
        /// Run id.
        run_id: Uuid,
        /// Event id of the run's newest event.
        last_event_id: EventId,
        /// True if the run has closed.
        closed: bool,
        /// Event id at which to continue: value of `after` for the next page, or of `before` for a reversed one.
        /// Absent on the last page.
        next: Option<EventId>,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference to the field")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The outcome of a run, or its status while it is open.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Status of the run: open, or how it closed.
    pub status: Status,
    /// Run id.
    pub run_id: Uuid,
    /// Time when it closed.
    pub closed_at: Option<Timestamp>,
    /// Result, if the run succeeded.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Reason for its failure or termination, for programs.
    pub reason: Option<String>,
    /// Details of its failure or termination.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub details: Option<Payload>,
    /// Run id of its successor, if it continued as new, is retried or was reset.
    pub continued_as: Option<Uuid>,
}
