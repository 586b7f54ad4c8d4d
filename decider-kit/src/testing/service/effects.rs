//! Messages between runs, and successors of closed runs.

use baton_history::admit::is_cancel_request;
use baton_history::{
    Command, Effect, EffectResult, EventKind, Links, OutboundAction, OutboundEffect, Successor, Transition,
};

use super::TestService;

impl TestService {
    /// Delivers all pending messages of a run to other runs, immediately.
    #[track_caller]
    pub(super) fn deliver(&mut self, index: usize) {
        loop {
            let run = self.at(index);
            let Some(effect) = run.links.outbox.ready().next() else { return };
            let asks = run.events.iter().find(|event| event.id == effect.event_id);
            let outbound = asks
                .and_then(|event| effect.outbound(&run.run.started, event))
                .expect("the event requests this effect");
            let (Effect { event_id, kind, .. }, round) = (effect, run.links.outbox.round());
            let owner = run.run.started.run_id;
            let result = self.apply_effect(&outbound);
            self.admit_or_fail(index, &Command::SettleEffect { owner, event_id, kind, round, result });
        }
    }

    #[track_caller]
    fn apply_effect(&mut self, effect: &OutboundEffect) -> EffectResult {
        let newest = self.newest.get(&effect.workflow_id).copied();
        let result = newest.map(|index| {
            let run = self.at(index);
            let mut transition = Transition::linked(run.run.clone(), run.links.clone());
            let result = transition.apply_effect(effect, self.now);
            let is_news = transition.is_changed();
            self.apply_transition(index, transition);
            if is_news {
                self.schedule_wake(index, Some(self.now));
                self.deliver(index);
            }
            result
        });
        let OutboundAction::Start(start) = &effect.task else { return result.unwrap_or(EffectResult::Unknown) };
        match (result, effect.run_id) {
            (None | Some(EffectResult::Closed), Some(run_id)) => {
                let Some(subjects) = self.deciders.get(&start.workflow_type) else {
                    panic!("no decider for the child type `{}`; add one with `decider`", start.workflow_type);
                };
                let subject = subjects();
                self.begin(start, run_id, subject).expect("the child's start was checked when its event was recorded");
                EffectResult::Done { run_id }
            }
            (result, _) => result.unwrap_or(EffectResult::Unknown),
        }
    }

    /// Starts the successor of a run that continued as new or is retried, once all messages of the old run are
    /// delivered.
    #[track_caller]
    pub(super) fn start_successor(&mut self, index: usize) {
        let run = self.at(index);
        let Some(closing) = run.events.last().map(|event| &event.kind) else { return };
        let Some(Successor { run_id, not_before }) = closing.followed_by() else { return };
        let is_newest = self.newest.get(&run.run.started.workflow_id) == Some(&index);
        if !is_newest || !run.links.outbox.is_empty() {
            return;
        }
        let links = Links { seen: run.links.seen.clone(), ..Links::default() };
        let cancel_request = run.events.iter().rfind(|event| is_cancel_request(event));
        let next = match closing {
            EventKind::WorkflowContinuedAsNew(it) => {
                Transition::successor(&run.run, it, None, cancel_request, self.now)
            }
            _ => {
                let input = run.events.first().and_then(|first| first.kind.payload().cloned());
                Transition::retry(&run.run, run_id, input, not_before.unwrap_or(self.now), cancel_request, self.now)
            }
        };
        let (run, events) = next.into_parts();
        let Some(subjects) = self.deciders.get(&run.started.workflow_type) else {
            panic!(
                "no decider for `{}`, the type of the successor of `{}`",
                run.started.workflow_type, run.started.workflow_id
            );
        };
        let subject = subjects();
        self.add(run, links, events, subject);
    }
}
