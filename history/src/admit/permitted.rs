//! Decisions that a decider's credential does not allow: recorded as failed, like any other that cannot be.

use super::Transition;
use crate::decision::Decision;
use crate::event::{
    ActivityScheduleFailed, ActivityScheduleFailedCause, ActivityTaskCancelFailed, ActivityTaskCancelFailedCause,
    ChildScheduleFailedCause, CloseDecision, CloseFailedCause, EventId, EventKind, ExternalCancelFailed,
    ExternalFailedCause, ExternalSignalFailed, MarkerFailed, MarkerFailedCause, TimerCancelFailed,
    TimerCancelFailedCause, TimerScheduleFailed, TimerScheduleFailedCause, TurnList, WorkflowCloseFailed,
};
use crate::fault::Fault;

impl Transition {
    /// The event of a decision that is not allowed; `None` where it is.
    pub(super) fn not_permitted(&self, decision: &Decision, decision_event_id: EventId) -> Option<EventKind> {
        let may = self.author.may.as_ref()?;
        let is_allowed = may.iter().any(|may| may.allows(decision, &self.run.started));
        (!is_allowed).then(|| failed(decision, decision_event_id))
    }

    /// Turns wait on another list by the word of who may have them wait there.
    pub(super) fn may_move(&self, to: &TurnList) -> Result<(), Fault> {
        if self.author.may.as_ref().is_none_or(|may| may.iter().any(|may| may.allows_list(&to.task_list))) {
            return Ok(());
        }
        let problem = "is a list on which this decider's credential does not allow it to have turns wait".to_owned();
        Err(Fault::Invalid { field: "taskList".to_owned(), problem })
    }
}

fn failed(decision: &Decision, decision_event_id: EventId) -> EventKind {
    let closes = |decision| {
        let cause = CloseFailedCause::OperationNotPermitted;
        EventKind::WorkflowCloseFailed(WorkflowCloseFailed { decision, cause, decision_event_id })
    };
    match decision {
        Decision::ScheduleActivity(it) => EventKind::ActivityScheduleFailed(ActivityScheduleFailed {
            activity_id: it.activity_id.clone(),
            activity_type: it.activity_type.clone(),
            cause: ActivityScheduleFailedCause::OperationNotPermitted,
            decision_event_id,
        }),
        Decision::CancelActivity(it) => EventKind::ActivityTaskCancelFailed(ActivityTaskCancelFailed {
            activity_id: it.activity_id.clone(),
            cause: ActivityTaskCancelFailedCause::OperationNotPermitted,
            decision_event_id,
        }),
        Decision::StartTimer(it) => EventKind::TimerScheduleFailed(TimerScheduleFailed {
            timer_id: it.timer_id.clone(),
            cause: TimerScheduleFailedCause::OperationNotPermitted,
            decision_event_id,
        }),
        Decision::CancelTimer(it) => EventKind::TimerCancelFailed(TimerCancelFailed {
            timer_id: it.timer_id.clone(),
            cause: TimerCancelFailedCause::OperationNotPermitted,
            decision_event_id,
        }),
        Decision::RecordMarker(it) => EventKind::MarkerFailed(MarkerFailed {
            name: it.name.clone(),
            cause: MarkerFailedCause::OperationNotPermitted,
            decision_event_id,
        }),
        Decision::StartChild(it) => {
            super::children::not_tried(it, ChildScheduleFailedCause::OperationNotPermitted, decision_event_id)
        }
        Decision::SignalExternal(it) => EventKind::ExternalSignalFailed(ExternalSignalFailed {
            workflow_id: it.workflow_id.clone(),
            cause: ExternalFailedCause::OperationNotPermitted,
            scheduled_event_id: None,
            decision_event_id,
            run_id: it.run_id.clone(),
            control: it.control.clone(),
        }),
        Decision::CancelExternal(it) => EventKind::ExternalCancelFailed(ExternalCancelFailed {
            workflow_id: it.workflow_id.clone(),
            cause: ExternalFailedCause::OperationNotPermitted,
            scheduled_event_id: None,
            decision_event_id,
            run_id: it.run_id.clone(),
            control: it.control.clone(),
        }),
        Decision::SucceedWorkflow(_) => closes(CloseDecision::SucceedWorkflow),
        Decision::FailWorkflow(_) => closes(CloseDecision::FailWorkflow),
        Decision::CancelWorkflow(_) => closes(CloseDecision::CancelWorkflow),
        Decision::ContinueAsNew(_) => closes(CloseDecision::ContinueAsNew),
    }
}
