//! Hands out tasks. If a poller already waits when a task is created, it gets the task. Otherwise a later poll gets it.

use std::sync::{Arc, OnceLock};

use history::LAMBDA_LIST;
use store::Store;
use tokio::sync::mpsc::UnboundedSender;

use crate::base::agenda::Agenda;
use crate::base::background::Background;
use crate::base::notices::NOTICES_EVERY;
use crate::base::notices::Notices;
use crate::lists::backlog::Backlog;
use crate::lists::elsewhere::Elsewhere;
use crate::lists::grant::{Grant, TakenRiders};
use crate::lists::in_flight::InFlight;
use crate::lists::limits::configured::Configured;
use crate::lists::limits::home_line::HomeLine;
use crate::lists::limits::permit::Permit;
use crate::lists::limits::stopped::StoppedByDomain;
use crate::lists::matching::{Leaving, Matching, Offered};
use crate::lists::pollers::Pollers;
use crate::lists::polls::PollMemory;
use crate::lists::undelivered::UndeliveredTasks;
use crate::lists::unpolled::{ReportedUnpolled, WaitingList};
use crate::lists::{ListKey, OnList, Poller, Side, Taker, WaitingRiders, WaitingTask};
use crate::nodes::Nodes;
use crate::run::request::{Alone, Batched};
use crate::run::runs::Runs;
use crate::{Clock, Refusal, Registry};

/// The task lists of this node, in memory and in the store.
pub struct TaskLists {
    pub(crate) runs: Arc<Runs>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) background: Arc<Background>,
    pub(crate) matching: Arc<Matching>,
    pub(crate) backlog: Backlog,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) polls: PollMemory,
    pub(crate) pollers: Arc<Pollers>,
    pub(crate) in_flight: InFlight,
    pub(crate) undelivered: Arc<UndeliveredTasks>,
    pub(crate) notices: Arc<Notices>,
    /// Messages to the home nodes of limits.
    pub(crate) home: HomeLine,
    /// Locked while the settings of lists are changed.
    pub(crate) changing_limits: tokio::sync::Mutex<()>,
    /// Limits in the configuration of this node.
    pub(crate) configured: Configured,
    /// Pauses that stop schedule-to-start timeouts.
    pub(crate) stopped: StoppedByDomain,
    /// Lists that were reported to operators as having no poller.
    pub(crate) unpolled: ReportedUnpolled,
    /// Channel to the component that calls Lambda functions. It receives the domain of each waiting Lambda task.
    pub(crate) lambda: OnceLock<UnboundedSender<Arc<str>>>,
}

impl TaskLists {
    /// Gives a task to a waiting poller, or puts the task on its list. If memory has no space for the task, queues the
    /// task's run for a row in the backlog.
    pub(crate) fn offer(self: &Arc<Self>, list: &ListKey, task: impl Into<OnList>) {
        let task = task.into();
        if list.side == Side::Activity
            && &*list.name == LAMBDA_LIST
            && let Some(caller) = self.lambda.get()
        {
            drop(caller.send(Arc::clone(&list.domain)));
        }
        let to_write_down = task.task().map(|task| task.key.clone());
        if !self.put_on_list(list, task)
            && let Some(key) = to_write_down
        {
            self.write_down_full(list, &key);
        }
    }

    /// Gives a task to a waiting poller, or puts the task on its list. Returns false if memory has no space for the
    /// task.
    pub(crate) fn put_on_list(self: &Arc<Self>, list: &ListKey, task: impl Into<OnList>) -> bool {
        match self.matching.offer(list, task) {
            Offered::Poller(poller, task) => self.start_hand_over(list, *poller, task),
            Offered::Waits => {
                self.pair(list);
                self.offer_elsewhere(list);
                self.forward_home(list);
            }
            Offered::Known => {}
            Offered::Full => return false,
        }
        true
    }

    /// Gives a task to a waiting poller, in the background.
    pub(crate) fn start_hand_over(self: &Arc<Self>, list: &ListKey, poller: Poller, task: OnList) {
        let (lists, list) = (Arc::clone(self), list.clone());
        self.background.spawn(async move { lists.hand_over(list, poller, task).await });
    }

    async fn hand_over(self: Arc<Self>, list: ListKey, mut poller: Poller, task: OnList) {
        let permit = std::mem::take(&mut poller.permit);
        match self.take(&list, Leaving { task, permit }, poller.taker.clone()).await {
            Ok(Some(grant)) => poller.grant(grant),
            Ok(None) => self.return_poller(&list, poller),
            Err(refusal) => {
                tracing::warn!(%refusal, "a waiting task could not be dispatched");
                self.unreserve_one(&list, poller, Some(&refusal));
            }
        }
    }

    /// Takes an entry of a list for a poller. Returns `None` if the entry no longer waits.
    pub(crate) async fn take(
        self: &Arc<Self>,
        list: &ListKey,
        Leaving { task, permit }: Leaving,
        taker: Taker,
    ) -> Result<Option<Grant>, Refusal> {
        match task {
            OnList::Task(task) => self.take_task(list, task, permit, taker).await,
            OnList::Riders(riders) => self.take_riders(list, riders, taker).await,
        }
    }

    /// Takes a turn or an activity for a poller. Returns `None` if the task no longer waits.
    pub(crate) async fn take_task(
        self: &Arc<Self>,
        list: &ListKey,
        task: WaitingTask,
        permit: Permit,
        taker: Taker,
    ) -> Result<Option<Grant>, Refusal> {
        let (key, list, poll) = (task.key.clone(), list.clone(), taker.poll);
        let request = |reply| Batched::Take { task, list, taker, reply, start: None, permit };
        let taken = self.runs.submit(&key, request).await;
        if let Err(refusal) = &taken {
            // The task is no longer on its list. According to the run, either the task still waits, or it was started
            // without reaching a poller. Waking the run again covers both cases.
            self.lose_if_unknown(refusal, poll);
            self.agenda.wake_again(&key, self.clock.now());
        }
        taken
    }

    /// Takes the riders of a run for a poller. If a turn of the run waits in the meantime, takes the turn instead.
    async fn take_riders(
        self: &Arc<Self>,
        list: &ListKey,
        WaitingRiders { key, run_id, kind }: WaitingRiders,
        taker: Taker,
    ) -> Result<Option<Grant>, Refusal> {
        let by = taker.clone();
        match self.runs.submit(&key, |reply| Alone::TakeRiders { run_id, kind, taker: by, reply }).await? {
            TakenRiders::Granted(grant) => Ok(Some(*grant)),
            TakenRiders::Nothing => Ok(None),
            TakenRiders::Turn { scheduled_event_id, concurrency_key } => {
                let task = WaitingTask {
                    key,
                    run_id,
                    scheduled_event_id,
                    lost: None,
                    priority: 0,
                    since: None,
                    concurrency_key,
                };
                // The turn leaves its list here, because the riders that the poller took are delivered with it.
                match self.matching.permit(list, &task) {
                    Ok(permit) => self.take_task(list, task, permit, taker).await,
                    Err(_) => Ok(None),
                }
            }
        }
    }

    /// Puts a poller back on its list, because another poller has already taken the task.
    pub(crate) fn return_poller(self: &Arc<Self>, list: &ListKey, poller: Poller) {
        match self.matching.put_back(list, poller) {
            // A task arrived while the poller was reserved for another one.
            Some((mut poller, Leaving { task, permit })) => {
                poller.permit = permit;
                self.start_hand_over(list, poller, task);
            }
            None => self.seek(list),
        }
    }

    /// Puts back a poller whose task was not started. If the service does not know whether the task was started, this
    /// function may end the poll instead.
    pub(crate) fn unreserve_one(self: &Arc<Self>, list: &ListKey, poller: Poller, refusal: Option<&Refusal>) {
        match refusal {
            // The run may have recorded that the task was sent to this poll. The poll must then get no other task.
            Some(refusal) if self.lose_if_unknown(refusal, poller.taker.poll) => poller.end(),
            _ => self.return_poller(list, poller),
        }
    }
}

impl TaskLists {
    /// Until the service stops, periodically reports to operators the lists without pollers and the number of
    /// suppressed notices.
    pub(crate) async fn keep_reporting(&self) {
        loop {
            tokio::time::sleep(NOTICES_EVERY).await;
            self.report_unpolled();
            self.notices.report_left_out();
        }
    }

    fn report_unpolled(&self) {
        let unpolled_since = |list: &ListKey| self.pollers.unpolled_list(list).map(|it| it.since);
        for list in self.unpolled.take_polled(unpolled_since) {
            self.notices.polled_again(&list.named());
        }
        // Lambda functions are called by the service, so their list has no pollers.
        let depths =
            self.matching.depths().into_iter().filter(|(list, tasks, ..)| *tasks > 0 && &*list.name != LAMBDA_LIST);
        let lists = depths.map(|(list, tasks, _, waits_since)| {
            let unpolled_since = unpolled_since(&list);
            WaitingList { list, tasks, waits_since, unpolled_since }
        });
        for (it, since) in self.unpolled.take_unreported(lists.collect(), self.clock.now()) {
            self.notices.unpolled(&it.list.named(), it.tasks, since);
        }
    }
}
