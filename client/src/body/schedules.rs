//! Bodies of calls about schedules.

use history::{Overlap, Schedule, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

/// Creates a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSchedule {
    /// Its id. 1 to 256 characters.
    pub schedule_id: String,
    /// What it starts, and when.
    pub schedule: Schedule,
    /// It begins paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Pauses a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseSchedule {
    /// Why. At most 256 characters.
    pub reason: Option<String>,
}

/// Lets a schedule go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeSchedule {}

/// Has a schedule act now.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSchedule {
    /// What to do while an earlier run is open; as the schedule says when absent.
    pub overlap: Option<Overlap>,
}

/// Has a schedule act for the times that its spec names in a span, as if they came now.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackfillSchedule {
    /// The first instant of the span.
    pub from: Timestamp,
    /// The last one.
    pub to: Timestamp,
    /// What to do while an earlier run is open; as the schedule says when absent.
    pub overlap: Option<Overlap>,
}

/// An action that a schedule decided.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleAction {
    /// 1, 2, 3, … among the actions of the schedule.
    pub action: u64,
    /// The time that the schedule names.
    pub nominal_time: Timestamp,
    /// `time`, `trigger` or `backfill`.
    pub cause: String,
    /// When it was decided.
    pub at: Timestamp,
    /// The run's workflow id, once it was started.
    pub workflow_id: Option<String>,
    /// The run, once it was started.
    pub run_id: Option<Uuid>,
    /// `starting`, `open`, how the run closed, `refused`, or `unknown` when the run was forgotten before anybody looked.
    pub outcome: String,
    /// Why the run could not be started, or while it is `starting` why not yet: the code of the problem.
    pub refusal: Option<String>,
    /// When the run closed.
    pub closed_at: Option<Timestamp>,
}

/// What a schedule has done, and what not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleTotals {
    /// Runs that were started.
    pub started: u64,
    /// Runs that could not be started.
    pub refused: u64,
    /// Actions that were left out because an earlier run was open.
    pub skipped: u64,
    /// Times that were found too late to be made good; where there were very many, at least so many.
    pub missed: u64,
}

/// A schedule as it is.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DescribedSchedule {
    /// Its id.
    pub schedule_id: String,
    /// What it starts, and when.
    pub schedule: Schedule,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// The next times, without jitter; none while it is paused.
    pub next_times: Vec<Timestamp>,
    /// Runs that are not known to have closed.
    pub running: u64,
    /// Actions that wait for them to close, and that were asked for and not decided yet.
    pub waiting: u64,
    /// What it has done.
    pub totals: ScheduleTotals,
    /// The newest actions, newest first.
    pub recent_actions: Vec<ScheduleAction>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedSchedule {
    /// Its id.
    pub schedule_id: String,
    /// The workflow type that it starts.
    pub workflow_type: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Since when.
    pub created_at: Timestamp,
}

/// A page of schedules, newest first. It may be short, or empty, and still have a next one.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Schedules {
    /// The schedules.
    pub schedules: Vec<ListedSchedule>,
    /// What to give as `page` for the next page; absent on the last.
    pub next_page: Option<String>,
}

/// The next times of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextTimes {
    /// In order, without jitter.
    pub times: Vec<Timestamp>,
    /// The search was broken off here, as it took too long: there may be more times after this one.
    pub searched_until: Option<Timestamp>,
}
