//! How a run is started: what a caller says, and what it comes to with the defaults of the type and the domain.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::caller::CallerName;
use crate::dialect::SwfRun;
use crate::event::{ActivityTimeouts, Origin, RequestKey};
use crate::ids::{ConflictPolicy, ReusePolicy};
use crate::limits;
use crate::payload::Payload;
use crate::registered::WorkflowDefaults;
use crate::retry::RetryPolicy;
use crate::schedule::Scheduled;
use crate::time::Duration;
use crate::trace::TraceContext;

/// The task list of a run whose start and whose type do not name one.
const TASK_LIST_DEFAULT: &str = "default";

/// Starts a run.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartWorkflow {
    /// The workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// The workflow type. 1 to 256 characters.
    pub workflow_type: String,
    /// The task list of its deciders; `default` when absent.
    pub task_list: Option<String>,
    /// Input.
    #[serde(default, deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
    /// From start to close, at most; a year when absent.
    pub execution_timeout: Option<Duration>,
    /// From start to close of one run, at most; unlimited when absent. The execution timeout is that of all runs that go on
    /// for each other.
    pub run_timeout: Option<Duration>,
    /// From DeciderStarted to the answer, at most; 30 seconds when absent.
    pub decider_start_to_close: Option<Duration>,
    /// From DeciderScheduled to DeciderStarted, at most; unlimited when absent.
    pub decider_schedule_to_start: Option<Duration>,
    /// How its turns are preferred to others on their list: higher first; that of its type, else 0, when absent.
    pub task_priority: Option<i32>,
    /// What applies to activities whose decisions do not say; start to close 5 minutes when absent.
    #[serde(default, deserialize_with = "crate::event::timeouts_of_request")]
    pub activity_timeouts: ActivityTimeouts,
    /// At most five tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How long it stays readable after it closed; as its domain says when absent.
    pub retention: Option<Duration>,
    /// Whether the id of a closed run may be used again; only after a failure when absent.
    pub reuse_policy: Option<ReusePolicy>,
    /// What to do while a run of this id is open: `fail` when absent, but `use-existing` with a `signal`.
    pub conflict_policy: Option<ConflictPolicy>,
    /// Signals the run in the commit that starts it, or the open one that is used instead.
    pub signal: Option<StartSignal>,
    /// How long the first turn waits; the execution timeout counts from then.
    pub start_after: Option<Duration>,
    /// Whether and when the workflow is tried again, by a new run of the same id, after it failed or took longer than its
    /// run timeout; never when absent. The execution timeout spans all tries.
    #[serde(default, deserialize_with = "crate::retry::retry_of_request")]
    pub retry: Option<RetryPolicy>,
    /// Who asks.
    pub identity: Option<String>,
}

impl StartWorkflow {
    /// What it comes to for a type with these defaults, in a domain with this retention.
    pub fn with_defaults(self, registered: WorkflowDefaults, retention: Duration, key: Option<RequestKey>) -> Start {
        let defaults = ActivityTimeouts {
            start_to_close: Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT),
            ..ActivityTimeouts::default()
        };
        // Who signals with a start wants the signal to arrive, whoever starts the run.
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
            swf: None,
            by: None,
            trace: None,
        }
    }
}

/// A signal that comes with a start.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartSignal {
    /// Its name. 1 to 256 characters.
    pub name: String,
    /// What it says.
    #[serde(default, deserialize_with = "crate::payload_present")]
    pub input: Option<Payload>,
}

/// A run to be started; [`Start::new`] has the defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// The workflow id. 1 to 256 characters.
    pub workflow_id: String,
    /// The workflow type. 1 to 256 characters.
    pub workflow_type: String,
    /// The task list where its deciders poll. 1 to 256 characters.
    pub task_list: String,
    /// Input.
    pub input: Option<Payload>,
    /// From start to close, at most; more than zero.
    pub execution_timeout: Duration,
    /// From DeciderStarted to the answer, at most; more than zero.
    pub decider_start_to_close: Duration,
    /// From DeciderScheduled to DeciderStarted, at most.
    pub decider_schedule_to_start: Option<Duration>,
    /// What applies to activities whose decisions do not say.
    pub activity_timeouts: ActivityTimeouts,
    /// At most five.
    pub tags: Vec<String>,
    /// How long the run stays readable after it closed.
    pub retention: Duration,
    /// Whether the id of a closed run may be used again.
    pub reuse_policy: ReusePolicy,
    /// What to do while a run of this id is open.
    pub conflict_policy: ConflictPolicy,
    /// Signals the run in the commit that starts it, or the open one that is used instead.
    pub signal: Option<StartSignal>,
    /// How long its first turn waits; at most ten years. The execution timeout counts from then.
    pub start_after: Option<Duration>,
    /// From the first turn to close of one run, at most; more than zero. The execution timeout is that of all runs that go on
    /// for each other.
    pub run_timeout: Option<Duration>,
    /// Whether and when the workflow is tried again, by a run of its own, after it failed or took too long.
    pub retry: Option<RetryPolicy>,
    /// Who asks.
    pub identity: Option<String>,
    /// The request's key.
    pub key: Option<RequestKey>,
    /// The event of the parent that wants it, where it is a child.
    pub parent: Option<Origin>,
    /// The schedule that starts it.
    pub schedule: Option<Scheduled>,
    /// How its turns are preferred to others on their list: higher first. In SWF's dialect `swf` says it.
    pub task_priority: Option<i32>,
    /// Present where the run is to speak SWF's dialect.
    pub swf: Option<SwfRun>,
    /// The name of the credential of whoever asks.
    pub by: Option<CallerName>,
    /// The trace of whoever asks, to which the run will belong.
    pub trace: Option<TraceContext>,
}

impl Start {
    /// A start with every default.
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
