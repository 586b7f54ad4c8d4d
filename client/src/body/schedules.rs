//! Bodies of schedules.

use history::{Overlap, Schedule, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

/// A schedule to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSchedule {
    /// Id of the schedule. 1 to 256 characters.
    pub schedule_id: String,
    /// Times, and the workflow to start.
    pub schedule: Schedule,
    /// True to create it paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Pause of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseSchedule {
    /// Reason for the pause. At most 256 characters.
    pub reason: Option<String>,
}

/// Resumption of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeSchedule {}

/// Trigger of an immediate action.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSchedule {
    /// Overlap policy for this action; that of the schedule by default.
    pub overlap: Option<Overlap>,
}

/// Actions for the scheduled times in an interval, carried out as if these times came now.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackfillSchedule {
    /// First time of the interval.
    pub from: Timestamp,
    /// Last time of the interval.
    pub to: Timestamp,
    /// Overlap policy for these actions; that of the schedule by default.
    pub overlap: Option<Overlap>,
}

/// An action of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleAction {
    /// Number among the actions of the schedule: 1, 2, 3, …
    pub action: u64,
    /// Time that the schedule specifies for the action.
    pub nominal_time: Timestamp,
    /// Cause of the action: `time`, `trigger` or `backfill`.
    pub cause: String,
    /// Time when the action was decided.
    pub at: Timestamp,
    /// Workflow id of the run, once it was started.
    pub workflow_id: Option<String>,
    /// Run id, once the run was started.
    pub run_id: Option<Uuid>,
    /// Outcome: `starting`, `open`, how the run closed, `refused`, or `unknown` if the run was deleted before its
    /// outcome was read.
    pub outcome: String,
    /// Code of the problem because of which the run was not started, or while the outcome is `starting`, not yet
    /// started.
    pub refusal: Option<String>,
    /// Time when the run closed.
    pub closed_at: Option<Timestamp>,
}

/// Totals of a schedule since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleTotals {
    /// Number of runs started.
    pub started: u64,
    /// Number of runs that could not be started.
    pub refused: u64,
    /// Number of actions skipped because an earlier run was open.
    pub skipped: u64,
    /// Number of times noticed too late to catch up; a lower bound if there were very many.
    pub missed: u64,
}

/// The state of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DescribedSchedule {
    /// Id of the schedule.
    pub schedule_id: String,
    /// Times, and the workflow to start.
    pub schedule: Schedule,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the pause; absent unless it is paused.
    pub paused_at: Option<Timestamp>,
    /// Reason for the pause.
    pub pause_reason: Option<String>,
    /// Next times without jitter; empty while it is paused.
    pub next_times: Vec<Timestamp>,
    /// Number of its runs that are not known to have closed.
    pub running: u64,
    /// Number of actions that wait for those runs to close, or that were requested and are not decided yet.
    pub waiting: u64,
    /// Totals since its creation.
    pub totals: ScheduleTotals,
    /// Recent actions, newest first.
    pub recent_actions: Vec<ScheduleAction>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedSchedule {
    /// Id of the schedule.
    pub schedule_id: String,
    /// Workflow type of its runs.
    pub workflow_type: String,
    /// True if it is paused.
    pub paused: bool,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// A page of schedules, newest first. It may be short or empty and still have a next page.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Schedules {
    /// Schedules on this page.
    pub schedules: Vec<ListedSchedule>,
    /// Value of `page` for the next page; absent on the last one.
    pub next_page: Option<String>,
}

/// Next times of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextTimes {
    /// Times in order, without jitter.
    pub times: Vec<Timestamp>,
    /// Time at which the search was aborted because it took too long; there may be later times. Absent if it was
    /// complete.
    pub searched_until: Option<Timestamp>,
}
