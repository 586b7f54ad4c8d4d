//! Bodies of task lists: their limits, pauses, waiting tasks and pollers.

use history::limits::LIMITED_KEYS_MAX;
use history::{EventId, Factor, Timestamp, bounded};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

bodies! {@request
    /// Limits of a task list. They replace its earlier limits; without any field, the list has no limits.
    SetListLimits {
        /// Maximum number of running tasks of the list: tasks that a decider or runner has taken and not yet answered.
        /// 1 to 100,000.
        max_running: Option<u32>,
        /// Maximum rate at which tasks of the list start.
        rate: Option<SetStartRate>,
        /// Limits of the tasks of each concurrency key that `limits` does not name.
        per_key: Option<SetTaskLimits>,
        /// Limits and weights of single concurrency keys. At most 100.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<LIMITED_KEYS_MAX, _, _>"
        )]
        #[at_most(LIMITED_KEYS_MAX)]
        limits: Vec<SetKeyLimits>,
        /// Name of the limit group to which the list belongs. The lists of a group share its limits.
        group: Option<String>,
    }
    /// Limits of the tasks of one concurrency key.
    SetKeyLimits {
        /// Concurrency key. 1 to 256 characters.
        key: String,
        /// Maximum number of running tasks with this key. 1 to 100,000.
        max_running: Option<u32>,
        /// Maximum rate at which tasks with this key start.
        rate: Option<SetStartRate>,
        /// Number of tasks of this key that the list hands out before it continues with the next key, 1 to 100; 1 by
        /// default.
        weight: Option<u32>,
    }
    /// Limits for a set of tasks. The set is all tasks with the same concurrency key, or all tasks on the lists of a
    /// limit group. A limit group needs at least one of the limits.
    SetTaskLimits {
        /// Maximum number of running tasks. 1 to 100,000.
        max_running: Option<u32>,
        /// Maximum rate at which tasks start.
        rate: Option<SetStartRate>,
    }
    /// Maximum rate at which tasks start.
    SetStartRate {
        /// Average number of starts per second, 0.001 to 1,000,000.
        per_second: Factor,
        /// Number of tasks that may start at once after a time without starts, 1 to 1,000,000. By default `perSecond`,
        /// rounded up.
        burst: Option<u32>,
    }
    /// Pause of a task list.
    PauseTaskList {
        /// True to stop the schedule-to-start timeouts of the tasks that wait on the list, until the list is resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_clocks: bool,
        /// Name of the operator; shown with the list.
        identity: Option<String>,
        /// Reason for the pause. At most 256 characters.
        reason: Option<String>,
    }
}

answers! {
    /// Rate at which tasks start.
    StartRate {
        /// Average number of starts per second.
        per_second: Factor,
        /// Number of tasks that may start at once after a time without starts.
        burst: u32,
    }
    /// Limits of tasks.
    TaskLimits {
        /// Maximum number of running tasks.
        max_running: Option<u32>,
        /// Maximum rate at which tasks start.
        rate: Option<StartRate>,
    }
    /// Limits of the tasks of one concurrency key.
    KeyLimits {
        /// Concurrency key.
        key: String,
        /// Maximum number of running tasks with this key.
        max_running: Option<u32>,
        /// Maximum rate at which tasks with this key start.
        rate: Option<StartRate>,
        /// Number of tasks of this key that the list hands out before it continues with the next key; 1 when absent.
        weight: Option<u32>,
    }
    /// Limits of a task list.
    ListLimits {
        /// Maximum number of running tasks of the list.
        max_running: Option<u32>,
        /// Maximum rate at which tasks of the list start.
        rate: Option<StartRate>,
        /// Limits of the tasks of each concurrency key that `limits` does not name.
        per_key: Option<TaskLimits>,
        /// Limits and weights of single concurrency keys.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        limits: Vec<KeyLimits>,
        /// Limit group to which the list belongs.
        group: Option<String>,
    }
    /// Pause of a task list.
    PausedList {
        /// Time of the pause.
        since: Timestamp,
        /// True if the schedule-to-start timeouts of the tasks that wait on the list are stopped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_clocks: bool,
        /// Reason for the pause.
        reason: Option<String>,
        /// Name of the operator.
        identity: Option<String>,
        /// Name of the operator's credential.
        by: Option<String>,
    }
    /// Settings of a task list.
    TaskListSettings {
        /// Name of the task list.
        name: String,
        /// Kind of its tasks: `decider` or `activity`.
        kind: String,
        /// Limits of the list; absent if it has none.
        limits: Option<ListLimits>,
        /// Pause of the list; absent unless it is paused.
        paused: Option<PausedList>,
    }
    /// Use of limits.
    LimitUse {
        /// Scope of the limits: `list`, `key` or `group`.
        scope: String,
        /// Name of the list, concurrency key or group.
        name: String,
        /// Number of running tasks, including those that are about to start.
        running: u32,
        /// Maximum number of running tasks.
        max_running: Option<u32>,
        /// Maximum rate at which tasks start.
        rate: Option<StartRate>,
    }
    /// A limit that holds waiting tasks of a list back.
    HeldBack {
        /// Kind of limit: `paused` (the list is paused), `counting` (the service is counting the list's running tasks
        /// after a restart or a new limit), `max-running` or `rate`.
        limit: String,
        /// Scope of the limit: `list`, `key` or `group`.
        scope: String,
        /// Name of the list, concurrency key or group.
        name: String,
        /// Number of running tasks; only for `max-running`.
        running: Option<u32>,
        /// Maximum number of running tasks; only for `max-running`.
        max: Option<u32>,
        /// Rate at which tasks start; only for `rate`.
        rate: Option<StartRate>,
        /// Number of waiting tasks that the limit holds back.
        waiting: u64,
    }
    /// A limit that holds a waiting task back.
    WaitsBehind {
        /// Kind of limit: `paused` (the list is paused), `counting` (the service is counting the list's running tasks
        /// after a restart or a new limit), `max-running` or `rate`.
        limit: String,
        /// Scope of the limit: `list`, `key` or `group`.
        scope: String,
        /// Name of the list, concurrency key or group.
        name: String,
        /// Number of running tasks; only for `max-running`.
        running: Option<u32>,
        /// Maximum number of running tasks; only for `max-running`.
        max: Option<u32>,
        /// Rate at which tasks start; only for `rate`.
        rate: Option<StartRate>,
        /// Number of waiting tasks that come before this task and to which the limit also applies. Present only in the
        /// description of a task list.
        ahead: Option<u64>,
    }
    /// Limits that the lists of a group share.
    LimitGroup {
        /// Name of the group.
        name: String,
        /// Maximum number of running tasks of all its lists.
        max_running: Option<u32>,
        /// Maximum rate at which tasks of all its lists start.
        rate: Option<StartRate>,
    }
    /// Limit groups of a domain.
    LimitGroups {
        /// Groups by name.
        groups: Vec<LimitGroup>,
    }
    /// A poller of a task list that is polling, or polled in the last five minutes.
    ListPoller {
        /// Identity that the poller sent.
        identity: Option<String>,
        /// Name of the poller's credential.
        by: Option<String>,
        /// Number of polls in progress.
        polls: u64,
        /// Start of the poller's latest series of polls. A series ends if the poller does not poll for five minutes.
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
        /// Number of turns and activities that wait in memory. Queries and updates that wait without a turn are
        /// not counted.
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
        /// Limits of the list; absent if it has none.
        limits: Option<ListLimits>,
        /// Pause of the list; absent unless it is paused.
        paused: Option<PausedList>,
        /// True while the service counts the running tasks of the list, after a restart or when the list gets its
        /// first limit or pause. No task is dispatched until it has counted them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        counting: bool,
        /// Use of the list's limits: of the list, of its group, and of the 50 keys with the most running tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<LimitUse>,
        /// Limits that hold waiting tasks back: of the list, of its group, and of the 50 keys with the most waiting
        /// tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        behind: Vec<HeldBack>,
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
        /// Concurrency key of the task.
        concurrency_key: Option<String>,
        /// Limits that hold the task back; absent if it only waits for a poller.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        behind: Vec<WaitsBehind>,
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
