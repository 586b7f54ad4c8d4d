//! Turns of the test service, and the answers of its deciders.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use baton_history::{AnsweredTurn, Command, Duration, EventId, Fault, ProposedUpdate, TurnId};

use super::{Item, TestService};
use crate::Decisions;
use crate::testing::commands::{judged, refused};
use crate::testing::{fail, window_of};
use crate::update::{TurnEnd, Update};

impl TestService {
    #[track_caller]
    pub(super) fn turn(&mut self, index: usize, scheduled_event_id: EventId, attempt: u32) {
        self.admit_or_fail(
            index,
            &Command::StartTurn { scheduled_event_id, identity: Some("test decider".to_owned()), poll: None },
        );
        let started_event_id = self.at(index).run.last_event_id;
        if self.turns_to_lose > 0 {
            self.turns_to_lose -= 1;
            return;
        }
        let run = self.at_mut(index);
        let window = window_of(&run.events, &run.run, started_event_id, attempt);
        let proposed = std::mem::take(&mut run.proposed);
        let updates: Vec<Update> = proposed.iter().cloned().map(Update::from).collect();
        let decided = catch_unwind(AssertUnwindSafe(|| {
            if updates.is_empty() {
                return run.subject.decide(&run.events, &window, None);
            }
            run.subject.judge(&run.events, &window, None, &updates, EventId::MAX).map(TurnEnd::into_decisions)
        }));
        let decisions = match decided {
            Ok(Ok(decisions)) => decisions,
            Ok(Err(difference)) => fail(difference, &run.events),
            Err(panic) => {
                eprintln!(
                    "the decider panicked at event {started_event_id}\n\n{}\n",
                    baton_tables::history(&run.events)
                );
                resume_unwind(panic)
            }
        };
        if let Some(message) = decisions.given_back()
            && !self.records_given_back
        {
            fail(format_args!("the decider returned the turn: {message}"), &self.at(index).events);
        }
        let turn = TurnId { scheduled_event_id, started_event_id };
        if self.turns_take == Duration::ZERO {
            self.complete(index, turn, proposed, decisions);
        } else {
            self.plan(self.now.plus(self.turns_take), Item::Complete(index, turn, proposed, decisions));
        }
    }

    #[track_caller]
    pub(super) fn complete(&mut self, index: usize, turn: TurnId, proposed: Vec<ProposedUpdate>, decisions: Decisions) {
        let answers = decisions.updates.clone();
        let command = judged(AnsweredTurn::Held(turn), proposed.clone(), decisions);
        match self.admit(index, &command) {
            Ok(_) => self.store_rejections(index, answers),
            // The updates are judged again in the next turn.
            Err(Fault::TurnLost | Fault::RunClosed { .. }) => self.at_mut(index).proposed.extend(proposed),
            Err(fault) => refused(&fault, &command, &self.at(index).events),
        }
    }
}
