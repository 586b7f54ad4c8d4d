//! Bodies of operator actions on runs, activities, domains and the service.

use history::event::{ActivityPausedCause, LaterSignals};
use history::{Duration, EventId, Payload, RetryPolicy, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

bodies! {@request
    /// Completion of an activity by an operator, even if a runner holds it.
    CompleteActivityManually {
        /// Result of the activity.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Failure of an activity by an operator, even if a runner holds it.
    FailActivityManually {
        /// Reason for the failure, for programs: the `reason` of its ActivityFailed. 1 to 256 characters.
        failure_reason: String,
        /// Details of the failure, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Retry, pause or resumption by an operator.
    OperatorAction {
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of a domain. Absent fields stay unchanged.
    ChangeDomain {
        /// Description; `null` removes it. At most 4,096 bytes.
        #[serde(default, deserialize_with = "given")]
        description: Option<Option<String>>,
        /// Retention of closed runs, for runs that start after the change.
        retention: Option<Duration>,
    }
    /// Rotation of the secret of task tokens.
    RotateSecret {
        /// Time for which older tokens stay valid; 30 days by default. With 0 they become invalid at once.
        overlap: Option<Duration>,
    }
    /// Pause of a run.
    PauseWorkflow {
        /// True to stop the run's clock: timers and all timeouts stop too, and continue when the run is resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_clocks: bool,
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Reset: a new run that continues from an event of a run.
    ResetWorkflow {
        /// Last event of the old run's history that the new run keeps. At that event no decider may hold a turn, and
        /// it must be the last of its commit. If it is not possible, the refusal has the nearest event.
        event_id: EventId,
        /// Treatment of signals that arrived later.
        #[serde(default)]
        signals: LaterSignals,
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of the options of an open activity. Absent fields stay unchanged.
    ChangeActivity {
        /// Task list of the activity.
        task_list: Option<String>,
        /// Timeouts of the activity.
        #[serde(default)]
        timeouts: ChangeTimeouts,
        /// Complete retry policy. Only for an activity that was scheduled with one.
        #[serde(default, deserialize_with = "history::retry_of_request")]
        retry: Option<RetryPolicy>,
        /// Name of the operator; shown in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of the timeouts of an activity. Absent fields stay unchanged; `null` removes a timeout.
    ChangeTimeouts {
        /// Maximum time from ActivityScheduled to ActivityStarted.
        #[serde(default, deserialize_with = "given")]
        schedule_to_start: Option<Option<Duration>>,
        /// Maximum time from ActivityStarted to the answer.
        #[serde(default, deserialize_with = "given")]
        start_to_close: Option<Option<Duration>>,
        /// Maximum time from ActivityScheduled to the answer.
        #[serde(default, deserialize_with = "given")]
        schedule_to_close: Option<Option<Duration>>,
        /// Maximum time from ActivityStarted or a heartbeat to the next heartbeat or the answer.
        #[serde(default, deserialize_with = "given")]
        heartbeat: Option<Option<Duration>>,
    }
}

/// Deserializes a field that is present, and keeps `null` apart from an absent field.
#[expect(clippy::option_option, reason = "absent, `null` and given mean three things")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

answers! {
    /// Deleted runs.
    Deleted {
        /// Number of deleted runs.
        runs: u64,
    }
    /// A new secret of task tokens.
    RotatedSecret {
        /// Time from which the new secret signs tokens; a few seconds in the future if several nodes share a store.
        from: Timestamp,
        /// Time until which older tokens are valid. Some expire earlier, with the overlap of an earlier rotation.
        previous_until: Timestamp,
    }
    /// The service's clock after it was confirmed.
    ConfirmedClock {
        /// Current time of the clock.
        now: Timestamp,
    }
    /// A deadline that is too late because it was set while the service's clock was ahead.
    LateDeadline {
        /// Kind of deadline: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-retry`, `effects`, ….
        kind: String,
        /// Event id of the event that set it.
        scheduled_event_id: Option<EventId>,
        /// Name of the activity or timer.
        name: Option<String>,
        /// Time when it is due.
        at: Timestamp,
        /// Time when it would be due after a repair.
        repaired_at: Timestamp,
    }
    /// An open run with deadlines that are too late.
    LateRun {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Workflow type.
        workflow_type: String,
        /// True if the run is paused. Its deadlines are calculated as if it were resumed now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// Deadlines in order of time.
        deadlines: Vec<LateDeadline>,
    }
    /// A page of open runs with deadlines that are too late.
    LateRuns {
        /// Current time of the service's clock.
        now: Timestamp,
        /// Reason to doubt the clock; absent if it is known to be right. Repairs are refused while the clock is in
        /// doubt.
        clock_problem: Option<String>,
        /// Runs on this page.
        runs: Vec<LateRun>,
        /// Number of open runs examined for this page.
        examined: u64,
        /// Value of `page` for the next page; absent on the last one.
        next_page: Option<String>,
    }
    /// Outcome of a repair of a run's deadlines.
    RepairedDeadlines {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Event id of the first recorded event; absent if nothing had to be repaired.
        event_id: Option<EventId>,
        /// Repaired deadlines.
        deadlines: Vec<LateDeadline>,
    }
    /// Outcome of a reset.
    WasReset {
        /// Workflow id.
        workflow_id: String,
        /// Run id of the new run.
        run_id: Uuid,
        /// Run id of the run whose history it continues.
        base_run_id: Uuid,
        /// Event id of the last event that it keeps of that history.
        base_event_id: EventId,
    }
    /// Origin of a run that began with the history of another.
    BranchedFrom {
        /// Run id of the other run.
        run_id: Uuid,
        /// Event id of the last event that this run keeps of the other one.
        event_id: EventId,
        /// Workflow id of the other run, if it is different.
        workflow_id: Option<String>,
    }
    /// Pause of a run.
    PausedRun {
        /// Time of the pause.
        at: Timestamp,
        /// True if the run's clock is stopped: timers and timeouts wait, too.
        stop_clocks: bool,
        /// Event id of its WorkflowPaused.
        event_id: EventId,
        /// Name of the operator.
        identity: Option<String>,
        /// Reason for the pause.
        reason: Option<String>,
    }
    /// Pause of an activity.
    PausedActivity {
        /// Time of the pause.
        at: Timestamp,
        /// Cause of the pause, for programs.
        cause: ActivityPausedCause,
        /// Event id of its ActivityPaused.
        event_id: EventId,
        /// Name of the operator.
        identity: Option<String>,
        /// Reason for the pause, for people.
        reason: Option<String>,
    }
}
