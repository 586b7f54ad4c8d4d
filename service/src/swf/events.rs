//! Rendering of events for the SWF protocol. The rendered events have the same ids and facts as the recorded ones, in
//! SWF's vocabulary. An event without an equivalent in SWF becomes a marker named `baton.…`, so that ids stay
//! consecutive.
//!
//! Source: SWF's API reference.

mod activities;
mod attributes;
mod children;
mod externals;
mod lambda;
mod runs;
#[cfg(test)]
mod tests;
mod timers;
mod turns;

use std::collections::BTreeSet;

use history::{Event, EventId, EventKind};
use serde_json::{Value, json};

use super::words::{instant, set};
use attributes::{Words, decided};

pub(super) use attributes::{Related, execution, text};

/// Returns the id of the ActivityScheduled event of an activity, given a later event of the activity. The
/// ActivityScheduled event shows whether the activity is a Lambda task.
pub(super) fn activity_of(kind: &EventKind) -> Option<EventId> {
    match kind {
        EventKind::ActivityStarted(it) => Some(it.scheduled_event_id),
        EventKind::ActivitySuccess(it) => Some(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Some(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Some(it.scheduled_event_id),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => None,
    }
}

/// Returns the ids of earlier events that are needed to render these events. If the run can have Lambda tasks, this
/// includes ActivityScheduled events.
pub(super) fn wanted(events: &[Event], has_lambda: bool) -> BTreeSet<EventId> {
    let ids = events.iter().filter_map(|event| match &event.kind {
        kind if has_lambda && activity_of(kind).is_some() => activity_of(kind),
        EventKind::ChildScheduleFailed(it) => it.scheduled_event_id,
        EventKind::ChildStarted(it) => Some(it.scheduled_event_id),
        EventKind::ChildSuccess(it) => Some(it.scheduled_event_id),
        EventKind::ChildFailed(it) => Some(it.scheduled_event_id),
        EventKind::ChildTimedOut(it) => Some(it.scheduled_event_id),
        EventKind::ChildCanceled(it) => Some(it.scheduled_event_id),
        EventKind::ChildTerminated(it) => Some(it.scheduled_event_id),
        EventKind::ExternalSignalFailed(it) => it.scheduled_event_id,
        EventKind::ExternalCancelFailed(it) => it.scheduled_event_id,
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => None,
    });
    ids.collect()
}

/// Renders an event in SWF's format.
pub(super) fn event(event: &Event, related: &Related) -> Value {
    let (name, attributes) = lambda::words_of(&event.kind, related).unwrap_or_else(|| words_of(&event.kind, related));
    let mut first = name.chars();
    let member = first.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(first).collect::<String>();
    let mut rendered = json!({
        "eventId": event.id,
        "eventType": name,
        "eventTimestamp": instant(event.timestamp),
    });
    set(&mut rendered, &format!("{member}EventAttributes"), Some(attributes.0));
    rendered
}

/// Returns the SWF name and attributes of an event that does not belong to a Lambda task.
fn words_of(kind: &EventKind, related: &Related) -> Words {
    match kind {
        EventKind::WorkflowStarted(it) => runs::started(it),
        EventKind::WorkflowSuccess(it) => runs::success(it),
        EventKind::WorkflowFailed(it) => runs::failed(it),
        EventKind::WorkflowCanceled(it) => runs::canceled(it),
        EventKind::WorkflowContinuedAsNew(it) => runs::continued_as_new(it),
        EventKind::WorkflowTimedOut(_) => runs::timed_out(related),
        EventKind::WorkflowTerminated(it) => runs::terminated(it, related),
        EventKind::WorkflowCloseFailed(it) => runs::close_failed(it),
        EventKind::WorkflowCancelRequested(it) => runs::cancel_requested(it),
        EventKind::DeciderScheduled(it) => turns::scheduled(it),
        EventKind::DeciderStarted(it) => turns::started(it),
        EventKind::DeciderCompleted(it) => turns::completed(it),
        EventKind::DeciderTimedOut(it) => turns::timed_out(it),
        EventKind::DeciderFailed(it) => turns::failed(it),
        EventKind::ActivityScheduled(it) => activities::scheduled(it),
        EventKind::ActivityScheduleFailed(it) => activities::schedule_failed(it),
        EventKind::ActivityStarted(it) => activities::started(it),
        EventKind::ActivitySuccess(it) => activities::success(it),
        EventKind::ActivityFailed(it) => activities::failed(it),
        EventKind::ActivityCanceled(it) => activities::canceled(it),
        EventKind::ActivityTimedOut(it) => activities::timed_out(it),
        EventKind::ActivityScheduledTimeout(it) => activities::scheduled_timeout(it),
        EventKind::ActivityTaskCancel(it) => activities::task_cancel(it),
        EventKind::ActivityTaskCancelFailed(it) => activities::task_cancel_failed(it),
        EventKind::TimerScheduled(it) => timers::scheduled(it),
        EventKind::TimerScheduleFailed(it) => timers::schedule_failed(it),
        EventKind::TimerExpired(it) => timers::expired(it),
        EventKind::TimerCanceled(it) => timers::canceled(it),
        EventKind::TimerCancelFailed(it) => timers::cancel_failed(it),
        EventKind::Signal(it) => runs::signal(it),
        EventKind::Marker(it) => runs::marker(it),
        EventKind::MarkerFailed(it) => runs::marker_failed(it),
        EventKind::ChildScheduled(it) => children::scheduled(it),
        EventKind::ChildScheduleFailed(it) => children::schedule_failed(it, related),
        EventKind::ChildStarted(it) => children::started(it, related),
        EventKind::ChildSuccess(it) => children::success(it, related),
        EventKind::ChildFailed(it) => children::failed(it, related),
        EventKind::ChildTimedOut(it) => children::timed_out(it, related),
        EventKind::ChildCanceled(it) => children::canceled(it, related),
        EventKind::ChildTerminated(it) => children::terminated(it, related),
        EventKind::ExternalSignalScheduled(it) => externals::signal_scheduled(it),
        EventKind::ExternalSignalDelivered(it) => externals::signal_delivered(it),
        EventKind::ExternalSignalFailed(it) => externals::signal_failed(it, related),
        EventKind::ExternalCancelScheduled(it) => externals::cancel_scheduled(it),
        EventKind::ExternalCancelDelivered(it) => externals::cancel_delivered(it),
        EventKind::ExternalCancelFailed(it) => externals::cancel_failed(it, related),
        // Events without an equivalent in SWF.
        EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => {
            let attributes = decided(0).with("markerName", format!("baton.{}", kind.name()));
            ("MarkerRecorded", attributes.text("details", kind.payload()))
        }
    }
}
