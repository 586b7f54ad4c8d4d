//! Updates: a caller requests an update, and a decider accepts or rejects it. An accepted update is recorded together
//! with the decider's decisions.
//!
//! | update is | input | result |
//! |---|---|---|
//! | new | a caller's request | waits for a decider, in memory only |
//! | new | accepted, with a result or failure | UpdateAccepted, UpdateCompleted or UpdateFailed |
//! | new | accepted, to be answered later | UpdateAccepted |
//! | new | rejected | no event |
//! | new | the run closes | fails with run-closed |
//! | accepted | a caller's request | waits for the answer |
//! | accepted | answered | UpdateCompleted or UpdateFailed |
//! | accepted | rejected | UpdateFailed |
//! | accepted | the run closes | stays recorded as accepted by a run that has closed |
//! | answered | a caller's request | original answer |
//! | answered | accepted | fails with update-already-accepted |
//! | answered | rejected | no event |
//!
//! A new update fails in these cases:
//!
//! * The run has no decider (no-decider).
//! * The run is paused (run-paused).
//! * The run is not at the required version (version-mismatch).
//! * [`OPEN_UPDATES_MAX`](limits::OPEN_UPDATES_MAX) accepted updates have no answer yet (open-updates-limit).
//!
//! If the state of the run has no space for an update that is to be answered later, the update is recorded as failed
//! (`state-limit`). A turn that was created only for updates leaves no events if its answer has nothing else to record.

use std::collections::BTreeSet;

use crate::author::Author;
use crate::caller::CallerName;
use crate::command::{AnsweredTurn, ProposedUpdate, TurnAnswer, TurnId, UpdateAnswer, Verdict};
use crate::event::{DeciderStarted, Event, EventId, EventKind, UpdateAccepted, UpdateCompleted, UpdateFailed};
use crate::fault::Fault;
use crate::ids::RunId;
use crate::limits;
use crate::rules::one_activity::must_have_decider;
use crate::rules::turn::must_hold;
use crate::rules::workflow::{Starting, starting};
use crate::run::{Run, UpdateStatus, key_of_update};
use crate::start::Start;
use crate::time::{Duration, Timestamp};
use crate::transition::{Transition, must_be_at, must_be_open};
use crate::validate;

/// Failure code of an update that was to be answered later, but does not fit into the state of its run.
const STATE_LIMIT: &str = "state-limit";

/// Returns the status of an update, including its outcome in an earlier run of the workflow id. If the update is new,
/// checks that it may be proposed to a decider.
///
/// # Errors
///
/// For a new update: a fault for an invalid field, [`Fault::RunClosed`], [`Fault::NoDecider`], [`Fault::RunPaused`],
/// [`Fault::VersionMismatch`] or [`Fault::OpenUpdatesLimit`]. A known update is never refused, because it has an answer
/// or will get one.
pub fn may_update(run: &Run, proposed: &ProposedUpdate) -> Result<UpdateStatus, Fault> {
    may_update_in(run, proposed, None)
}

/// Works like [`may_update`] for a request that may name a run. If the request names a run, only the outcome in that
/// run counts.
///
/// # Errors
///
/// The same errors as [`may_update`].
pub fn may_update_in(run: &Run, proposed: &ProposedUpdate, run_id: Option<RunId>) -> Result<UpdateStatus, Fault> {
    validate_proposed(proposed)?;
    match run.status_of_update(&proposed.update_id, run_id) {
        UpdateStatus::New => {}
        known => return Ok(known),
    }
    must_be_open(run)?;
    must_have_decider(run)?;
    if run.paused.is_some() {
        return Err(Fault::RunPaused);
    }
    must_be_at(run, proposed.if_version)?;
    let max = limits::OPEN_UPDATES_MAX;
    if run.updates.open().len() >= max {
        return Err(Fault::OpenUpdatesLimit { max });
    }
    Ok(UpdateStatus::New)
}

/// Returns what a start together with an update must do. `existing` is the newest run of the workflow id. If that run
/// knows the update, nothing is started, even if the run is closed, because a repeated request must not start a second
/// run.
///
/// # Errors
///
/// The errors of [`starting`], and [`Fault::Invalid`] in two cases:
///
/// * The update requires a version. A run that has not started has no version.
/// * The first turn is delayed. The caller would have to wait for the delay before it gets the answer.
pub fn starting_for(existing: Option<&Run>, start: &Start, proposed: &ProposedUpdate) -> Result<Starting, Fault> {
    validate_proposed(proposed)?;
    let invalid = |field: &str, problem: &str| Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() };
    if proposed.if_version.is_some() {
        return Err(invalid("start", "cannot be combined with a required version, because the run is not started yet"));
    }
    if start.start_after.is_some_and(|after| after != Duration::ZERO) {
        let problem = "must be zero with an update, which would have to wait for the first turn";
        return Err(invalid("start.startAfter", problem));
    }
    match existing {
        Some(run) => match run.status_of_update(&proposed.update_id, None) {
            UpdateStatus::Accepted { .. } => Ok(Starting::Repeated { run_id: run.started.run_id }),
            UpdateStatus::Ended { run_id, .. } => Ok(Starting::Repeated { run_id }),
            UpdateStatus::New => starting(existing, start),
        },
        None => starting(None, start),
    }
}

fn validate_proposed(proposed: &ProposedUpdate) -> Result<(), Fault> {
    validate::name("updateId", &proposed.update_id)?;
    validate::name("name", &proposed.name)?;
    validate::payload("input", proposed.input.as_ref())?;
    validate::identity(proposed.identity.as_deref())
}

/// Returns the DeciderScheduled and DeciderStarted events that a turn created only for updates will have if it is
/// recorded.
pub fn speculative_turn(
    run: &Run,
    identity: Option<&str>,
    by: Option<&CallerName>,
    started_at: Timestamp,
) -> Vec<Event> {
    let mut transition = Transition::of(run.clone());
    transition.record_speculative_turn(identity, by, started_at);
    transition.into_parts().1
}

impl Transition {
    pub(crate) fn answer_updates(
        &mut self,
        turn: &AnsweredTurn,
        proposed: &[ProposedUpdate],
        answers: &[UpdateAnswer],
        rest: &TurnAnswer,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let records = self.records(answers, rest);
        match turn {
            AnsweredTurn::Held(turn) => must_hold(&self.run, *turn)?,
            AnsweredTurn::Speculative { last_event_id, .. } if records => self.must_be_unmoved(*last_event_id)?,
            // A rejection records nothing, so it is valid even if the run has changed in the meantime.
            AnsweredTurn::Speculative { .. } => {}
        }
        rest.validate(&self.run)?;
        rest.next_task_list.as_ref().map_or(Ok(()), |to| self.may_move(to))?;
        validate_answers(answers)?;
        let mut accepts = false;
        for answer in answers {
            accepts |= self.needs_judgment(answer, proposed, accepts)?;
        }
        let turn = match turn {
            AnsweredTurn::Held(turn) => *turn,
            AnsweredTurn::Speculative { .. } if !records => return Ok(()),
            AnsweredTurn::Speculative { identity, by, started_at, .. } => {
                self.record_speculative_turn(identity.as_deref(), by.as_ref(), *started_at)
            }
        };
        let decision_event_id = self.turn_completed(turn, rest, now);
        for answer in answers {
            self.record_answer(answer, proposed, decision_event_id, now);
        }
        self.carry_out_all(rest, decision_event_id, now);
        Ok(())
    }

    /// Returns `true` if the answer records anything besides the events of the turn itself.
    fn records(&self, answers: &[UpdateAnswer], rest: &TurnAnswer) -> bool {
        let records = |answer: &UpdateAnswer| match (self.run.update_status(&answer.update_id), &answer.verdict) {
            (UpdateStatus::Accepted { .. }, verdict) => !matches!(verdict, Verdict::Later),
            (UpdateStatus::New | UpdateStatus::Ended { .. }, verdict) => !matches!(verdict, Verdict::Rejected { .. }),
        };
        !rest.decisions.is_empty() || answers.iter().any(records)
    }

    /// Checks that no event has been recorded since the turn of the updates was created, because its decider has not
    /// seen later events.
    fn must_be_unmoved(&self, last_event_id: EventId) -> Result<(), Fault> {
        let run = &self.run;
        // Updates of a run without a decider are refused, so no decider can have such a turn.
        let has_decider = !run.started.one_activity;
        let is_idle =
            has_decider && run.is_open() && run.turn.is_none() && run.turn_task.is_none() && run.paused.is_none();
        if is_idle && run.last_event_id == last_event_id {
            return Ok(());
        }
        // The turn has these ids once it is recorded. If a turn with these ids is completed, the same answer was
        // recorded before.
        let [scheduled_event_id, started_event_id] = [last_event_id + 1, last_event_id + 2];
        must_hold(run, TurnId { scheduled_event_id, started_event_id })?;
        Err(Fault::TurnLost)
    }

    /// Checks the answer to one update. Returns `true` if the answer accepts a new update. `accepts_another` is `true`
    /// if the same response to the turn has already accepted another update.
    fn needs_judgment(
        &self,
        answer: &UpdateAnswer,
        proposed: &[ProposedUpdate],
        accepts_another: bool,
    ) -> Result<bool, Fault> {
        let update_id = answer.update_id.clone();
        let status = self.run.update_status(&update_id);
        let Some(proposed) = proposed.iter().find(|proposed| proposed.update_id == update_id) else {
            return match status {
                UpdateStatus::Accepted { .. } => Ok(false),
                UpdateStatus::New | UpdateStatus::Ended { .. } => Err(Fault::UnknownUpdate { update_id }),
            };
        };
        if matches!(answer.verdict, Verdict::Rejected { .. }) {
            return Ok(false);
        }
        if status != UpdateStatus::New {
            return Err(Fault::UpdateAlreadyAccepted { update_id });
        }
        must_be_at(&self.run, proposed.if_version)?;
        match proposed.if_version {
            // The other update that the response accepts changes the version of the run.
            Some(expected) if accepts_another => {
                Err(Fault::VersionMismatch { expected, found: self.run.last_event_id + 1 })
            }
            _ => Ok(true),
        }
    }

    /// Records the events of a turn that was created only for updates.
    fn record_speculative_turn(&mut self, identity: Option<&str>, by: Option<&CallerName>, at: Timestamp) -> TurnId {
        let answers = std::mem::replace(&mut self.author, Author::named(by.cloned()));
        self.schedule_turn(at);
        let scheduled_event_id = self.run.last_event_id;
        let started = DeciderStarted { scheduled_event_id, identity: identity.map(str::to_owned) };
        let started_event_id = self.push(at, EventKind::DeciderStarted(started));
        self.author = answers;
        TurnId { scheduled_event_id, started_event_id }
    }

    /// Returns `true` if the run has capacity for the update that was just accepted and is not answered yet.
    fn may_wait(&mut self) -> bool {
        self.run.updates.open().len() <= limits::OPEN_UPDATES_MAX && self.has_space(|_| 0)
    }

    fn record_answer(
        &mut self,
        answer: &UpdateAnswer,
        proposed: &[ProposedUpdate],
        decision_event_id: EventId,
        now: Timestamp,
    ) {
        let update_id = answer.update_id.clone();
        let accepted_event_id = match self.run.update_status(&update_id) {
            UpdateStatus::Accepted { event_id } => event_id,
            UpdateStatus::Ended { .. } => return,
            UpdateStatus::New => {
                let proposed = proposed.iter().find(|proposed| proposed.update_id == update_id);
                let Some(proposed) = proposed.filter(|_| !matches!(answer.verdict, Verdict::Rejected { .. })) else {
                    return;
                };
                let accepted = UpdateAccepted {
                    update_id: update_id.clone(),
                    name: proposed.name.clone(),
                    input: proposed.input.clone(),
                    identity: proposed.identity.clone(),
                    decision_event_id,
                };
                // The author of the event is the caller of the update, not the decider.
                self.push_by(now, EventKind::UpdateAccepted(accepted), None, proposed.by.clone())
            }
        };
        let kind = match answer.verdict.clone() {
            Verdict::Later if accepted_event_id == self.run.last_event_id && !self.may_wait() => {
                EventKind::UpdateFailed(UpdateFailed {
                    update_id,
                    accepted_event_id,
                    reason: STATE_LIMIT.to_owned(),
                    details: None,
                    decision_event_id,
                })
            }
            Verdict::Later => return,
            Verdict::Done { result } => {
                EventKind::UpdateCompleted(UpdateCompleted { update_id, accepted_event_id, result, decision_event_id })
            }
            Verdict::Failed { reason, details } | Verdict::Rejected { reason, details } => {
                EventKind::UpdateFailed(UpdateFailed {
                    update_id,
                    accepted_event_id,
                    reason,
                    details,
                    decision_event_id,
                })
            }
        };
        self.push(now, kind);
    }
}

fn validate_answers(answers: &[UpdateAnswer]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for (index, answer) in answers.iter().enumerate() {
        let field = |name: &str| format!("updateResults[{index}].{name}");
        if !seen.insert(&answer.update_id) {
            let problem = format!("repeats the answer to update `{}`", answer.update_id);
            return Err(Fault::Invalid { field: field("id"), problem });
        }
        match &answer.verdict {
            Verdict::Done { result } => validate::payload(&field("accepted"), result.as_ref())?,
            Verdict::Failed { reason, details } => {
                validate::name_up_to(&field("failed.reason"), reason, limits::REASON_CHARS_MAX)?;
                validate::payload(&field("failed.details"), details.as_ref())?;
            }
            Verdict::Rejected { reason, details } => {
                validate::name_up_to(&field("rejected.reason"), reason, limits::REASON_CHARS_MAX)?;
                validate::payload(&field("rejected.details"), details.as_ref())?;
            }
            Verdict::Later => {}
        }
    }
    Ok(())
}

impl Run {
    pub(crate) fn apply_update_answered(&mut self, event: &Event, accepted_event_id: EventId, update_id: &str) {
        self.updates.end(accepted_event_id);
        self.remember(key_of_update(update_id), event.id, event.at());
    }

    /// When the run closes, ends all updates that have no answer.
    pub(crate) fn end_updates(&mut self, event: &Event) {
        for (accepted_event_id, it) in self.updates.close() {
            self.remember(key_of_update(&it.update_id), accepted_event_id, event.at());
        }
    }
}

#[cfg(test)]
mod tests;
