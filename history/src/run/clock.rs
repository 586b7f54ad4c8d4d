//! Clock of a run, which an operator can stop.

use minicbor::{Decode, Encode};

use crate::event::{EventId, OperatorAction};
use crate::time::{Duration, Timestamp};

/// Pause of a run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RunPause {
    /// Id of the WorkflowPaused event.
    #[n(0)]
    pub event_id: EventId,
    /// Time of the pause.
    #[n(1)]
    pub at: Timestamp,
    /// True if the run's clock is stopped.
    #[n(2)]
    pub stops_clock: bool,
    /// Identity of the operator, and the reason.
    #[n(3)]
    pub operator: OperatorAction,
}

/// Period in which the clock of a run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct Stop {
    /// Start of the period.
    #[n(0)]
    pub from: Timestamp,
    /// End of the period.
    #[n(1)]
    pub to: Timestamp,
}

/// Periods in which the clock of a run was stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct RunClock {
    /// Past periods in order of time, without overlaps.
    #[n(0)]
    stops: Vec<Stop>,
    /// Start of the current stop; absent if the clock is running.
    #[n(1)]
    stopped_at: Option<Timestamp>,
}

impl RunClock {
    /// Returns `true` if the clock never stopped.
    pub fn is_plain(&self) -> bool {
        self.stops.is_empty() && self.stopped_at.is_none()
    }

    /// Returns the number of past stops.
    pub fn stops(&self) -> usize {
        self.stops.len()
    }

    /// Returns the start of the current stop, or `None` if the clock is running.
    pub fn stopped_at(&self) -> Option<Timestamp> {
        self.stopped_at
    }

    /// Returns the time at which the clock has run for `span` since `from`. Returns `None` if the clock is stopped and
    /// has not yet run for `span`.
    pub fn reach(&self, from: Timestamp, span: Duration) -> Option<Timestamp> {
        let mut at = from.plus(span);
        for stop in self.stops.iter().filter(|stop| stop.to > from) {
            let begin = stop.from.max(from);
            if begin < at {
                at = at.plus(stop.to.since(begin));
            }
        }
        match self.stopped_at {
            Some(stopped_at) if stopped_at.max(from) < at => None,
            _ => Some(at),
        }
    }

    /// Returns the total time between `from` and `to` in which the clock was stopped.
    pub fn stood(&self, from: Timestamp, to: Timestamp) -> Duration {
        let open = self.stopped_at.map(|stopped_at| Stop { from: stopped_at, to: to.max(stopped_at) });
        let within = |stop: &Stop| stop.to.min(to).since(stop.from.max(from)).as_millis();
        Duration::from_millis(self.stops.iter().chain(&open).map(within).fold(0, u64::saturating_add))
    }

    /// Adjusts the stops of the run's clock after the service's clock was put back to `at`. Times after `at` are
    /// removed from past stops. If the current stop started after `at`, its start is changed to `at`, and the previous
    /// start is returned.
    pub(crate) fn put_back(&mut self, at: Timestamp) -> Option<Timestamp> {
        self.stops.retain_mut(|stop| {
            stop.to = stop.to.min(at);
            stop.from < at
        });
        self.stopped_at
            .as_mut()
            .filter(|stopped_at| **stopped_at > at)
            .map(|stopped_at| std::mem::replace(stopped_at, at))
    }

    pub(crate) fn stop(&mut self, at: Timestamp) {
        self.stopped_at.get_or_insert(at);
    }

    /// Starts the clock again. Returns the start and the duration of the stop, or `None` if the clock was running.
    pub(crate) fn go(&mut self, at: Timestamp) -> Option<(Timestamp, Duration)> {
        let from = self.stopped_at.take()?;
        let to = at.max(from);
        self.stops.push(Stop { from, to });
        Some((from, to.since(from)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares `reach` with a simulation that counts every millisecond.
        #[test]
        fn a_duration_ends_when_the_clock_has_run_that_long(
            instants in prop::collection::vec(0_u64..200, 0..9),
            from in 0_u64..200,
            span in 1_u64..120,
        ) {
            let mut instants = instants;
            instants.sort_unstable();
            let mut clock = RunClock::default();
            for (index, instant) in instants.iter().enumerate() {
                if index.is_multiple_of(2) { clock.stop(at(*instant)) } else { let _ = clock.go(at(*instant)); }
            }
            let is_stopped = |millis: u64| {
                instants.chunks(2).any(|stop| stop[0] <= millis && stop.get(1).is_none_or(|to| millis < *to))
            };
            let mut left = span;
            let reached = (from..2_000).find(|millis| {
                if left > 0 && !is_stopped(*millis) {
                    left -= 1;
                }
                left == 0
            });
            prop_assert_eq!(clock.reach(at(from), Duration::from_millis(span)), reached.map(|millis| at(millis + 1)));
            let to = from + span;
            let stood = (from..to).filter(|millis| is_stopped(*millis)).count() as u64;
            prop_assert_eq!(clock.stood(at(from), at(to)), Duration::from_millis(stood));
        }
    }
}
