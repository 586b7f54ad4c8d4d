//! Does what follows from a commit.

use std::sync::Arc;

use store::HeadKey;

use super::After;
use crate::engine::Engine;
use crate::engine::after::hand_out::Reserved;
use crate::engine::commit::Loaded;

impl Engine {
    /// Does what follows, one after the other.
    pub(in super::super) fn carry_out(self: &Arc<Self>, key: &HeadKey, next: &Loaded, after: Vec<After>) {
        for it in after {
            match it {
                After::Withdraw { list, run_id, scheduled_event_id } => {
                    self.matching.withdraw(&list, run_id, scheduled_event_id);
                }
                After::Wake(at) => self.agenda.set(key, at),
                After::SettleRiders => drop(self.riders.settle(key, next.run())),
                After::Grant(reserved) => self.grant_reserved(key, next, *reserved),
                After::Offer(list, task) => self.offer(&list, task),
                After::SeeToRiders => self.see_to_riders(key, next),
                After::Notify(progress) => self.watchers.tell(key, progress),
                After::WakeSchedule(schedule, at) => self.agenda.set_by(&schedule, at),
                After::Remember(poll, list, task) => self.remember(poll, &list, task),
                After::Deliver { effects, round } => self.deliver(key, next, effects, round),
            }
        }
    }

    fn grant_reserved(self: &Arc<Self>, key: &HeadKey, next: &Loaded, reserved: Reserved) {
        let Reserved { poller, scheduled_event_id, start, .. } = reserved;
        self.metrics.matched_at_once.inc();
        match self.grant(key, next, (scheduled_event_id, start), &poller.taker) {
            Some(grant) => poller.grant(grant),
            // Only after a commit of unknown outcome that others have built on; the timeout takes care of it.
            None => tracing::warn!(workflow_id = %key.workflow_id, "a matched task has moved on"),
        }
    }
}
