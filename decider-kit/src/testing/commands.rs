//! Commands of deciders and other callers.

use baton_history::{AnsweredTurn, Command, Event, Fault, Payload, ProposedUpdate, Start, TurnAnswer, TurnId};
use serde::Serialize;

use super::fail;
use crate::Decisions;

#[track_caller]
pub(super) fn payload<T: Serialize + ?Sized>(value: &T) -> Payload {
    Payload::of(value).expect("the value can be serialized as JSON")
}

/// Returns the command that answers a turn with these decisions.
pub(super) fn answer(turn: TurnId, decisions: Decisions) -> Command {
    judged(AnsweredTurn::Held(turn), Vec::new(), decisions)
}

/// Returns the command that answers a turn with updates to judge. The turn may be speculative.
pub(super) fn judged(turn: AnsweredTurn, proposed: Vec<ProposedUpdate>, decisions: Decisions) -> Command {
    let Decisions { decisions, context, awaiting, moves, updates: answers, given_back } = decisions;
    let answer = TurnAnswer { decisions, context, awaiting, next_task_list: moves, ..TurnAnswer::default() };
    let held = match &turn {
        AnsweredTurn::Held(held) => *held,
        // The ids are unused: a speculative turn that is given back is not recorded.
        AnsweredTurn::Speculative { .. } => TurnId { scheduled_event_id: 0, started_event_id: 0 },
    };
    match given_back {
        None if answers.is_empty() && matches!(turn, AnsweredTurn::Held(_)) => Command::complete(held, answer),
        None => Command::AnswerUpdates { turn, proposed, answers, rest: Box::new(answer) },
        Some(it) => Command::FailTurn { turn: held, reason: Some(it.reason), details: Some(payload(&it.message)) },
    }
}

#[track_caller]
pub(super) fn refused(fault: &Fault, command: &Command, events: &[Event]) -> ! {
    fail(format_args!("the service would refuse this with `{}`: {fault}\n{command:?}", fault.code()), events)
}

pub(super) fn start<T: Serialize + ?Sized>(workflow_type: &str, workflow_id: &str, input: &T) -> Start {
    Start { input: Some(payload(input)), ..Start::new(workflow_id, workflow_type, "default") }
}

pub(super) fn signal<T: Serialize + ?Sized>(name: &str, input: &T) -> Command {
    Command::Signal { name: name.to_owned(), input: Some(payload(input)), identity: None, key: None, if_version: None }
}

pub(super) fn request_cancel() -> Command {
    Command::RequestCancel { reason: None, identity: None, key: None }
}

pub(super) fn terminate() -> Command {
    Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None }
}
