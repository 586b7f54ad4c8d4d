//! Start requests, and the defaults that the workflow type and the domain provide for them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::bounded;
use crate::caller::CallerName;
use crate::decision::ScheduleActivity;
use crate::dialect::SwfRun;
use crate::event::{ActivityTimeouts, Origin, RequestKey};
use crate::ids::{ConflictPolicy, ReusePolicy};
use crate::limits::{self, TAGS_MAX};
use crate::payload::Payload;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::retry::RetryPolicy;
use crate::schedule::Scheduled;
use crate::time::Duration;
use crate::trace::TraceContext;

/// Task list of a run if neither its start nor its type sets one.
const TASK_LIST_DEFAULT: &str = "default";

/// Starts a run.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartWorkflow {
    /// Workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// Workflow type. 1 to 256 characters.
    pub workflow_type: String,
    /// Task list of the run's deciders. When absent, the list of the workflow type, or `default`.
    pub task_list: Option<String>,
    /// Input of the run.
    #[serde(default, deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
    /// Longest time from the first start to the close, including all runs that continue this run. When absent, the
    /// default of the workflow type, or one year.
    pub execution_timeout: Option<Duration>,
    /// Longest time from the first turn to the close of a single run; unlimited when absent. Retries and successors
    /// start with the full time again.
    pub run_timeout: Option<Duration>,
    /// Longest time from DeciderStarted to the decider's answer. When absent, the default of the workflow type, or 30
    /// seconds.
    pub decider_start_to_close: Option<Duration>,
    /// Longest time from DeciderScheduled to DeciderStarted; unlimited when absent.
    pub decider_schedule_to_start: Option<Duration>,
    /// Priority of the run's turns on the task list: higher first. When absent, the priority of the workflow type, or
    /// 0.
    pub task_priority: Option<i32>,
    /// Concurrency key, for example a customer, of the run's turns and of its activities that have no own key. A task
    /// list may limit how many tasks of one key run at once, and serves the keys in turn. 1 to 256 characters.
    pub concurrency_key: Option<String>,
    /// Default timeouts of the run's activities. The start-to-close timeout is 5 minutes when absent.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Vec<String>,
    /// Time for which the run stays readable after its close. When absent, the domain's retention.
    pub retention: Option<Duration>,
    /// Policy that decides whether the run may be started if a closed run has the same workflow id. When absent, the
    /// start is allowed only if the closed run did not succeed.
    pub reuse_policy: Option<ReusePolicy>,
    /// Behavior if a run with this workflow id is open; `fail` when absent, or `use-existing` if there is a `signal`.
    pub conflict_policy: Option<ConflictPolicy>,
    /// Signal for the run. It is recorded in the commit that starts the run. If an open run is used instead, the signal
    /// is sent to that run.
    pub signal: Option<StartSignal>,
    /// Delay before the first turn. The execution timeout counts from the end of the delay.
    pub start_after: Option<Duration>,
    /// Retry policy: after a failure or run timeout, a new run with the same workflow id makes another attempt. No
    /// retries when absent. The execution timeout covers all attempts.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// Identity of the caller.
    pub identity: Option<String>,
}

impl StartWorkflow {
    /// Applies the defaults of the workflow type, and the domain's retention.
    pub fn with_defaults(self, registered: WorkflowDefaults, retention: Duration, key: Option<RequestKey>) -> Start {
        let defaults = ActivityTimeouts {
            start_to_close: Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT),
            ..ActivityTimeouts::default()
        };
        // A caller that sends a signal with a start wants the signal delivered, even if another caller has already
        // started the run.
        let conflict_default =
            self.signal.as_ref().map_or_else(ConflictPolicy::default, |_| ConflictPolicy::UseExisting);
        Start {
            workflow_id: self.workflow_id,
            workflow_type: self.workflow_type,
            task_list: self.task_list.or(registered.task_list).unwrap_or_else(|| TASK_LIST_DEFAULT.to_owned()),
            input: self.input,
            execution_timeout: self
                .execution_timeout
                .or(registered.execution_timeout)
                .unwrap_or(limits::EXECUTION_TIMEOUT_DEFAULT),
            decider_start_to_close: self
                .decider_start_to_close
                .or(registered.decider_start_to_close)
                .unwrap_or(limits::DECIDER_START_TO_CLOSE_DEFAULT),
            decider_schedule_to_start: self.decider_schedule_to_start,
            task_priority: self.task_priority.or(registered.task_priority),
            concurrency_key: self.concurrency_key,
            activity_timeouts: self.activity_timeouts.or(defaults),
            tags: self.tags,
            retention: self.retention.unwrap_or(retention),
            reuse_policy: self.reuse_policy.unwrap_or_default(),
            conflict_policy: self.conflict_policy.unwrap_or(conflict_default),
            signal: self.signal,
            start_after: self.start_after,
            run_timeout: self.run_timeout,
            retry: self.retry,
            identity: self.identity,
            key,
            parent: None,
            schedule: None,
            activity: None,
            swf: None,
            by: None,
            trace: None,
        }
    }
}

/// Starts a run that consists of a single activity and has no decider. The activity type is also the run's workflow
/// type.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartActivity {
    /// Activity type. 1 to 256 characters.
    pub activity_type: String,
    /// Workflow id of the run. 1 to 256 characters. When absent, the service generates an id. Requests with the same
    /// idempotency key get the same id.
    pub workflow_id: Option<String>,
    /// Input for the runner, at most 256 KiB.
    #[serde(default, deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
    /// Timeouts. An absent timeout has the default of the activity type. If the type sets none, the start-to-close
    /// timeout is 5 minutes, and the others are unlimited.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub timeouts: ActivityTimeouts,
    /// Retry policy after a failure or timeout; no retries when absent.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// Priority on the task list: higher first. When absent, the priority of the activity type, or 0.
    pub task_priority: Option<i32>,
    /// Concurrency key, for example a customer: the task list may limit how many tasks of one key run at once, and
    /// serves the keys in turn. 1 to 256 characters.
    pub concurrency_key: Option<String>,
    /// Tags, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<TAGS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = TAGS_MAX)))]
    pub tags: Vec<String>,
    /// Time for which the run stays readable after its close. When absent, the domain's retention.
    pub retention: Option<Duration>,
    /// Policy that decides whether the workflow id may be used again after a run with this id has closed. When
    /// absent, it may be used again only if the earlier run did not succeed.
    pub reuse_policy: Option<ReusePolicy>,
    /// Behavior if a run with this workflow id is open; `fail` when absent.
    pub conflict_policy: Option<ConflictPolicy>,
    /// Identity of the caller.
    pub identity: Option<String>,
}

impl StartActivity {
    /// Returns the start of the run, whose activity waits on `task_list`. Absent fields get the defaults of the
    /// activity type, and the domain's retention. `workflow_id` is the id for a request without one.
    pub fn with_defaults(
        self,
        task_list: &str,
        registered: &ActivityDefaults,
        retention: Duration,
        workflow_id: impl FnOnce() -> String,
        key: Option<RequestKey>,
    ) -> Start {
        let start_to_close = Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT);
        let defaults = ActivityTimeouts { start_to_close, ..ActivityTimeouts::default() };
        let timeouts = self.timeouts.or(registered.timeouts).or(defaults);
        // The execution timeout must not end the run before its activity times out.
        let execution_timeout = timeouts.schedule_to_close.unwrap_or_default().max(limits::EXECUTION_TIMEOUT_DEFAULT);
        let activity = ScheduleActivity {
            activity_id: limits::ONE_ACTIVITY_ID.to_owned(),
            activity_type: self.activity_type.clone(),
            task_list: Some(task_list.to_owned()),
            input: self.input.clone(),
            timeouts,
            retry: self.retry,
            control: None,
            task_priority: self.task_priority.or(registered.task_priority),
            // The key of the run applies to its activity.
            concurrency_key: None,
        };
        let workflow_id = self.workflow_id.unwrap_or_else(workflow_id);
        Start {
            input: self.input,
            execution_timeout,
            concurrency_key: self.concurrency_key,
            tags: self.tags,
            retention: self.retention.unwrap_or(retention),
            reuse_policy: self.reuse_policy.unwrap_or_default(),
            conflict_policy: self.conflict_policy.unwrap_or_default(),
            identity: self.identity,
            key,
            activity: Some(Box::new(activity)),
            ..Start::new(&workflow_id, &self.activity_type, task_list)
        }
    }
}

/// A signal sent with a start.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartSignal {
    /// Name of the signal. 1 to 256 characters.
    pub name: String,
    /// Payload of the signal.
    #[serde(default, deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
}

/// A run to start. [`Start::new`] sets all defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// Workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// Workflow type. 1 to 256 characters.
    pub workflow_type: String,
    /// Task list that the run's deciders poll. 1 to 256 characters.
    pub task_list: String,
    /// Input of the run.
    pub input: Option<Payload>,
    /// Longest time from the first start to the close, including all runs that continue this run; more than zero.
    pub execution_timeout: Duration,
    /// Longest time from DeciderStarted to the decider's answer; more than zero.
    pub decider_start_to_close: Duration,
    /// Longest time from DeciderScheduled to DeciderStarted.
    pub decider_schedule_to_start: Option<Duration>,
    /// Default timeouts of the run's activities.
    pub activity_timeouts: ActivityTimeouts,
    /// Tags, at most five.
    pub tags: Vec<String>,
    /// Time for which the run stays readable after its close.
    pub retention: Duration,
    /// Policy that decides whether the run may be started if a closed run has the same workflow id.
    pub reuse_policy: ReusePolicy,
    /// Behavior if a run with this workflow id is open.
    pub conflict_policy: ConflictPolicy,
    /// Signal for the run. It is recorded in the commit that starts the run. If an open run is used instead, the signal
    /// is sent to that run.
    pub signal: Option<StartSignal>,
    /// Delay before the first turn, at most ten years. The execution timeout counts from the end of the delay.
    pub start_after: Option<Duration>,
    /// Longest time from the first turn to the close of a single run; more than zero. Retries and successors start with
    /// the full time again.
    pub run_timeout: Option<Duration>,
    /// Retry policy; without one, the run is not retried.
    pub retry: Option<RetryPolicy>,
    /// Identity of the caller.
    pub identity: Option<String>,
    /// Idempotency key of the request.
    pub key: Option<RequestKey>,
    /// Event in the parent's history that started the run, if the run is a child.
    pub parent: Option<Origin>,
    /// Schedule that started the run.
    pub schedule: Option<Scheduled>,
    /// Priority of the run's turns on the task list: higher first. In SWF runs, the priority is in `swf` instead.
    pub task_priority: Option<i32>,
    /// Concurrency key of the run's turns, and of its activities that have no own key.
    pub concurrency_key: Option<String>,
    /// The run's only activity, if the run has no decider. The service then decides the run's turns.
    pub activity: Option<Box<ScheduleActivity>>,
    /// SWF settings, present if the run is started over SWF's protocol.
    pub swf: Option<SwfRun>,
    /// Name of the caller's credential.
    pub by: Option<CallerName>,
    /// Trace context of the caller. The run becomes a part of that trace.
    pub trace: Option<TraceContext>,
}

impl Start {
    /// Creates a start with all defaults.
    pub fn new(workflow_id: &str, workflow_type: &str, task_list: &str) -> Self {
        Self {
            workflow_id: workflow_id.to_owned(),
            workflow_type: workflow_type.to_owned(),
            task_list: task_list.to_owned(),
            execution_timeout: limits::EXECUTION_TIMEOUT_DEFAULT,
            decider_start_to_close: limits::DECIDER_START_TO_CLOSE_DEFAULT,
            activity_timeouts: ActivityTimeouts {
                start_to_close: Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT),
                ..ActivityTimeouts::default()
            },
            retention: limits::RETENTION_DEFAULT,
            ..Self::default()
        }
    }
}
