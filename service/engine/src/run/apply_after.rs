//! Carries out what follows from a commit.

use std::sync::Arc;

use store::HeadKey;

use crate::commit::StoredRun;
use crate::lists::sync_match::Reserved;
use crate::run::after::{After, Hold};
use crate::run::context::RunContext;

impl RunContext {
    /// Carries out what follows, in order.
    pub(crate) fn apply_after(self: &Arc<Self>, key: &HeadKey, next: &StoredRun, after: Vec<After>) {
        for it in after {
            match it {
                After::InFlight { list, run_id, scheduled_event_id, hold } => {
                    let task = (run_id, scheduled_event_id);
                    match hold {
                        Hold::Begins { waited } => {
                            self.lists.in_flight.begin(&list, task, self.clock.now());
                            self.metrics.measured.taken(&list.domain, list.side.word(), &list.name, waited);
                        }
                        Hold::Ends { failed_try } => {
                            self.lists.in_flight.end(&list, task);
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
                After::Notify(progress) => self.watchers.tell(key, progress),
                After::WakeSchedule(schedule, at) => self.agenda.set_by(&schedule, at),
                After::Remember(poll, list, task) => self.lists.remember(poll, &list, task),
                After::Deliver { effects, round } => self.effects.deliver(key, next, effects, round),
            }
        }
    }

    fn grant_reserved(self: &Arc<Self>, key: &HeadKey, next: &StoredRun, reserved: Reserved) {
        let Reserved { poller, scheduled_event_id, start, .. } = reserved;
        self.metrics.matched_at_once.inc();
        match self.grant(key, next, (scheduled_event_id, start), &poller.taker) {
            Some(grant) => poller.grant(grant),
            // Only happens after a commit of unknown outcome that other nodes have built on. The task's timeout handles
            // it.
            None => tracing::warn!(workflow_id = %key.workflow_id, "a matched task has moved on"),
        }
    }
}
