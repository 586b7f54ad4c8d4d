//! Admission of commands: decides which events a command adds, or why it is refused.
//!
//! One [`Transition`] is one commit. It may admit several commands, each on the state left by the previous one. A
//! refused command changes nothing, because all checks run before the first event is recorded.
//!
//! This module and its submodules only dispatch. The rules are in `rules`, one module per subject.

mod deadlines;
mod decisions;
#[cfg(test)]
mod tests;

use crate::author::Author;
use crate::command::Command;
use crate::event::Event;
use crate::fault::Fault;
use crate::ids::RunId;
use crate::rules::activity::Report;
use crate::rules::signal::SignalRequest;
use crate::rules::workflow::EndRequest;
use crate::run::{KnownRequest, Run};
use crate::time::Timestamp;
use crate::transition::{CommandOutcome, Transition};

pub use crate::rules::activity::{HeldState, held, held_state};
pub use crate::rules::child::PARENT_CLOSED;
pub use crate::rules::one_activity::must_have_decider;
pub use crate::rules::turn::must_hold;
pub use crate::rules::update::{may_update, may_update_in, speculative_turn, starting_for};
pub use crate::rules::workflow::{Starting, is_cancel_request, may_start, starting};
pub use crate::validate::{
    activity_defaults as check_activity_defaults, name as check_name, operator as check_operator,
    output_chunk as check_output_chunk, payload as check_payload, poll as check_poll, type_name as check_type,
    workflow_defaults as check_workflow_defaults,
};

/// Returns the events that `command` adds to `run` at `now`.
///
/// # Errors
///
/// Returns the fault if the command is refused; nothing is recorded then.
pub fn admit(run: &Run, command: &Command, now: Timestamp) -> Result<Vec<Event>, Fault> {
    let mut transition = Transition::of(run.clone());
    transition.admit(command, now)?;
    Ok(transition.into_parts().1)
}

impl Transition {
    /// Looks up the original request that this command repeats, and returns its outcome.
    ///
    /// A command repeats a request if both have the same key, and this run or an earlier run of the workflow id has
    /// recorded the request. If `run_id` is given, only requests recorded by that run count.
    pub fn repeated(&self, command: &Command, run_id: Option<RunId>) -> Option<KnownRequest> {
        let request = self.run.request(command.request_key()?)?;
        run_id.is_none_or(|run_id| request.run_id == run_id).then_some(request)
    }

    /// Admits one command and detects repeated requests of any run of the workflow id.
    ///
    /// # Errors
    ///
    /// Returns the fault if the command is refused; the transition is then unchanged.
    pub fn admit(&mut self, command: &Command, now: Timestamp) -> Result<CommandOutcome, Fault> {
        match self.repeated(command, None) {
            Some(request) => Ok(CommandOutcome::Repeated(request)),
            None => self.admit_unrepeated(command, now),
        }
    }

    /// Admits one command that is not [repeated](Self::repeated). The command's events record the name of `author`, and
    /// its decisions are checked against the permissions of `author`.
    ///
    /// # Errors
    ///
    /// The same errors as [`admit`](Self::admit).
    pub fn admit_as(&mut self, command: &Command, author: &Author, now: Timestamp) -> Result<CommandOutcome, Fault> {
        self.author = author.clone();
        let outcome = self.admit_unrepeated(command, now);
        self.author = Author::default();
        outcome
    }

    /// Admits one command without checking whether it is [repeated](Self::repeated).
    ///
    /// # Errors
    ///
    /// The same errors as [`admit`](Self::admit).
    pub fn admit_unrepeated(&mut self, command: &Command, now: Timestamp) -> Result<CommandOutcome, Fault> {
        let first = self.events().len();
        self.space = None;
        let outcome = self.dispatch(command, now)?;
        if self.events().iter().skip(first).any(|event| self.run.needs_decider(&event.kind)) {
            self.schedule_turn(now);
        }
        self.decide_only_activity(now);
        self.end_beyond_limit(now);
        self.forget_sent();
        Ok(outcome)
    }

    /// Dispatches a command to its rule. For most commands the outcome is the id of their first event. The `match` arms
    /// of the other commands return their outcome early.
    fn dispatch(&mut self, command: &Command, now: Timestamp) -> Result<CommandOutcome, Fault> {
        let next = self.run.last_event_id + 1;
        let key = command.request_key();
        match command {
            Command::Signal { name, input, identity, if_version, .. } => {
                let (input, identity, if_version) = (input.as_ref(), identity.as_deref(), *if_version);
                self.signal(&SignalRequest { name, input, identity, if_version, key }, now)
            }
            Command::RequestCancel { reason, identity, .. } => {
                let (reason, identity) = (reason.as_ref(), identity.as_ref());
                self.request_cancel(&EndRequest { reason, identity, key, ..EndRequest::default() }, now)
            }
            Command::Terminate { reason, details, identity, child_policy, .. } => {
                let (reason, details, identity) = (reason.as_ref(), details.as_ref(), identity.as_ref());
                self.terminate(&EndRequest { reason, details, identity, child_policy: *child_policy, key }, now)
            }
            Command::StartTurn { scheduled_event_id, identity, poll } => {
                self.start_turn(*scheduled_event_id, identity.as_ref(), *poll, now)
            }
            Command::CompleteTurn { turn, answer } => self.complete_turn(*turn, answer, now),
            Command::AnswerUpdates { turn, proposed, answers, rest } => {
                self.answer_updates(turn, proposed, answers, rest, now)
            }
            Command::FailTurn { turn, reason, details } => {
                self.fail_turn(*turn, reason.as_ref(), details.as_ref(), now)
            }
            Command::ReturnTurn { turn, poll } => self.return_turn(*turn, *poll, now),
            Command::StartActivity { scheduled_event_id, identity, poll } => {
                self.start_activity(*scheduled_event_id, identity.as_ref(), *poll, now)
            }
            Command::Redeliver { scheduled_event_id, lost, poll } => self.redeliver(*scheduled_event_id, *lost, *poll),
            Command::SucceedActivity { task, result } => self.succeed_activity(*task, result.as_ref(), now),
            Command::FailActivity { task, reason, details, non_retryable, retry_after } => {
                let (reason, details) = (reason.as_deref(), details.as_ref());
                let (non_retryable, retry_after) = (*non_retryable, *retry_after);
                self.fail_activity(*task, &Report { reason, details, non_retryable, retry_after }, now)
            }
            Command::Pause { stop_clocks, operator, .. } => self.pause(*stop_clocks, operator, key, now),
            Command::Resume { operator, .. } => self.resume(operator, key, now),
            Command::RepairDeadlines { heartbeats, timers, operator, .. } => {
                return self.repair_deadlines(heartbeats, timers, operator, key, now);
            }
            Command::ActOnActivity { activity_id, act, operator, .. } => {
                self.act_on_activity(activity_id, act, operator, key, now)
            }
            Command::RetryActivities { failure_reason, operator, .. } => {
                self.retry_activities(failure_reason.as_deref(), operator, key, now)
            }
            Command::CancelActivity { task, details } => self.activity_canceled(*task, details.as_ref(), now),
            Command::ReturnActivity { task, poll } => self.return_activity(*task, *poll, now),
            Command::FireDeadlines { heartbeats, stopped } => {
                self.fire_deadlines(heartbeats, stopped, now);
                Ok(())
            }
            Command::TakeSignal { origin, name, input } => {
                return self.take_signal(origin, name, input.as_ref(), now);
            }
            Command::TakeCancelRequest { origin, reason } => {
                return self.take_cancel_request(origin, reason.as_ref(), now);
            }
            Command::TakeParentClose { origin, policy } => return self.take_parent_close(origin, *policy, now),
            Command::TakeChildClose { scheduled_event_id, run_id, close } => {
                return self.take_child_close(*scheduled_event_id, *run_id, close, now);
            }
            Command::SettleEffect { owner, event_id, kind, round, result } => {
                self.settle(*owner, *event_id, *kind, *round, *result, now);
                Ok(())
            }
            Command::RetryEffects => {
                self.retry_effects(now);
                Ok(())
            }
        }?;
        Ok(CommandOutcome::Recorded(next))
    }
}
