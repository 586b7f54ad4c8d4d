//! The clock of a run, as the checker sees it: what it has counted, rather than when it will have.

use super::rule::{Rule, Violation, broken};
use crate::event::{EventId, WorkflowPaused};
use crate::time::{Duration, Timestamp};

/// When the run was paused, and when its clock stood still.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedClock {
    /// The WorkflowPaused that holds, when, and whether the clock stands still.
    paused: Option<(EventId, Timestamp, bool)>,
    stood: Vec<(Timestamp, Timestamp)>,
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
            Some((_, since, stands)) => {
                self.stood.extend(stands.then_some((since, at)));
                Ok(())
            }
        }
    }

    /// The clock of the world was put back to `at`. While the run's stands still: since when it had, which is now then.
    pub(super) fn put_back(&mut self, at: Timestamp) -> Option<Timestamp> {
        for (since, until) in &mut self.stood {
            (*since, *until) = ((*since).min(at), (*until).min(at));
        }
        let (_, since, stands) = self.paused.as_mut()?;
        (*stands && *since > at).then(|| std::mem::replace(since, at))
    }

    /// The time since the run that another branches off was here does not count, whatever else does not.
    pub(super) fn branch(&mut self, since: Timestamp, at: Timestamp) {
        if !self.stands() {
            self.stood.push((since, at));
        }
    }

    /// Whether the clock stands still.
    pub(super) fn stands(&self) -> bool {
        self.paused.is_some_and(|(_, _, stands)| stands)
    }

    /// Whether the run is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// What of the time between two instants the clock has counted, in milliseconds.
    pub(super) fn counted(&self, from: Timestamp, to: Timestamp) -> u64 {
        let stands = self.paused.filter(|(_, _, stands)| *stands).map(|(_, since, _)| (since, to));
        let missed = self.stood.iter().copied().chain(stands).map(|(since, until)| {
            let (since, until) = (since.max(from), until.min(to));
            until.as_millis().saturating_sub(since.as_millis())
        });
        to.as_millis().saturating_sub(from.as_millis()).saturating_sub(missed.sum())
    }

    /// Something may happen only when the clock has counted so much.
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
            let found = format!("it is at {at}, {counted} ms after {from} by the clock of the run, not {limit}");
            return broken(Rule::NotBeforeTime, id, found);
        }
        Ok(())
    }
}
