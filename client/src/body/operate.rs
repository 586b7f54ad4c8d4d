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
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Failure of an activity by an operator, even if a runner holds it.
    FailActivityManually {
        /// Reason for the failure, for programs. Recorded as the `reason` of ActivityFailed. 1 to 256 characters.
        failure_reason: String,
        /// Details of the failure, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Action of an operator, such as a retry, a pause or a resumption.
    OperatorAction {
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of a domain. Absent fields are not changed.
    ChangeDomain {
        /// Description of the domain; `null` removes it. At most 4,096 bytes.
        #[serde(default, deserialize_with = "given")]
        description: Option<Option<String>>,
        /// Retention period of closed runs. Applies to runs that start after the change.
        retention: Option<Duration>,
    }
    /// Rotation of the secret that signs task tokens.
    RotateSecret {
        /// Time for which tokens signed with earlier secrets stay valid; 30 days by default. If this time is 0, these
        /// tokens become invalid at once.
        overlap: Option<Duration>,
    }
    /// Pause of a run.
    PauseWorkflow {
        /// True to stop the run's clock. Timers and all timeouts are then also paused, until the run is resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_clocks: bool,
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Reset of a run: a new run continues from an event of the old run.
    ResetWorkflow {
        /// Id of an event of the old run. The new run begins with a copy of the old run's history up to and including
        /// this event. The event must be the last event of its commit, and no decider may hold a turn directly after
        /// the event. If a reset to this event is not possible, the refusal contains the nearest possible events.
        event_id: EventId,
        /// Treatment of signals that the old run received after the event `eventId`.
        #[serde(default)]
        signals: LaterSignals,
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of the options of an open activity. Absent fields are not changed.
    ChangeActivity {
        /// Task list of the activity.
        task_list: Option<String>,
        /// Timeouts of the activity.
        #[serde(default)]
        timeouts: ChangeTimeouts,
        /// New retry policy, which replaces the whole policy. Accepted only for an activity that was scheduled with a
        /// retry policy.
        #[serde(default, deserialize_with = "history::retry_of_request")]
        retry: Option<RetryPolicy>,
        /// Name of the operator; recorded in the history.
        identity: Option<String>,
        /// Reason for the action. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes of the timeouts of an activity. Absent fields are not changed; `null` removes a timeout.
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

/// Deserializes a field that is present. Distinguishes `null` from an absent field.
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
    /// The new secret that signs task tokens.
    RotatedSecret {
        /// Time from which the new secret signs tokens. If several nodes share a store, this time is a few seconds in
        /// the future.
        from: Timestamp,
        /// Time until which tokens signed with the previous secret are valid. Tokens signed with even older secrets
        /// expire at the same time, or earlier if an earlier rotation returned an earlier time.
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
        /// Event id of the event that set the deadline.
        scheduled_event_id: Option<EventId>,
        /// Name of the activity or timer of the deadline.
        name: Option<String>,
        /// Time when the deadline is due.
        at: Timestamp,
        /// Time when the deadline would be due after a repair.
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
        /// True if the run is paused. Its deadlines are then calculated as if the run were resumed now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// Deadlines that are too late, earliest first.
        deadlines: Vec<LateDeadline>,
    }
    /// A page of open runs with deadlines that are too late.
    LateRuns {
        /// Current time of the service's clock.
        now: Timestamp,
        /// Reason to doubt the clock; absent if the clock is known to be right. Repairs are refused while the clock is
        /// doubted.
        clock_problem: Option<String>,
        /// Runs on this page.
        runs: Vec<LateRun>,
        /// Number of open runs that were examined for this page.
        examined: u64,
        /// Value of `page` for the next page; absent on the last page.
        next_page: Option<String>,
    }
    /// Outcome of a repair of a run's deadlines.
    RepairedDeadlines {
        /// Workflow id.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Event id of the first event that the repair recorded; absent if nothing had to be repaired.
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
        /// Run id of the run whose history the new run continues.
        base_run_id: Uuid,
        /// Event id of the last event that was copied from the run `baseRunId`.
        base_event_id: EventId,
    }
    /// Origin of a run that began with a copy of another run's history.
    BranchedFrom {
        /// Run id of the run whose history was copied.
        run_id: Uuid,
        /// Event id of the last copied event.
        event_id: EventId,
        /// Workflow id of the run whose history was copied; absent if both runs have the same workflow id.
        workflow_id: Option<String>,
    }
    /// Pause of a run.
    PausedRun {
        /// Time of the pause.
        at: Timestamp,
        /// True if the run's clock is stopped. Timers and timeouts are then also paused.
        stop_clocks: bool,
        /// Event id of the run's WorkflowPaused.
        event_id: EventId,
        /// Name of the operator who paused the run.
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
        /// Event id of the activity's ActivityPaused.
        event_id: EventId,
        /// Name of the operator who paused the activity.
        identity: Option<String>,
        /// Reason for the pause, for people.
        reason: Option<String>,
    }
}
