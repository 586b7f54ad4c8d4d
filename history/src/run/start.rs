//! What a run keeps of its WorkflowStarted.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use crate::dialect::SwfRun;
use crate::event::{ActivityTimeouts, ChildPolicy, EventKind, Origin};
use crate::retry::RetryPolicy;
use crate::schedule::Scheduled;
use crate::time::{Duration, Timestamp};

/// What a run keeps of its WorkflowStarted.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RunStart {
    /// The workflow id.
    #[n(0)]
    pub workflow_id: String,
    /// The run id.
    #[n(1)]
    #[cbor(with = "crate::codec::uuid")]
    pub run_id: Uuid,
    /// The workflow type.
    #[n(2)]
    pub workflow_type: String,
    /// The task list of its deciders.
    #[n(3)]
    pub task_list: String,
    /// When.
    #[n(4)]
    pub at: Timestamp,
    /// From start to close, at most.
    #[n(5)]
    pub execution_timeout: Duration,
    /// From DeciderStarted to the answer, at most.
    #[n(6)]
    pub decider_start_to_close: Duration,
    /// From DeciderScheduled to DeciderStarted, at most.
    #[n(7)]
    pub decider_schedule_to_start: Option<Duration>,
    /// Defaults of activities.
    #[n(8)]
    pub activity_timeouts: ActivityTimeouts,
    /// Tags.
    #[n(9)]
    pub tags: Vec<String>,
    /// How long it stays readable after it closed.
    #[n(10)]
    pub retention: Duration,
    /// How long its first turn waits.
    #[n(11)]
    pub start_after: Option<Duration>,
    /// The event of the parent that wanted it, where the run is a child.
    #[n(12)]
    pub parent: Option<Origin>,
    /// From the first turn to close of this one run, at most.
    #[n(13)]
    pub run_timeout: Option<Duration>,
    /// The run that this one goes on for.
    #[cbor(n(14), with = "crate::codec::uuid_option", default, skip_if = "Option::is_none")]
    pub continued_from: Option<Uuid>,
    /// Since when the execution timeout counts, where that is not this run's own beginning.
    #[n(15)]
    pub execution_from: Option<Timestamp>,
    /// Whether and when the workflow is tried again after it failed or took too long.
    #[n(16)]
    pub retry: Option<RetryPolicy>,
    /// With a retry policy: which try this run is.
    #[n(17)]
    pub attempt: Option<u32>,
    /// The schedule that started it, or the run that it goes on for.
    #[n(18)]
    pub schedule: Option<Scheduled>,
    /// Present where the run speaks SWF's dialect.
    #[n(19)]
    pub swf: Option<SwfRun>,
    /// How its turns are preferred to others on their list, where `swf` does not say it.
    #[n(20)]
    pub task_priority: Option<i32>,
}

impl RunStart {
    /// Whether it speaks SWF's dialect.
    pub fn is_swf(&self) -> bool {
        self.swf.is_some()
    }

    /// How its turns are preferred to others on their list: higher first.
    pub fn priority(&self) -> Option<i32> {
        self.swf.as_ref().map_or(self.task_priority, |swf| swf.task_priority)
    }

    /// What becomes of a child with this policy of its own when this run closes like that. In SWF's dialect this run's policy
    /// says it, for all children, and only when it is terminated or times out.
    pub fn policy_at_close(&self, of_child: ChildPolicy, close: &EventKind) -> ChildPolicy {
        match (&self.swf, close) {
            (None, _) => of_child,
            (Some(swf), EventKind::WorkflowTerminated(it)) => it.child_policy.unwrap_or(swf.child_policy),
            (Some(swf), EventKind::WorkflowTimedOut(_)) => swf.child_policy,
            (Some(_), _) => ChildPolicy::Abandon,
        }
    }

    /// Since when its execution timeout counts.
    pub fn execution_from(&self) -> Timestamp {
        self.execution_from.unwrap_or_else(|| self.first_turn_at())
    }

    /// When its first turn is handed out at the earliest.
    pub fn first_turn_at(&self) -> Timestamp {
        self.at.plus(self.start_after.unwrap_or_default())
    }
}
