//! Schedules: definitions of times, and the actions to take at these times. A schedule is not a run; its actions start
//! runs.
//!
//! The types that define a schedule are always available. The types that evaluate it ([`ScheduleTimes`],
//! [`ScheduleState`]) need the feature `schedules`, because the code for cron expressions and time zones is large.

mod definition;
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

pub use definition::Schedule;

#[cfg(feature = "schedules")]
pub use state::{
    Action, ActionCause, ActionOutcome, ObservedRun, OverlapEnd, Recent, Rules, Running, ScheduleCounts, ScheduleState,
};
#[cfg(feature = "schedules")]
pub use times::{NextTime, ScheduleTimes, Upcoming};
#[cfg(feature = "schedules")]
pub use zones::{use_zone_tables, zone_tables};

/// Schedule that started a run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scheduled {
    /// Id of the schedule.
    #[n(0)]
    pub schedule_id: String,
    /// Number of the schedule's action that started the run: 1, 2, 3, …
    #[n(1)]
    pub action: u64,
    /// Time specified by the schedule, without jitter. For a manually requested action, the time of the request.
    #[n(2)]
    pub nominal_time: Timestamp,
}

/// Times of a schedule: all times given by its cron expressions, calendar entries and intervals, except those that
/// `exclude` matches.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Cron expressions: minute, hour, day of month, month, day of week. Expressions of six fields begin with the
    /// second. Expressions of seven fields begin with the second and end with the year. `*`, lists, ranges, steps,
    /// names, `L`, `W`, `#`, and aliases such as `@daily` are supported.
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
    /// Excluded times. Each entry excludes all times that it matches. An absent field matches any value.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<ENTRIES_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = ENTRIES_MAX)))]
    pub exclude: Vec<Calendar>,
    /// IANA name of the time zone for expressions and calendars, such as `Europe/Berlin`; UTC when absent.
    pub time_zone: Option<String>,
    /// Earliest time of an action.
    pub start_at: Option<Timestamp>,
    /// Latest time of an action.
    pub end_at: Option<Timestamp>,
    /// Maximum random delay of each action. No action is delayed beyond the next time of the schedule.
    pub jitter: Option<Duration>,
}

/// A calendar entry. Each field uses the syntax of a cron field: `5`, `1-5`, `*/15`, `MON,FRI`, `L`. Unlike in a
/// cron expression, the day of the month and the day of the week must both match.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Calendar {
    /// Second; 0 when absent.
    pub second: Option<String>,
    /// Minute; 0 when absent.
    pub minute: Option<String>,
    /// Hour; 0 when absent.
    pub hour: Option<String>,
    /// Day of the month; any when absent.
    pub day_of_month: Option<String>,
    /// Month; any when absent.
    pub month: Option<String>,
    /// Day of the week; any when absent.
    pub day_of_week: Option<String>,
    /// Year; any when absent.
    pub year: Option<String>,
}

/// Times at regular intervals, counted from 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interval {
    /// Length of the interval, at least one second.
    pub every: Duration,
    /// Offset from the multiples of `every`; less than `every`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub phase: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_zero(span: &Duration) -> bool {
    *span == Duration::ZERO
}

/// Behavior of an action while an earlier run of the schedule is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The action is skipped. The default.
    #[default]
    Skip,
    /// The action waits until the open run has closed. If an action is already waiting, the new action is skipped.
    BufferOne,
    /// The action waits until the open run has closed and all earlier waiting actions are done. At most 1,000 actions
    /// wait.
    BufferAll,
    /// The open run is asked to cancel, and the action waits until that run has closed. If an action is already
    /// waiting, the new action replaces it.
    CancelOther,
    /// The open run is terminated, and the action starts at once.
    TerminateOther,
    /// The action starts at once, in parallel to the open run.
    AllowAll,
}
