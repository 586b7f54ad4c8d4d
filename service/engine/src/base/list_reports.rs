//! Reports about limited task lists, for people and for other nodes.

use std::sync::Arc;

use history::{EventId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::{DeserializeAs, SerializeAs};
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::list_settings::{StartRate, TaskLimits};

/// What a limit applies to.
#[serde_with::serde_as]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitScope {
    /// All tasks of the list.
    List,
    /// The tasks of the list with this concurrency key.
    Key(#[serde_as(as = "SharedText")] Arc<str>),
    /// All tasks of the lists of this group.
    Group(#[serde_as(as = "SharedText")] Arc<str>),
}

/// Reason why a limited list hands out no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitHold {
    /// The list is paused.
    Paused,
    /// The service is still counting the running tasks of the list. With several nodes, also if the home node of the
    /// list's limits is not known to be alive.
    Counting,
    /// As many tasks run as may run at once.
    Running {
        /// What the limit applies to.
        scope: LimitScope,
        /// Number of running tasks, including those that are about to start.
        running: u32,
        /// Maximum number of running tasks.
        max: u32,
    },
    /// As many tasks have started as the rate allows.
    Rate {
        /// What the limit applies to.
        scope: LimitScope,
        /// Rate of starts.
        rate: StartRate,
        /// Time when the next task may start.
        #[serde(with = "from_now")]
        until: Instant,
    },
}

impl LimitHold {
    /// Returns true if only tasks with one key are held back.
    pub(crate) fn is_of_key(&self) -> bool {
        match self {
            Self::Paused | Self::Counting => false,
            Self::Running { scope, .. } | Self::Rate { scope, .. } => matches!(scope, LimitScope::Key(_)),
        }
    }
}

/// A limit that holds tasks back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Reason why no task starts.
    pub hold: LimitHold,
    /// Of a task, the number of tasks that are taken before it under this limit. Of a list, the number of waiting tasks
    /// that the limit holds back.
    pub tasks: usize,
}

/// Number of slots and limits of one scope, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// What the limits apply to.
    pub scope: LimitScope,
    /// Limits.
    pub limits: TaskLimits,
    /// Number of running tasks, including those that are about to start.
    pub running: u32,
}

/// A task that waits in memory.
#[serde_with::serde_as]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    /// Workflow id of the task.
    #[serde_as(as = "SharedText")]
    pub workflow_id: Arc<str>,
    /// Run id of the task.
    pub run_id: Uuid,
    /// Id of the event that created the task.
    pub scheduled_event_id: EventId,
    /// Priority of the task. Tasks with a higher priority are taken first.
    pub priority: i32,
    /// Time when the task began to wait, if known.
    pub since: Option<Timestamp>,
    /// Concurrency key of the task.
    #[serde_as(as = "Option<SharedText>")]
    pub concurrency_key: Option<Arc<str>>,
    /// Limits that hold the task back; none if it only waits for a poller.
    pub behind: Vec<Behind>,
}

/// State of a limited list at the home node of its limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HomeReport {
    pub(crate) waiting: usize,
    pub(crate) has_more: bool,
    pub(crate) oldest_since: Option<Timestamp>,
    pub(crate) is_counting: bool,
    pub(crate) uses: Vec<LimitUse>,
    pub(crate) behind: Vec<Behind>,
    /// The next tasks of the list, if they were requested.
    pub(crate) next: Vec<TaskReport>,
    /// Reasons why no task with the requested key may start.
    pub(crate) holds: Vec<LimitHold>,
}

/// Times in messages between nodes, in milliseconds from now.
mod from_now {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tokio::time::Instant;

    pub(super) fn serialize<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = at.saturating_duration_since(Instant::now()).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
        let (now, millis) = (Instant::now(), u64::deserialize(deserializer)?);
        Ok(now.checked_add(Duration::from_millis(millis)).unwrap_or(now))
    }
}

/// Form of shared texts in messages.
pub(crate) struct SharedText;

impl SerializeAs<Arc<str>> for SharedText {
    fn serialize_as<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }
}

impl<'de> DeserializeAs<'de, Arc<str>> for SharedText {
    fn deserialize_as<D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}
