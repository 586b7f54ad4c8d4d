//! Tasks: polls, what they hand out, and the answers.

use history::bounded;
use history::event::ActivityTimeouts;
use history::limits::{AWAITING_MAX, DECISIONS_MAX, QUERY_RESULTS_MAX, UPDATE_RESULTS_MAX};
use history::{Decision, Duration, Event, EventId, Payload, Timestamp, Traceparent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{QueryResult, TaskQuery, TaskUpdate, UpdateResult};

bodies! {@request
    /// Polls for a decider task.
    PollDecider {
        /// Who polls; shown in the history.
        identity: Option<String>,
        /// Which events come with a task: `full` for the whole history, `window` for those since the last completed
        /// turn; `window` when absent.
        history: Option<TaskHistory>,
        /// The most events that come with a task; 10,000 when absent or more.
        max_events: Option<usize>,
        /// This decider answers queries. Without it a task brings none, and none comes that only asks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// The most updates that a task may ask this decider to judge; none when absent. A decider whose verdict on one depends
        /// on another takes 1.
        updates: Option<usize>,
        /// Names this poll, so that it can be repeated when its answer is lost; not used for another one. At most 256 characters.
        poll_id: Option<String>,
        /// Which try of the poll this is, 1 to 32; 1 when absent. A later one says that the answers to all before it were lost, and
        /// gets the task that had been started for one of them.
        attempt: Option<u32>,
    }
    /// Polls for an activity task.
    PollActivity {
        /// Who polls; shown in the history.
        identity: Option<String>,
        /// Names this poll, so that it can be repeated when its answer is lost; not used for another one. At most 256 characters.
        poll_id: Option<String>,
        /// Which try of the poll this is, 1 to 32; 1 when absent. A later one says that the answers to all before it were lost, and
        /// gets the task that had been started for one of them.
        attempt: Option<u32>,
    }
    /// A decider's answer.
    CompleteTurn {
        /// What to do, in order; nothing when empty. At most 2,500.
        #[serde(default, deserialize_with = "bounded::list::<DECISIONS_MAX, _, _>")]
        #[at_most(DECISIONS_MAX)]
        decisions: Vec<Decision>,
        /// What the decider wants to be told on the next turn. At most 32 KiB.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// The signals that the run now waits for, by name; `baton.cancel` for a cancel request. A run that waits for nothing
        /// at all is flagged as stuck. At most 32.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<AWAITING_MAX, _, _>")]
        #[at_most(AWAITING_MAX)]
        awaiting: Vec<String>,
        /// What it says to the task's queries, from the state after these decisions. At most 1,000.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<QUERY_RESULTS_MAX, _, _>")]
        #[at_most(QUERY_RESULTS_MAX)]
        query_results: Vec<QueryResult>,
        /// What it says to the task's updates, and to updates that earlier turns accepted. Recorded together with the decisions.
        /// At most 1,064.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<UPDATE_RESULTS_MAX, _, _>")]
        #[at_most(UPDATE_RESULTS_MAX)]
        update_results: Vec<UpdateResult>,
    }
    /// Gives a turn back.
    FailTurn {
        /// Why. At most 256 characters.
        reason: Option<String>,
        /// More of it.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
    /// The activity is done.
    SucceedActivity {
        /// The result.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
    }
    /// The activity could not be done.
    FailActivity {
        /// Why, for programs. 1 to 256 characters.
        reason: String,
        /// Why, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
        /// Another try cannot help.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        non_retryable: bool,
        /// Try again after this long, where the activity has a retry policy; as the policy says when absent.
        retry_after: Option<Duration>,
    }
    /// The activity stopped, as it was asked to.
    CancelActivity {
        /// What was done.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
    /// The activity is alive.
    Heartbeat {
        /// How far it is; recorded if it times out.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    }
}

answers! {
    /// A turn to be decided.
    DeciderTask {
        /// What to answer with.
        token: String,
        /// The domain.
        domain: String,
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The workflow type.
        workflow_type: String,
        /// The task list that it was taken from.
        task_list: String,
        /// 1, and one more for every turn in a row that failed or timed out before it.
        attempt: u32,
        /// The turn's DeciderStarted, the newest event that its decider may see.
        started_event_id: EventId,
        /// The DeciderStarted of the last completed turn; 0 when there is none.
        previous_started_event_id: EventId,
        /// The events, oldest first: the window, or with `history: "full"` the history from its first event on. They
        /// end after 10,000 events and after about 4 MiB.
        events: Vec<Event>,
        /// With `history: "full"`, when not all events fit: the `after` of the next page of `GET
        /// /v1/decider-tasks/{token}/history`. Absent when `events` is the whole history.
        next: Option<EventId>,
        /// What the last completed turn left.
        #[serde(default, deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        /// What the run is asked, to be answered with the turn.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        queries: Vec<TaskQuery>,
        /// There is nothing to decide, only `queries` to answer: no turn was started, `startedEventId` is the run's newest
        /// event, and decisions are refused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        only_asks: bool,
        /// Updates to be judged with the turn, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        updates: Vec<TaskUpdate>,
        /// The turn is made for its updates alone. Its last two events are not recorded yet, and will be together with the answer
        /// if that accepts or decides something; if not, nothing is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        speculative: bool,
        /// What the decider is below, in the trace of the run, as W3C's `traceparent`; absent where the run belongs to none.
        traceparent: Option<Traceparent>,
        /// What vendors say of that trace, as W3C's `tracestate`.
        tracestate: Option<String>,
    }
    /// An activity to be done.
    ActivityTask {
        /// What to answer with.
        token: String,
        /// The domain.
        domain: String,
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The workflow type.
        workflow_type: String,
        /// The task list that it was taken from.
        task_list: String,
        /// The decider's name for it.
        activity_id: String,
        /// What to do.
        activity_type: String,
        /// Its ActivityScheduled.
        scheduled_event_id: EventId,
        /// Its ActivityStarted; absent with a retry policy, which has it recorded only when the activity closes.
        started_event_id: Option<EventId>,
        /// Which try it is: 1, 2, 3, …
        attempt: u32,
        /// What the last heartbeat of an earlier try said.
        #[serde(default, deserialize_with = "history::payload_present")]
        heartbeat_details: Option<Payload>,
        /// The input.
        #[serde(default, deserialize_with = "history::payload_present")]
        input: Option<Payload>,
        /// Its timeouts.
        timeouts: ActivityTimeouts,
        /// What the runner is below, in the trace of the run, as W3C's `traceparent`; absent where the run belongs to none.
        traceparent: Option<Traceparent>,
        /// What vendors say of that trace, as W3C's `tracestate`.
        tracestate: Option<String>,
    }
    /// A decision that was recorded and is probably not meant.
    Warning {
        /// What it is, for programs: `activity-repeated`.
        code: String,
        /// What it is, for people.
        detail: String,
        /// What to do, for people.
        advice: String,
        /// The activity.
        activity_id: Option<String>,
        /// The event that the decision led to.
        event_id: EventId,
    }
    /// The answer to a heartbeat.
    Beaten {
        /// The activity should stop.
        cancel_requested: bool,
    }
}

answers! {
    /// Acknowledgment of a recorded answer to a task.
    Answered {
        /// Decisions that were recorded and are probably not meant.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Warning>,
    }
}

/// Which events come with a decider task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskHistory {
    /// The window: from the DeciderStarted of the last completed turn on.
    #[default]
    Window,
    /// The whole history, page by page where it is long.
    Full,
}

answers! {
    /// Somebody who polls a task list, or did so in the last five minutes.
    ListPoller {
        /// Who, as they said with the poll.
        identity: Option<String>,
        /// The name of their credential.
        by: Option<String>,
        /// Polls of theirs that are under way.
        polls: u64,
        /// Since when they poll, with pauses of at most five minutes.
        since: Timestamp,
        /// When the last of their polls ended; absent while one is under way.
        last_polled_at: Option<Timestamp>,
    }
    /// What the node that answers knows of a task list.
    ListedTaskList {
        /// Its name.
        name: String,
        /// Whether deciders poll it: `decider`, or runners: `activity`. Lists of both kinds may have the same name.
        kind: String,
        /// Tasks that wait in memory; queries and updates that wait for a task of their own are not among them.
        waiting: u64,
        /// Whether more tasks wait in the store alone.
        more_waiting: bool,
        /// Since when the task that has waited longest waits, as far as it is known.
        oldest_since: Option<Timestamp>,
        /// Tasks that somebody has, of those that were handed out since the service started; absent where several nodes share a
        /// store.
        in_flight: Option<u64>,
        /// Tasks that were handed out in the last minute, about.
        handed_out_last_minute: u64,
        /// Polls that are under way.
        polls: u64,
        /// Who polls it, or did in the last five minutes: twenty at most, those who poll now first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pollers: Vec<ListPoller>,
        /// Other nodes over the same store where somebody polls it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        polled_at: Vec<String>,
        /// Since when nobody polls it: the end of the last poll, or the start of the service where none is known; absent while somebody
        /// polls.
        unpolled_since: Option<Timestamp>,
        /// The tasks that are handed out next, in that order, a hundred at most: where one list is asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        next: Vec<ListedTask>,
    }
    /// A task that waits.
    ListedTask {
        /// Of which workflow.
        workflow_id: String,
        /// Of which run.
        run_id: Uuid,
        /// The event that made it.
        scheduled_event_id: EventId,
        /// Those of higher ones are taken first.
        priority: i32,
        /// Since when it waits to be taken, where that is known.
        since: Option<Timestamp>,
    }
    /// Task lists of a domain.
    ListedTaskLists {
        /// By name, of one name the deciders' first.
        task_lists: Vec<ListedTaskList>,
        /// The node that answers, where several share a store.
        node: Option<String>,
        /// Whether there are more lists in memory than were looked at.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// Leads to the next page; absent on the last one.
        next_page: Option<String>,
    }
}
