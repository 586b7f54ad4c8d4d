//! Bodies of calls that start, change or read runs.

use std::collections::BTreeMap;

use history::event::{ChildPolicy, DeciderTimeout};
use history::{CallerName, Duration, Event, EventId, LastFailure, Origin, Payload, RetryPolicy, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::{BranchedFrom, PausedActivity, PausedRun, WaitsBehind};

bodies! {@request
    /// A signal to a run.
    SignalWorkflow {
        /// Input of the signal.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Name of the caller; recorded in the history.
        identity: Option<String>,
    }
    /// A request to cancel a run.
    CancelWorkflow {
        /// Reason for the request. At most 256 characters.
        reason: Option<String>,
        /// Name of the caller; recorded in the history.
        identity: Option<String>,
    }
    /// Termination of a run.
    TerminateWorkflow {
        /// Reason for the termination. At most 256 characters.
        reason: Option<String>,
        /// Details of the termination.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Name of the caller; recorded in the history.
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
        /// True if an existing open run is used instead of a new run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        existing: bool,
        /// Outcome of the run, if the caller requested to wait for it and the run closed in time.
        closed: Option<RunResult>,
    }
    /// A recorded request.
    Recorded {
        /// Event id of the first event that the request recorded.
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
        /// Status of the run: `open`, or its close status.
        status: Status,
        /// Time when the run started.
        started_at: Timestamp,
        /// Time when the run closed.
        closed_at: Option<Timestamp>,
        /// Tags of the run.
        tags: Vec<String>,
        /// Reason why the run failed or was terminated. For a run that timed out, the name of the timeout. Absent if
        /// the run closed under an earlier version of the service, which did not store reasons in lists.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Present only for callers that may see
        /// payloads.
        details_line: Option<String>,
        /// True if only the run's execution timeout can wake it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
        /// True if an activity of the run is paused and waits for an operator.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        blocked: bool,
        /// True if the run is paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// True if the run's last two or more turns failed or timed out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failing: bool,
        /// True if an activity of the run is past its first attempt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retrying: bool,
        /// True if an activity of the run was scheduled again, with the same type and input, after it had succeeded.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeating: bool,
    }
    /// A page of runs. A page may be short or empty although there is a next page.
    Workflows {
        /// Runs on this page.
        workflows: Vec<Listed>,
        /// Value of `page` for the next page; absent on the last page.
        next_page: Option<String>,
        /// Number of runs that were examined for this page, including runs that do not match the filter.
        #[serde(default)]
        examined: u64,
    }
    /// Number of runs.
    Count {
        /// Number of runs that match the filter.
        count: u64,
        /// True if not all runs were examined. The numbers are then lower bounds.
        truncated: bool,
        /// Number of runs for each value of `status`. Values without runs are absent. A run counts as `open` only if no
        /// other value applies, so that the numbers add up to `count`.
        #[serde(default)]
        by_status: BTreeMap<String, u64>,
    }
    /// Runs of a workflow type with the same failure.
    GroupedFailures {
        /// Status of the runs: `blocked`, or `failed` for closed runs.
        status: String,
        /// Workflow type.
        workflow_type: String,
        /// Reason of the failures. For blocked activities, the reason of the last failure; for failed runs, the reason
        /// of the close. Absent if there is none, for example after a timeout.
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
        /// Time when the deadline is due.
        at: Timestamp,
        /// Kind of deadline: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-retry`, `effects`, ….
        kind: String,
        /// Event id of the event that set the deadline.
        scheduled_event_id: Option<EventId>,
        /// Name of the activity or timer of the deadline.
        name: Option<String>,
    }
    /// An open activity.
    OpenActivity {
        /// Activity id, chosen by the decider.
        activity_id: String,
        /// Type of the activity.
        activity_type: String,
        /// Task list of the activity.
        task_list: String,
        /// Event id of the activity's ActivityScheduled.
        scheduled_event_id: EventId,
        /// Time when the activity was scheduled.
        scheduled_at: Timestamp,
        /// Time when a runner took the activity; absent while the activity waits for a runner.
        started_at: Option<Timestamp>,
        /// Identity of the runner that has the activity, from the runner's poll.
        identity: Option<String>,
        /// Name of the credential of the runner that has the activity.
        by: Option<CallerName>,
        /// Number of the current or next attempt: 1, 2, 3, …
        attempt: u32,
        /// Maximum number of attempts, from the retry policy; absent without a limit or a policy.
        maximum_attempts: Option<u32>,
        /// Earliest time of the next attempt, while the activity waits for that time.
        next_attempt_at: Option<Timestamp>,
        /// Outcome of the most recent attempt that was followed by another attempt.
        last_failure: Option<LastFailure>,
        /// True if the cancellation of the activity was requested.
        cancel_requested: bool,
        /// Pause of the activity; absent if it is not paused. A paused activity is not dispatched until an operator
        /// retries, resumes, completes or fails it.
        paused: Option<PausedActivity>,
        /// Time of the last heartbeat, of this attempt or an earlier one.
        last_heartbeat_at: Option<Timestamp>,
        /// Details of the activity's last heartbeat. Only for callers that may see payloads. Absent if the details do
        /// not fit into the 1 MiB that the response has for the heartbeat details of all activities.
        #[serde(default, deserialize_with = "history::payload_present")]
        heartbeat_details: Option<Payload>,
        /// Limits of the task list that hold the waiting activity back; absent if the activity only waits for a runner.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        behind: Vec<WaitsBehind>,
    }
    /// An open timer.
    OpenTimer {
        /// Name of the timer.
        timer_id: String,
        /// Event id of the timer's TimerScheduled.
        scheduled_event_id: EventId,
        /// Time when the timer expires.
        expires_at: Timestamp,
    }
    /// An update that was accepted and is not yet completed.
    OpenUpdate {
        /// Id of the update.
        update_id: String,
        /// Name of the update.
        name: String,
        /// Event id of the update's UpdateAccepted.
        accepted_event_id: EventId,
        /// Time when the update was accepted.
        accepted_at: Timestamp,
    }
    /// A child that is not known to have closed.
    OpenChild {
        /// Workflow id of the child.
        workflow_id: String,
        /// Event id of the child's ChildScheduled.
        scheduled_event_id: EventId,
        /// Event id of the child's ChildStarted; absent until the child has started.
        started_event_id: Option<EventId>,
        /// Action on the child if the run closes before the child.
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
        /// Task list of the run's next turns.
        task_list: String,
        /// True if the run consists of a single activity and has no decider.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        one_activity: bool,
        /// Status of the run: `open`, or its close status.
        status: Status,
        /// Time when the run started.
        started_at: Timestamp,
        /// Time when the run closed.
        closed_at: Option<Timestamp>,
        /// Reason why the run failed or was terminated. For a run that timed out, the name of the timeout.
        reason: Option<String>,
        /// First line of the closing event's details, at most 120 characters. Present only for callers that may see
        /// payloads.
        details_line: Option<String>,
        /// Maximum time from the start to the close of the workflow, including all runs that continue this run.
        execution_timeout: Duration,
        /// Maximum time from the start to the close of this run only.
        run_timeout: Option<Duration>,
        /// Run id of the run that this run continues or retries.
        continued_from: Option<Uuid>,
        /// Retry policy of the workflow, for runs that fail or time out.
        retry: Option<RetryPolicy>,
        /// Number of the attempt that this run makes, if the workflow has a retry policy: 1, 2, 3, …
        attempt: Option<u32>,
        /// Earliest time of the first turn of this attempt. Present only if the attempt is a retry whose first turn has
        /// not ended.
        next_attempt_at: Option<Timestamp>,
        /// Run id of the retry, if this run failed or timed out and is retried.
        retried_as: Option<Uuid>,
        /// Run id of the run that continues from an event of this run, if this run was reset.
        reset_as: Option<Uuid>,
        /// Origin of the run, if it began with a copy of another run's history.
        branched_from: Option<BranchedFrom>,
        /// Tags of the run.
        tags: Vec<String>,
        /// True if the cancellation of the run was requested.
        cancel_requested: bool,
        /// True if only the run's execution timeout can wake it: no turn, activity, timer or child is open, no request
        /// to another run is pending, and the run's last turn awaits no signal.
        stuck: bool,
        /// True if an activity of the run is paused and waits for an operator.
        #[serde(default)]
        blocked: bool,
        /// True if an activity of the run is past its first attempt. `openActivities` shows which one.
        #[serde(default)]
        retrying: bool,
        /// Activities that were scheduled again, with the same type and input, after they had succeeded.
        repeating: Option<RepeatedActivities>,
        /// Failures of the run's turns; present if the last two or more turns failed or timed out.
        failing: Option<FailingTurns>,
        /// Pause of the run; absent if it is not paused. No task of a paused run is dispatched.
        paused: Option<PausedRun>,
        /// Names of the signals that the run's last turn awaits; `baton.cancel` for a cancel request.
        awaiting: Vec<String>,
        /// Version of the run. The entity tag of the response contains this version.
        version: EventId,
        /// Event id of the run's newest event.
        history_length: EventId,
        /// Newest context that the decider stored with an answer. Only for callers that may see payloads.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// State of the run's turn: `none`, `waiting` for a decider, or `started` by a decider.
        turn: String,
        /// Limits of the task list that hold the waiting turn back; absent if the turn only waits for a decider.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        behind: Vec<WaitsBehind>,
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
        /// Undelivered effects on other runs, in the order of their decisions. Each effect is being delivered or waits
        /// for the next attempt, whose time is in `deadlines` with the kind `effects`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outbox: Vec<OutboxEffect>,
        /// Number of times that the delivery of `outbox` was retried.
        #[serde(default, skip_serializing_if = "is_zero")]
        outbox_retries: u32,
        /// Task lists without pollers on which tasks of this run wait.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        no_pollers: Vec<ListWithoutPollers>,
    }
    /// A task list without pollers.
    ListWithoutPollers {
        /// Name of the task list.
        task_list: String,
        /// True for a list of decider tasks, false for a list of activity tasks.
        decider: bool,
        /// Time when the last poll of the list ended. If there was no poll since the service started, the time when it
        /// started.
        since: Timestamp,
    }
    /// Activities that were scheduled again, with the same type and input, after they had succeeded. The usual cause
    /// is a decider that treats its window as the whole history.
    RepeatedActivities {
        /// Number of repetitions.
        times: u32,
        /// Event id of the newest repetition's ActivityScheduled.
        event_id: EventId,
        /// Activity id of the newest repetition.
        activity_id: Option<String>,
    }
    /// Consecutive turns that failed or timed out.
    FailingTurns {
        /// Number of consecutive failed turns.
        turns: u32,
        /// Time when the first of these turns failed.
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
        /// Timeout that ended the newest turn; absent if this turn did not time out.
        timeout: Option<DeciderTimeout>,
    }
    /// An undelivered effect of a run on another run.
    OutboxEffect {
        /// Kind of effect: `start-child`, `signal`, `request-cancel`, `end-child` or `notify-parent`.
        kind: String,
        /// Event id of the event that requested the effect.
        event_id: EventId,
        /// Run id of the run that requested the effect, if this is an earlier run of the same workflow id.
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
        /// Event id at which the next page begins: the value of `after`, or of `before` if the order is reversed.
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
    /// Status of the run: `open`, or its close status.
    pub status: Status,
    /// Run id.
    pub run_id: Uuid,
    /// Time when the run closed.
    pub closed_at: Option<Timestamp>,
    /// Result of the run, if it succeeded.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Reason why the run failed or was terminated, for programs.
    pub reason: Option<String>,
    /// Details of the run's failure or termination.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub details: Option<Payload>,
    /// Run id of the run's successor, if the run continued as new, is retried or was reset.
    pub continued_as: Option<Uuid>,
}
