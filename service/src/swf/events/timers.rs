//! Events of timers.
//!
//! Source: SWF's API reference.

use history::event::{
    TimerCancelFailed, TimerCancelFailedCause, TimerCanceled, TimerExpired, TimerScheduleFailed,
    TimerScheduleFailedCause, TimerScheduled,
};

use super::attributes::{Words, decided, none};
use crate::swf::words::seconds;

pub(super) fn scheduled(it: &TimerScheduled) -> Words {
    let attributes = decided(it.decision_event_id)
        .with("timerId", &it.timer_id)
        .maybe("control", it.control.as_ref())
        .with("startToFireTimeout", seconds(it.after));
    ("TimerStarted", attributes)
}

pub(super) fn schedule_failed(it: &TimerScheduleFailed) -> Words {
    let cause = match it.cause {
        TimerScheduleFailedCause::TimerIdAlreadyInUse => "TIMER_ID_ALREADY_IN_USE",
        TimerScheduleFailedCause::OpenTimersLimit | TimerScheduleFailedCause::StateLimit => {
            "OPEN_TIMERS_LIMIT_EXCEEDED"
        }
        TimerScheduleFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    };
    ("StartTimerFailed", decided(it.decision_event_id).with("timerId", &it.timer_id).with("cause", cause))
}

pub(super) fn expired(it: &TimerExpired) -> Words {
    ("TimerFired", none().with("timerId", &it.timer_id).with("startedEventId", it.scheduled_event_id))
}

pub(super) fn canceled(it: &TimerCanceled) -> Words {
    let attributes = decided(it.decision_event_id).with("timerId", &it.timer_id);
    ("TimerCanceled", attributes.with("startedEventId", it.scheduled_event_id))
}

pub(super) fn cancel_failed(it: &TimerCancelFailed) -> Words {
    let attributes = decided(it.decision_event_id).with("timerId", &it.timer_id);
    let cause = match it.cause {
        TimerCancelFailedCause::TimerIdUnknown => "TIMER_ID_UNKNOWN",
        TimerCancelFailedCause::OperationNotPermitted => "OPERATION_NOT_PERMITTED",
    };
    ("CancelTimerFailed", attributes.with("cause", cause))
}
