//! What runs do to each other: effects that a run owes, what it takes of others', what became of its own.

use super::{Outcome, Transition, may_start, must_be_open};
use crate::author::Author;
use crate::command::{Command, EffectResult};
use crate::event::{Event, EventId, EventKind, Origin};
use crate::fault::Fault;
use crate::ids::RunId;
use crate::links::{Effect, EffectKind, Errand, ErrandTask, SeenOrigin, taken_over};
use crate::run::Request;
use crate::time::Timestamp;

impl Transition {
    /// Does to this run what another one decided, once; answers what that one may be told. Depends on the run's state: what
    /// is not [`EffectResult::Done`] on an old state may be on the newest.
    pub fn undergo(&mut self, errand: &Errand, now: Timestamp) -> EffectResult {
        let ErrandTask::Tell(command) = &errand.task else { return self.stands_in_the_way(errand) };
        // Before a look at which run this is: the one before it may have taken it (ADR 5).
        if let Some(seen) = errand.origin().and_then(|origin| self.links.seen.find(origin)) {
            return EffectResult::Done { run_id: seen.run_id };
        }
        let run_id = self.run.started.run_id;
        let is_meant = match command {
            // Whichever run it is by now that the child's workflow id has, if it is still that child.
            Command::TakeParentClose { origin, .. } => self.run.started.parent.as_ref() == Some(origin),
            Command::TakeChildClose { scheduled_event_id, .. } => {
                errand.run_id == Some(run_id) && self.run.children.contains_key(scheduled_event_id)
            }
            _ => errand.run_id.is_none_or(|meant| meant == run_id),
        };
        if !is_meant {
            if let (Command::TakeChildClose { scheduled_event_id, .. }, Some(parent)) = (command, errand.run_id) {
                self.child_is_over(parent, *scheduled_event_id);
            }
            return if self.run.is_open() { EffectResult::Unknown } else { EffectResult::Closed };
        }
        match self.admit_of(command, &Author::named(errand.by.clone()), now) {
            Ok(_) => EffectResult::Done { run_id },
            Err(_) => EffectResult::Closed,
        }
    }

    /// This run has the workflow id of another that is to be started: whether it is that one already, and otherwise whether
    /// it refuses.
    fn stands_in_the_way(&self, errand: &Errand) -> EffectResult {
        let ErrandTask::Start(start) = &errand.task else { return EffectResult::Unknown };
        let started = &self.run.started;
        if errand.run_id == Some(started.run_id) || (start.parent.is_some() && started.parent == start.parent) {
            return EffectResult::Done { run_id: started.run_id };
        }
        match may_start(&self.run, start.reuse_policy) {
            Ok(()) => EffectResult::Closed,
            Err(Fault::ReuseRefused { .. }) => EffectResult::ReuseRefused,
            Err(_) => EffectResult::AlreadyOpen,
        }
    }

    /// The effects on others that an event asks for, on the state before it.
    pub(super) fn owe(&mut self, event: &Event) {
        let effect = match &event.kind {
            EventKind::ChildScheduled(it) => Effect::new(event.id, EffectKind::StartChild, &it.workflow_id),
            EventKind::ExternalSignalScheduled(it) => Effect::new(event.id, EffectKind::Signal, &it.workflow_id),
            EventKind::ExternalCancelScheduled(it) => Effect::new(event.id, EffectKind::RequestCancel, &it.workflow_id),
            kind if kind.closes() => return self.owe_at_close(event),
            _ => return,
        };
        self.links.outbox.add(effect, event.timestamp);
    }

    /// Takes an effect of another run, once.
    pub(crate) fn take(&mut self, origin: &Origin, kind: EventKind, now: Timestamp) -> Result<Outcome, Fault> {
        // Before anything else: it may have been taken by a run that has closed since, or by the one before this.
        if let Some(seen) = self.links.seen.find(origin) {
            return Ok(Outcome::Repeated(Request { run_id: seen.run_id, event_id: seen.event_id }));
        }
        must_be_open(&self.run)?;
        let event_id = self.push(now, kind);
        let run_id = self.run.started.run_id;
        self.links.seen.add(SeenOrigin { origin: origin.clone(), event_id, run_id });
        Ok(Outcome::Recorded(event_id))
    }

    /// Records what became of an effect on another run, unless that is known.
    pub(super) fn settle(
        &mut self,
        owner: RunId,
        event_id: EventId,
        kind: EffectKind,
        round: u32,
        result: EffectResult,
        now: Timestamp,
    ) {
        // Refused in an earlier round: by now it may have been taken.
        if !matches!(result, EffectResult::Done { .. }) && round != self.links.outbox.round() {
            return;
        }
        let of = taken_over(self.run.started.run_id, owner);
        if !self.links.outbox.remove(of, event_id, kind) {
            return;
        }
        self.has_changed_beside = true;
        // A run that has closed has nobody to tell, and one that took it over did not ask for it.
        if of.is_some() {
            return;
        }
        match kind {
            EffectKind::StartChild => self.settle_start(event_id, result, now),
            EffectKind::Signal => self.settle_external(event_id, true, result, now),
            EffectKind::RequestCancel => self.settle_external(event_id, false, result, now),
            // Only what has closed owes these.
            EffectKind::EndChild | EffectKind::TellParent => {}
        }
    }

    /// Says when to see to late effects again.
    pub(super) fn see_to_effects(&mut self, now: Timestamp) {
        self.has_changed_beside |= self.links.outbox.see_to(now);
    }
}
