//! Definition of a schedule, as a user requests it, and its validation.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Overlap, ScheduleSpec};
use crate::start::StartWorkflow;
use crate::time::Duration;

/// A schedule: the run to start, and the times at which to start it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Times of the schedule.
    pub spec: ScheduleSpec,
    /// Run to start, in the form of a start request. The scheduled time is appended to the workflow id. The workflow id
    /// may be reused unless the request sets a reuse policy.
    pub action: StartWorkflow,
    /// Behavior of an action while an earlier run of this schedule is open; `skip` when absent.
    #[serde(default)]
    pub overlap: Overlap,
    /// Maximum age of a missed time for which the action is still taken; one day when absent. Missed times are handled
    /// oldest first.
    pub catch_up_window: Option<Duration>,
    /// True if the schedule pauses when one of its runs fails or times out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pause_on_failure: bool,
    /// Number of further times at which an action starts a run; unlimited when absent. Manually requested actions do
    /// not count.
    pub remaining_actions: Option<u64>,
    /// Description. At most 1,024 bytes.
    pub note: Option<String>,
}

impl Schedule {
    /// Removes the payloads of the start request, for callers that may not see them.
    pub fn redact_payloads(&mut self) {
        self.action.input = None;
        if let Some(signal) = &mut self.action.signal {
            signal.input = None;
        }
    }
}

#[cfg(feature = "schedules")]
mod rules {
    use super::Schedule;
    use crate::fault::{Fault, Unit};
    use crate::ids::ReusePolicy;
    use crate::schedule::{Rules, ScheduleTimes};
    use crate::start::StartWorkflow;
    use crate::time::Timestamp;
    use crate::{admit, limits};

    impl Schedule {
        /// Returns the rules for the actions of the schedule.
        pub fn rules(&self) -> Rules {
            Rules {
                overlap: self.overlap,
                catch_up: self.catch_up_window.unwrap_or(limits::SCHEDULE_CATCH_UP_DEFAULT),
                pause_on_failure: self.pause_on_failure,
            }
        }

        /// Returns the start request of the action for this time. The time is part of the workflow id. A backfill can
        /// repeat a time, so the workflow id may be reused unless the action sets a reuse policy.
        #[must_use]
        pub fn action_at(&self, nominal: Timestamp) -> StartWorkflow {
            let text = nominal.to_string();
            let text = text.strip_suffix(".000Z").map_or(text.clone(), |seconds| format!("{seconds}Z"));
            let workflow_id = format!("{}-{text}", self.action.workflow_id);
            let mut start = StartWorkflow { workflow_id, ..self.action.clone() };
            start.reuse_policy.get_or_insert(ReusePolicy::AllowDuplicate);
            start
        }

        /// Validates the schedule with this id, except the start request of its action.
        ///
        /// # Errors
        ///
        /// Returns a [`Fault`] that describes the mistake.
        pub fn check(&self, id: &str, now: Timestamp) -> Result<(), Fault> {
            admit::check_name("scheduleId", id)?;
            let invalid = |field: &str, problem: String| Err(Fault::Invalid { field: field.to_owned(), problem });
            if ScheduleTimes::new("spec", &self.spec)?.next(now).is_none() {
                return invalid("spec", format!("specifies no time after {now}"));
            }
            if let Some(window) = self.catch_up_window.filter(|window| *window > limits::SPAN_MAX) {
                return invalid("catchUpWindow", format!("is {window}, at most {} is allowed", limits::SPAN_MAX));
            }
            let bytes = |field: &str, found, max| {
                let too_large = || Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Bytes };
                if found > max { Err(too_large()) } else { Ok(()) }
            };
            bytes("note", self.note.as_ref().map_or(0, String::len), limits::SCHEDULE_NOTE_BYTES_MAX)?;
            let found = serde_json::to_vec(self).map_or(usize::MAX, |bytes| bytes.len());
            bytes("schedule", found, limits::SCHEDULE_BYTES_MAX)?;
            admit::check_name("action.workflowId", &self.action.workflow_id)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_workflow_id_of_an_action_contains_its_time() {
            let action = StartWorkflow { workflow_id: "w".to_owned(), ..StartWorkflow::default() };
            let mut schedule = Schedule { action, ..Schedule::default() };
            let at = |schedule: &Schedule, millis| schedule.action_at(Timestamp::from_millis(millis));
            assert_eq!(at(&schedule, 1_700_000_040_000).workflow_id, "w-2023-11-14T22:14:00Z");
            assert_eq!(at(&schedule, 1_700_000_040_007).workflow_id, "w-2023-11-14T22:14:00.007Z");
            assert_eq!(at(&schedule, 1).reuse_policy, Some(ReusePolicy::AllowDuplicate));
            schedule.action.reuse_policy = Some(ReusePolicy::RejectDuplicate);
            assert_eq!(at(&schedule, 1).reuse_policy, Some(ReusePolicy::RejectDuplicate));
        }
    }
}
