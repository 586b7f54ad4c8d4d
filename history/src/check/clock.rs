//! Clock of the run in the checker. The checker measures elapsed time, whereas the rules compute due times.

use super::rule::{Rule, Violation, broken};
use crate::event::{EventId, WorkflowPaused};
use crate::time::{Duration, Timestamp};

/// Pauses of the run and stops of its clock.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedClock {
    /// Current pause: id of its WorkflowPaused event, its time, and whether the clock is stopped.
    paused: Option<(EventId, Timestamp, bool)>,
    stops: Vec<(Timestamp, Timestamp)>,
}

impl CheckedClock {
    pub(super) fn pause(&mut self, id: EventId, at: Timestamp, it: &WorkflowPaused) -> Result<(), Violation> {
        if let Some((paused, ..)) = self.paused {
            return broken(Rule::Pause, id, format!("event {paused} paused the run"));
        }
        self.paused = Some((id, at, it.stop_clocks));
        Ok(())
    }

    pub(super) fn resume(&mut self, id: EventId, at: Timestamp) -> Result<(), Violation> {
        match self.paused.take() {
            None => broken(Rule::Pause, id, "the run is not paused"),
            Some((_, since, is_stopped)) => {
                self.stops.extend(is_stopped.then_some((since, at)));
                Ok(())
            }
        }
    }

    /// Adjusts the stops of the run's clock after the service's clock was put back to `at`. If the clock is stopped
    /// since a time after `at`, the stop is changed to begin at `at`. Returns the previous beginning of this stop.
    pub(super) fn put_back(&mut self, at: Timestamp) -> Option<Timestamp> {
        for (since, until) in &mut self.stops {
            (*since, *until) = ((*since).min(at), (*until).min(at));
        }
        let (_, since, is_stopped) = self.paused.as_mut()?;
        (*is_stopped && *since > at).then(|| std::mem::replace(since, at))
    }

    /// Excludes the time from `since` (the last copied event) to `at` (the reset) from the run's clock, unless the
    /// clock was already stopped.
    pub(super) fn branch(&mut self, since: Timestamp, at: Timestamp) {
        if !self.is_stopped() {
            self.stops.push((since, at));
        }
    }

    /// Returns `true` if the clock is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.paused.is_some_and(|(_, _, is_stopped)| is_stopped)
    }

    /// Returns `true` if the run is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns for how long the run's clock ran between `from` and `to`, in milliseconds.
    pub(super) fn counted(&self, from: Timestamp, to: Timestamp) -> u64 {
        let current_stop = self.paused.filter(|(_, _, is_stopped)| *is_stopped).map(|(_, since, _)| (since, to));
        let missed = self.stops.iter().copied().chain(current_stop).map(|(since, until)| {
            let (since, until) = (since.max(from), until.min(to));
            until.as_millis().saturating_sub(since.as_millis())
        });
        to.as_millis().saturating_sub(from.as_millis()).saturating_sub(missed.sum())
    }

    /// Checks that `limit` has elapsed on the run's clock.
    pub(super) fn expired(
        &self,
        id: EventId,
        at: Timestamp,
        from: Timestamp,
        limit: Option<Duration>,
    ) -> Result<(), Violation> {
        let Some(limit) = limit else { return broken(Rule::NotBeforeTime, id, "there is no such timeout") };
        let counted = self.counted(from, at);
        if at < from || counted < limit.as_millis() {
            let found = format!("its time is {at}, {counted} ms after {from} by the run's clock; expected {limit}");
            return broken(Rule::NotBeforeTime, id, found);
        }
        Ok(())
    }
}
