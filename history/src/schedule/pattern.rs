//! Cron expressions and calendar entries: parsing, and evaluation in a time zone. Errors name the invalid field.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::Calendar;
use crate::fault::Fault;

/// Fields of a cron expression with seven fields: name and allowed values.
const FIELDS: [(&str, &str); 7] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31, `L` for the last, `15W` for the weekday nearest to the 15th"),
    ("month", "1 to 12, or `JAN` to `DEC`"),
    ("day of week", "0 to 7, or `SUN` to `SAT`, `FRI#2` for the second Friday, `FRIL` for the last"),
    ("year", "1 to 5000"),
];

/// Upper bound for the difference between local time and UTC in any time zone, in hours.
const OFFSET_MAX: SignedDuration = SignedDuration::from_hours(26);

/// Times that match a cron expression or a calendar entry. The time zone is passed to each query.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    cron: Cron,
    /// True if the pattern matches both occurrences of an hour that occurs twice because clocks are put back. This
    /// applies to patterns that match every hour, every second hour, and so on. A pattern with specific hours matches
    /// only the first occurrence.
    is_steady: bool,
}

impl Pattern {
    /// Parses a cron expression.
    pub(super) fn cron(field: &str, text: &str) -> Result<Self, Fault> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let invalid = |problem: String| Fault::Invalid { field: field.to_owned(), problem };
        if text.contains('@') {
            let cron = parser().parse(text).map_err(|_| {
                invalid(format!(
                    "is `{text}`, expected `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`, or five fields"
                ))
            })?;
            return Self::named(field, text, cron, text.trim().eq_ignore_ascii_case("@hourly"));
        }
        let (seconds, years) = match parts.len() {
            5 => ("0", "*"),
            6 | 7 => ("", "*"),
            found => {
                return Err(invalid(format!(
                    "has {found} fields, expected 5 (minute, hour, day of month, month, day of week), 6 with a leading \
                     second, or 7 with a trailing year"
                )));
            }
        };
        let mut full = Vec::with_capacity(7);
        full.extend(Some(seconds).filter(|seconds| !seconds.is_empty()));
        full.extend(parts.iter().copied());
        full.extend(Some(years).filter(|_| full.len() < 7));
        let cron = read(&full).map_err(|(place, why)| {
            let (name, expected) = FIELDS.get(place).copied().unwrap_or_default();
            let found = full.get(place).copied().unwrap_or_default();
            let number = (place + 1).saturating_sub(usize::from(parts.len() == 5));
            invalid(format!("has `{found}` as field {number}, the {name}; expected {expected} ({why})"))
        })?;
        let is_steady = full.get(2).is_some_and(|hour| hour.starts_with('*'));
        Self::named(field, text, cron, is_steady)
    }

    /// Parses a calendar entry. `absent` is used for absent second, minute and hour fields.
    pub(super) fn calendar(field: &str, it: &Calendar, absent: &str) -> Result<Self, Fault> {
        let parts = [
            ("second", it.second.as_deref(), absent),
            ("minute", it.minute.as_deref(), absent),
            ("hour", it.hour.as_deref(), absent),
            ("dayOfMonth", it.day_of_month.as_deref(), "*"),
            ("month", it.month.as_deref(), "*"),
            ("dayOfWeek", it.day_of_week.as_deref(), "*"),
            ("year", it.year.as_deref(), "*"),
        ];
        for (name, text, _) in parts {
            if text.is_some_and(|text| {
                text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '@' || c == '+')
            }) {
                let problem =
                    "is not one field of a cron expression: it is empty, or has a space, `@` or `+`".to_owned();
                return Err(Fault::Invalid { field: format!("{field}.{name}"), problem });
            }
        }
        let full = parts.map(|(_, text, absent)| text.unwrap_or(absent));
        let mut anded = full.map(str::to_owned);
        if let Some(day_of_week) = anded.get_mut(5) {
            day_of_week.insert(0, '+');
        }
        let anded: Vec<&str> = anded.iter().map(String::as_str).collect();
        let cron = read(&anded).map_err(|(place, why)| {
            let (_, expected) = FIELDS.get(place).copied().unwrap_or_default();
            let (name, text, _) = parts.get(place).copied().unwrap_or_default();
            let problem = format!("is `{}`; expected {expected} ({why})", text.unwrap_or_default());
            Fault::Invalid { field: format!("{field}.{name}"), problem }
        })?;
        let is_steady = it.hour.as_deref().unwrap_or(absent).starts_with('*');
        Self::named(field, &full.join(" "), cron, is_steady)
    }

    /// Creates a pattern. Returns an error if it can never match, such as the 30th of February.
    fn named(field: &str, text: &str, cron: Cron, is_steady: bool) -> Result<Self, Fault> {
        let pattern = Self { cron, is_steady };
        if pattern.next_civil(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).is_none() {
            let problem = format!("is `{text}`, which matches no existing day");
            return Err(Fault::Invalid { field: field.to_owned(), problem });
        }
        Ok(pattern)
    }

    /// Returns the first matching local time at or after `at`.
    fn next_civil(&self, at: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&at, true).ok()
    }

    /// Returns `true` if the pattern matches this local time.
    pub(super) fn names(&self, at: DateTime) -> bool {
        self.cron.is_time_matching(&at).unwrap_or(false)
    }

    /// Returns the first matching instant at or after `from`, which must be a whole second.
    ///
    /// While the UTC offset is constant, local time advances like UTC, so each period between two changes of the offset
    /// is searched separately. If clocks are put forward, a skipped local time is moved by the same amount. If clocks
    /// are put back, only the first of two equal local times matches, unless the pattern is steady.
    pub(super) fn next(&self, zone: &TimeZone, mut from: Timestamp) -> Option<Timestamp> {
        loop {
            let offset = zone.to_offset(from);
            let change = zone.preceding(from.checked_add(SignedDuration::from_nanos(1)).ok()?).next();
            let until = zone.following(from).next().map(|change| change.timestamp());
            let change = change.map(|change| change.timestamp()).filter(|at| from.duration_since(*at) < OFFSET_MAX);
            let before =
                change.and_then(|at| Some((at, zone.to_offset(at.checked_sub(SignedDuration::from_secs(1)).ok()?))));
            let mut left_out = None;
            if let Some((at, before)) = before {
                let forward = seconds_between(before, offset);
                let over = at.checked_add(SignedDuration::from_secs(forward.abs())).ok()?;
                if forward > 0 && from < over {
                    let named = self.next_civil(before.to_datetime(from))?;
                    left_out = before.to_timestamp(named).ok().filter(|at| *at < over);
                } else if forward < 0 && from < over && !self.is_steady {
                    // All these local times have already occurred before the change.
                    from = over;
                    continue;
                }
            }
            let named = self.next_civil(offset.to_datetime(from))?;
            let regular = offset.to_timestamp(named).ok();
            let is_here = |at: &Timestamp| until.is_none_or(|until| *at < until);
            let found = [left_out, regular].into_iter().flatten().filter(is_here).min();
            if found.is_some() {
                return found;
            }
            // The pattern matches nothing in this period. If clocks are put back at the end of the period, local times
            // occur again, and the search must continue there. Otherwise the search can skip to shortly before the next
            // match.
            let until = until?;
            let sure = regular?.checked_sub(OFFSET_MAX).ok()?;
            let is_put_back = seconds_between(offset, zone.to_offset(until)) < 0;
            from = if is_put_back { until } else { until.max(sure) };
        }
    }
}

fn seconds_between(before: Offset, after: Offset) -> i64 {
    i64::from(after.seconds()) - i64::from(before.seconds())
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Optional).build()
}

/// Parses seven fields. An error consists of the index of the invalid field and the reason.
fn read(full: &[&str]) -> Result<Cron, (usize, String)> {
    let why = |error: croner::errors::CronError| {
        let text = error.to_string();
        let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
        text.trim_end_matches('.').to_owned()
    };
    for (place, text) in full.iter().enumerate() {
        // croner accepts a list with an empty entry, which matches nothing, and then searches second by second up to
        // the year 5000.
        if text.trim_start_matches('+').split(',').any(str::is_empty) {
            return Err((place, "it is a list with an empty entry".to_owned()));
        }
        let mut probe = ["0", "*", "*", "*", "*", "*", "*"];
        if let Some(part) = probe.get_mut(place) {
            *part = text;
        }
        parser().parse(&probe.join(" ")).map_err(|error| (place, why(error)))?;
    }
    parser().parse(&full.join(" ")).map_err(|error| (0, why(error)))
}
