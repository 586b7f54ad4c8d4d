//! Checks of repaired deadlines.

use super::HistoryReader;
use crate::event::EventId;
use crate::limits;
use crate::time::Timestamp;

/// Id of the DeciderScheduled event of a run's first turn.
const FIRST_TURN: EventId = 2;

impl HistoryReader {
    /// Applies a repair of deadlines: moves all recorded times that are after `at` back to `at`.
    pub(super) fn limit_times(&mut self, at: Timestamp) {
        self.repaired_at = Some(self.repaired_at.map_or(at, |repaired_at| repaired_at.min(at)));
        for timer in self.timers.values_mut().filter(|timer| timer.closed.is_none()) {
            timer.set.0 = timer.set.0.min(at);
        }
        for activity in self.activities.values_mut().filter(|activity| activity.closed.is_none()) {
            activity.scheduled_at = activity.scheduled_at.min(at);
            activity.waits_from = activity.waits_from.min(at);
            activity.started = activity.started.map(|(id, started_at)| (id, started_at.min(at)));
        }
        if let Some((_, _, since)) = &mut self.active {
            *since = (*since).min(at);
        }
        let Some((waiting, _)) = self.waiting else { return };
        let start_after = self.start.as_ref().and_then(|(start, _)| start.start_after).unwrap_or_default();
        let wait = if waiting == FIRST_TURN { start_after } else { limits::TURN_BACKOFF_FIRST };
        if let Some(turn) = self.turns.get_mut(&waiting) {
            turn.not_before = turn.not_before.map(|not_before| not_before.min(at.plus(wait)));
        }
    }
}
