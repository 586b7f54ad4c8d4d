//! The clock of a run: it goes with the world's, but for the times when it was stopped.

use minicbor::{Decode, Encode};

use crate::event::{ByHand, EventId};
use crate::time::{Duration, Timestamp};

/// That a run is paused.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RunPause {
    /// Its WorkflowPaused.
    #[n(0)]
    pub event_id: EventId,
    /// Since when.
    #[n(1)]
    pub at: Timestamp,
    /// Whether its clock stands still.
    #[n(2)]
    pub stops_clock: bool,
    /// Who did it, and why.
    #[n(3)]
    pub by_hand: ByHand,
}

/// A time in which the clock of a run stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct Stop {
    /// From when.
    #[n(0)]
    pub from: Timestamp,
    /// Until when.
    #[n(1)]
    pub to: Timestamp,
}

/// When the clock of a run stood still.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct RunClock {
    /// In the order of time; no two of them overlap.
    #[n(0)]
    stops: Vec<Stop>,
    /// Since when it stands still.
    #[n(1)]
    stopped_at: Option<Timestamp>,
}

impl RunClock {
    /// Whether it never stood still.
    pub fn is_plain(&self) -> bool {
        self.stops.is_empty() && self.stopped_at.is_none()
    }

    /// How often it stood still and goes again.
    pub fn stops(&self) -> usize {
        self.stops.len()
    }

    /// Since when it stands still.
    pub fn stopped_at(&self) -> Option<Timestamp> {
        self.stopped_at
    }

    /// When it will have gone for this long from an instant on; `None` while it stands still before that.
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

    /// How long it stood still from an instant on until another.
    pub fn stood(&self, from: Timestamp, to: Timestamp) -> Duration {
        let open = self.stopped_at.map(|stopped_at| Stop { from: stopped_at, to: to.max(stopped_at) });
        let within = |stop: &Stop| stop.to.min(to).since(stop.from.max(from)).as_millis();
        Duration::from_millis(self.stops.iter().chain(&open).map(within).fold(0, u64::saturating_add))
    }

    /// The clock of the world was put back to `at`: what it has not come to again has not been. If the run's clock stands still, it does
    /// so since then; answers since when it had.
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

    /// It goes again; how long it stood still, and since when.
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

        /// Against a count of every single millisecond.
        #[test]
        fn a_span_ends_when_the_clock_has_gone_for_as_long(
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
