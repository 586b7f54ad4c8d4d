//! How each event changes the state of its run.

use super::known::key_of_update;
use super::{
    LostTurns, PausedActivity, PendingActivity, PendingChild, Released, Run, RunPause, Status, Turn, TurnLists,
    TurnTask,
};
use crate::event::{ByHand, DeciderFailedCause, Event, EventId, EventKind, TurnList};
use crate::time::Timestamp;

impl Run {
    /// Takes one more event into the state. Total: stored events are facts, and facts are not argued with.
    pub fn evolve(&mut self, event: &Event) {
        let since = self.last_timestamp;
        self.last_event_id = event.id;
        self.last_timestamp = event.timestamp;
        if event.kind.is_news() {
            self.version = event.id;
        }
        if let Some(key) = event.key {
            self.remember(key, event.id, event.timestamp);
        }
        match &event.kind {
            EventKind::WorkflowStarted(started) => *self = Self::begin(event.timestamp, started, event.key),
            EventKind::WorkflowSuccess(_) => self.close(Status::Success, event),
            EventKind::WorkflowFailed(_) => self.close(Status::Failed, event),
            EventKind::WorkflowCanceled(_) => self.close(Status::Canceled, event),
            EventKind::WorkflowContinuedAsNew(_) => self.close(Status::ContinuedAsNew, event),
            EventKind::WorkflowTimedOut(_) => self.close(Status::TimedOut, event),
            EventKind::WorkflowTerminated(it) => {
                if let (Some(swf), Some(policy)) = (&mut self.started.swf, it.child_policy) {
                    swf.child_policy = policy;
                }
                self.close(Status::Terminated, event);
            }
            EventKind::WorkflowCancelRequested(_) => self.cancel_requested = true,
            EventKind::DeciderScheduled(it) => {
                self.turn_task = Some(TurnTask {
                    scheduled_event_id: event.id,
                    waits_since: event.timestamp,
                    attempt: it.attempt,
                    not_before: it.not_before,
                    task_list: Some(&it.task_list).filter(|list| **list != self.started.task_list).cloned(),
                    schedule_to_start: it
                        .schedule_to_start
                        .filter(|wait| Some(*wait) != self.started.decider_schedule_to_start),
                });
            }
            EventKind::DeciderStarted(it) => {
                let (attempt, task_list) =
                    self.turn_task.take().map_or((1, None), |task| (task.attempt, task.task_list));
                self.turn = Some(Turn {
                    scheduled_event_id: it.scheduled_event_id,
                    started_event_id: event.id,
                    started_at: event.timestamp,
                    attempt,
                    task_list,
                });
            }
            EventKind::DeciderCompleted(it) => {
                self.end_turn(event.timestamp);
                (self.turns_lost, self.lost_turns) = (0, None);
                self.previous_started_event_id = it.started_event_id;
                self.awaiting.clone_from(&it.awaiting);
                if it.context.is_some() {
                    self.context_event_id = Some(event.id);
                }
                if let Some(list) = &it.moves_to {
                    self.move_turns(list);
                }
            }
            EventKind::DeciderTimedOut(it) => {
                self.lose_turn(event);
                self.turn_lists.take_if(|lists| {
                    lists.for_now = None;
                    lists.for_good.is_none()
                });
                match it.started_event_id {
                    Some(_) => self.end_turn(event.timestamp),
                    None => self.turn_task = None,
                }
            }
            EventKind::DeciderFailed(it) => {
                // A turn that never reached its decider says nothing about the decider.
                if it.cause == DeciderFailedCause::Reported {
                    self.lose_turn(event);
                }
                self.end_turn(event.timestamp);
                if let (Some(task), Some(_)) = (&mut self.turn_task, it.next_not_before) {
                    task.not_before = it.next_not_before;
                }
            }
            EventKind::ActivityScheduled(it) => {
                if !self.is_lambda(&it.task_list) {
                    self.last_activity_at = Some(event.timestamp);
                }
                self.activities.insert(event.id, PendingActivity::new(it, event.timestamp));
            }
            EventKind::ActivityStarted(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    activity.started_event_id = Some(event.id);
                    activity.started_at = Some(event.timestamp);
                }
            }
            EventKind::ActivitySuccess(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityFailed(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityCanceled(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTimedOut(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityScheduledTimeout(it) => self.activities.remove(it.scheduled_event_id),
            EventKind::ActivityTaskCancel(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    activity.cancel_event_id = Some(event.id);
                }
            }
            EventKind::ActivityPaused(it) => {
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
                    let (event_id, at, cause) = (event.id, event.timestamp, it.cause);
                    activity.paused = Some(Box::new(PausedActivity { event_id, at, cause, by_hand }));
                }
            }
            EventKind::WorkflowPaused(it) => {
                let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
                let (event_id, at, stops_clock) = (event.id, event.timestamp, it.stop_clocks);
                self.paused = Some(Box::new(RunPause { event_id, at, stops_clock, by_hand }));
                if stops_clock {
                    self.clock.stop(at);
                }
            }
            EventKind::WorkflowResumed(_) => self.resume(event),
            EventKind::WorkflowReset(it) => self.branch(it, event, since),
            EventKind::ActivityResumed(it) => self.release(it.scheduled_event_id, event),
            EventKind::ActivityRetried(it) => self.release(it.scheduled_event_id, event),
            EventKind::ActivityOptionsChanged(it) => {
                let released = Released { event_id: event.id, at: event.timestamp };
                if let Some(activity) = self.activities.get_mut(it.scheduled_event_id) {
                    if activity.task_list != it.task_list {
                        activity.released = Some(released);
                    }
                    activity.task_list.clone_from(&it.task_list);
                    activity.timeouts = it.timeouts;
                    activity.retry.clone_from(&it.retry);
                }
            }
            EventKind::TimerScheduled(it) => self.timer_is_set(event, it),
            EventKind::TimerExpired(it) => self.timer_is_over(&it.timer_id),
            EventKind::TimerCanceled(it) => self.timer_is_over(&it.timer_id),
            EventKind::ChildScheduled(it) => {
                let child = PendingChild {
                    workflow_id: it.workflow_id.clone(),
                    decision_event_id: it.decision_event_id,
                    policy: it.child_policy,
                    started_event_id: None,
                };
                self.children.insert(event.id, child);
            }
            EventKind::ChildScheduleFailed(it) => {
                if let Some(scheduled_event_id) = it.scheduled_event_id {
                    self.children.remove(&scheduled_event_id);
                }
            }
            EventKind::ChildStarted(it) => {
                if let Some(child) = self.children.get_mut(&it.scheduled_event_id) {
                    child.started_event_id = Some(event.id);
                }
            }
            EventKind::ChildSuccess(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildFailed(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildTimedOut(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildCanceled(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ChildTerminated(it) => drop(self.children.remove(&it.scheduled_event_id)),
            EventKind::ExternalSignalScheduled(it) => {
                self.external_is_sent(event.id, &it.workflow_id, it.decision_event_id);
            }
            EventKind::ExternalCancelScheduled(it) => {
                self.external_is_sent(event.id, &it.workflow_id, it.decision_event_id);
            }
            EventKind::ExternalSignalDelivered(it) => self.external_is_known(Some(it.scheduled_event_id)),
            EventKind::ExternalCancelDelivered(it) => self.external_is_known(Some(it.scheduled_event_id)),
            EventKind::ExternalSignalFailed(it) => self.external_is_known(it.scheduled_event_id),
            EventKind::ExternalCancelFailed(it) => self.external_is_known(it.scheduled_event_id),
            EventKind::UpdateAccepted(it) => self.updates.accept(event.id, event.timestamp, it),
            EventKind::UpdateCompleted(it) => self.end_update(event, it.accepted_event_id, &it.update_id),
            EventKind::UpdateFailed(it) => self.end_update(event, it.accepted_event_id, &it.update_id),
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

    fn release(&mut self, scheduled_event_id: EventId, event: &Event) {
        if let Some(activity) = self.activities.get_mut(scheduled_event_id) {
            activity.paused = None;
            activity.released = Some(Released { event_id: event.id, at: event.timestamp });
        }
    }

    /// What waited while it was paused waits for somebody from here on; its timers go on where they were.
    fn resume(&mut self, event: &Event) {
        self.paused = None;
        self.start_clock(event.timestamp);
        if let Some(task) = &mut self.turn_task {
            task.waits_since = event.timestamp;
        }
        self.activities.release(Released { event_id: event.id, at: event.timestamp });
    }

    /// Its clock goes on, if it stood still, and its timers with it.
    pub(super) fn start_clock(&mut self, at: Timestamp) {
        if let Some((stopped_at, span)) = self.clock.go(at) {
            self.timers_go_on(stopped_at, span);
        }
    }

    fn move_turns(&mut self, list: &TurnList) {
        let lists = self.turn_lists.get_or_insert_default();
        if list.schedule_to_start.is_some() {
            lists.for_now = Some(list.clone());
        } else {
            **lists = TurnLists { for_good: Some(list.task_list.clone()), for_now: None };
        }
    }

    fn lose_turn(&mut self, event: &Event) {
        self.turns_lost = self.turns_lost.saturating_add(1);
        let since = self.lost_turns.map_or(event.timestamp, |lost| lost.since);
        self.lost_turns = Some(LostTurns { since, event_id: event.id });
    }

    fn end_turn(&mut self, at: Timestamp) {
        self.turn = None;
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
    }

    fn close(&mut self, status: Status, event: &Event) {
        self.status = status;
        self.closed_at = Some(event.timestamp);
        self.left_open = self.count_open();
        self.turn_task = None;
        self.turn = None;
        self.activities.clear();
        self.timers.clear();
        self.externals.clear();
        self.awaiting.clear();
        self.lost_turns = None;
        self.children.clear();
        self.clock.go(event.timestamp);
        for (accepted_event_id, it) in self.updates.close() {
            self.remember(key_of_update(&it.update_id), accepted_event_id, event.timestamp);
        }
        let followed_by = event.kind.followed_by().filter(|_| status != Status::ContinuedAsNew);
        self.retried_as = followed_by.map(|(run_id, _)| run_id);
        if !self.goes_on() {
            self.paused = None;
        }
    }

    fn end_update(&mut self, event: &Event, accepted_event_id: EventId, update_id: &str) {
        self.updates.end(accepted_event_id);
        self.remember(key_of_update(update_id), event.id, event.timestamp);
    }
}
