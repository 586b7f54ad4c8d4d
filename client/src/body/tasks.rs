//! Bodies of polls, of the tasks that they return, and of the answers to tasks.

use history::bounded;
use history::event::ActivityTimeouts;
use history::limits::{AWAITING_MAX, DECISIONS_MAX, QUERY_RESULTS_MAX, UPDATE_RESULTS_MAX};
use history::{Decision, Duration, Event, EventId, Payload, Timestamp, Traceparent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{QueryResult, TaskQuery, TaskUpdate, UpdateResult};

bodies! {@request
    /// A poll for a decider task.
    PollDecider {
        /// Name of the poller; shown in the history.
        identity: Option<String>,
        /// Events that come with a task: `full` for the whole history, `window` (the default) for those since the
        /// last completed turn.
        history: Option<TaskHistory>,
        /// Maximum number of events that come with a task. The default and the maximum are 10,000.
        max_events: Option<usize>,
        /// True if this decider answers queries. Otherwise its tasks contain none, and it gets no query-only tasks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// Maximum number of updates in a task for this decider to judge; 0 by default. Use 1 if the verdict on an
        /// update depends on another one.
        updates: Option<usize>,
        /// Unique id of this poll, with which it can be repeated if its response is lost. At most 256 characters.
        poll_id: Option<String>,
        /// Number of this attempt of the poll, 1 to 32; 1 by default. A later attempt states that the responses to
        /// all earlier ones were lost, and returns the task that was started for one of them.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the poll returns, for debugging; the tasks of all runs by default. A
        /// task of that run goes to such a poll before all others.
        workflow_id: Option<String>,
    }
    /// A poll for an activity task.
    PollActivity {
        /// Name of the poller; shown in the history.
        identity: Option<String>,
        /// Unique id of this poll, with which it can be repeated if its response is lost. At most 256 characters.
        poll_id: Option<String>,
        /// Number of this attempt of the poll, 1 to 32; 1 by default. A later attempt states that the responses to
        /// all earlier ones were lost, and returns the task that was started for one of them.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the poll returns, for debugging; the tasks of all runs by default. A
        /// task of that run goes to such a poll before all others.
        workflow_id: Option<String>,
    }
    /// A decider's answer to a turn.
    CompleteTurn {
        /// Decisions in the order in which they are applied; may be empty. At most 2,500.
        #[serde(default, deserialize_with = "bounded::list::<DECISIONS_MAX, _, _>")]
        #[at_most(DECISIONS_MAX)]
        decisions: Vec<Decision>,
        /// Context to return to the decider with the next turn. At most 32 KiB.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// Names of the signals that the run now awaits; `baton.cancel` for a cancel request. A run that has nothing
        /// open and awaits nothing is flagged as stuck. At most 32.
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
        /// Maximum time for which a turn waits on that list for a decider. If a turn waits longer, or times out on the
        /// list, later turns wait on the previous list again. Without it, the change is permanent.
        task_list_schedule_to_start: Option<Duration>,
        /// Results of the task's queries, based on the state after these decisions. At most 1,000.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<QUERY_RESULTS_MAX, _, _>"
        )]
        #[at_most(QUERY_RESULTS_MAX)]
        query_results: Vec<QueryResult>,
        /// Results of the task's updates, and of updates that earlier turns accepted. They are recorded together with
        /// the decisions. At most 1,064.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<UPDATE_RESULTS_MAX, _, _>"
        )]
        #[at_most(UPDATE_RESULTS_MAX)]
        update_results: Vec<UpdateResult>,
    }
    /// A turn that the decider gives back.
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
        /// Delay before the next attempt, if the activity has a retry policy; the delay of the policy by default.
        retry_after: Option<Duration>,
    }
    /// Confirmation that an activity stopped after a cancel request.
    CancelActivity {
        /// Details of what was done before the stop.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
    /// A runner's report that it is still working on an activity.
    Heartbeat {
        /// Progress of the activity; recorded if the activity times out.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
}

answers! {
    /// A turn for a decider.
    DeciderTask {
        /// Token that identifies the turn in its answer.
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
        /// Number of this attempt of the turn: 1, plus one for each preceding turn that failed or timed out in a row.
        attempt: u32,
        /// Event id of the turn's DeciderStarted, the newest event that the decider may see.
        started_event_id: EventId,
        /// Event id of the DeciderStarted of the last completed turn; 0 if there is none.
        previous_started_event_id: EventId,
        /// Events, oldest first: the window, or with `history: "full"` the history from its first event. At most
        /// 10,000 events and about 4 MiB.
        events: Vec<Event>,
        /// With `history: "full"`, if not all events fit: value of `after` for the next page of `GET
        /// /v1/decider-tasks/{token}/history`. Absent if `events` is the whole history.
        next: Option<EventId>,
        /// Context that the last completed turn returned.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// Queries to answer with the turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        queries: Vec<TaskQuery>,
        /// True if there is nothing to decide, only `queries` to answer. No turn was started, `startedEventId` is the
        /// run's newest event, and decisions are refused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        query_only: bool,
        /// Updates to judge with the turn, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<TaskUpdate>,
        /// True if the turn exists only for its updates. Its last two events are not recorded yet. They are recorded
        /// together with the answer if that accepts an update or contains decisions, and otherwise dropped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        speculative: bool,
        /// Parent span for the decider in the run's trace, as a W3C `traceparent`; absent if the run has no trace.
        traceparent: Option<Traceparent>,
        /// Vendor data of that trace, as a W3C `tracestate`.
        tracestate: Option<String>,
    }
    /// An activity for a runner.
    ActivityTask {
        /// Token that identifies the activity in its answer.
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
        /// Name of the activity, chosen by the decider.
        activity_id: String,
        /// Type of the activity.
        activity_type: String,
        /// Event id of its ActivityScheduled.
        scheduled_event_id: EventId,
        /// Event id of its ActivityStarted; absent with a retry policy, because the event is then recorded only when
        /// the activity closes.
        started_event_id: Option<EventId>,
        /// Number of this attempt: 1, 2, 3, …
        attempt: u32,
        /// Details of the last heartbeat of an earlier attempt.
        #[serde(default, deserialize_with = "history::payload_present")]
        heartbeat_details: Option<Payload>,
        /// Input of the activity.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Timeouts of the activity.
        timeouts: ActivityTimeouts,
        /// Parent span for the runner in the run's trace, as a W3C `traceparent`; absent if the run has no trace.
        traceparent: Option<Traceparent>,
        /// Vendor data of that trace, as a W3C `tracestate`.
        tracestate: Option<String>,
    }
    /// A decision that was recorded and is probably a mistake.
    Warning {
        /// Kind of warning, for programs: `activity-repeated`.
        code: String,
        /// Description of the warning, for people.
        detail: String,
        /// Recommended next step, for people.
        advice: String,
        /// Name of the activity.
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
        /// Decisions that were recorded and are probably mistakes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Warning>,
    }
}

/// Events that come with a decider task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskHistory {
    /// The window: events from the DeciderStarted of the last completed turn.
    #[default]
    Window,
    /// The whole history, in pages if it is long.
    Full,
}

answers! {
    /// A poller of a task list that is polling, or polled in the last five minutes.
    ListPoller {
        /// Identity that the poller sent.
        identity: Option<String>,
        /// Name of the poller's credential.
        by: Option<String>,
        /// Number of polls in progress.
        polls: u64,
        /// Time since which it has polled with pauses of at most five minutes.
        since: Timestamp,
        /// Time when its last poll ended; absent while one is in progress.
        last_polled_at: Option<Timestamp>,
    }
    /// A task list, as known to the node that responds.
    ListedTaskList {
        /// Name of the task list.
        name: String,
        /// Kind of its tasks: `decider` or `activity`. Lists of both kinds may have the same name.
        kind: String,
        /// Number of tasks waiting in memory, without queries and updates that wait for a separate task.
        waiting: u64,
        /// True if further tasks are waiting only in the store.
        more_waiting: bool,
        /// Time since which the oldest task has been waiting, if it is known.
        oldest_since: Option<Timestamp>,
        /// Number of tasks that pollers hold, of those dispatched since the service started; absent if several nodes
        /// share a store.
        in_flight: Option<u64>,
        /// Approximate number of tasks dispatched in the last minute.
        dispatched_last_minute: u64,
        /// Number of polls in progress.
        polls: u64,
        /// Pollers that are polling, or polled in the last five minutes; the polling ones first. At most 20.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pollers: Vec<ListPoller>,
        /// Addresses of other nodes over the same store with pollers of this list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        polling_nodes: Vec<String>,
        /// Time since which the list has had no poller: the end of the last poll, or the start of the service if no
        /// poll is known. Absent while a poll is in progress.
        no_pollers_since: Option<Timestamp>,
        /// Next tasks to dispatch, in that order; only in the description of a single list. At most 100.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        next: Vec<ListedTask>,
    }
    /// A waiting task.
    ListedTask {
        /// Workflow id of its run.
        workflow_id: String,
        /// Run id.
        run_id: Uuid,
        /// Event id of the event that created the task.
        scheduled_event_id: EventId,
        /// Priority; tasks with higher values are dispatched first.
        priority: i32,
        /// Time since which the task has been waiting, if it is known.
        since: Option<Timestamp>,
    }
    /// Task lists of a domain.
    ListedTaskLists {
        /// Task lists by name; deciders before runners if two have the same name.
        task_lists: Vec<ListedTaskList>,
        /// Address of the node that responds, if several share a store.
        node: Option<String>,
        /// True if there are more lists in memory than were examined.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// Value of `page` for the next page; absent on the last one.
        next_page: Option<String>,
    }
}
