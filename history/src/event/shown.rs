//! `Display` of causes and timeouts, which shows the same names as JSON.

use std::fmt;

use super::{
    ActivityPausedCause, ActivityScheduleFailedCause, ActivityTaskCancelFailedCause, ActivityTimedOutCause,
    ActivityTimeout, ChildScheduleFailedCause, CloseDecision, CloseFailedCause, DeciderFailedCause, DeciderTimeout,
    ExternalFailedCause, MarkerFailedCause, TerminatedCause, TimerCancelFailedCause, TimerScheduleFailedCause,
    WorkflowTimeout,
};

/// Implements `Display` for enums without fields. It shows the variant's name.
macro_rules! shown_by_name {
    ($($kind:ty),+ $(,)?) => {
        $(impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        })+
    };
}

shown_by_name!(
    ActivityPausedCause,
    ActivityScheduleFailedCause,
    ActivityTaskCancelFailedCause,
    ActivityTimedOutCause,
    ActivityTimeout,
    ChildScheduleFailedCause,
    CloseDecision,
    CloseFailedCause,
    DeciderFailedCause,
    DeciderTimeout,
    ExternalFailedCause,
    MarkerFailedCause,
    TerminatedCause,
    TimerCancelFailedCause,
    TimerScheduleFailedCause,
    WorkflowTimeout,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_timeouts_are_displayed_as_in_json() {
        fn is_named<T: fmt::Display + serde::Serialize>(kind: T) {
            assert_eq!(serde_json::to_value(&kind).unwrap(), kind.to_string());
        }
        is_named(ActivityPausedCause::AttemptsExhausted);
        is_named(ActivityTimeout::ScheduleToClose);
        is_named(CloseDecision::ContinueAsNew);
        is_named(CloseFailedCause::UnhandledEvents);
        is_named(DeciderFailedCause::DeliveryFailed);
        is_named(DeciderTimeout::StartToClose);
        is_named(TerminatedCause::EventLimit);
        is_named(WorkflowTimeout::Execution);
    }
}
