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
    /// Times of the schedule, and the workflow that it starts.
    pub schedule: Schedule,
    /// True to create the schedule paused.
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

/// Request to execute an action of a schedule now.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSchedule {
    /// Overlap policy for this action; by default, the overlap policy of the schedule.
    pub overlap: Option<Overlap>,
}

/// Request to execute the actions for the scheduled times in an interval, as if these times were now.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackfillSchedule {
    /// First time of the interval.
    pub from: Timestamp,
    /// Last time of the interval.
    pub to: Timestamp,
    /// Overlap policy for these actions; by default, the overlap policy of the schedule.
    pub overlap: Option<Overlap>,
}

/// An action of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleAction {
    /// Number of the action among the actions of the schedule: 1, 2, 3, …
    pub action: u64,
    /// Scheduled time for which the action was executed.
    pub nominal_time: Timestamp,
    /// Cause of the action: `time`, `trigger` or `backfill`.
    pub cause: String,
    /// Time at which the service decided to execute the action.
    pub at: Timestamp,
    /// Workflow id of the run; absent until the run was started.
    pub workflow_id: Option<String>,
    /// Run id; absent until the run was started.
    pub run_id: Option<Uuid>,
    /// Outcome of the action: `starting`, `open`, the close status of the run, `refused`, or `unknown` if the run was
    /// deleted before its outcome was read.
    pub outcome: String,
    /// Code of the problem that prevented the start of the run. If the outcome is `starting`, the start will be tried
    /// again.
    pub refusal: Option<String>,
    /// Time when the run closed.
    pub closed_at: Option<Timestamp>,
}

/// Totals of a schedule since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleTotals {
    /// Number of runs started.
    pub started: u64,
    /// Number of runs that could not be started.
    pub refused: u64,
    /// Number of actions that were skipped because an earlier run was open.
    pub skipped: u64,
    /// Number of times that passed without an action, because the service noticed them too late to catch up. If there
    /// were very many such times, this number is a lower bound.
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
    /// Times of the schedule, and the workflow that it starts.
    pub schedule: Schedule,
    /// Time when the schedule was created.
    pub created_at: Timestamp,
    /// Time when the schedule was paused; absent if it is not paused.
    pub paused_at: Option<Timestamp>,
    /// Reason for the pause.
    pub pause_reason: Option<String>,
    /// Next scheduled times, without jitter; empty while the schedule is paused.
    pub next_times: Vec<Timestamp>,
    /// Number of runs of the schedule that are not known to have closed.
    pub running: u64,
    /// Number of actions that wait for earlier runs to close, and of requested actions that the service has not
    /// processed yet.
    pub waiting: u64,
    /// Totals since the schedule was created.
    pub totals: ScheduleTotals,
    /// Recent actions of the schedule, newest first.
    pub recent_actions: Vec<ScheduleAction>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedSchedule {
    /// Id of the schedule.
    pub schedule_id: String,
    /// Workflow type of the runs that the schedule starts.
    pub workflow_type: String,
    /// True if the schedule is paused.
    pub paused: bool,
    /// Time when the schedule was created.
    pub created_at: Timestamp,
}

/// A page of schedules, newest first. A page may be short or empty although there is a next page.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Schedules {
    /// Schedules on this page.
    pub schedules: Vec<ListedSchedule>,
    /// Value of `page` for the next page; absent on the last page.
    pub next_page: Option<String>,
}

/// Next times at which a schedule starts runs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextTimes {
    /// Times in ascending order, without jitter.
    pub times: Vec<Timestamp>,
    /// Time up to which the service searched, if it stopped the search because the search took too long. There may be
    /// later times. Absent if the search was complete.
    pub searched_until: Option<Timestamp>,
}
