//! Checks of a run that branches off another.

use super::HistoryReader;
use super::rule::{Rule, Violation, broken};
use crate::event::{EventId, WorkflowReset};
use crate::time::Timestamp;

impl HistoryReader {
    /// Checks a WorkflowReset event. The events before it are copied from the other run. Tasks that deciders and
    /// runners held in that run are no longer held.
    pub(super) fn branches(&mut self, id: EventId, at: Timestamp, it: &WorkflowReset) -> Result<(), Violation> {
        if it.event_id.checked_add(1) != Some(id) {
            return broken(Rule::Branch, id, format!("it follows event {} of run {}", it.event_id, it.run_id));
        }
        if self.start.as_ref().is_some_and(|(start, _)| start.run_id == it.run_id) {
            return broken(Rule::Branch, id, "it branches off itself");
        }
        if let Some((_, started, _)) = self.active {
            return broken(Rule::Branch, id, format!("turn {started} has not ended"));
        }
        if let Some(open) = self.links.open() {
            return broken(Rule::Branch, id, format!("the request of event {open} to another run is pending"));
        }
        self.restart_waits(at);
        let since = self.last_at;
        if !self.clock.is_stopped() {
            self.keep_timer_remainders(since, at);
        }
        self.clock.branch(since, at);
        for activity in self.activities.values_mut().filter(|activity| activity.closed.is_none()) {
            activity.started = None;
        }
        Ok(())
    }
}
