//! Applies the consequences of commits that `after.rs` computes.

use std::sync::Arc;

use store::HeadKey;

use crate::commit::StoredRun;
use crate::lists::limits::permit::TaskSlot;
use crate::lists::sync_match::Reserved;
use crate::run::after::{After, AfterFailure, CommitCounts, Hold};
use crate::run::context::RunContext;

impl RunContext {
    /// Applies the consequences of a commit, in order.
    pub(crate) fn apply_after(self: &Arc<Self>, key: &HeadKey, next: &StoredRun, after: Vec<After>) {
        for it in after {
            match it {
                After::Count(counts) => self.count(key, &counts),
                After::SendSpans(spans) => self.traces.send(&key.domain, spans),
                After::Report(notice) => self.notices.of_run(&key.domain, &notice),
                After::ReturnPollers(reserved) => self.lists.unreserve(reserved, None),
                After::InFlight { list, run_id, scheduled_event_id, hold } => {
                    let task = (run_id, scheduled_event_id);
                    let slot = |concurrency_key| TaskSlot {
                        list: list.clone(),
                        workflow_id: Arc::clone(&key.workflow_id),
                        run_id,
                        scheduled_event_id,
                        concurrency_key,
                    };
                    match hold {
                        Hold::Begins { waited, concurrency_key } => {
                            self.lists.slot_started(|| slot(concurrency_key));
                            self.lists.in_flight.begin(&list, task, self.clock.now());
                            self.metrics.measured.taken(&list.domain, list.side.word(), &list.name, waited);
                        }
                        Hold::Ends { failed_try } => {
                            self.lists.in_flight.end(&list, task);
                            self.lists.slot_freed(|| slot(None));
                            failed_try.inspect(|of_type| self.metrics.measured.try_failed(&list.domain, of_type));
                        }
                    }
                }
                After::Withdraw { list, run_id, scheduled_event_id } => {
                    self.lists.matching.withdraw(&list, run_id, scheduled_event_id);
                }
                After::Wake(at) => self.agenda.set(key, at),
                After::SettleRiders => drop(self.riders.settle(key, next.run())),
                After::Grant(reserved) => self.grant_reserved(key, next, *reserved),
                After::Offer(list, task) => self.lists.offer(&list, task),
                After::DispatchRiders => self.request_reply.dispatch_riders(key, next),
                After::Notify(progress) => self.watchers.notify(key, progress, Some(next.run())),
                After::WakeSchedule(schedule, at) => self.agenda.set_by(&schedule, at),
                After::Remember(poll, list, task) => self.lists.remember(poll, &list, task),
                After::Reconcile { run_id, running } => self.lists.reconcile_slots(run_id, &running),
                After::Deliver { effects, round } => self.effects.deliver(key, next, effects, round),
            }
        }
    }

    /// Applies the consequences of a commit that failed or is retried.
    pub(crate) fn apply_after_failure(&self, key: &HeadKey, after: AfterFailure<'_>) {
        self.lists.unreserve(after.reserved, after.refusal);
        if after.wakes_again {
            self.agenda.wake_again(key, self.clock.now());
        }
    }

    fn count(&self, key: &HeadKey, counts: &CommitCounts) {
        self.metrics.committed(counts.events);
        self.metrics.measured.committed(counts.took);
        self.metrics.measured.note(&key.domain, &counts.facts);
        self.metrics.marks_written.inc_by(counts.marks_written as u64);
        self.metrics.requests_forgotten_early.inc_by(counts.forgotten_early);
    }

    fn grant_reserved(&self, key: &HeadKey, next: &StoredRun, reserved: Reserved) {
        let Reserved { poller, scheduled_event_id, start, .. } = reserved;
        self.metrics.matched_at_once.inc();
        match self.grant(key, next, scheduled_event_id, start, &poller.taker) {
            Some(grant) => poller.grant(grant),
            // Happens only if the outcome of the commit was unknown for some time and other nodes have written further
            // commits. The task is recovered by its timeout.
            None => tracing::warn!(workflow_id = %key.workflow_id, "a matched task was changed by another node"),
        }
    }
}
