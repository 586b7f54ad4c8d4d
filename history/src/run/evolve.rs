//! Dispatches each event to the rule that applies it to the state of its run. The rules are in `rules`.

use super::{Run, Status};
use crate::event::{Event, EventKind};

impl Run {
    /// Applies one more event to the state. It never fails, because stored events are facts.
    pub fn evolve(&mut self, event: &Event) {
        let since = self.last_at();
        self.last_event_id = event.id;
        (self.last_timestamp, self.last_clock) = (event.timestamp, event.clock);
        if let Some(at) = event.clock
            && let Some(stopped_at) = self.clock.put_back(at)
        {
            self.timers_come_back(stopped_at, at);
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
            EventKind::WorkflowTerminated(it) => self.is_terminated(event, it),
            EventKind::WorkflowCancelRequested(it) => self.request_cancel(event, it),
            EventKind::WorkflowPaused(it) => self.is_paused_by(event, it),
            EventKind::WorkflowResumed(it) => self.is_resumed(event, it),
            EventKind::WorkflowReset(it) => self.branch(it, event, since),
            EventKind::DeciderScheduled(it) => self.turn_waits(event, it),
            EventKind::DeciderStarted(it) => self.turn_is_held(event, it.scheduled_event_id),
            EventKind::DeciderCompleted(it) => self.turn_is_answered(event, it),
            EventKind::DeciderTimedOut(it) => self.turn_has_timed_out(event, it),
            EventKind::DeciderFailed(it) => self.turn_has_failed(event, it),
            EventKind::ActivityScheduled(it) => self.activity_waits(event, it),
            EventKind::ActivityStarted(it) => self.activity_is_held(event, it.scheduled_event_id),
            EventKind::ActivitySuccess(it) => self.activity_has_succeeded(it.scheduled_event_id),
            EventKind::ActivityFailed(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityCanceled(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTimedOut(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityScheduledTimeout(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTaskCancel(it) => self.activity_is_to_stop(event, it.scheduled_event_id),
            EventKind::ActivityPaused(it) => self.activity_is_paused(event, it),
            EventKind::ActivityResumed(it) => self.activity_is_released(event, it.scheduled_event_id),
            EventKind::ActivityRetried(it) => self.activity_is_released(event, it.scheduled_event_id),
            EventKind::ActivityOptionsChanged(it) => self.activity_is_changed(event, it),
            EventKind::TimerScheduled(it) => self.timer_is_set(event, it),
            EventKind::TimerExpired(it) => self.timer_is_over(&it.timer_id),
            EventKind::TimerCanceled(it) => self.timer_is_over(&it.timer_id),
            EventKind::ChildScheduled(it) => self.child_is_wanted(event.id, it),
            EventKind::ChildScheduleFailed(it) => self.child_is_gone(it.scheduled_event_id),
            EventKind::ChildStarted(it) => self.child_has_begun(event.id, it.scheduled_event_id),
            EventKind::ChildSuccess(it) => self.child_is_gone(Some(it.scheduled_event_id)),
            EventKind::ChildFailed(it) => self.child_is_gone(Some(it.scheduled_event_id)),
            EventKind::ChildTimedOut(it) => self.child_is_gone(Some(it.scheduled_event_id)),
            EventKind::ChildCanceled(it) => self.child_is_gone(Some(it.scheduled_event_id)),
            EventKind::ChildTerminated(it) => self.child_is_gone(Some(it.scheduled_event_id)),
            EventKind::ExternalSignalScheduled(it) => self.sends_to(event.id, &it.workflow_id, it.decision_event_id),
            EventKind::ExternalCancelScheduled(it) => self.sends_to(event.id, &it.workflow_id, it.decision_event_id),
            EventKind::ExternalSignalDelivered(it) => self.external_is_known(Some(it.scheduled_event_id)),
            EventKind::ExternalCancelDelivered(it) => self.external_is_known(Some(it.scheduled_event_id)),
            EventKind::ExternalSignalFailed(it) => self.external_is_known(it.scheduled_event_id),
            EventKind::ExternalCancelFailed(it) => self.external_is_known(it.scheduled_event_id),
            EventKind::UpdateAccepted(it) => self.updates.accept(event.id, event.at(), it),
            EventKind::UpdateCompleted(it) => self.update_is_answered(event, it.accepted_event_id, &it.update_id),
            EventKind::UpdateFailed(it) => self.update_is_answered(event, it.accepted_event_id, &it.update_id),
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
