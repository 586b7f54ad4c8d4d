//! Checks of timers.

use super::rule::{Rule, Violation, broken};
use super::{CheckedTimer, HistoryReader};
use crate::event::EventId;
use crate::time::{Duration, Timestamp};

impl HistoryReader {
    pub(super) fn timer_set(
        &mut self,
        id: EventId,
        set: (Timestamp, Duration),
        timer_id: &str,
    ) -> Result<(), Violation> {
        if let Some(other) = self.newest_timer.insert(timer_id.to_owned(), id)
            && self.timers.get(&other).is_some_and(|other| other.closed.is_none())
        {
            return broken(Rule::IdInUse, id, format!("timer `{timer_id}` has been open since event {other}"));
        }
        let timer = CheckedTimer { name: timer_id.to_owned(), set, closed: None };
        self.timers.insert(id, timer);
        Ok(())
    }

    /// Closes a timer. Returns the time when it was set, and its duration.
    pub(super) fn close_timer(
        &mut self,
        id: EventId,
        scheduled: EventId,
        timer_id: &str,
    ) -> Result<(Timestamp, Duration), Violation> {
        let Some(timer) = self.timers.get_mut(&scheduled) else {
            return broken(Rule::Link, id, format!("event {scheduled} is not a TimerScheduled that precedes it"));
        };
        if timer.name != timer_id {
            return broken(Rule::Link, id, format!("`{timer_id}` was scheduled as `{}`", timer.name));
        }
        if let Some(closed) = timer.closed {
            return broken(Rule::TimerLife, id, format!("event {closed} closed the timer"));
        }
        timer.closed = Some(id);
        Ok(timer.set)
    }
}
