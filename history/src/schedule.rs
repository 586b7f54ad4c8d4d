//! Schedules: which times they name, and what they do at one of them. A schedule is no run; it starts runs.
//!
//! The words of a schedule are always here. What they come to ([`ScheduleTimes`], [`ScheduleState`]) is behind the feature
//! `schedules`, as the rules of cron expressions and time zones are large.

mod asked;
#[cfg(feature = "schedules")]
mod pattern;
#[cfg(feature = "schedules")]
mod state;
#[cfg(feature = "schedules")]
mod times;
#[cfg(feature = "schedules")]
mod zones;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::bounded;
use crate::limits::SCHEDULE_ENTRIES_MAX as ENTRIES_MAX;
use crate::time::{Duration, Timestamp};

pub use asked::Schedule;

#[cfg(feature = "schedules")]
pub use state::{
    Action, ActionCause, ActionOutcome, OverlapEnd, Recent, Rules, Running, ScheduleCounts, ScheduleState, Sight,
};
#[cfg(feature = "schedules")]
pub use times::{NextTime, ScheduleTimes, Upcoming};
#[cfg(feature = "schedules")]
pub use zones::{use_zone_tables, zone_tables};

/// The run was started by a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scheduled {
    /// The schedule's id.
    #[n(0)]
    pub schedule_id: String,
    /// Which of its actions, 1, 2, 3, …
    #[n(1)]
    pub action: u64,
    /// The time that the schedule names, without jitter; for an action by hand, when it was asked for.
    #[n(2)]
    pub nominal_time: Timestamp,
}

/// Which times a schedule names: all that any of its expressions, calendars and intervals name, but for those of `exclude`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Cron expressions: minute, hour, day of month, month, day of week; with six fields the first is the second, with seven
    /// the last is the year. `*`, lists, ranges, steps, names, `L`, `W`, `#`, and `@daily` and its like.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<ENTRIES_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = ENTRIES_MAX)))]
    pub cron: Vec<String>,
    /// Calendar entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<ENTRIES_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = ENTRIES_MAX)))]
    pub calendars: Vec<Calendar>,
    /// Intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<ENTRIES_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = ENTRIES_MAX)))]
    pub intervals: Vec<Interval>,
    /// Times that are left out; what an entry does not say is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<ENTRIES_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = ENTRIES_MAX)))]
    pub exclude: Vec<Calendar>,
    /// The time zone of expressions and calendars, by its IANA name such as `Europe/Berlin`; UTC when absent.
    pub time_zone: Option<String>,
    /// No time before this one.
    pub start_at: Option<Timestamp>,
    /// No time after this one.
    pub end_at: Option<Timestamp>,
    /// Each action is up to this much later than its time, by chance, and not later than the next time.
    pub jitter: Option<Duration>,
}

/// A calendar entry. Each field is written as that of a cron expression: `5`, `1-5`, `*/15`, `MON,FRI`, `L`. Unlike in a cron
/// expression, the day of the month and the day of the week must both fit.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Calendar {
    /// The second; 0 when absent.
    pub second: Option<String>,
    /// The minute; 0 when absent.
    pub minute: Option<String>,
    /// The hour; 0 when absent.
    pub hour: Option<String>,
    /// The day of the month; any when absent.
    pub day_of_month: Option<String>,
    /// The month; any when absent.
    pub month: Option<String>,
    /// The day of the week; any when absent.
    pub day_of_week: Option<String>,
    /// The year; any when absent.
    pub year: Option<String>,
}

/// Times at equal distances, counted from 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interval {
    /// The distance; a second or more.
    pub every: Duration,
    /// How much later than the multiples of `every` they are; less than `every`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub phase: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_zero(span: &Duration) -> bool {
    *span == Duration::ZERO
}

/// What an action does while a run that the schedule started earlier is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Nothing: it is skipped. The default.
    #[default]
    Skip,
    /// It waits until the run has closed; if one waits already, it is skipped.
    BufferOne,
    /// It waits until the run has closed, and all that waited before it have; at most 1,000 wait.
    BufferAll,
    /// The run is asked to cancel, and the action waits until it has closed. It takes the place of one that waits already.
    CancelOther,
    /// The run is terminated, and the action starts at once.
    TerminateOther,
    /// It starts at once, beside the run.
    AllowAll,
}
