//! Tasks that did not reach their poller. The return of a turn or an activity is recorded in the history. The task is
//! then handed out again at once, before its timeout. The return of riders (queries and updates) is not recorded: they
//! wait for another task.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use history::{Author, Command};
use store::HeadKey;
use uuid::Uuid;

use crate::Metrics;
use crate::base::background::Background;
use crate::base::notices::Notices;
use crate::lists::ListKey;
use crate::lists::grant::{ReturnBy, ReturnedTask, RiderKind, TaskReturner};
use crate::run::request::RunRequest;
use crate::run::runs::Runs;

/// Owner of the riders that were handed out in separate tasks.
pub(crate) trait RiderOwner: Send + Sync {
    /// Handles a separate task of riders that was not delivered: its riders wait for another task.
    fn lose_riders(self: Arc<Self>, key: &HeadKey, run_id: Uuid, kind: RiderKind, task: u64);
}

/// Component that takes back tasks that could not be delivered to a poller.
pub(crate) struct UndeliveredTasks {
    pub(crate) runs: Arc<Runs>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Arc<Background>,
    pub(crate) riders: OnceLock<Weak<dyn RiderOwner>>,
}

impl UndeliveredTasks {
    /// Sets the owner of riders. Only the first call has an effect.
    pub(crate) fn set_riders(&self, riders: Weak<dyn RiderOwner>) {
        drop(self.riders.set(riders));
    }

    /// Returns the component that takes back a started task if the task cannot be delivered to its poller.
    pub(crate) fn returner(self: &Arc<Self>) -> Arc<dyn TaskReturner> {
        Arc::new(Returner { tasks: Arc::clone(self), _kept: self.background.kept() })
    }

    fn return_task(self: &Arc<Self>, returned: ReturnedTask) {
        let ReturnedTask { key, run_id, task_list, undelivered, by } = returned;
        self.metrics.delivery_failed(undelivered);
        tracing::debug!(
            domain = %key.domain, %task_list, workflow_id = %key.workflow_id, reason = undelivered.word(),
            "a task could not be delivered and is returned to its list"
        );
        match by {
            ReturnBy::Command(command) => self.record_return(key, run_id, &task_list, command),
            ReturnBy::Riders(kind, task) => {
                if let Some(riders) = self.riders.get().and_then(Weak::upgrade) {
                    riders.lose_riders(&key, run_id, kind, task);
                }
            }
        }
    }

    /// Records the return of a task. If there is no runtime, the process is ending. The task is then recovered by its
    /// timeout.
    fn record_return(self: &Arc<Self>, key: HeadKey, run_id: Uuid, task_list: &str, command: Command) {
        let list = ListKey::new(&key.domain, matches!(command, Command::ReturnTurn { .. }), task_list);
        let tasks = Arc::clone(self);
        self.background.spawn(async move {
            let request = |reply| RunRequest::command(Some(run_id), command, Author::default(), reply);
            match tasks.runs.submit(&key, request).await {
                Ok(_) => tasks.notices.delivery_failed(&list.named()),
                // The return is refused if the task has timed out or closed in the meantime. In that case, there is no
                // task to return.
                Err(refusal) => {
                    tracing::debug!(
                        %refusal, workflow_id = %key.workflow_id,
                        "a task could not be returned to its list"
                    );
                }
            }
        });
    }
}

/// Component that takes back one task if the task cannot be delivered. It keeps the executor of the runs alive until
/// the task is delivered or returned.
struct Returner {
    tasks: Arc<UndeliveredTasks>,
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl TaskReturner for Returner {
    fn return_task(self: Arc<Self>, returned: ReturnedTask) {
        self.tasks.return_task(returned);
    }
}
