//! What runs do to each other: effects that a run owes, what it takes of others', what became of its own.

use super::{Outcome, Transition, must_be_open};
use crate::command::EffectResult;
use crate::decision::{CancelExternal, SignalExternal};
use crate::event::{
    Event, EventId, EventKind, ExternalCancelDelivered, ExternalCancelFailed, ExternalCancelScheduled,
    ExternalFailedCause, ExternalSignalDelivered, ExternalSignalFailed, ExternalSignalScheduled, Origin,
};
use crate::fault::Fault;
use crate::limits;
use crate::links::{Effect, EffectKind, Errand, SeenOrigin};
use crate::time::Timestamp;

impl Transition {
    /// Does to this run what another one decided, once; answers what that one may be told. Depends on the run's state: what
    /// is not [`EffectResult::Done`] on an old state may be on the newest.
    pub fn undergo(&mut self, errand: &Errand, now: Timestamp) -> EffectResult {
        // Before a look at which run this is: the one before it may have taken it (ADR 5).
        if let Some(seen) = errand.origin().and_then(|origin| self.links.seen.find(origin)) {
            return EffectResult::Done { run_id: seen.run_id };
        }
        let run_id = self.run.started.run_id;
        if errand.run_id.is_some_and(|meant| meant != run_id) {
            return EffectResult::Unknown;
        }
        match self.admit(&errand.command, now) {
            Ok(_) => EffectResult::Done { run_id },
            Err(_) => EffectResult::Closed,
        }
    }

    /// The effects on others that an event asks for, on the state before it.
    pub(super) fn owe(&mut self, event: &Event) {
        let effect = match &event.kind {
            EventKind::ExternalSignalScheduled(it) => Effect::new(event.id, EffectKind::Signal, &it.workflow_id),
            EventKind::ExternalCancelScheduled(it) => Effect::new(event.id, EffectKind::RequestCancel, &it.workflow_id),
            _ => return,
        };
        self.links.outbox.add(effect, event.timestamp);
    }

    /// Takes an effect of another run, once.
    pub(super) fn take(&mut self, origin: &Origin, kind: EventKind, now: Timestamp) -> Result<Outcome, Fault> {
        // Before anything else: it may have been taken by a run that has closed since, or by the one before this.
        if let Some(seen) = self.links.seen.find(origin) {
            return Ok(Outcome::Repeated(seen.event_id));
        }
        must_be_open(&self.run)?;
        let event_id = self.push(now, kind);
        let run_id = self.run.started.run_id;
        self.links.seen.add(SeenOrigin { origin: origin.clone(), event_id, run_id });
        Ok(Outcome::Recorded(event_id))
    }

    /// Records what became of an effect on another run, unless that is known.
    pub(super) fn settle(&mut self, event_id: EventId, kind: EffectKind, result: EffectResult, now: Timestamp) {
        if !self.links.outbox.remove(event_id, kind) {
            return;
        }
        self.has_changed_beside = true;
        // A run that has closed has nobody to tell.
        let Some(pending) = self.run.externals.get(&event_id).cloned() else { return };
        let (workflow_id, decision_event_id) = (pending.workflow_id, pending.decision_event_id);
        let scheduled_event_id = event_id;
        let failed = |cause| match kind {
            EffectKind::Signal => EventKind::ExternalSignalFailed(ExternalSignalFailed {
                workflow_id: workflow_id.clone(),
                cause,
                scheduled_event_id: Some(scheduled_event_id),
                decision_event_id,
            }),
            EffectKind::RequestCancel => EventKind::ExternalCancelFailed(ExternalCancelFailed {
                workflow_id: workflow_id.clone(),
                cause,
                scheduled_event_id: Some(scheduled_event_id),
                decision_event_id,
            }),
        };
        let event = match (result, kind) {
            (EffectResult::Unknown, _) => failed(ExternalFailedCause::WorkflowUnknown),
            (EffectResult::Closed, _) => failed(ExternalFailedCause::WorkflowClosed),
            (EffectResult::Done { run_id }, EffectKind::Signal) => {
                EventKind::ExternalSignalDelivered(ExternalSignalDelivered { workflow_id, run_id, scheduled_event_id })
            }
            (EffectResult::Done { run_id }, EffectKind::RequestCancel) => {
                EventKind::ExternalCancelDelivered(ExternalCancelDelivered { workflow_id, run_id, scheduled_event_id })
            }
        };
        self.push(now, event);
    }

    /// Says when to see to late effects again.
    pub(super) fn see_to_effects(&mut self, now: Timestamp) {
        self.has_changed_beside |= self.links.outbox.see_to(now);
    }

    pub(super) fn signal_external(&self, it: &SignalExternal, decision_event_id: EventId) -> EventKind {
        let workflow_id = it.workflow_id.clone();
        if self.is_at_externals_limit() {
            let cause = ExternalFailedCause::OpenExternalsLimit;
            let scheduled_event_id = None;
            let failed = ExternalSignalFailed { workflow_id, cause, scheduled_event_id, decision_event_id };
            return EventKind::ExternalSignalFailed(failed);
        }
        let (run_id, name, input) = (it.run_id, it.name.clone(), it.input.clone());
        let scheduled = ExternalSignalScheduled { workflow_id, run_id, name, input, decision_event_id };
        EventKind::ExternalSignalScheduled(scheduled)
    }

    pub(super) fn cancel_external(&self, it: &CancelExternal, decision_event_id: EventId) -> EventKind {
        let workflow_id = it.workflow_id.clone();
        if self.is_at_externals_limit() {
            let cause = ExternalFailedCause::OpenExternalsLimit;
            let scheduled_event_id = None;
            let failed = ExternalCancelFailed { workflow_id, cause, scheduled_event_id, decision_event_id };
            return EventKind::ExternalCancelFailed(failed);
        }
        let (run_id, reason) = (it.run_id, it.reason.clone());
        let scheduled = ExternalCancelScheduled { workflow_id, run_id, reason, decision_event_id };
        EventKind::ExternalCancelScheduled(scheduled)
    }

    fn is_at_externals_limit(&self) -> bool {
        self.run.externals.len() >= limits::OPEN_EXTERNALS_MAX
    }
}
