//! Warnings about recorded decisions that are legal but probably mistakes.

use std::fmt;

use crate::event::EventId;

/// A recorded decision that is probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// An activity was scheduled, but an activity with the same id, type and input has already succeeded in this run.
    ActivityRepeated {
        /// Activity id chosen by the decider.
        activity_id: String,
        /// Id of the new ActivityScheduled event.
        scheduled_event_id: EventId,
    },
}

impl Warning {
    /// Returns the code for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ActivityRepeated { .. } => "activity-repeated",
        }
    }

    /// Returns advice for people.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::ActivityRepeated { .. } => {
                "`events` is a window, not the whole history: poll with `\"history\": \"full\"`, or keep completed \
                 steps in `context`. To repeat the activity, use another `activityId`"
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::ActivityRepeated { activity_id, scheduled_event_id } = self;
        write!(
            f,
            "activity `{activity_id}` has succeeded in this run with the same type and input, and event \
             {scheduled_event_id} schedules it again"
        )
    }
}
