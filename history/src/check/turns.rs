//! Checks of turns.

use super::HistoryReader;
use super::rule::{Rule, Violation, broken, not_before, or_none};
use crate::event::{DeciderScheduled, DeciderTimeout, EventId};
use crate::time::Timestamp;

/// Id of the DeciderScheduled event of a run's first turn.
const FIRST_TURN: EventId = 2;

impl HistoryReader {
    pub(super) fn turn_scheduled(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: &DeciderScheduled,
    ) -> Result<(), Violation> {
        if let Some((waiting, _)) = self.waiting {
            return broken(Rule::OneTurnWaits, id, format!("turn {waiting} is already waiting"));
        }
        if self.news.take().is_none() {
            self.updates.turn_without_news(id);
        }
        let start = self.start.as_ref().filter(|_| id == 2);
        if let Some(first) = start.and_then(|(start, started_at)| Some(started_at.plus(start.start_after?)))
            && scheduled.not_before != Some(first)
        {
            let held_until = or_none(scheduled.not_before);
            let found = format!("the first turn must be delayed until {first}, but is delayed until {held_until}");
            return broken(Rule::NotBeforeTime, id, found);
        }
        self.turns.insert(id, scheduled.clone());
        self.waiting = Some((id, at));
        Ok(())
    }

    /// Applies a cancel request that starts the delayed first turn at once. Afterwards the checker treats the run as if
    /// its `start_after` had ended at the time of the request.
    pub(super) fn first_turn_released(&mut self, id: EventId, at: Timestamp) -> Result<(), Violation> {
        let first = self.waiting.as_mut().filter(|(waiting, _)| *waiting == FIRST_TURN);
        let turn = self.turns.get_mut(&FIRST_TURN).filter(|turn| turn.not_before.is_some_and(|held| held > at));
        let (Some((_, waits_since)), Some(turn), Some((start, started_at))) = (first, turn, &mut self.start) else {
            return broken(Rule::NotBeforeTime, id, "it releases the first turn, which is not delayed");
        };
        *waits_since = at;
        turn.not_before = None;
        start.start_after = Some(at.since(*started_at));
        if at < *started_at {
            self.repaired_at = Some(self.repaired_at.map_or(at, |repaired_at| repaired_at.min(at)));
        }
        Ok(())
    }

    pub(super) fn turn_starts(&mut self, id: EventId, at: Timestamp, scheduled: EventId) -> Result<(), Violation> {
        if let Some((_, started, _)) = self.active {
            return broken(Rule::OneTurnStarted, id, format!("turn {started} has not ended"));
        }
        match self.waiting.take() {
            Some((waiting, _)) if waiting == scheduled => {}
            other => {
                let waiting = or_none(other.map(|(id, _)| id));
                let found = format!("it refers to turn {scheduled}, but the waiting turn is {waiting}");
                return broken(Rule::Link, id, found);
            }
        }
        // The service decides the turns of a run with a single activity, even during a pause.
        if self.clock.is_paused() && !self.is_one_activity() {
            return broken(Rule::Pause, id, "the run is paused");
        }
        if let Some(held_until) = self.turns.get(&scheduled).and_then(|turn| turn.not_before) {
            not_before(id, at, held_until)?;
        }
        self.active = Some((scheduled, id, at));
        Ok(())
    }

    pub(super) fn turn_ends(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: EventId,
        started: EventId,
    ) -> Result<Timestamp, Violation> {
        match self.active {
            Some((held_scheduled, held_started, since)) if (held_scheduled, held_started) == (scheduled, started) => {
                self.active = None;
                if let Some((_, waits_since)) = &mut self.waiting {
                    *waits_since = at;
                }
                Ok(since)
            }
            other => {
                let held = or_none(other.map(|(scheduled, started, _)| format!("turn {scheduled} by {started}")));
                let found = format!("it refers to turn {scheduled} by {started}, but the held turn is {held}");
                broken(Rule::Link, id, found)
            }
        }
    }

    pub(super) fn turn_times_out(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: EventId,
        started: Option<EventId>,
        timeout: DeciderTimeout,
    ) -> Result<(), Violation> {
        let turn = self.turns.get(&scheduled).cloned();
        match (timeout, started) {
            (DeciderTimeout::StartToClose, Some(started)) => {
                let since = self.turn_ends(id, at, scheduled, started)?;
                self.clock.expired(id, at, since, turn.map(|turn| turn.start_to_close))
            }
            (DeciderTimeout::ScheduleToStart, None) => match self.waiting.take() {
                Some((waiting, since)) if waiting == scheduled && self.active.is_none() => {
                    let since = turn.as_ref().and_then(|turn| turn.not_before).unwrap_or(since);
                    self.clock.expired(id, at, since, turn.and_then(|turn| turn.schedule_to_start))
                }
                _ => broken(Rule::Link, id, format!("turn {scheduled} is not waiting for a decider")),
            },
            (timeout, started) => {
                broken(Rule::Link, id, format!("{timeout} of a turn started by {}", or_none(started)))
            }
        }
    }
}
