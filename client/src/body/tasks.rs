//! Bodies of polls, of the tasks that they return, and of the answers to tasks.

use history::bounded;
use history::event::ActivityTimeouts;
use history::limits::{AWAITING_MAX, DECISIONS_MAX, QUERY_RESULTS_MAX, UPDATE_RESULTS_MAX};
use history::{Decision, Duration, Event, EventId, Payload, Traceparent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{QueryResult, TaskQuery, TaskUpdate, UpdateResult};

bodies! {@request
    /// A poll for a decider task.
    PollDecider {
        /// Name of the poller; recorded in the history.
        identity: Option<String>,
        /// Events that are returned with a task: `full` for the whole history, `window` (the default) for the events
        /// since the last completed turn.
        history: Option<TaskHistory>,
        /// Maximum number of events that are returned with a task. The default and the maximum are 10,000.
        max_events: Option<usize>,
        /// True if this decider answers queries. If false, it gets tasks without queries, and no query-only tasks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// Maximum number of updates that this decider validates in one task; 0 by default. Use 1 if the verdict on an
        /// update may depend on another update.
        updates: Option<usize>,
        /// Unique id of this poll. With this id the poll can be repeated if its response is lost. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Number of this attempt of the poll, 1 to 32; 1 by default. Send 2 or more only if no response to an earlier
        /// attempt has arrived. If an earlier attempt started a task, the service then sends this task again.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the poll returns, for debugging; the tasks of all runs by default. A
        /// poll for a single run gets the tasks of this run before other polls get them.
        workflow_id: Option<String>,
    }
    /// A poll for an activity task.
    PollActivity {
        /// Name of the poller; recorded in the history.
        identity: Option<String>,
        /// Unique id of this poll. With this id the poll can be repeated if its response is lost. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Number of this attempt of the poll, 1 to 32; 1 by default. Send 2 or more only if no response to an earlier
        /// attempt has arrived. If an earlier attempt started a task, the service then sends this task again.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the poll returns, for debugging; the tasks of all runs by default. A
        /// poll for a single run gets the tasks of this run before other polls get them.
        workflow_id: Option<String>,
    }
    /// A decider's answer to a turn.
    CompleteTurn {
        /// Decisions, in the order in which they are applied; may be empty. At most 2,500.
        #[serde(default, deserialize_with = "bounded::list::<DECISIONS_MAX, _, _>")]
        #[at_most(DECISIONS_MAX)]
        decisions: Vec<Decision>,
        /// Context that the service stores and returns to the decider with the next turn. At most 32 KiB.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// Names of the signals that the run awaits after this turn; `baton.cancel` for a cancel request. If a run
        /// awaits no signal and has nothing open (such as an activity, a timer or a child), it is flagged as stuck. At
        /// most 32.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<AWAITING_MAX, _, _>"
        )]
        #[at_most(AWAITING_MAX)]
        awaiting: Vec<String>,
        /// Task list for later turns of the run; the list does not change by default. A turn that is already scheduled
        /// stays on its list.
        task_list: Option<String>,
        /// Maximum time for which a turn waits on `taskList` for a decider. If a turn on this list exceeds this time or
        /// its start-to-close timeout, later turns wait on the previous list again. When absent, later turns stay on
        /// `taskList`.
        task_list_schedule_to_start: Option<Duration>,
        /// Results of the task's queries, based on the state after these decisions. At most 1,000.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<QUERY_RESULTS_MAX, _, _>"
        )]
        #[at_most(QUERY_RESULTS_MAX)]
        query_results: Vec<QueryResult>,
        /// Results of the task's updates, and of updates that earlier turns accepted. All results are recorded together
        /// with the decisions. At most 1,064.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<UPDATE_RESULTS_MAX, _, _>"
        )]
        #[at_most(UPDATE_RESULTS_MAX)]
        update_results: Vec<UpdateResult>,
    }
    /// A turn that the decider gives back without deciding it.
    FailTurn {
        /// Reason for the failure. At most 256 characters.
        reason: Option<String>,
        /// Details of the failure.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
    /// Successful completion of an activity.
    SucceedActivity {
        /// Result of the activity.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
    }
    /// Failure of an activity.
    FailActivity {
        /// Reason for the failure, for programs. 1 to 256 characters.
        reason: String,
        /// Details of the failure, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// True if another attempt cannot succeed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        non_retryable: bool,
        /// Delay before the next attempt, if the activity has a retry policy; by default, the delay of that policy.
        retry_after: Option<Duration>,
    }
    /// Confirmation that an activity stopped after a cancel request.
    CancelActivity {
        /// Details of the work that was done before the activity stopped.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
    /// A runner's report that it is still working on an activity.
    Heartbeat {
        /// Progress of the activity. Recorded if the activity times out.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
}

answers! {
    /// A turn for a decider.
    DeciderTask {
        /// Token of the turn, which the answer must contain.
        token: String,
        /// Domain of the run.
        domain: String,
        /// Workflow id of the run.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Workflow type of the run.
        workflow_type: String,
        /// Task list from which the turn was taken.
        task_list: String,
        /// Number of this attempt of the turn: 1 plus the number of directly preceding turns that failed or timed out.
        attempt: u32,
        /// Event id of the turn's DeciderStarted, the newest event that the decider may see.
        started_event_id: EventId,
        /// Event id of the DeciderStarted of the last completed turn; 0 if there is none.
        previous_started_event_id: EventId,
        /// Events, oldest first: the window, or with `history: "full"` the history from its first event. At most 10,000
        /// events and about 4 MiB.
        events: Vec<Event>,
        /// Value of `after` for the next page of `GET /v1/decider-tasks/{token}/history`. Present only with `history:
        /// "full"`, if not all events fit into `events`.
        next: Option<EventId>,
        /// Context that the decider of the last completed turn returned.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// Queries that the decider must answer with the turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        queries: Vec<TaskQuery>,
        /// True if the task only has `queries` to answer and nothing to decide. No turn was started, `startedEventId`
        /// is the run's newest event, and decisions are refused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        query_only: bool,
        /// Updates that the decider must validate with the turn, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<TaskUpdate>,
        /// True if the turn exists only for its updates. The last two events in `events` are then not recorded yet. If
        /// the answer accepts an update or contains decisions, these two events are recorded together with the answer.
        /// Otherwise they are dropped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        speculative: bool,
        /// Parent span for the decider in the run's trace, as a W3C `traceparent`; absent if the run has no trace.
        traceparent: Option<Traceparent>,
        /// Vendor data of the run's trace, as a W3C `tracestate`.
        tracestate: Option<String>,
    }
    /// An activity for a runner.
    ActivityTask {
        /// Token of the activity, which the answer must contain.
        token: String,
        /// Domain of the run.
        domain: String,
        /// Workflow id of the run.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Workflow type of the run.
        workflow_type: String,
        /// Task list from which the activity was taken.
        task_list: String,
        /// Activity id, chosen by the decider.
        activity_id: String,
        /// Type of the activity.
        activity_type: String,
        /// Event id of the activity's ActivityScheduled.
        scheduled_event_id: EventId,
        /// Event id of the activity's ActivityStarted. Absent if the activity has a retry policy, because this event is
        /// then recorded only when the activity closes.
        started_event_id: Option<EventId>,
        /// Number of this attempt: 1, 2, 3, …
        attempt: u32,
        /// Details of the last heartbeat that an earlier attempt sent.
        #[serde(default, deserialize_with = "history::payload_present")]
        heartbeat_details: Option<Payload>,
        /// Input of the activity.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Timeouts of the activity.
        timeouts: ActivityTimeouts,
        /// Parent span for the runner in the run's trace, as a W3C `traceparent`; absent if the run has no trace.
        traceparent: Option<Traceparent>,
        /// Vendor data of the run's trace, as a W3C `tracestate`.
        tracestate: Option<String>,
    }
    /// A warning about a decision that was recorded but is probably a mistake.
    Warning {
        /// Kind of warning, for programs: `activity-repeated`.
        code: String,
        /// Description of the warning, for people.
        detail: String,
        /// Recommended next step, for people.
        advice: String,
        /// Activity id of the activity that the decision scheduled.
        activity_id: Option<String>,
        /// Event id of the event that the decision caused.
        event_id: EventId,
    }
    /// The response to a heartbeat.
    HeartbeatResult {
        /// True if the activity should stop.
        cancel_requested: bool,
        /// True if an operator has paused the activity or its run. The runner may continue and answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    }
}

answers! {
    /// Acknowledgment of a recorded answer to a task.
    Answered {
        /// Warnings about decisions that were recorded but are probably mistakes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Warning>,
    }
}

/// Selection of the events that are returned with a decider task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskHistory {
    /// The window: the events from the DeciderStarted of the last completed turn.
    #[default]
    Window,
    /// The whole history, divided into pages if it is long.
    Full,
}
