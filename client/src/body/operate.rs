//! Bodies of the calls with which somebody operates a run.

use history::event::{ActivityPausedCause, LaterSignals};
use history::{Duration, EventId, Payload, RetryPolicy, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

bodies! {@request
    /// An activity is done, whoever has it.
    CompleteByHand {
        /// The result.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
        /// Who says so.
        identity: Option<String>,
        /// Why. At most 256 characters.
        reason: Option<String>,
    }
    /// An activity cannot be done, whoever has it.
    FailByHand {
        /// Why it cannot be done, for programs: the `reason` of its ActivityFailed. 1 to 256 characters.
        failure_reason: String,
        /// Why it cannot be done, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Who says so.
        identity: Option<String>,
        /// Why it is failed by hand. At most 256 characters.
        reason: Option<String>,
    }
    /// Something is done by hand: an activity is retried, paused or resumed.
    ByHand {
        /// Who does it.
        identity: Option<String>,
        /// Why. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes a domain; what is absent stays as it is.
    ChangeDomain {
        /// What it is for; nothing with `null`. At most 4,096 bytes.
        #[serde(default, deserialize_with = "given")]
        description: Option<Option<String>>,
        /// How long runs stay readable after they closed that are started from now on.
        retention: Option<Duration>,
    }
    /// Makes another secret for task tokens.
    RotateSecret {
        /// How long tokens that were made before stay good; 30 days when absent, and at once no longer with zero.
        overlap: Option<Duration>,
    }
    /// Has a run wait.
    PauseWorkflow {
        /// Whether its clock stands still: its timers and all timeouts wait, too, and go on where they were.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_clocks: bool,
        /// Who does it.
        identity: Option<String>,
        /// Why. At most 256 characters.
        reason: Option<String>,
    }
    /// Has a new run go on from an event of a run.
    ResetWorkflow {
        /// The last event that the new run has of the old one's history: one where no decider is at work, and no commit is cut
        /// in two. A refusal names the nearest.
        event_id: EventId,
        /// What becomes of the signals that came later.
        #[serde(default)]
        signals: LaterSignals,
        /// Who does it.
        identity: Option<String>,
        /// Why. At most 256 characters.
        reason: Option<String>,
    }
    /// Changes the options of an open activity; what is absent stays as it is.
    ChangeActivity {
        /// The task list where runners poll for it.
        task_list: Option<String>,
        /// Its timeouts.
        #[serde(default)]
        timeouts: ChangeTimeouts,
        /// Whether and when it is tried again: a whole policy. Not for an activity that was started without one.
        #[serde(default, deserialize_with = "history::retry_of_request")]
        retry: Option<RetryPolicy>,
        /// Who does it.
        identity: Option<String>,
        /// Why. At most 256 characters.
        reason: Option<String>,
    }
    /// Timeouts of an activity that are changed: absent, it stays; `null`, there is none.
    ChangeTimeouts {
        /// From ActivityScheduled to ActivityStarted, at most.
        #[serde(default, deserialize_with = "given")]
        schedule_to_start: Option<Option<Duration>>,
        /// From ActivityStarted to the answer, at most.
        #[serde(default, deserialize_with = "given")]
        start_to_close: Option<Option<Duration>>,
        /// From ActivityScheduled to the answer, at most.
        #[serde(default, deserialize_with = "given")]
        schedule_to_close: Option<Option<Duration>>,
        /// From ActivityStarted or a heartbeat to the next heartbeat or the answer, at most.
        #[serde(default, deserialize_with = "given")]
        heartbeat: Option<Option<Duration>>,
    }
}

/// Reads a field that is given, `null` or not.
#[expect(clippy::option_option, reason = "absent, `null` and given mean three things")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

answers! {
    /// Runs that were deleted.
    Deleted {
        /// How many.
        runs: u64,
    }
    /// Another secret for task tokens.
    RotatedSecret {
        /// From when on tokens are made with it. Where several nodes share a store, some seconds from now.
        from: Timestamp,
        /// Until when those are good that were made before; some only until an earlier rotation's overlap is over.
        previous_until: Timestamp,
    }
    /// The service's clock, which is believed.
    ConfirmedClock {
        /// What it says.
        now: Timestamp,
    }
    /// A deadline that is too late, because it was set while the service's clock was ahead.
    LateDeadline {
        /// What: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-again`, `effects`, ….
        what: String,
        /// The event that set it.
        scheduled_event_id: Option<EventId>,
        /// The name of the activity or timer.
        name: Option<String>,
        /// When it is due.
        at: Timestamp,
        /// When it is due after a repair.
        repaired_at: Timestamp,
    }
    /// An open run with deadlines that are too late.
    LateRun {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The workflow type.
        workflow_type: String,
        /// Whether it is paused. Its deadlines are then told as if it were resumed now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// The deadlines, in the order of time.
        deadlines: Vec<LateDeadline>,
    }
    /// A page of open runs with deadlines that are too late.
    LateRuns {
        /// What the service's clock says.
        now: Timestamp,
        /// What speaks against the clock; absent if it is known to be right. Nothing is repaired meanwhile.
        doubt: Option<String>,
        /// The runs.
        runs: Vec<LateRun>,
        /// Number of open runs that were looked at for this page.
        looked_at: u64,
        /// What to pass as `page` for the next page; absent on the last one.
        next_page: Option<String>,
    }
    /// What a repair of a run's deadlines has done.
    RepairedDeadlines {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The first event that was recorded; absent if nothing had to be repaired.
        event_id: Option<EventId>,
        /// What was repaired.
        deadlines: Vec<LateDeadline>,
    }
    /// A run goes on from an event of another.
    WasReset {
        /// The workflow id.
        workflow_id: String,
        /// The run that goes on.
        run_id: Uuid,
        /// The run whose history it has.
        base_run_id: Uuid,
        /// The last event of that history that it has.
        base_event_id: EventId,
    }
    /// Where a run comes from that began with the history of another.
    BranchedFrom {
        /// The other run.
        run_id: Uuid,
        /// The last of its events that this one has.
        event_id: EventId,
        /// Its workflow id, where that is another one.
        workflow_id: Option<String>,
    }
    /// That a run is paused.
    PausedRun {
        /// Since when.
        at: Timestamp,
        /// Whether its clock stands still: nothing that is timed goes on.
        stop_clocks: bool,
        /// Its WorkflowPaused.
        event_id: EventId,
        /// Who did it.
        identity: Option<String>,
        /// Why.
        reason: Option<String>,
    }
    /// That an activity is paused.
    PausedActivity {
        /// Since when.
        at: Timestamp,
        /// Why, for programs.
        cause: ActivityPausedCause,
        /// Its ActivityPaused.
        event_id: EventId,
        /// Who did it.
        identity: Option<String>,
        /// Why, for people.
        reason: Option<String>,
    }
}
