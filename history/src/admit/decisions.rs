//! A decider's answer: DeciderCompleted, followed by one or two events for each decision, in order.
//!
//! This module dispatches each decision to its rule three times: to validate its fields, to record its events, and
//! to record its failure if the decider's credential does not permit it.

use crate::command::{TurnAnswer, TurnId};
use crate::decision::{Closing, Decision};
use crate::decision_context::{DecisionContext, DomainCapacity};
use crate::event::{
    ActivityScheduleFailedCause, ActivityTaskCancelFailedCause, ChildScheduleFailedCause, CloseDecision,
    CloseFailedCause, EventId, EventKind, ExternalFailedCause, MarkerFailedCause, TimerCancelFailedCause,
    TimerScheduleFailedCause, WorkflowCanceled, WorkflowSuccess,
};
use crate::fault::Fault;
use crate::limits;
use crate::rules::turn::must_hold;
use crate::rules::{activity, child, external, marker, timer, workflow};
use crate::run::Run;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::validate;

impl TurnAnswer {
    pub(crate) fn validate(&self, run: &Run) -> Result<(), Fault> {
        let is_swf = run.started.is_swf();
        self.validate_fields(is_swf)?;
        let (found, max) = (self.decisions.len(), limits::DECISIONS_MAX);
        if found > max {
            let problem = format!("has {found} entries, at most {max} are allowed");
            return Err(Fault::Invalid { field: "decisions".to_owned(), problem });
        }
        // Validate the whole batch before anything is recorded.
        for (index, decision) in self.decisions.iter().enumerate() {
            if decision.closes().is_some() && index + 1 != found {
                return Err(Fault::Invalid {
                    field: format!("decisions[{index}]"),
                    problem: format!("closes the run ({}); a closing decision must be the last", decision.name()),
                });
            }
            validate_decision(&|name| format!("decisions[{index}].{name}"), decision, is_swf)?;
        }
        Ok(())
    }
}

fn validate_decision(field: &impl Fn(&str) -> String, decision: &Decision, is_swf: bool) -> Result<(), Fault> {
    match decision {
        Decision::ScheduleActivity(it) => activity::validate_schedule(field, it, is_swf),
        Decision::CancelActivity(it) => validate::name(&field("activityId"), &it.activity_id),
        Decision::StartTimer(it) => timer::validate_start(field, it),
        Decision::CancelTimer(it) => validate::name(&field("timerId"), &it.timer_id),
        Decision::RecordMarker(it) => marker::validate_record(field, it),
        Decision::StartChild(it) => child::validate_start(field, it, is_swf),
        Decision::SignalExternal(it) => external::validate_signal(field, it),
        Decision::CancelExternal(it) => external::validate_cancel(field, it),
        Decision::SucceedWorkflow(it) => validate::payload(&field("result"), it.result.as_ref()),
        Decision::FailWorkflow(it) => workflow::validate_fail(field, it, is_swf),
        Decision::CancelWorkflow(it) => validate::payload(&field("details"), it.details.as_ref()),
        Decision::ContinueAsNew(it) => workflow::validate_continue(field, it, is_swf),
    }
}

/// Returns the failure event of a decision that the credential does not permit.
fn not_permitted(decision: &Decision, id: EventId) -> EventKind {
    let not_closed = |decision| workflow::not_closed(decision, CloseFailedCause::OperationNotPermitted, id);
    match decision {
        Decision::ScheduleActivity(it) => {
            activity::not_scheduled(it, ActivityScheduleFailedCause::OperationNotPermitted, id)
        }
        Decision::CancelActivity(it) => {
            activity::not_canceled(it, ActivityTaskCancelFailedCause::OperationNotPermitted, id)
        }
        Decision::StartTimer(it) => timer::not_set(it, TimerScheduleFailedCause::OperationNotPermitted, id),
        Decision::CancelTimer(it) => timer::not_canceled(it, TimerCancelFailedCause::OperationNotPermitted, id),
        Decision::RecordMarker(it) => marker::not_recorded(it, MarkerFailedCause::OperationNotPermitted, id),
        Decision::StartChild(it) => child::not_scheduled(it, ChildScheduleFailedCause::OperationNotPermitted, id),
        Decision::SignalExternal(it) => external::not_signaled(it, ExternalFailedCause::OperationNotPermitted, id),
        Decision::CancelExternal(it) => external::cancel_not_sent(it, ExternalFailedCause::OperationNotPermitted, id),
        Decision::SucceedWorkflow(_) => not_closed(CloseDecision::SucceedWorkflow),
        Decision::FailWorkflow(_) => not_closed(CloseDecision::FailWorkflow),
        Decision::CancelWorkflow(_) => not_closed(CloseDecision::CancelWorkflow),
        Decision::ContinueAsNew(_) => not_closed(CloseDecision::ContinueAsNew),
    }
}

impl Transition {
    pub(crate) fn complete_turn(&mut self, turn: TurnId, answer: &TurnAnswer, now: Timestamp) -> Result<(), Fault> {
        // Check the state first, so that a late answer is reported as late even if it has other errors.
        must_hold(&self.run, turn)?;
        answer.validate(&self.run)?;
        answer.next_task_list.as_ref().map_or(Ok(()), |to| self.may_move(to))?;
        let decision_event_id = self.turn_completed(turn, answer, now);
        self.carry_out_all(answer, decision_event_id, now);
        Ok(())
    }

    pub(crate) fn carry_out_all(&mut self, answer: &TurnAnswer, decision_event_id: EventId, now: Timestamp) {
        // If another turn is already scheduled, events have been recorded that this turn has not seen.
        let mut unseen = self.run.turn_task.is_some();
        let context = &answer.decision_context;
        let mut capacities = context.child_capacities.iter().copied();
        for decision in &answer.decisions {
            let is_child = matches!(decision, Decision::StartChild(_));
            let capacity = is_child.then(|| capacities.next()).flatten().unwrap_or_default();
            unseen |= self.carry_out(decision, context, capacity, decision_event_id, unseen, now);
        }
    }

    /// Records one decision. Returns `true` if the decision failed. The decider has not seen the failure, so a later
    /// closing decision of the same answer also fails, unless it is forced.
    fn carry_out(
        &mut self,
        decision: &Decision,
        context: &DecisionContext,
        capacity: DomainCapacity,
        id: EventId,
        unseen: bool,
        now: Timestamp,
    ) -> bool {
        if !self.is_permitted(decision, context) {
            self.push(now, not_permitted(decision, id));
            return true;
        }
        if let Some(Closing { decision, is_forced }) = decision.closes()
            && unseen
            && !is_forced
        {
            self.push(now, workflow::not_closed(decision, CloseFailedCause::UnhandledEvents, id));
            return true;
        }
        let kind = match decision {
            Decision::ScheduleActivity(it) => return self.schedule_activity(it, context, id, now),
            Decision::CancelActivity(it) => return self.cancel_activity(it, id, now),
            Decision::StartTimer(it) => self.start_timer(it, id),
            Decision::CancelTimer(it) => self.cancel_timer(it, id),
            Decision::RecordMarker(it) => self.record_marker(it, id),
            Decision::StartChild(it) => self.start_child(it, context, capacity, id),
            Decision::SignalExternal(it) => self.signal_external(it, id),
            Decision::CancelExternal(it) => self.cancel_external(it, id),
            Decision::SucceedWorkflow(it) => {
                EventKind::WorkflowSuccess(WorkflowSuccess { result: it.result.clone(), decision_event_id: id })
            }
            Decision::FailWorkflow(it) => self.fail_workflow(it, id, now),
            Decision::CancelWorkflow(it) => {
                EventKind::WorkflowCanceled(WorkflowCanceled { details: it.details.clone(), decision_event_id: id })
            }
            Decision::ContinueAsNew(it) => self.continue_as_new(it, context, id, now),
        };
        let failed = self.run.needs_decider(&kind);
        self.push(now, kind);
        failed
    }

    /// Returns `true` if the decider's credential permits the decision.
    fn is_permitted(&self, decision: &Decision, context: &DecisionContext) -> bool {
        let started = &self.run.started;
        self.author.may.as_ref().is_none_or(|may| may.iter().any(|may| may.allows(decision, started, context)))
    }
}
