//! A decider's answer: DeciderCompleted, then one event or two for each decision, in order.

use super::{Transition, must_hold, swf, validate};
use crate::command::TurnId;
use crate::decision::{Decision, ScheduleActivity};
use crate::event::{
    ActivityCanceled, ActivityNotStartedCause, ActivityScheduleFailed, ActivityScheduleFailedCause, ActivityScheduled,
    ActivityScheduledTimeout, ActivityTaskCancel, ActivityTaskCancelFailed, ActivityTaskCancelFailedCause,
    CloseFailedCause, DeciderCompleted, EventId, EventKind, TurnList, WorkflowCanceled, WorkflowCloseFailed,
    WorkflowContinuedAsNew, WorkflowFailed, WorkflowSuccess,
};
use crate::fault::Fault;
use crate::limits;
use crate::links::child_run_id;
use crate::payload::Payload;
use crate::registered::Registration;
use crate::run::{PendingActivity, Run};
use crate::time::Timestamp;

/// What a decider answers with, beside what it says to updates.
pub(super) struct Completion<'a> {
    pub(super) decisions: &'a [Decision],
    pub(super) context: Option<&'a Payload>,
    pub(super) awaiting: &'a [String],
    pub(super) moves_to: Option<&'a TurnList>,
}

impl Completion<'_> {
    pub(super) fn validate(&self, run: &Run) -> Result<(), Fault> {
        let is_swf = run.started.is_swf();
        let context_max = if is_swf { limits::SWF_CONTEXT_BYTES_MAX } else { limits::CONTEXT_BYTES_MAX };
        validate::size("context", self.context, context_max)?;
        validate::awaiting(self.awaiting)?;
        if let Some(list) = self.moves_to {
            validate::name("taskList", &list.task_list)?;
            validate::span("taskListScheduleToStart", list.schedule_to_start.unwrap_or_default())?;
        }
        validate::decisions(self.decisions, is_swf)
    }
}

impl Transition {
    pub(super) fn complete_turn(
        &mut self,
        turn: TurnId,
        completion: &Completion<'_>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        // State first: an answer that comes too late hears that, whatever else may be wrong with it.
        must_hold(&self.run, turn)?;
        completion.validate(&self.run)?;
        completion.moves_to.map_or(Ok(()), |to| self.may_move(to))?;
        let decision_event_id = self.turn_completed(turn, completion, now);
        self.carry_out_all(completion, decision_event_id, now);
        Ok(())
    }

    pub(super) fn turn_completed(&mut self, turn: TurnId, completion: &Completion<'_>, now: Timestamp) -> EventId {
        let TurnId { scheduled_event_id, started_event_id } = turn;
        let (context, awaiting) = (completion.context.cloned(), completion.awaiting.to_vec());
        let moves_to = completion.moves_to.cloned();
        let completed = DeciderCompleted { scheduled_event_id, started_event_id, context, awaiting, moves_to };
        self.push(now, EventKind::DeciderCompleted(completed))
    }

    pub(super) fn carry_out_all(&mut self, completion: &Completion<'_>, decision_event_id: EventId, now: Timestamp) {
        // A further turn that waits already means news since this one started.
        let mut unseen = self.run.turn_task.is_some();
        for decision in completion.decisions {
            unseen |= self.carry_out(decision, decision_event_id, unseen, now);
        }
    }

    /// Records one decision; true when it failed, which the decider has yet to see.
    fn carry_out(&mut self, decision: &Decision, decision_event_id: EventId, unseen: bool, now: Timestamp) -> bool {
        if let Some(kind) = self.not_permitted(decision, decision_event_id) {
            self.push(now, kind);
            return true;
        }
        if let Some((decision, force)) = decision.closes()
            && unseen
            && !force
        {
            let cause = CloseFailedCause::UnhandledEvents;
            let failed = WorkflowCloseFailed { decision, cause, decision_event_id };
            self.push(now, EventKind::WorkflowCloseFailed(failed));
            return true;
        }
        let kind = match decision {
            Decision::ScheduleActivity(it) => {
                let kind = self.schedule_activity(it, decision_event_id);
                if self.lacks_role(it, &kind) {
                    let scheduled_event_id = self.push(now, kind);
                    return self.no_runner_may_take(scheduled_event_id, now);
                }
                kind
            }
            Decision::CancelActivity(it) => return self.cancel_activity(&it.activity_id, decision_event_id, now),
            Decision::StartTimer(it) => self.start_timer(it, decision_event_id),
            Decision::CancelTimer(it) => self.cancel_timer(it, decision_event_id),
            Decision::RecordMarker(it) => self.record_marker(it, decision_event_id),
            Decision::StartChild(it) => self.start_child(it, decision_event_id),
            Decision::SignalExternal(it) => self.signal_external(it, decision_event_id),
            Decision::CancelExternal(it) => self.cancel_external(it, decision_event_id),
            Decision::SucceedWorkflow(it) => {
                EventKind::WorkflowSuccess(WorkflowSuccess { result: it.result.clone(), decision_event_id })
            }
            Decision::FailWorkflow(it) => {
                let (new_run_id, next_try_at) = self.next_try(Some(&it.reason), now).unzip();
                let (reason, details) = (it.reason.clone(), it.details.clone());
                EventKind::WorkflowFailed(WorkflowFailed {
                    reason,
                    details,
                    decision_event_id,
                    new_run_id,
                    next_try_at,
                })
            }
            Decision::CancelWorkflow(it) => {
                EventKind::WorkflowCanceled(WorkflowCanceled { details: it.details.clone(), decision_event_id })
            }
            Decision::ContinueAsNew(it) if self.run.started.is_swf() => {
                self.continue_in_swf(it, decision_event_id, now)
            }
            Decision::ContinueAsNew(it) => {
                let started = &self.run.started;
                EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
                    new_run_id: child_run_id(started.run_id, decision_event_id, now),
                    input: it.input.clone(),
                    workflow_type: it.workflow_type.as_ref().unwrap_or(&started.workflow_type).clone(),
                    task_list: it.task_list.as_ref().unwrap_or(&started.task_list).clone(),
                    tags: it.tags.as_ref().unwrap_or(&started.tags).clone(),
                    decision_event_id,
                    swf: None,
                })
            }
        };
        let failed = self.run.is_looked_at(&kind);
        self.push(now, kind);
        failed
    }

    fn schedule_activity(&mut self, it: &ScheduleActivity, decision_event_id: EventId) -> EventKind {
        let (activity_id, activity_type) = (it.activity_id.clone(), it.activity_type.clone());
        let is_swf = self.run.started.is_swf();
        let cause = if it.registration == Registration::Deprecated {
            Some(ActivityScheduleFailedCause::ActivityTypeDeprecated)
        } else if let Some(cause) = swf::undefined_activity(it).filter(|_| is_swf) {
            Some(cause)
        } else if self.run.activity(&activity_id).is_some() {
            Some(ActivityScheduleFailedCause::ActivityIdAlreadyInUse)
        } else if self.run.activities.len() >= limits::OPEN_ACTIVITIES_MAX {
            Some(ActivityScheduleFailedCause::OpenActivitiesLimit)
        } else {
            None
        };
        let failed = |cause| {
            let (activity_id, activity_type) = (it.activity_id.clone(), it.activity_type.clone());
            let failed = ActivityScheduleFailed { activity_id, activity_type, cause, decision_event_id };
            EventKind::ActivityScheduleFailed(failed)
        };
        if let Some(cause) = cause {
            return failed(cause);
        }
        let started = &self.run.started;
        let defaults = it.registration.defaults();
        let list = it.task_list.as_ref().or(defaults.and_then(|defaults| defaults.task_list.as_ref()));
        let timeouts = it.timeouts.or(defaults.map(|defaults| defaults.timeouts).unwrap_or_default());
        let scheduled = Box::new(ActivityScheduled {
            activity_id,
            activity_type,
            task_list: list.unwrap_or(&started.task_list).clone(),
            input: it.input.clone(),
            timeouts: if is_swf { timeouts } else { timeouts.or(started.activity_timeouts) },
            decision_event_id,
            retry: it.retry.clone(),
            control: it.control.clone(),
            task_priority: it.task_priority.or(defaults.and_then(|defaults| defaults.task_priority)),
        });
        let pending = PendingActivity::new(&scheduled, self.run.last_timestamp);
        if self.has_room(|room| room.activity(&pending)) {
            EventKind::ActivityScheduled(scheduled)
        } else {
            failed(ActivityScheduleFailedCause::StateLimit)
        }
    }

    /// Whether it was scheduled, and nobody may do it: a Lambda task without a role.
    fn lacks_role(&self, it: &ScheduleActivity, kind: &EventKind) -> bool {
        let swf = self.run.started.swf.as_ref();
        matches!(kind, EventKind::ActivityScheduled(_))
            && swf.is_some_and(|swf| swf.lambda_role.is_none() && swf::is_lambda(it))
    }

    fn no_runner_may_take(&mut self, scheduled_event_id: EventId, now: Timestamp) -> bool {
        let (last_failure, cause) = (None, Some(ActivityNotStartedCause::LambdaRoleUndefined));
        let timeout = ActivityScheduledTimeout { scheduled_event_id, last_failure, cause };
        self.push(now, EventKind::ActivityScheduledTimeout(timeout));
        true
    }

    fn cancel_activity(&mut self, activity_id: &str, decision_event_id: EventId, now: Timestamp) -> bool {
        let activity_id = activity_id.to_owned();
        let Some((scheduled_event_id, activity)) = self.run.activity(&activity_id) else {
            let cause = ActivityTaskCancelFailedCause::ActivityIdUnknown;
            let failed = ActivityTaskCancelFailed { activity_id, cause, decision_event_id };
            self.push(now, EventKind::ActivityTaskCancelFailed(failed));
            return true;
        };
        let has_started = activity.held_since().is_some();
        let cancel = ActivityTaskCancel { activity_id, scheduled_event_id, decision_event_id };
        let cancel_event_id = self.push(now, EventKind::ActivityTaskCancel(cancel));
        if !has_started {
            // Nobody is there to be asked. The decider knows what it did, so this alone is no unseen news.
            let canceled =
                ActivityCanceled { scheduled_event_id, started_event_id: None, cancel_event_id, details: None };
            self.push(now, EventKind::ActivityCanceled(canceled));
            // In SWF's dialect it is news all the same, and a close behind it fails.
            return self.run.started.is_swf();
        }
        false
    }
}
