//! Effects on other runs: a run requests an effect, another run applies it, and the outcome is reported back to the
//! requesting run.
//!
//! | effect is | input | result |
//! |---|---|---|
//! | pending | it is delivered | applied exactly once, to one run |
//! | pending | its outcome is reported | an event, defined in `child` or `external`; none if the run is closed |
//! | pending, from a predecessor | its outcome is reported | no event |
//! | pending | it is overdue (`RetryEffects`) | a new round of deliveries; refusals of earlier rounds no longer count |
//! | pending | the run closes | stays pending |
//!
//! `links::owed` defines which events request an effect. A refusal counts only in the round of deliveries in which it
//! was received, because a later delivery may have been accepted (ADR 5).

use crate::author::Author;
use crate::command::{Command, EffectResult};
use crate::event::EventId;
use crate::fault::Fault;
use crate::ids::RunId;
use crate::links::{EffectKind, OutboundAction, OutboundEffect, taken_over};
use crate::rules::workflow::may_start;
use crate::time::Timestamp;
use crate::transition::Transition;

impl Transition {
    /// Applies another run's effect to this run, at most once, and returns the outcome to report. A refusal may be
    /// wrong if this run's state is outdated, because the newest state might accept the effect.
    pub fn apply_effect(&mut self, outbound: &OutboundEffect, now: Timestamp) -> EffectResult {
        let OutboundAction::Admit(command) = &outbound.task else { return self.start_result(outbound) };
        // This check comes before the check of the run id, because a predecessor of this run may have accepted the
        // effect (ADR 5).
        if let Some(seen) = outbound.origin().and_then(|origin| self.links.seen.find(origin)) {
            return EffectResult::Done { run_id: seen.run_id };
        }
        let run_id = self.run.started.run_id;
        let is_meant = match command {
            // The parent's close applies to any run of the child's workflow id that still has this parent: the child
            // itself or a successor.
            Command::TakeParentClose { origin, .. } => self.run.started.parent.as_ref() == Some(origin),
            Command::TakeChildClose { scheduled_event_id, .. } => {
                outbound.run_id == Some(run_id) && self.run.children.contains_key(scheduled_event_id)
            }
            _ => outbound.run_id.is_none_or(|meant| meant == run_id),
        };
        if !is_meant {
            if let (Command::TakeChildClose { scheduled_event_id, .. }, Some(parent)) = (command, outbound.run_id) {
                self.drop_child_effects(parent, *scheduled_event_id);
            }
            return if self.run.is_open() { EffectResult::Unknown } else { EffectResult::Closed };
        }
        let traceparent = outbound.trace.as_ref().map(|trace| trace.traceparent);
        match self.admit_as(command, &Author::named(outbound.by.clone()).traced(traceparent), now) {
            Ok(_) => EffectResult::Done { run_id },
            Err(_) => EffectResult::Closed,
        }
    }

    /// Returns the outcome of starting a run whose workflow id this run already uses. If this run is the requested run,
    /// the start has succeeded. Otherwise it is refused.
    fn start_result(&self, outbound: &OutboundEffect) -> EffectResult {
        let OutboundAction::Start(start) = &outbound.task else { return EffectResult::Unknown };
        let started = &self.run.started;
        if outbound.run_id == Some(started.run_id) || (start.parent.is_some() && started.parent == start.parent) {
            return EffectResult::Done { run_id: started.run_id };
        }
        match may_start(&self.run, start.reuse_policy) {
            Ok(()) => EffectResult::Closed,
            Err(Fault::ReuseRefused { .. }) => EffectResult::ReuseRefused,
            Err(_) => EffectResult::AlreadyOpen,
        }
    }

    /// Records the outcome of an effect on another run. Records nothing if the outcome is already known.
    pub(crate) fn settle(
        &mut self,
        owner: RunId,
        event_id: EventId,
        kind: EffectKind,
        round: u32,
        result: EffectResult,
        now: Timestamp,
    ) {
        // A refusal from an earlier round does not count, because a later delivery may have been accepted.
        if !matches!(result, EffectResult::Done { .. }) && round != self.links.outbox.round() {
            return;
        }
        let of = taken_over(self.run.started.run_id, owner);
        if !self.links.outbox.remove(of, event_id, kind) {
            return;
        }
        self.has_unrecorded_changes = true;
        // The effect was requested by a predecessor. The predecessor is closed and has no decider to inform, so no
        // event is recorded.
        if of.is_some() {
            return;
        }
        match kind {
            EffectKind::StartChild => self.settle_start(event_id, result, now),
            EffectKind::Signal => self.settle_external(event_id, true, result, now),
            EffectKind::RequestCancel => self.settle_external(event_id, false, result, now),
            // Only closed runs request these effects, so there is no decider to inform.
            EffectKind::EndChild | EffectKind::NotifyParent => {}
        }
    }

    /// Begins the next round of deliveries if effects are pending.
    pub(crate) fn retry_effects(&mut self, now: Timestamp) {
        self.has_unrecorded_changes |= self.links.outbox.start_round(now);
    }
}

#[cfg(test)]
mod tests;
