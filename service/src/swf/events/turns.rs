//! Events of turns.
//!
//! Source: SWF's API reference.

use history::event::{
    DeciderCompleted, DeciderFailed, DeciderScheduled, DeciderStarted, DeciderTimedOut, DeciderTimeout,
};

use super::attributes::{Words, none, of_task, priority};
use crate::swf::words::{list, seconds};

pub(super) fn scheduled(it: &DeciderScheduled) -> Words {
    let attributes = none()
        .with("taskList", list(&it.task_list))
        .maybe("taskPriority", priority(it.task_priority))
        .with("startToCloseTimeout", seconds(it.start_to_close))
        .with("scheduleToStartTimeout", it.schedule_to_start.map_or("NONE".to_owned(), seconds));
    ("DecisionTaskScheduled", attributes)
}

pub(super) fn started(it: &DeciderStarted) -> Words {
    let attributes = none().maybe("identity", it.identity.as_ref());
    ("DecisionTaskStarted", attributes.with("scheduledEventId", it.scheduled_event_id))
}

pub(super) fn completed(it: &DeciderCompleted) -> Words {
    let moved = it.next_task_list.as_ref();
    let attributes = of_task(it.scheduled_event_id, it.started_event_id)
        .maybe("taskList", moved.map(|to| list(&to.task_list)))
        .maybe("taskListScheduleToStartTimeout", moved.and_then(|to| to.schedule_to_start).map(seconds));
    ("DecisionTaskCompleted", attributes.text("executionContext", it.context.as_ref()))
}

pub(super) fn timed_out(it: &DeciderTimedOut) -> Words {
    let timeout = match it.timeout {
        DeciderTimeout::StartToClose => "START_TO_CLOSE",
        DeciderTimeout::ScheduleToStart => "SCHEDULE_TO_START",
    };
    let attributes = of_task(it.scheduled_event_id, it.started_event_id.unwrap_or(0));
    ("DecisionTaskTimedOut", attributes.with("timeoutType", timeout))
}

/// Renders a turn whose task was handed back or was never delivered. For SWF deciders, such a turn has timed out.
pub(super) fn failed(it: &DeciderFailed) -> Words {
    let attributes = of_task(it.scheduled_event_id, it.started_event_id);
    ("DecisionTaskTimedOut", attributes.with("timeoutType", "START_TO_CLOSE"))
}
