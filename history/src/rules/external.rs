//! Signals and cancel requests to other runs.
//!
//! | request is | input | result |
//! |---|---|---|
//! | any | SignalExternal | ExternalSignalScheduled |
//! | any | CancelExternal | ExternalCancelScheduled |
//! | pending | the other run accepts it | ExternalSignalDelivered or ExternalCancelDelivered |
//! | pending | the other run is closed | ExternalSignalFailed or ExternalCancelFailed (`WorkflowClosed`) |
//! | pending | the other run does not exist | ExternalSignalFailed or ExternalCancelFailed (`WorkflowUnknown`) |
//! | pending | this run closes | removed from the state, but still delivered |
//!
//! A request fails at once if [`OPEN_EXTERNALS_MAX`](limits::OPEN_EXTERNALS_MAX) requests are pending
//! (`OpenExternalsLimit`), or if the state of the run has no space for another request (`StateLimit`). Every outcome
//! schedules a turn. The modules `signal` and `workflow` define the effect on the other run, which is applied once.

use crate::command::EffectResult;
use crate::decision::{CancelExternal, SignalExternal};
use crate::event::{
    Event, EventId, EventKind, ExternalCancelDelivered, ExternalCancelFailed, ExternalCancelScheduled,
    ExternalFailedCause, ExternalSignalDelivered, ExternalSignalFailed, ExternalSignalScheduled,
};
use crate::fault::Fault;
use crate::limits;
use crate::run::{PendingExternal, Run};
use crate::state_budget;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::validate;

pub(crate) fn validate_signal(field: &impl Fn(&str) -> String, it: &SignalExternal) -> Result<(), Fault> {
    validate::name(&field("workflowId"), &it.workflow_id)?;
    validate::name(&field("name"), &it.name)?;
    validate::control(field, it.control.as_deref())?;
    validate::payload(&field("input"), it.input.as_ref())
}

pub(crate) fn validate_cancel(field: &impl Fn(&str) -> String, it: &CancelExternal) -> Result<(), Fault> {
    validate::name(&field("workflowId"), &it.workflow_id)?;
    validate::reason(&field("reason"), it.reason.as_deref())?;
    validate::control(field, it.control.as_deref())
}

pub(crate) fn not_signaled(it: &SignalExternal, cause: ExternalFailedCause, decision_event_id: EventId) -> EventKind {
    let (SignalExternal { workflow_id, run_id, control, .. }, scheduled_event_id) = (it.clone(), None);
    let failed = ExternalSignalFailed { workflow_id, cause, scheduled_event_id, decision_event_id, run_id, control };
    EventKind::ExternalSignalFailed(failed)
}

pub(crate) fn cancel_not_sent(
    it: &CancelExternal,
    cause: ExternalFailedCause,
    decision_event_id: EventId,
) -> EventKind {
    let (CancelExternal { workflow_id, run_id, control, .. }, scheduled_event_id) = (it.clone(), None);
    let failed = ExternalCancelFailed { workflow_id, cause, scheduled_event_id, decision_event_id, run_id, control };
    EventKind::ExternalCancelFailed(failed)
}

impl Transition {
    pub(crate) fn signal_external(&mut self, it: &SignalExternal, decision_event_id: EventId) -> EventKind {
        if let Some(cause) = self.externals_limit(&it.workflow_id) {
            return not_signaled(it, cause, decision_event_id);
        }
        let SignalExternal { workflow_id, run_id, name, input, control } = it.clone();
        let scheduled = ExternalSignalScheduled { workflow_id, run_id, name, input, decision_event_id, control };
        EventKind::ExternalSignalScheduled(scheduled)
    }

    pub(crate) fn cancel_external(&mut self, it: &CancelExternal, decision_event_id: EventId) -> EventKind {
        if let Some(cause) = self.externals_limit(&it.workflow_id) {
            return cancel_not_sent(it, cause, decision_event_id);
        }
        let CancelExternal { workflow_id, run_id, reason, control } = it.clone();
        let scheduled = ExternalCancelScheduled { workflow_id, run_id, reason, decision_event_id, control };
        EventKind::ExternalCancelScheduled(scheduled)
    }

    /// Returns the reason why the run cannot send another request, or `None` if it can.
    fn externals_limit(&mut self, workflow_id: &str) -> Option<ExternalFailedCause> {
        if self.run.externals.len() + self.links.outbox.taken_over() >= limits::OPEN_EXTERNALS_MAX {
            Some(ExternalFailedCause::OpenExternalsLimit)
        } else if !self.has_space(|_| state_budget::external(workflow_id)) {
            Some(ExternalFailedCause::StateLimit)
        } else {
            None
        }
    }

    /// Records the outcome of a signal or cancel request to another run.
    pub(crate) fn settle_external(
        &mut self,
        scheduled_event_id: EventId,
        is_signal: bool,
        result: EffectResult,
        now: Timestamp,
    ) {
        let Some(pending) = self.run.externals.get(&scheduled_event_id).cloned() else { return };
        let (workflow_id, decision_event_id) = (pending.workflow_id, pending.decision_event_id);
        let cause = match result {
            EffectResult::Done { run_id } => {
                let kind = if is_signal {
                    let delivered = ExternalSignalDelivered { workflow_id, run_id, scheduled_event_id };
                    EventKind::ExternalSignalDelivered(delivered)
                } else {
                    let delivered = ExternalCancelDelivered { workflow_id, run_id, scheduled_event_id };
                    EventKind::ExternalCancelDelivered(delivered)
                };
                self.push(now, kind);
                return;
            }
            EffectResult::Closed => ExternalFailedCause::WorkflowClosed,
            EffectResult::Unknown
            | EffectResult::AlreadyOpen
            | EffectResult::ReuseRefused
            | EffectResult::NeverStarts => ExternalFailedCause::WorkflowUnknown,
        };
        let scheduled_event_id = Some(scheduled_event_id);
        let (run_id, control) = (None, None);
        let kind = if is_signal {
            EventKind::ExternalSignalFailed(ExternalSignalFailed {
                workflow_id,
                cause,
                scheduled_event_id,
                decision_event_id,
                run_id,
                control,
            })
        } else {
            EventKind::ExternalCancelFailed(ExternalCancelFailed {
                workflow_id,
                cause,
                scheduled_event_id,
                decision_event_id,
                run_id,
                control,
            })
        };
        self.push(now, kind);
    }
}

impl Run {
    pub(crate) fn add_external(&mut self, event: &Event, workflow_id: &str, decision_event_id: EventId) {
        let pending = PendingExternal { workflow_id: workflow_id.to_owned(), decision_event_id };
        self.externals.insert(event.id, pending);
    }

    /// Removes a request that has an outcome. `None` stands for a request that was never sent.
    pub(crate) fn remove_external(&mut self, scheduled_event_id: Option<EventId>) {
        if let Some(scheduled_event_id) = scheduled_event_id {
            self.externals.remove(&scheduled_event_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scene::{Scene, cancel_external, check, done, scene, settle, signal, signal_external, success};
    use crate::{EffectKind, EffectResult};

    /// Returns a run with a pending signal, a pending cancel request, and a held turn.
    fn sent() -> Scene {
        scene().decide([signal_external("b"), cancel_external("b")]).then(&signal("go")).take()
    }

    /// Returns the event id and the kind of the signal and of the cancel request.
    fn of(scene: &Scene) -> [(u64, EffectKind); 2] {
        let ids: Vec<_> = scene.run.externals.keys().copied().collect();
        [(ids[0], EffectKind::Signal), (ids[1], EffectKind::RequestCancel)]
    }

    #[test]
    fn requests_can_be_sent_while_others_are_pending() {
        for given in [scene().take(), sent()] {
            let then = "DeciderCompleted ExternalSignalScheduled(b)";
            check(&given, &given.complete([signal_external("b")]), then);
            let then = "DeciderCompleted ExternalCancelScheduled(b)";
            check(&given, &given.complete([cancel_external("b")]), then);
        }
    }

    #[test]
    fn the_outcome_of_a_request_is_recorded_once() {
        let given = sent();
        let [(signal, is_signal), (cancel, is_cancel)] = of(&given);
        for (result, signaled, canceled) in [
            (done(), "ExternalSignalDelivered", "ExternalCancelDelivered"),
            (
                EffectResult::Closed,
                "ExternalSignalFailed(b, WorkflowClosed)",
                "ExternalCancelFailed(b, WorkflowClosed)",
            ),
            (
                EffectResult::Unknown,
                "ExternalSignalFailed(b, WorkflowUnknown)",
                "ExternalCancelFailed(b, WorkflowUnknown)",
            ),
        ] {
            check(&given, &settle(signal, is_signal, result), &format!("{signaled} DeciderScheduled"));
            check(&given, &settle(cancel, is_cancel, result), &format!("{canceled} DeciderScheduled"));
            let known = given.clone().then(&settle(signal, is_signal, result));
            check(&known, &settle(signal, is_signal, result), "");
        }
    }

    #[test]
    fn a_closed_run_delivers_but_records_no_outcome() {
        let closed = sent().decide([success()]);
        assert!(closed.run.externals.is_empty());
        assert_eq!(closed.links.outbox.iter().count(), 2);
        let [(signal, is_signal), _] = of(&sent());
        check(&closed, &settle(signal, is_signal, done()), "");
        let settled = closed.then(&settle(signal, is_signal, EffectResult::Unknown));
        assert_eq!(settled.links.outbox.iter().count(), 1);
    }
}
