//! Dispatches each event to the rule that applies it to the state of its run. The rules are in `rules`.

use super::{Run, Status};
use crate::event::{Event, EventKind};

impl Run {
    /// Applies the next event to the state. This cannot fail, because stored events are facts.
    pub fn evolve(&mut self, event: &Event) {
        let since = self.last_at();
        self.last_event_id = event.id;
        (self.last_timestamp, self.last_clock) = (event.timestamp, event.clock);
        if let Some(at) = event.clock
            && let Some(stopped_at) = self.clock.put_back(at)
        {
            self.rewind_timers(stopped_at, at);
        }
        if event.kind.is_news() {
            self.version = event.id;
        }
        if let Some(key) = event.key {
            self.remember(key, event.id, event.at());
        }
        match &event.kind {
            EventKind::WorkflowStarted(started) => *self = Self::begin(event.at(), started, event.key),
            EventKind::WorkflowSuccess(_) => self.close(Status::Success, event),
            EventKind::WorkflowFailed(_) => self.close(Status::Failed, event),
            EventKind::WorkflowCanceled(_) => self.close(Status::Canceled, event),
            EventKind::WorkflowContinuedAsNew(_) => self.close(Status::ContinuedAsNew, event),
            EventKind::WorkflowTimedOut(_) => self.close(Status::TimedOut, event),
            EventKind::WorkflowTerminated(it) => self.apply_terminated(event, it),
            EventKind::WorkflowCancelRequested(it) => self.apply_cancel_requested(event, it),
            EventKind::WorkflowPaused(it) => self.apply_paused(event, it),
            EventKind::WorkflowResumed(it) => self.apply_resumed(event, it),
            EventKind::WorkflowReset(it) => self.apply_reset(it, event, since),
            EventKind::DeciderScheduled(it) => self.apply_turn_scheduled(event, it),
            EventKind::DeciderStarted(it) => self.apply_turn_started(event, it.scheduled_event_id),
            EventKind::DeciderCompleted(it) => self.apply_turn_completed(event, it),
            EventKind::DeciderTimedOut(it) => self.apply_turn_timed_out(event, it),
            EventKind::DeciderFailed(it) => self.apply_turn_failed(event, it),
            EventKind::ActivityScheduled(it) => self.apply_activity_scheduled(event, it),
            EventKind::ActivityStarted(it) => self.apply_activity_started(event, it.scheduled_event_id),
            EventKind::ActivitySuccess(it) => self.apply_activity_success(it.scheduled_event_id),
            EventKind::ActivityFailed(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityCanceled(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTimedOut(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityScheduledTimeout(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTaskCancel(it) => self.apply_activity_cancel(event, it.scheduled_event_id),
            EventKind::ActivityPaused(it) => self.apply_activity_paused(event, it),
            EventKind::ActivityResumed(it) => self.release_activity(event, it.scheduled_event_id),
            EventKind::ActivityRetried(it) => self.release_activity(event, it.scheduled_event_id),
            EventKind::ActivityOptionsChanged(it) => self.apply_activity_options_changed(event, it),
            EventKind::TimerScheduled(it) => self.apply_timer_scheduled(event, it),
            EventKind::TimerExpired(it) => self.remove_timer(&it.timer_id),
            EventKind::TimerCanceled(it) => self.remove_timer(&it.timer_id),
            EventKind::ChildScheduled(it) => self.apply_child_scheduled(event.id, it),
            EventKind::ChildScheduleFailed(it) => self.remove_child(it.scheduled_event_id),
            EventKind::ChildStarted(it) => self.apply_child_started(event.id, it.scheduled_event_id),
            EventKind::ChildSuccess(it) => self.remove_child(Some(it.scheduled_event_id)),
            EventKind::ChildFailed(it) => self.remove_child(Some(it.scheduled_event_id)),
            EventKind::ChildTimedOut(it) => self.remove_child(Some(it.scheduled_event_id)),
            EventKind::ChildCanceled(it) => self.remove_child(Some(it.scheduled_event_id)),
            EventKind::ChildTerminated(it) => self.remove_child(Some(it.scheduled_event_id)),
            EventKind::ExternalSignalScheduled(it) => self.add_external(event, &it.workflow_id, it.decision_event_id),
            EventKind::ExternalCancelScheduled(it) => self.add_external(event, &it.workflow_id, it.decision_event_id),
            EventKind::ExternalSignalDelivered(it) => self.remove_external(Some(it.scheduled_event_id)),
            EventKind::ExternalCancelDelivered(it) => self.remove_external(Some(it.scheduled_event_id)),
            EventKind::ExternalSignalFailed(it) => self.remove_external(it.scheduled_event_id),
            EventKind::ExternalCancelFailed(it) => self.remove_external(it.scheduled_event_id),
            EventKind::UpdateAccepted(it) => self.updates.accept(event.id, event.at(), it),
            EventKind::UpdateCompleted(it) => self.apply_update_answered(event, it.accepted_event_id, &it.update_id),
            EventKind::UpdateFailed(it) => self.apply_update_answered(event, it.accepted_event_id, &it.update_id),
            EventKind::WorkflowCloseFailed(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_) => {}
        }
    }
}
