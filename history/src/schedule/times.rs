//! Parsed times of a schedule, and the search for the next time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::pattern::Pattern;
use super::{Calendar, Interval, ScheduleSpec};
use crate::fault::Fault;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// Number of consecutive excluded times after which a search is interrupted, to be continued later. Chosen so that each
/// part of a search takes a few milliseconds at most.
const EXCLUDED_MAX: usize = 1_000;

/// Number of evaluations of entries after which a search is interrupted, to be continued later. Chosen: an evaluation
/// takes from some tenths of a microsecond to some microseconds, so that one part of a search blocks other work only
/// briefly.
pub(super) const EVALUATIONS_AT_ONCE: usize = 25_000;

/// Number of evaluations in one step of a list of times. Chosen so that a step takes one or two milliseconds.
const LISTED_AT_ONCE: usize = 2_500;

/// Maximum number of evaluations for a whole list of times. Chosen: enough for a thousand times, each computed from a
/// hundred entries and checked against a hundred exclusions.
pub(super) const EVALUATIONS_MAX: usize = 250_000;

/// Parsed times of a schedule.
#[derive(Debug, Clone)]
pub struct ScheduleTimes {
    patterns: Vec<Pattern>,
    intervals: Vec<Interval>,
    exclude: Vec<Pattern>,
    zone: TimeZone,
    start_at: Option<Timestamp>,
    end_at: Option<Timestamp>,
    jitter: Duration,
    /// True if an exclusion matches every time, so that the schedule has no times.
    is_all_excluded: bool,
}

/// Result of a search for the next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTime {
    /// Time that was found, or at which the search was interrupted.
    pub at: Timestamp,
    /// True if the schedule specifies this time. If `false`, the search was interrupted: the schedule has no time up to
    /// `at`, and the search must continue from there.
    pub is_named: bool,
}

impl ScheduleTimes {
    /// Parses the times of a schedule. Errors use `field` as the name of the specification.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`], which names the invalid part and what is expected.
    pub fn new(field: &str, spec: &ScheduleSpec) -> Result<Self, Fault> {
        let invalid = |part: &str, problem: String| Fault::Invalid { field: format!("{field}.{part}"), problem };
        let found = spec.cron.len() + spec.calendars.len() + spec.intervals.len();
        let max = limits::SCHEDULE_ENTRIES_MAX;
        if found == 0 {
            let problem = "specifies no time: expected `cron`, `calendars` or `intervals`".to_owned();
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
            is_all_excluded: spec.exclude.iter().any(names_everything),
        })
    }

    /// Returns the first time after `after`, or `None` if there is none.
    pub fn next(&self, after: Timestamp) -> Option<NextTime> {
        self.search(after).next(EVALUATIONS_AT_ONCE)
    }

    /// Returns the next `limit` times, or fewer if they cannot be found with `EVALUATIONS_MAX` evaluations.
    pub fn upcoming(&self, after: Timestamp, limit: usize) -> Upcoming {
        let mut listing = self.list(after, limit);
        while !listing.advance() {}
        listing.found()
    }

    /// Returns the same times as [`upcoming`](Self::upcoming), but found in small steps, so that the caller can do
    /// other work in between.
    pub fn list(&self, after: Timestamp, limit: usize) -> Listing<'_> {
        Listing { search: self.search(after), limit, left: EVALUATIONS_MAX, times: Vec::new(), cut_at: None }
    }

    /// Starts a search for times after `after`.
    pub fn search(&self, after: Timestamp) -> Search<'_> {
        let after = match self.start_at {
            Some(start) => after.max(Timestamp::from_millis(start.as_millis().saturating_sub(1))),
            None => after,
        };
        Search { times: self, after, coming: BinaryHeap::new(), has_begun: false, evaluations: 0 }
    }

    /// Returns the time of an action, including its jitter. The jitter is derived from `chance`.
    pub fn action_at(&self, nominal: Timestamp, chance: u64) -> Timestamp {
        if self.jitter == Duration::ZERO {
            return nominal;
        }
        let longest = self.next(nominal).map_or(self.jitter, |next| next.at.since(nominal).min(self.jitter));
        let share = (u128::from(longest.as_millis()) * u128::from(chance)) >> 64;
        nominal.plus(Duration::from_millis(u64::try_from(share).unwrap_or_default()))
    }

    /// Returns the next time of the entry with this index. Cron expressions and calendar entries come first, then
    /// intervals.
    fn next_of_entry(&self, entry: usize, after: Timestamp) -> Option<Timestamp> {
        match self.patterns.get(entry) {
            Some(pattern) => self.next_of(pattern, after),
            None => next_of_interval(self.intervals.get(entry - self.patterns.len())?, after),
        }
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

/// A search in progress. It keeps the next time of each entry, and evaluates an entry again only when that time has
/// passed.
#[derive(Debug)]
pub struct Search<'a> {
    times: &'a ScheduleTimes,
    after: Timestamp,
    /// Next time of each entry that has a next time, with the entry's index, in a heap with the earliest first.
    coming: BinaryHeap<Reverse<(Timestamp, usize)>>,
    has_begun: bool,
    evaluations: usize,
}

impl Search<'_> {
    /// Returns the next time. The search is interrupted after about this number of evaluations, or after a thousand
    /// excluded times.
    pub fn next(&mut self, evaluations: usize) -> Option<NextTime> {
        let times = self.times;
        if times.is_all_excluded {
            return None;
        }
        let last = self.evaluations.saturating_add(evaluations);
        if !std::mem::replace(&mut self.has_begun, true) {
            for entry in 0..times.patterns.len() + times.intervals.len() {
                self.find_next(entry);
            }
        }
        for _ in 0..EXCLUDED_MAX {
            let Reverse((at, _)) = *self.coming.peek()?;
            if times.end_at.is_some_and(|end| at > end) {
                return None;
            }
            self.after = at;
            while let Some(Reverse((_, entry))) = self.coming.peek().copied().filter(|Reverse((next, _))| *next == at) {
                self.coming.pop();
                self.find_next(entry);
            }
            self.evaluations += times.exclude.len();
            if !times.is_excluded(at) {
                return Some(NextTime { at, is_named: true });
            }
            if self.evaluations >= last {
                break;
            }
        }
        Some(NextTime { at: self.after, is_named: false })
    }

    /// Returns the number of evaluations so far.
    pub fn evaluations(&self) -> usize {
        self.evaluations
    }

    fn find_next(&mut self, entry: usize) {
        self.evaluations += 1;
        let next = self.times.next_of_entry(entry, self.after);
        self.coming.extend(next.map(|next| Reverse((next, entry))));
    }
}

/// List of times, possibly incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcoming {
    /// Times that were found.
    pub times: Vec<Timestamp>,
    /// Time at which the search stopped because it took too many evaluations. There may be later times.
    pub cut_at: Option<Timestamp>,
}

/// A list of times that is being computed.
#[derive(Debug)]
pub struct Listing<'a> {
    search: Search<'a>,
    limit: usize,
    left: usize,
    times: Vec<Timestamp>,
    cut_at: Option<Timestamp>,
}

impl Listing<'_> {
    /// Continues for a few milliseconds at most. Returns `true` when the list is complete.
    pub fn advance(&mut self) -> bool {
        let until = self.search.evaluations() + LISTED_AT_ONCE;
        while self.times.len() < self.limit {
            let Some(most) = self.left.checked_sub(self.search.evaluations()).filter(|left| *left > 0) else {
                self.cut_at = Some(self.search.after);
                return true;
            };
            if self.search.evaluations() >= until {
                return false;
            }
            match self.search.next(most.min(LISTED_AT_ONCE)) {
                None => return true,
                Some(next) => self.times.extend(Some(next.at).filter(|_| next.is_named)),
            }
        }
        true
    }

    /// Returns the times that were found so far.
    pub fn found(self) -> Upcoming {
        Upcoming { times: self.times, cut_at: self.cut_at }
    }
}

/// Returns `true` if this entry of `exclude` matches every time.
fn names_everything(it: &Calendar) -> bool {
    let Calendar { second, minute, hour, day_of_month, month, day_of_week, year } = it;
    let parts = [second, minute, hour, day_of_month, month, day_of_week, year];
    parts.into_iter().all(|part| part.as_deref().is_none_or(|text| text == "*"))
}

fn next_of_interval(interval: &Interval, after: Timestamp) -> Option<Timestamp> {
    let (every, phase) = (interval.every.as_millis(), interval.phase.as_millis());
    let next = match after.as_millis().checked_sub(phase) {
        Some(past) => (past / every).checked_add(1)?.checked_mul(every)?.checked_add(phase)?,
        None => phase,
    };
    // Times later than the calendar can represent are omitted.
    let last = jiff::Timestamp::MAX.duration_since(jiff::Timestamp::UNIX_EPOCH);
    (SignedDuration::from_millis(i64::try_from(next).ok()?) <= last).then(|| Timestamp::from_millis(next))
}

/// Returns the time zone with this name, from the tables that are built in or were given to the service. The operating
/// system's tables are never used.
fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let unknown = |_| format!("is `{name}`, expected the name of a time zone such as `Europe/Berlin` or `UTC`");
    super::zones::database().get(name).map_err(unknown)
}

#[cfg(test)]
mod tests;
