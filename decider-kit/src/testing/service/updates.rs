//! Updates of a run in the test service.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use baton_history::admit::{may_update, speculative_turn};
use baton_history::{
    AnsweredTurn, EventKind, Fault, Payload, ProposedUpdate, Status, UpdateAnswer, UpdateStatus, Verdict,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TestService;
use crate::testing::commands::{judged, payload, refused};
use crate::testing::{fail, window_of};
use crate::update::Update;

/// Outcome of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateOutcome {
    /// The update was accepted and completed with this result.
    Done(Option<Payload>),
    /// The update was rejected, and nothing was recorded.
    Rejected {
        /// Reason, for programs.
        reason: String,
        /// Details, for people and programs.
        details: Option<Payload>,
    },
    /// The update was accepted but failed.
    Failed {
        /// Reason, for programs.
        reason: String,
        /// Details, for people and programs.
        details: Option<Payload>,
    },
    /// The run closed with this status before the update was answered.
    Closed(Status),
}

impl UpdateOutcome {
    /// Returns the result of a completed update.
    ///
    /// # Panics
    ///
    /// If the update was not completed, or the result is not a `T`.
    #[track_caller]
    pub fn result<T: DeserializeOwned>(&self) -> T {
        let Self::Done(result) = self else { panic!("the update was not completed: {self:?}") };
        let text = result.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("cannot read the result: {error}: {text}"))
    }

    /// Returns the reason of a rejected update.
    ///
    /// # Panics
    ///
    /// If the update was not rejected.
    #[track_caller]
    pub fn rejected(&self) -> &str {
        let Self::Rejected { reason, .. } = self else { panic!("the update was not rejected: {self:?}") };
        reason
    }
}

impl TestService {
    /// Requests an update of a run, and runs until it is answered.
    #[track_caller]
    pub fn update<T: Serialize + ?Sized>(&mut self, workflow_id: &str, name: &str, input: &T) -> UpdateOutcome {
        let index = self.index(workflow_id);
        self.items += 1;
        let (update_id, name) = (format!("update-{}", self.items), name.to_owned());
        let proposed =
            ProposedUpdate { update_id, name, input: Some(payload(input)), identity: None, if_version: None, by: None };
        match may_update(&self.at(index).run, &proposed) {
            Ok(_) => {}
            Err(Fault::RunClosed { status }) => return UpdateOutcome::Closed(status),
            Err(fault) => fail(format_args!("the service would refuse this: {fault}"), &self.at(index).events),
        }
        let update_id = proposed.update_id.clone();
        self.at_mut(index).proposed.push(proposed);
        loop {
            if let Some(answered) = self.answered(index, &update_id) {
                return answered;
            }
            let run = self.at(index);
            let is_idle = run.run.is_open() && run.run.turn.is_none() && run.run.turn_task.is_none();
            if is_idle && !run.proposed.is_empty() {
                self.speculate(index);
            } else if !self.step(None, false) {
                fail(
                    format_args!("update `{update_id}` is never answered: no further turn or deadline is due"),
                    &self.at(index).events,
                );
            }
        }
    }

    fn answered(&self, index: usize, update_id: &str) -> Option<UpdateOutcome> {
        let run = self.at(index);
        let rejected = run.rejected.iter().find(|answer| answer.update_id == update_id);
        if let Some(Verdict::Rejected { reason, details }) = rejected.map(|answer| &answer.verdict) {
            return Some(UpdateOutcome::Rejected { reason: reason.clone(), details: details.clone() });
        }
        match run.run.update_status(update_id) {
            UpdateStatus::Ended { event_id, .. } => {
                let event = run.events.iter().find(|event| event.id == event_id)?;
                match &event.kind {
                    EventKind::UpdateCompleted(it) => Some(UpdateOutcome::Done(it.result.clone())),
                    EventKind::UpdateFailed(it) => {
                        Some(UpdateOutcome::Failed { reason: it.reason.clone(), details: it.details.clone() })
                    }
                    _ => None,
                }
            }
            UpdateStatus::New | UpdateStatus::Accepted { .. } => {
                (!run.run.is_open()).then_some(UpdateOutcome::Closed(run.run.status))
            }
        }
    }

    /// Stores the rejections among a turn's answers to updates.
    pub(super) fn store_rejections(&mut self, index: usize, answers: Vec<UpdateAnswer>) {
        let is_rejected = |answer: &UpdateAnswer| matches!(answer.verdict, Verdict::Rejected { .. });
        self.at_mut(index).rejected.extend(answers.into_iter().filter(is_rejected));
    }

    /// Runs a speculative turn for the updates, which is recorded only if it has something to record.
    #[track_caller]
    fn speculate(&mut self, index: usize) {
        let now = self.now;
        let run = self.at_mut(index);
        let proposed = std::mem::take(&mut run.proposed);
        let updates: Vec<Update> = proposed.iter().cloned().map(Update::from).collect();
        let identity = Some("test decider".to_owned());
        let last_event_id = run.run.last_event_id;
        let mut events = run.events.clone();
        events.extend(speculative_turn(&run.run, identity.as_deref(), None, now));
        let window = window_of(&events, &run.run, last_event_id + 2, 1);
        let judging = AssertUnwindSafe(|| run.subject.judge(&events, &window, None, &updates, last_event_id + 1));
        let decisions = match catch_unwind(judging) {
            Ok(Ok(taken)) => taken.into_decisions(),
            Ok(Err(difference)) => fail(difference, &events),
            Err(panic) => resume_unwind(panic),
        };
        if let Some(message) = decisions.given_back() {
            fail(format_args!("the decider returned the turn: {message}"), &events);
        }
        let answers = decisions.updates.clone();
        let turn = AnsweredTurn::Speculative { last_event_id, started_at: now, identity, by: None };
        let command = judged(turn, proposed, decisions);
        match self.admit(index, &command) {
            Ok(_) => self.store_rejections(index, answers),
            Err(fault) => refused(&fault, &command, &self.at(index).events),
        }
    }
}
