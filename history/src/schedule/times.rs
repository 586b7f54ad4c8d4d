//! Which times a schedule names, one after the other.

use jiff::SignedDuration;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::pattern::Pattern;
use super::{Interval, ScheduleSpec};
use crate::fault::Fault;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// How many times in a row may be excluded before a search is broken off, to go on from there later. Ours: a search takes
/// milliseconds at most.
const EXCLUDED_MAX: usize = 1_000;

/// A spec that was read.
#[derive(Debug, Clone)]
pub struct Times {
    patterns: Vec<Pattern>,
    intervals: Vec<Interval>,
    exclude: Vec<Pattern>,
    zone: TimeZone,
    start_at: Option<Timestamp>,
    end_at: Option<Timestamp>,
    jitter: Duration,
}

/// What a search for the next time came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The time.
    pub at: Timestamp,
    /// False when the search was broken off here: nothing is named up to this time, and somebody must look further when it
    /// has come.
    pub is_named: bool,
}

impl Times {
    /// Reads a spec; `field` is its name in faults.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`], naming the part that is wrong and what was expected.
    pub fn new(field: &str, spec: &ScheduleSpec) -> Result<Self, Fault> {
        let invalid = |part: &str, problem: String| Fault::Invalid { field: format!("{field}.{part}"), problem };
        let found = spec.cron.len() + spec.calendars.len() + spec.intervals.len();
        let max = limits::SCHEDULE_ENTRIES_MAX;
        if found == 0 {
            let problem = "names no time: give `cron`, `calendars` or `intervals`".to_owned();
            return Err(Fault::Invalid { field: field.to_owned(), problem });
        }
        if found > max || spec.exclude.len() > max {
            let problem = format!("has {} entries, at most {max} are allowed", found.max(spec.exclude.len()));
            return Err(Fault::Invalid { field: field.to_owned(), problem });
        }
        let crons = spec.cron.iter().enumerate().map(|(at, text)| Pattern::cron(&format!("{field}.cron[{at}]"), text));
        let calendars = spec.calendars.iter().enumerate();
        let calendars = calendars.map(|(at, it)| Pattern::calendar(&format!("{field}.calendars[{at}]"), it, "0"));
        let patterns = crons.chain(calendars).collect::<Result<_, _>>()?;
        let exclude = spec.exclude.iter().enumerate();
        let exclude = exclude.map(|(at, it)| Pattern::calendar(&format!("{field}.exclude[{at}]"), it, "*"));
        for (at, interval) in spec.intervals.iter().enumerate() {
            if interval.every < limits::SCHEDULE_INTERVAL_MIN || interval.every > limits::SPAN_MAX {
                let (least, most) = (limits::SCHEDULE_INTERVAL_MIN, limits::SPAN_MAX);
                let problem = format!("is {}, expected {least} to {most}", interval.every);
                return Err(invalid(&format!("intervals[{at}].every"), problem));
            }
            if interval.phase >= interval.every {
                let problem = format!("is {}, expected less than `every`, {}", interval.phase, interval.every);
                return Err(invalid(&format!("intervals[{at}].phase"), problem));
            }
        }
        if let (Some(start), Some(end)) = (spec.start_at, spec.end_at)
            && end < start
        {
            return Err(invalid("endAt", format!("is {end}, before `startAt`, {start}")));
        }
        let jitter = spec.jitter.unwrap_or_default();
        if jitter > limits::SCHEDULE_JITTER_MAX {
            let problem = format!("is {jitter}, at most {} is allowed", limits::SCHEDULE_JITTER_MAX);
            return Err(invalid("jitter", problem));
        }
        Ok(Self {
            patterns,
            intervals: spec.intervals.clone(),
            exclude: exclude.collect::<Result<_, _>>()?,
            zone: zone(spec.time_zone.as_deref()).map_err(|problem| invalid("timeZone", problem))?,
            start_at: spec.start_at,
            end_at: spec.end_at,
            jitter,
        })
    }

    /// The first time after `after`; `None` when there is none any more.
    pub fn next(&self, after: Timestamp) -> Option<Next> {
        let mut after = match self.start_at {
            Some(start) => after.max(Timestamp::from_millis(start.as_millis().saturating_sub(1))),
            None => after,
        };
        for _ in 0..EXCLUDED_MAX {
            let patterns = self.patterns.iter().filter_map(|pattern| self.next_of(pattern, after));
            let intervals = self.intervals.iter().filter_map(|interval| next_of_interval(interval, after));
            let at = patterns.chain(intervals).min()?;
            if self.end_at.is_some_and(|end| at > end) {
                return None;
            }
            if !self.is_excluded(at) {
                return Some(Next { at, is_named: true });
            }
            after = at;
        }
        Some(Next { at: after, is_named: false })
    }

    /// The next times, at most `limit` of them.
    pub fn upcoming(&self, mut after: Timestamp, limit: usize) -> Vec<Timestamp> {
        let mut found = Vec::new();
        // A search that is broken off goes on, but not for ever.
        for _ in 0..limit.saturating_mul(2).saturating_add(100) {
            if found.len() >= limit {
                break;
            }
            let Some(next) = self.next(after) else { break };
            after = next.at;
            found.extend(Some(next.at).filter(|_| next.is_named));
        }
        found
    }

    /// When the action of a time happens: as much later as its jitter is, which is the same whoever asks.
    pub fn action_at(&self, nominal: Timestamp, chance: u64) -> Timestamp {
        if self.jitter == Duration::ZERO {
            return nominal;
        }
        let room = self.next(nominal).map_or(self.jitter, |next| next.at.since(nominal).min(self.jitter));
        let share = (u128::from(room.as_millis()) * u128::from(chance)) >> 64;
        nominal.plus(Duration::from_millis(u64::try_from(share).unwrap_or_default()))
    }

    fn next_of(&self, pattern: &Pattern, after: Timestamp) -> Option<Timestamp> {
        let second = i64::try_from(after.as_millis() / 1_000).ok()?.checked_add(1)?;
        let found = pattern.next(&self.zone, jiff::Timestamp::from_second(second).ok()?)?;
        u64::try_from(found.as_millisecond()).ok().map(Timestamp::from_millis)
    }

    fn is_excluded(&self, at: Timestamp) -> bool {
        let instant = i64::try_from(at.as_millis()).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
        let shown = instant.map(|instant| self.zone.to_datetime(instant));
        shown.is_some_and(|shown| self.exclude.iter().any(|pattern| pattern.names(shown)))
    }
}

fn next_of_interval(interval: &Interval, after: Timestamp) -> Option<Timestamp> {
    let (every, phase) = (interval.every.as_millis(), interval.phase.as_millis());
    let next = match after.as_millis().checked_sub(phase) {
        Some(past) => (past / every).checked_add(1)?.checked_mul(every)?.checked_add(phase)?,
        None => phase,
    };
    // As far as calendars go.
    let last = jiff::Timestamp::MAX.duration_since(jiff::Timestamp::UNIX_EPOCH);
    (SignedDuration::from_millis(i64::try_from(next).ok()?) <= last).then(|| Timestamp::from_millis(next))
}

/// The zone with this name, from the tables that are built in: the same on every node, whatever its machine has.
fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let unknown = |_| format!("is `{name}`, expected the name of a time zone such as `Europe/Berlin` or `UTC`");
    TimeZoneDatabase::bundled().get(name).map_err(unknown)
}

#[cfg(test)]
mod tests;
