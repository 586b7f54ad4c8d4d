//! Pauses of task lists that stop the schedule-to-start timeouts of waiting tasks.
//!
//! The pauses of a list are not recorded in the histories of runs, because a list can have tasks of very many runs.
//! Instead, the service passes them to the rules, and the time at which a timeout expires is computed from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{LIST_STOPS_MAX, STOPPED_LOOK_MAX, STOPPED_LOOK_MIN};
use crate::time::{Duration, Timestamp};

/// Past pause of a task list that stopped the schedule-to-start timeouts of its waiting tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListStop {
    /// Start of the pause.
    pub from: Timestamp,
    /// End of the pause.
    pub to: Timestamp,
}

/// Time at which a wait of a task for a poller times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The wait times out at this time.
    At(Timestamp),
    /// The list is paused, so the wait does not time out. At this time the service computes the end of the wait again.
    LookAt(Timestamp),
}

/// Pauses of one side of a task list that stop the schedule-to-start timeouts of its waiting tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListStops {
    past: Vec<ListStop>,
    stopped_at: Option<Timestamp>,
}

impl ListStops {
    /// Creates the pauses of a list from its past pauses, and the start of its current pause. The past pauses may
    /// overlap, and may be in any order.
    pub fn new(past: &[ListStop], stopped_at: Option<Timestamp>) -> Self {
        Self { past: without_overlaps(past), stopped_at }
    }

    /// Returns true if the list is paused now.
    pub fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// Returns the time at which a wait times out that began at `from`, or the time at which to compute it again. The
    /// time in which the list was paused does not count.
    pub fn due_at(&self, from: Timestamp, timeout: Duration, now: Timestamp) -> WaitEnd {
        let mut at = from.plus(timeout);
        for stop in self.past.iter().filter(|stop| stop.to > from) {
            let begin = stop.from.max(from);
            if begin < at {
                at = at.plus(stop.to.since(begin));
            }
        }
        let Some(stopped_at) = self.stopped_at else { return WaitEnd::At(at) };
        // If the service's clock was put back during the pause, the start of the pause is unknown, so the wait is
        // treated as if it had begun during the pause.
        let stopped_at = if stopped_at > now { Timestamp::default() } else { stopped_at };
        let begin = stopped_at.max(from);
        if begin >= at {
            return WaitEnd::At(at);
        }
        // If the list is resumed after `now`, the wait times out after `now` plus the time that is left. If less time
        // is left than the pause lasts already, the service does not look that often.
        let look_after = now.since(stopped_at).clamp(STOPPED_LOOK_MIN, STOPPED_LOOK_MAX);
        WaitEnd::LookAt(now.plus(at.since(begin).max(look_after)))
    }
}

/// Adds a pause that began at `from` and ends at `to` to the past pauses of a list. If the service's clock was put back
/// during the pause, waits that began before `to` keep their full timeout.
pub fn add_list_stop(past: &mut Vec<ListStop>, from: Timestamp, to: Timestamp) {
    let from = if from > to { Timestamp::default() } else { from };
    past.push(ListStop { from, to });
    *past = without_overlaps(past);
    // Joining two pauses counts the time between them as a pause. A timeout can then expire late, but never early.
    while past.len() > LIST_STOPS_MAX {
        let gap = |pair: &[ListStop]| match pair {
            [first, second] => second.from.since(first.to),
            _ => Duration::ZERO,
        };
        let shortest = past.windows(2).enumerate().min_by_key(|(_, pair)| gap(pair)).map_or(0, |(index, _)| index);
        let joined = past.remove(shortest);
        if let Some(next) = past.get_mut(shortest) {
            next.from = joined.from;
        }
    }
}

/// Returns the pauses in order of time, without overlaps.
fn without_overlaps(stops: &[ListStop]) -> Vec<ListStop> {
    let mut ordered: Vec<ListStop> = stops.iter().copied().filter(|stop| stop.from < stop.to).collect();
    ordered.sort_unstable_by_key(|stop| (stop.from, stop.to));
    let mut separate: Vec<ListStop> = Vec::with_capacity(ordered.len());
    for stop in ordered {
        match separate.last_mut().filter(|last| stop.from <= last.to) {
            Some(last) => last.to = last.to.max(stop.to),
            None => separate.push(stop),
        }
    }
    separate
}

/// Pauses of the task lists of a domain that stop the schedule-to-start timeouts of waiting tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoppedLists {
    /// Pauses of lists of turns.
    pub deciders: BTreeMap<String, ListStops>,
    /// Pauses of lists of activities.
    pub activities: BTreeMap<String, ListStops>,
}

impl StoppedLists {
    /// No list was ever paused in this way.
    pub const NONE: &'static Self = &Self { deciders: BTreeMap::new(), activities: BTreeMap::new() };
}

/// Pauses of task lists at a time, for computing the deadlines of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListClocks<'a> {
    /// Pauses of the lists of the run's domain.
    pub(crate) stopped: &'a StoppedLists,
    /// Current time. It matters only for lists that are paused.
    pub(crate) now: Timestamp,
    /// True if the times at which the ends of stopped waits are computed again are shown as deadlines.
    pub(crate) shows_looks: bool,
}

impl ListClocks<'_> {
    /// No list was ever paused in a way that stops timeouts.
    pub(crate) const RUNNING: Self =
        ListClocks { stopped: StoppedLists::NONE, now: Timestamp::from_millis(0), shows_looks: false };

    /// Returns the time at which a wait ends that began at `from` and would end at `at` without pauses of the list.
    pub(crate) fn due_at(&self, stops: Option<&ListStops>, from: Timestamp, at: Timestamp) -> Option<Timestamp> {
        match stops.map_or(WaitEnd::At(at), |stops| stops.due_at(from, at.since(from), self.now)) {
            WaitEnd::At(at) => Some(at),
            WaitEnd::LookAt(at) => Some(at).filter(|_| self.shows_looks),
        }
    }
}

#[cfg(test)]
mod tests;
