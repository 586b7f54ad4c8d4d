//! What runs do to each other: a run owes an effect, another one undergoes it, and the first hears what became of it.
//!
//! | while the effect is | it is carried out | it is known what became of it | it is late (`SeeToEffects`) | the run closes |
//! |---|---|---|---|---|
//! | owed | done once, to one run | its event (`child`, `external`), or nothing if the run has closed | a new round: what was refused before is asked anew | still owed |
//! | owed by a run before this one | the same | nothing | the same | still owed |
//! | not owed any more | – | – | – | – |
//!
//! Which events owe one, `links::owed` says. What another run refused counts only in the round in which it did: by a later one it may have
//! been taken (ADR 5).

use crate::author::Author;
use crate::command::{Command, EffectResult};
use crate::event::EventId;
use crate::fault::Fault;
use crate::ids::RunId;
use crate::links::{EffectKind, Errand, ErrandTask, taken_over};
use crate::rules::workflow::may_start;
use crate::time::Timestamp;
use crate::transition::Transition;

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
        let traceparent = errand.trace.as_ref().map(|trace| trace.traceparent);
        match self.admit_of(command, &Author::named(errand.by.clone()).traced(traceparent), now) {
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

    /// Records what became of an effect on another run, unless that is known.
    pub(crate) fn settle(
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
    pub(crate) fn see_to_effects(&mut self, now: Timestamp) {
        self.has_changed_beside |= self.links.outbox.see_to(now);
    }
}

#[cfg(test)]
mod tests;
