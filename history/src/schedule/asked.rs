//! What the user of a schedule says, and what of that is refused.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Overlap, ScheduleSpec};
use crate::start::StartWorkflow;
use crate::time::Duration;

/// A schedule: what it starts, and when.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Which times it names.
    pub spec: ScheduleSpec,
    /// The run that it starts: the body of a start. Its workflow id gets the nominal time appended; its id may be used again
    /// unless it says otherwise.
    pub action: StartWorkflow,
    /// What an action does while a run that this schedule started is open; `skip` when absent.
    #[serde(default)]
    pub overlap: Overlap,
    /// Times that were missed by less than this are made good, oldest first; a day when absent.
    pub catch_up_window: Option<Duration>,
    /// A run that fails or times out pauses the schedule.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pause_on_failure: bool,
    /// How many more times have an action; no limit when absent. What is asked for by hand does not count.
    pub remaining_actions: Option<u64>,
    /// What it is for. At most 1,024 bytes.
    pub note: Option<String>,
}

impl Schedule {
    /// Takes the payloads out of what it starts, for who may not see them.
    pub fn leave_payloads_out(&mut self) {
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
        /// By what it acts.
        pub fn rules(&self) -> Rules {
            Rules {
                overlap: self.overlap,
                catch_up: self.catch_up_window.unwrap_or(limits::SCHEDULE_CATCH_UP_DEFAULT),
                pause_on_failure: self.pause_on_failure,
            }
        }

        /// The start of its action for this time: the workflow id is its own with the time, and may be used again unless it says
        /// otherwise, as a backfill may be for a time that had a run before.
        #[must_use]
        pub fn action_at(&self, nominal: Timestamp) -> StartWorkflow {
            let text = nominal.to_string();
            let text = text.strip_suffix(".000Z").map_or(text.clone(), |seconds| format!("{seconds}Z"));
            let workflow_id = format!("{}-{text}", self.action.workflow_id);
            let mut start = StartWorkflow { workflow_id, ..self.action.clone() };
            start.reuse_policy.get_or_insert(ReusePolicy::AllowDuplicate);
            start
        }

        /// Holds it, under this id, against the rules, but for what its action starts.
        ///
        /// # Errors
        ///
        /// The [`Fault`] that says what is wrong with it.
        pub fn check(&self, id: &str, now: Timestamp) -> Result<(), Fault> {
            admit::check_name("scheduleId", id)?;
            let invalid = |field: &str, problem: String| Err(Fault::Invalid { field: field.to_owned(), problem });
            if ScheduleTimes::new("spec", &self.spec)?.next(now).is_none() {
                return invalid("spec", format!("names no time after {now}"));
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
        fn the_workflow_id_of_an_action_has_its_time_and_may_be_used_again() {
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
