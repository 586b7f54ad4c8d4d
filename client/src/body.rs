//! What goes over the wire: the bodies of every call of the REST API, once, for the service and its callers.
//!
//! Requests refuse fields that they do not know; answers pass over them, so that an older client can talk to a newer
//! service.

mod queries;
mod schedules;
mod updates;

use std::collections::BTreeMap;

use history::event::{ActivityTimeouts, ChildPolicy};
use history::{
    ConflictPolicy, Decision, Duration, Event, EventId, LastFailure, Origin, Payload, RetryPolicy, ReusePolicy, Status,
    Timestamp,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use queries::{QueryAnswer, QueryError, QueryResult, QueryWorkflow, Question, UNKNOWN_QUERY};
pub use schedules::{
    BackfillSchedule, CreateSchedule, DescribedSchedule, ListedSchedule, NextTimes, PauseSchedule, ResumeSchedule,
    Schedule, ScheduleAction, ScheduleTotals, Schedules, TriggerSchedule,
};
pub use updates::{AskedUpdate, Rejection, UpdateResult, UpdateWorkflow, Updated};

macro_rules! bodies {
    (@request $( $(#[doc = $doc:literal])+ $(#[schemars($how:meta)])* $name:ident { $( $(#[doc = $fdoc:literal])+ $(#[serde($serde:meta)])* $field:ident: $type:ty, )* } )+) => {
        $( #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
           #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
           $( #[cfg_attr(feature = "schema", schemars($how))] )*
           #[serde(rename_all = "camelCase", deny_unknown_fields)]
           $(#[doc = $doc])+
           pub struct $name { $( $(#[doc = $fdoc])+ $(#[serde($serde)])* pub $field: $type, )* } )+
    };
}

macro_rules! answers {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $fdoc:literal])+ $(#[serde($serde:meta)])* $field:ident: $type:ty, )* } )+) => {
        $( #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
           #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
           #[serde(rename_all = "camelCase")]
           $(#[doc = $doc])+
           pub struct $name { $( $(#[doc = $fdoc])+ $(#[serde($serde)])* pub $field: $type, )* } )+
    };
}

mod operate;
pub use operate::*;

/// A problem (RFC 9457): what the service answers when it does not do what was asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// A name for the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong this time.
    pub detail: String,
    /// The kind of problem, for programs; stable.
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// `false`, or `"unknown"` when the request may have been recorded.
    pub recorded: serde_json::Value,
    /// What to do.
    pub advice: String,
    /// What belongs to this kind of problem, e.g. `runId` or `max`.
    #[serde(flatten)]
    pub members: serde_json::Map<String, serde_json::Value>,
}

bodies! {@request
    /// Creates a domain.
    CreateDomain {
        /// Its name. 1 to 256 bytes.
        name: String,
        /// What it is for. At most 4,096 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// How long its runs stay readable after they closed; 30 days when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        retention: Option<Duration>,
        /// Tags: at most 50, keys of 1 to 128 characters, values of at most 256.
        #[serde(default)]
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        tags: BTreeMap<String, String>,
    }
    /// Changes the tags of a domain.
    TagDomain {
        /// Tags to add, or to replace.
        #[serde(default)]
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        add: BTreeMap<String, String>,
        /// Keys of tags to take off.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        remove: Vec<String>,
    }
    /// Starts a run.
    #[schemars(inline)]
    StartWorkflow {
        /// The workflow id. 1 to 256 bytes.
        workflow_id: String,
        /// The workflow type. 1 to 256 bytes.
        workflow_type: String,
        /// The task list of its deciders; `default` when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        task_list: Option<String>,
        /// The input.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
        /// From start to close, at most; a year when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        execution_timeout: Option<Duration>,
        /// From start to close of one run, at most; unlimited when absent. The execution timeout is that of all runs that go on
        /// for each other.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        run_timeout: Option<Duration>,
        /// From DeciderStarted to the answer, at most; 30 seconds when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        decider_start_to_close: Option<Duration>,
        /// From DeciderScheduled to DeciderStarted, at most; unlimited when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        decider_schedule_to_start: Option<Duration>,
        /// What applies to activities whose decisions do not say; start to close 5 minutes when absent.
        #[serde(default)]
        #[serde(deserialize_with = "history::event::timeouts_of_request")]
        activity_timeouts: ActivityTimeouts,
        /// At most five tags.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tags: Vec<String>,
        /// How long it stays readable after it closed; as its domain says when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        retention: Option<Duration>,
        /// Whether the id of a closed run may be used again; only after a failure when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        reuse_policy: Option<ReusePolicy>,
        /// What to do while a run of this id is open: `fail` when absent, but `use-existing` with a `signal`.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        conflict_policy: Option<ConflictPolicy>,
        /// Signals the run in the commit that starts it, or the open one that is used instead.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<StartSignal>,
        /// How long the first turn waits; the execution timeout counts from then.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        start_after: Option<Duration>,
        /// Whether and when the workflow is tried again, by a new run of the same id, after it failed or took longer than its
        /// run timeout; never when absent. The execution timeout spans all tries.
        #[serde(default)]
        #[serde(deserialize_with = "history::retry_of_request")]
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryPolicy>,
        /// Who asks.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    }
    /// A signal that comes with a start.
    #[schemars(inline)]
    StartSignal {
        /// Its name. 1 to 256 bytes.
        name: String,
        /// What it says.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    }
    /// Signals a run.
    SignalWorkflow {
        /// What the signal says.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
        /// Who asks.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    }
    /// Asks for a run to be canceled.
    CancelWorkflow {
        /// Why. At most 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who asks.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    }
    /// Ends a run.
    TerminateWorkflow {
        /// Why. At most 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// More of it.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Payload>,
        /// Who asks.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    }
    /// Polls for a decider task.
    PollDecider {
        /// Who polls; shown in the history.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// The most events of the window; 10,000 when absent or more.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        max_events: Option<usize>,
        /// This decider answers queries. Without it a task brings none, and none comes that only asks.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// The most updates that a task may ask this decider to judge; none when absent. A decider whose verdict on one depends
        /// on another takes 1.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        updates: Option<usize>,
        /// Names this poll, so that it can be repeated when its answer is lost; not used for another one. At most 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        poll_id: Option<String>,
        /// Which try of the poll this is, 1 to 32; 1 when absent. A later one says that the answers to all before it were lost, and
        /// gets the task that had been started for one of them.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    }
    /// Polls for an activity task.
    PollActivity {
        /// Who polls; shown in the history.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// Names this poll, so that it can be repeated when its answer is lost; not used for another one. At most 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        poll_id: Option<String>,
        /// Which try of the poll this is, 1 to 32; 1 when absent. A later one says that the answers to all before it were lost, and
        /// gets the task that had been started for one of them.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    }
    /// Take the next task with the answer to this one.
    Next {
        /// How many seconds to wait for it, 0 to 60; 60 when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        wait: Option<f64>,
        /// Who polls; shown in the history.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// The most events of the window, for deciders; 10,000 when absent or more.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        max_events: Option<usize>,
        /// This decider answers queries, as with a poll.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// The most updates that a task may ask this decider to judge, as for a poll.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        updates: Option<usize>,
        /// Names the poll for it, so that it can be repeated when its answer is lost (by a poll with its second try); not used for another one. At most
        /// 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        poll_id: Option<String>,
    }
    /// A decider's answer.
    CompleteTurn {
        /// What to do, in order; nothing when empty.
        #[serde(default)]
        decisions: Vec<Decision>,
        /// What the decider wants to be told on the next turn. At most 32 KiB.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<Payload>,
        /// The signals that the run now waits for, by name; `baton.cancel` for a cancel request. A run that waits for nothing
        /// at all is flagged as stuck. At most 32.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        awaiting: Vec<String>,
        /// What it says to the task's queries, from the state after these decisions.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        query_results: Vec<QueryResult>,
        /// What it says to the task's updates, and to updates that earlier turns accepted. Recorded together with the decisions.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        update_results: Vec<UpdateResult>,
        /// Take the next task.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Next>,
    }
    /// Gives a turn back.
    FailTurn {
        /// Why. At most 256 bytes.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// More of it.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Payload>,
        /// Take the next task.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Next>,
    }
    /// The activity is done.
    SucceedActivity {
        /// The result.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Payload>,
        /// Take the next task.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Next>,
    }
    /// The activity could not be done.
    FailActivity {
        /// Why, for programs. 1 to 256 bytes.
        reason: String,
        /// Why, for people and programs.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Payload>,
        /// Another try cannot help.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        non_retryable: bool,
        /// Try again after this long, where the activity has a retry policy; as the policy says when absent.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<Duration>,
        /// Take the next task.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Next>,
    }
    /// The activity stopped, as it was asked to.
    CancelActivity {
        /// What was done.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Payload>,
        /// Take the next task.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Next>,
    }
    /// The activity is alive.
    Heartbeat {
        /// How far it is; recorded if it times out.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Payload>,
    }
}

answers! {
    /// A domain.
    Domain {
        /// Its name.
        name: String,
        /// What it is for.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// How long its runs stay readable after they closed.
        retention: Duration,
        /// Since when.
        created_at: Timestamp,
        /// Since when nothing can be started or registered in it; absent while it is in use.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        deprecated_at: Option<Timestamp>,
        /// Its tags.
        #[serde(default)]
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        tags: BTreeMap<String, String>,
    }
    /// Every domain.
    Domains {
        /// By name.
        domains: Vec<Domain>,
    }
    /// A run that was started.
    Started {
        /// The workflow id.
        workflow_id: String,
        /// The run.
        run_id: Uuid,
        /// The run was open already, and is used instead of a new one.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        existing: bool,
        /// How it ended, where that was waited for and came in time.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        closed_at: Option<Timestamp>,
        /// Its tags.
        tags: Vec<String>,
        /// Nothing will ever wake it but its execution timeout.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stuck: bool,
        /// An activity of it is paused and waits for somebody.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        blocked: bool,
        /// It is paused.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    }
    /// A page of runs, newest start first. It may be short, or empty, and still have a next one.
    Workflows {
        /// The runs.
        workflows: Vec<Listed>,
        /// What to give as `page` for the next page; absent on the last.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next_page: Option<String>,
    }
    /// How many runs there are.
    Count {
        /// So many.
        count: u64,
        /// There are more: counting stopped.
        truncated: bool,
    }
    /// Something that time will do to a run.
    Deadline {
        /// When.
        at: Timestamp,
        /// What: `timer`, `execution`, `turn-start-to-close`, `first-turn`, `turn-again`, `effects`, ….
        what: String,
        /// The event that set it.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        scheduled_event_id: Option<EventId>,
        /// The name of the activity or timer.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
        /// Which try it is in, or waits for: 1, 2, 3, …
        attempt: u32,
        /// How many tries its retry policy allows; absent without a limit or a policy.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        maximum_attempts: Option<u32>,
        /// When it may be tried again, while it waits for that.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next_try_at: Option<Timestamp>,
        /// How the newest try ended that was followed by another.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        last_failure: Option<LastFailure>,
        /// Whether it was asked to stop.
        cancel_requested: bool,
        /// That it is paused: not handed out until somebody retries, resumes, completes or fails it.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        paused: Option<PausedActivity>,
        /// When its runner last gave a sign of life.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
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
    /// A child that is not known to have closed.
    OpenChild {
        /// Its workflow id.
        workflow_id: String,
        /// Its ChildScheduled.
        scheduled_event_id: EventId,
        /// Its ChildStarted.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        closed_at: Option<Timestamp>,
        /// From start to close, at most, of all runs that go on for each other.
        execution_timeout: Duration,
        /// From start to close of this run, at most.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        run_timeout: Option<Duration>,
        /// The run that this one goes on for, or tries again.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        continued_from: Option<Uuid>,
        /// Whether and when the workflow is tried again after it failed or took too long.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<RetryPolicy>,
        /// With a retry policy: which try this run is, 1, 2, 3, …
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// When this try begins, while it waits for that.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next_try_at: Option<Timestamp>,
        /// The run that tries again, when this one failed or took too long and has one.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        retried_as: Option<Uuid>,
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
        /// That it is paused: nothing of it is handed out.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
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
        /// The event of the parent that wanted it, where the run is a child.
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<Origin>,
        /// What time will do, in order.
        deadlines: Vec<Deadline>,
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
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<EventId>,
    }
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
        /// The window, oldest first.
        events: Vec<Event>,
        /// What the last completed turn left.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<Payload>,
        /// What the run is asked, to be answered with the turn.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        queries: Vec<Question>,
        /// There is nothing to decide, only `queries` to answer: no turn was started, `startedEventId` is the run's newest
        /// event, and decisions are refused.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        only_asks: bool,
        /// Updates to be judged with the turn, in this order.
        #[serde(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        updates: Vec<AskedUpdate>,
        /// The turn is made for its updates alone. Its last two events are not recorded yet, and will be together with the answer
        /// if that accepts or decides something; if not, nothing is.
        #[serde(default)]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        speculative: bool,
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
        #[serde(default)]
        #[serde(skip_serializing_if = "Option::is_none")]
        started_event_id: Option<EventId>,
        /// Which try it is: 1, 2, 3, …
        attempt: u32,
        /// What the last heartbeat of an earlier try said.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        heartbeat_details: Option<Payload>,
        /// The input.
        #[serde(default)]
        #[serde(deserialize_with = "history::payload_present")]
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
        /// Its timeouts.
        timeouts: ActivityTimeouts,
    }
    /// The answer to a heartbeat.
    Beaten {
        /// The activity should stop.
        cancel_requested: bool,
    }
}

/// The answer to an answer: the next task, if it was asked for and came in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Answered{T}"))]
pub struct Answered<T> {
    /// The next task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<T>,
}

/// How a run ended, or that it has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Whether it is open, and how it closed.
    pub status: Status,
    /// The run.
    pub run_id: Uuid,
    /// When it closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// What the decider said on success.
    #[serde(default, deserialize_with = "history::payload_present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Why it failed or was terminated, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More of it.
    #[serde(default, deserialize_with = "history::payload_present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Payload>,
    /// The run that goes on, when it continued as new or is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_as: Option<Uuid>,
}

/// Registers a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterType<D: Default> {
    /// Its name, without a slash. 1 to 256 bytes.
    pub name: String,
    /// Its version, without a slash; starts and decisions name both together, as `name/version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for. At most 4,096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What applies where a start or a decision does not say.
    #[serde(default)]
    pub defaults: D,
}

/// A registered type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RegisteredType<D> {
    /// Its name and version together, as starts and decisions name it.
    pub r#type: String,
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when nothing new of it is to begin; absent while it is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated_at: Option<Timestamp>,
    /// What applies where a start or a decision does not say.
    pub defaults: D,
}

/// A registered type in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedType {
    /// Its name and version together.
    pub r#type: String,
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it is deprecated.
    pub deprecated: bool,
}

/// Registered types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Types {
    /// By name.
    pub types: Vec<ListedType>,
    /// The next page's `after`; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
