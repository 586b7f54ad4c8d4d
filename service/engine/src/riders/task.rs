//! Separate tasks for riders (queries and updates) that no turn will take. For queries, the separate task is a query
//! task. For updates, it is a speculative turn, which is recorded only if an update is accepted or the decider makes
//! decisions (ADR 10). Handing out either kind of task causes no write and no event.

use std::sync::Arc;
use std::time::Duration;

use history::{SpanId, admit::speculative_turn};
use store::HeadKey;
use uuid::Uuid;

use crate::base::background::Background;
use crate::base::clock::Ids;
use crate::base::metrics::Undelivered;
use crate::base::token::Mint;
use crate::base::traces::Traces;
use crate::base::watch::Watchers;
use crate::commit::StoredRun;
use crate::commit::read::RunReader;
use crate::lists::grant::{Grant, Granted, RiderKind};
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::ToWaiting;
use crate::lists::undelivered::RiderOwner;
use crate::lists::{ListKey, OnList, Side, Taker, WaitingRiders};
use crate::nodes::Nodes;
use crate::registry::known::Marks;
use crate::riders::carrier::Carrier;
use crate::riders::place::By;
use crate::riders::rider::{AbortOnDrop, OwnTask};
use crate::riders::waiting::Riders;
use crate::run::lookup::RunLookup;
use crate::run::request::Alone;
use crate::run::runs::Runs;
use crate::{Clock, Metrics, Registry, TurnWait};

/// Timeout of a query task. When it ends, the queries wait for another task, because the decider may have failed. Our
/// choice: long enough to rebuild the state from a long history, and short enough to fit twice into the default wait of
/// a query.
const ASK_TASK_WAIT: Duration = Duration::from_secs(5);

/// Queries and updates, to which deciders reply.
pub struct RequestReply {
    pub(crate) runs: Arc<Runs>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) riders: Arc<Riders>,
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) mint: Arc<Mint>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Arc<Traces>,
    pub(crate) background: Arc<Background>,
}

impl RequestReply {
    /// Creates a task for the riders of the newest run, if no turn will take them.
    pub(crate) fn dispatch_riders(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun) {
        for kind in self.riders.settle(key, loaded.run()) {
            self.make_task(key, loaded, kind);
        }
    }

    /// Creates a task for the queries of a closed run, which has no more turns.
    pub(super) fn make_task_for_closed(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun) {
        if self.riders.settle_closed(key, loaded.run()) {
            self.make_task(key, loaded, RiderKind::Query);
        }
    }

    fn make_task(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun, kind: RiderKind) {
        let list = decider_list(key, loaded);
        match self.lists.matching.dispatch(&list, ToWaiting::Riders { kind, workflow_id: &key.workflow_id }) {
            Ok(poller) => match self.grant_riders(key, loaded, kind, &poller.taker) {
                Some(grant) => poller.grant(grant),
                None => self.lists.return_poller(&list, poller),
            },
            Err(_) => self.offer_riders(key, loaded, kind),
        }
    }

    fn offer_riders(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun, kind: RiderKind) {
        let run_id = loaded.run().started.run_id;
        self.lists.offer(&decider_list(key, loaded), OnList::Riders(WaitingRiders { key: key.clone(), run_id, kind }));
    }

    /// Returns a task with the waiting riders of this kind; `None` if no rider waits.
    pub(crate) fn grant_riders(
        self: &Arc<Self>,
        key: &HeadKey,
        loaded: &StoredRun,
        kind: RiderKind,
        taker: &Taker,
    ) -> Option<Grant> {
        let run = loaded.run();
        let number = self.ids.op();
        let (run_id, last_event_id) = (run.started.run_id, run.last_event_id);
        let wait = Duration::from(run.started.turn_timeout());
        let wait = if kind == RiderKind::Query { wait.min(ASK_TASK_WAIT) } else { wait };
        let timer = AbortOnDrop(self.lose_riders_after(key, run_id, kind, number, wait));
        let started_at = self.clock.now();
        let (identity, by) = (taker.identity.clone(), taker.by.clone());
        let own = OwnTask { number, last_event_id, started_at, identity, by, _timer: timer };
        let taken = self.riders.take(key, run, &Carrier::Own(kind, Arc::new(own), taker));
        if taken.is_empty() {
            return None;
        }
        let previous_started_event_id = run.previous_started_event_id;
        let what = match kind {
            RiderKind::Query => {
                self.metrics.ask_tasks.inc();
                if self.riders.is_waiting(key, run_id, kind) {
                    // More riders wait than this task takes, so another task is offered.
                    self.offer_riders(key, loaded, kind);
                }
                Granted::Queries { task: number, last_event_id, version: run.version, previous_started_event_id }
            }
            RiderKind::Update => {
                self.metrics.speculative_turns.inc();
                let shown = speculative_turn(run, taker.identity.as_deref(), taker.by.as_ref(), started_at);
                Granted::Speculation { task: number, last_event_id, previous_started_event_id, shown }
            }
        };
        let span = match kind {
            RiderKind::Query => SpanId::of_run(run_id),
            // Id that the turn's DeciderScheduled event will have if the turn is recorded.
            RiderKind::Update => SpanId::of_event(run_id, last_event_id + 1),
        };
        Some(Grant {
            // The task is not in the run's history, so the poll is not recorded. If the task is lost, another task is
            // created.
            poll: None,
            returner: Some(self.lists.undelivered.returner()),
            undelivered: Undelivered::ConnectionClosed,
            key: key.clone(),
            run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list: run.next_turn_list().to_owned(),
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            what,
            riders: taken,
            trace: self.traces.of_task(&run.started, span),
        })
    }

    /// Makes the riders of a lost task wait for another task.
    pub(crate) fn lose_riders(self: &Arc<Self>, key: &HeadKey, run_id: Uuid, kind: RiderKind, task: u64) {
        if self.riders.lose(key, By::Own(task)) {
            match kind {
                RiderKind::Query => self.metrics.ask_tasks_lost.inc(),
                RiderKind::Update => self.metrics.speculative_turns_lost.inc(),
            };
            self.check_riders(key, run_id);
        }
    }

    pub(super) fn lose_riders_after(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
        kind: RiderKind,
        task: u64,
        wait: Duration,
    ) -> tokio::task::AbortHandle {
        let (this, key) = (Arc::clone(self), key.clone());
        // This work runs in a separate task, because it drops the riders' timer. Dropping the timer aborts the task in
        // which this function runs.
        let lose = move || this.clone().background.spawn(async move { this.lose_riders(&key, run_id, kind, task) });
        self.background.after(wait, lose)
    }

    /// Returns the reason why the turn that would take the riders has not been started. The riders wait on `list`.
    pub(super) async fn turn_wait(&self, key: &HeadKey, run_id: Uuid, list: &ListKey) -> Option<TurnWait> {
        self.lookup.turn_wait(key, run_id, list, self.clock.now()).await
    }

    /// Makes the run's worker check its riders, because the run or the states of its riders have changed.
    pub(crate) fn check_riders(self: &Arc<Self>, key: &HeadKey, run_id: Uuid) {
        let (this, key) = (Arc::clone(self), key.clone());
        self.background.spawn(async move {
            if let Err(refusal) = this.runs.submit(&key, |reply| Alone::DispatchRiders { reply }).await {
                tracing::debug!(
                    %refusal, workflow_id = %key.workflow_id,
                    "the waiting requests of a run could not be dispatched"
                );
                return;
            }
            // The riders may belong to an earlier run.
            if let Ok(loaded) = this.reader.load_run(&key, run_id).await
                && !loaded.run().is_open()
            {
                this.make_task_for_closed(&key, &loaded);
            }
        });
    }
}

impl RiderOwner for RequestReply {
    fn lose_riders(self: Arc<Self>, key: &HeadKey, run_id: Uuid, kind: RiderKind, task: u64) {
        RequestReply::lose_riders(&self, key, run_id, kind, task);
    }
}

/// Returns the task list that a run's decider polls.
pub(crate) fn decider_list(key: &HeadKey, loaded: &StoredRun) -> ListKey {
    let name = loaded.run().next_turn_list().into();
    ListKey { domain: Arc::clone(&key.domain), side: Side::Decider, name }
}
