//! Tests of single turns with updates.

use std::sync::Arc;

use baton_history::admit::{may_update, speculative_turn};
use baton_history::{AnsweredTurn, EventId, Payload, ProposedUpdate, UpdateStatus};

use super::{Given, judged};
use crate::testing::subject::{Subject, describe, fresh};
use crate::testing::{fail, window_of};
use crate::update::Update;
use crate::{Decisions, TakesTurns, Verdict};

impl<D: TakesTurns> Given<D> {
    #[track_caller]
    pub(super) fn put(&mut self, name: String, input: Payload) {
        if let Some(proposed) = &self.proposed {
            fail(
                format_args!("update `{}` has no verdict yet; request one update at a time", proposed.name),
                &self.events,
            );
        }
        self.updates += 1;
        let update_id = format!("update-{}", self.updates);
        let proposed =
            ProposedUpdate { update_id, name, input: Some(input), identity: None, if_version: None, by: None };
        match may_update(&self.run, &proposed) {
            Ok(UpdateStatus::New) => self.proposed = Some(proposed),
            Ok(known) => {
                fail(format_args!("the history has an update `{}`: {known:?}", proposed.update_id), &self.events)
            }
            Err(fault) => fail(format_args!("the service would refuse this update: {fault}"), &self.events),
        }
    }

    /// Lets the decider judge the last [update](super::update), and expects this verdict, including the decisions added
    /// with [`Verdict::and`]. If a turn is pending, the update is judged in that turn. Otherwise it is judged in a
    /// speculative turn, which leaves no trace if the update is rejected.
    #[expect(clippy::return_self_not_must_use, reason = "most tests end here")]
    #[track_caller]
    pub fn then_judges(mut self, expected: Verdict) -> Self {
        let Some(proposed) = self.proposed.take() else {
            fail("no update is waiting: call `when(update(…))` first", &self.events);
        };
        let mut events = self.events.clone();
        let last_event_id = self.run.last_event_id;
        let (turn, window, shown_from) = if self.run.turn_task.is_some() {
            let turn = self.take();
            events.clone_from(&self.events);
            let attempt = self.run.turn.as_ref().map_or(1, |turn| turn.attempt);
            let window = window_of(&events, &self.run, turn.started_event_id, attempt);
            (AnsweredTurn::Held(turn), window, EventId::MAX)
        } else {
            events.extend(speculative_turn(&self.run, None, None, self.now));
            let window = window_of(&events, &self.run, last_event_id + 2, 1);
            let turn = AnsweredTurn::Speculative { last_event_id, started_at: self.now, identity: None, by: None };
            (turn, window, last_event_id + 1)
        };
        let update = [Update::from(proposed.clone())];
        let decisions = match fresh(Arc::clone(&self.decider)).judge(&events, &window, None, &update, shown_from) {
            Ok(taken) => taken.into_decisions(),
            Err(difference) => fail(difference, &events),
        };
        if let Some(message) = decisions.given_back() {
            fail(format_args!("the decider returned the turn: {message}"), &events);
        }
        compare(expected, &proposed, &decisions, &events);
        self.admit(&judged(turn, vec![proposed], decisions));
        self
    }
}

/// Compares the decider's verdict and decisions with the expected verdict and decisions.
#[track_caller]
fn compare(expected: Verdict, proposed: &ProposedUpdate, decisions: &Decisions, events: &[baton_history::Event]) {
    let Verdict { verdict: expected_verdict, decisions: mut expected } = expected;
    let mut beside = decisions.clone();
    beside.updates.retain(|answer| answer.update_id != proposed.update_id);
    let verdict = decisions.updates.iter().find(|answer| answer.update_id == proposed.update_id);
    let verdict = verdict.map(|answer| &answer.verdict);
    if verdict != Some(&expected_verdict) {
        let found = verdict.map_or_else(|| "nothing".to_owned(), |verdict| format!("{verdict:?}"));
        let name = &proposed.name;
        fail(format_args!("expected for update `{name}`\n  {expected_verdict:?}\nfound\n  {found}"), events);
    }
    if expected.awaiting.is_empty() {
        expected.awaiting.clone_from(&beside.awaiting);
    }
    if beside != expected {
        let (expected, found) = (describe(&expected), describe(&beside));
        fail(format_args!("expected decisions\n{expected}\nfound\n{found}"), events);
    }
}
