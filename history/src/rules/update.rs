//! Updates: a caller asks for one, a decider judges it, and what it accepts is recorded with its decisions.
//!
//! | while the update is | a caller asks for it | accepted, and done or failed | accepted, to be answered later | rejected | the run closes |
//! |---|---|---|---|---|---|
//! | new | it waits for a decider, beside the history | UpdateAccepted, UpdateCompleted or UpdateFailed | UpdateAccepted | nothing is recorded | refused (run-closed) |
//! | accepted | the caller waits for its answer | UpdateCompleted or UpdateFailed | – | UpdateFailed | known as accepted by a run that closed |
//! | answered | the caller hears the answer | refused (update-known) | refused (update-known) | nothing is recorded | – |
//!
//! A new one is refused while the run is paused (run-paused), at another version than it was asked for (version-moved), or while
//! [`OPEN_UPDATES_MAX`](limits::OPEN_UPDATES_MAX) are accepted and not answered (open-updates-limit). One that is to be answered later and for
//! which the state of the run has no room has failed (`state-limit`). A turn that was made for updates alone, and in which there is nothing
//! to record, leaves no event.

use std::collections::BTreeSet;

use crate::author::Author;
use crate::caller::CallerName;
use crate::command::{AnsweredTurn, ProposedUpdate, TurnAnswer, TurnId, UpdateAnswer, Verdict};
use crate::event::{DeciderStarted, Event, EventId, EventKind, UpdateAccepted, UpdateCompleted, UpdateFailed};
use crate::fault::Fault;
use crate::ids::RunId;
use crate::limits;
use crate::rules::turn::must_hold;
use crate::rules::workflow::{Starting, starting};
use crate::run::{Run, UpdateStanding, key_of_update};
use crate::start::Start;
use crate::time::{Duration, Timestamp};
use crate::transition::{Transition, must_be_at, must_be_open};
use crate::validate;

/// The reason of an update that was accepted to be answered later, and for which the state of its run has no room.
const STATE_LIMIT: &str = "state-limit";

/// What is known of an update, and if that is nothing, that a decider may be asked to judge it. It is known what came of it in runs
/// of the workflow id before this one, too.
///
/// # Errors
///
/// For a new one: a field that is not acceptable, [`Fault::RunClosed`], [`Fault::RunPaused`], [`Fault::VersionMoved`],
/// [`Fault::OpenUpdatesLimit`]. An update that is known is never refused: its answer is there, or will be.
pub fn may_update(run: &Run, asked: &ProposedUpdate) -> Result<UpdateStanding, Fault> {
    may_update_in(run, asked, None)
}

/// The same for an update that names a run, `run_id`: what came of it elsewhere is not what was asked for.
///
/// # Errors
///
/// As for [`may_update`].
pub fn may_update_in(run: &Run, asked: &ProposedUpdate, run_id: Option<RunId>) -> Result<UpdateStanding, Fault> {
    validate_asked(asked)?;
    match run.standing_of(&asked.update_id, run_id) {
        UpdateStanding::New => {}
        known => return Ok(known),
    }
    must_be_open(run)?;
    if run.paused.is_some() {
        return Err(Fault::RunPaused);
    }
    must_be_at(run, asked.if_version)?;
    let max = limits::OPEN_UPDATES_MAX;
    if run.updates.open().len() >= max {
        return Err(Fault::OpenUpdatesLimit { max });
    }
    Ok(UpdateStanding::New)
}

/// What a start does that comes with an update, given the newest run of its workflow id: nothing, where that run knows the
/// update, whether it is open or not. Who asks again must not start a second run.
///
/// # Errors
///
/// As for [`starting`]; [`Fault::Invalid`] for an update with a condition, as a run that is yet to be started has no version,
/// and for a first turn that is to wait, as somebody waits for it.
pub fn starting_for(existing: Option<&Run>, start: &Start, asked: &ProposedUpdate) -> Result<Starting, Fault> {
    validate_asked(asked)?;
    let invalid = |field: &str, problem: &str| Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() };
    if asked.if_version.is_some() {
        return Err(invalid("start", "stands beside a condition on the version of a run that is there"));
    }
    if start.start_after.is_some_and(|after| after != Duration::ZERO) {
        return Err(invalid("start.startAfter", "is not zero, and the update would have to wait for the first turn"));
    }
    match existing {
        Some(run) => match run.standing_of(&asked.update_id, None) {
            UpdateStanding::Accepted { .. } => Ok(Starting::Repeated { run_id: run.started.run_id }),
            UpdateStanding::Ended { run_id, .. } => Ok(Starting::Repeated { run_id }),
            UpdateStanding::New => starting(existing, start),
        },
        None => starting(None, start),
    }
}

fn validate_asked(asked: &ProposedUpdate) -> Result<(), Fault> {
    validate::name("updateId", &asked.update_id)?;
    validate::name("name", &asked.name)?;
    validate::payload("input", asked.input.as_ref())?;
    validate::identity(asked.identity.as_deref())
}

/// The events that a speculative turn will have if it is recorded: DeciderScheduled and DeciderStarted.
pub fn speculative_turn(
    run: &Run,
    identity: Option<&str>,
    by: Option<&CallerName>,
    started_at: Timestamp,
) -> Vec<Event> {
    let mut transition = Transition::of(run.clone());
    transition.turn_of_its_own(identity, by, started_at);
    transition.into_parts().1
}

impl Transition {
    pub(crate) fn answer_updates(
        &mut self,
        turn: &AnsweredTurn,
        asked: &[ProposedUpdate],
        answers: &[UpdateAnswer],
        beside: &TurnAnswer,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let records = self.records(answers, beside);
        match turn {
            AnsweredTurn::Held(turn) => must_hold(&self.run, *turn)?,
            AnsweredTurn::Speculative { last_event_id, .. } if records => self.must_be_unmoved(*last_event_id)?,
            // What was rejected was rejected, whatever has happened since.
            AnsweredTurn::Speculative { .. } => {}
        }
        beside.validate(&self.run)?;
        validate_answers(answers)?;
        let mut accepts = false;
        for answer in answers {
            accepts |= self.must_be_asked(answer, asked, accepts)?;
        }
        let turn = match turn {
            AnsweredTurn::Held(turn) => *turn,
            AnsweredTurn::Speculative { .. } if !records => return Ok(()),
            AnsweredTurn::Speculative { identity, by, started_at, .. } => {
                self.turn_of_its_own(identity.as_deref(), by.as_ref(), *started_at)
            }
        };
        let decision_event_id = self.turn_completed(turn, beside, now);
        for answer in answers {
            self.record_answer(answer, asked, decision_event_id, now);
        }
        self.carry_out_all(beside, decision_event_id, now);
        Ok(())
    }

    /// Whether there is anything to record, beside the turn itself.
    fn records(&self, answers: &[UpdateAnswer], beside: &TurnAnswer) -> bool {
        let records = |answer: &UpdateAnswer| match (self.run.update_standing(&answer.update_id), &answer.verdict) {
            (UpdateStanding::Accepted { .. }, verdict) => !matches!(verdict, Verdict::Later),
            (UpdateStanding::New | UpdateStanding::Ended { .. }, verdict) => {
                !matches!(verdict, Verdict::Rejected { .. })
            }
        };
        !beside.decisions.is_empty() || answers.iter().any(records)
    }

    /// A turn that was not recorded can be recorded only where it began: its decider saw everything up to there.
    fn must_be_unmoved(&self, last_event_id: EventId) -> Result<(), Fault> {
        let run = &self.run;
        let is_idle = run.is_open() && run.turn.is_none() && run.turn_task.is_none() && run.paused.is_none();
        if is_idle && run.last_event_id == last_event_id {
            return Ok(());
        }
        // The ids that it would have had: nothing else can have been completed with them.
        let [scheduled_event_id, started_event_id] = [last_event_id + 1, last_event_id + 2];
        must_hold(run, TurnId { scheduled_event_id, started_event_id })?;
        Err(Fault::TurnLost)
    }

    /// Whether it accepts an update; `others` tells whether another one was accepted before it.
    fn must_be_asked(&self, answer: &UpdateAnswer, asked: &[ProposedUpdate], others: bool) -> Result<bool, Fault> {
        let update_id = answer.update_id.clone();
        let standing = self.run.update_standing(&update_id);
        let Some(asked) = asked.iter().find(|asked| asked.update_id == update_id) else {
            return match standing {
                UpdateStanding::Accepted { .. } => Ok(false),
                UpdateStanding::New | UpdateStanding::Ended { .. } => Err(Fault::UpdateUnknown { update_id }),
            };
        };
        if matches!(answer.verdict, Verdict::Rejected { .. }) {
            return Ok(false);
        }
        if standing != UpdateStanding::New {
            return Err(Fault::UpdateKnown { update_id });
        }
        must_be_at(&self.run, asked.if_version)?;
        match asked.if_version {
            // The other one is about to move the version.
            Some(expected) if others => Err(Fault::VersionMoved { expected, found: self.run.last_event_id + 1 }),
            _ => Ok(true),
        }
    }

    /// Records that a turn was scheduled and started, for an update alone.
    fn turn_of_its_own(&mut self, identity: Option<&str>, by: Option<&CallerName>, at: Timestamp) -> TurnId {
        let answers = std::mem::replace(&mut self.author, Author::named(by.cloned()));
        self.schedule_turn(at);
        let scheduled_event_id = self.run.last_event_id;
        let started = DeciderStarted { scheduled_event_id, identity: identity.map(str::to_owned) };
        let started_event_id = self.push(at, EventKind::DeciderStarted(started));
        self.author = answers;
        TurnId { scheduled_event_id, started_event_id }
    }

    /// Whether the update that was accepted just now can wait for its answer.
    fn may_wait(&mut self) -> bool {
        self.run.updates.open().len() <= limits::OPEN_UPDATES_MAX && self.has_room(|_| 0)
    }

    fn record_answer(
        &mut self,
        answer: &UpdateAnswer,
        asked: &[ProposedUpdate],
        decision_event_id: EventId,
        now: Timestamp,
    ) {
        let update_id = answer.update_id.clone();
        let accepted_event_id = match self.run.update_standing(&update_id) {
            UpdateStanding::Accepted { event_id } => event_id,
            UpdateStanding::Ended { .. } => return,
            UpdateStanding::New => {
                let asked = asked.iter().find(|asked| asked.update_id == update_id);
                let Some(asked) = asked.filter(|_| !matches!(answer.verdict, Verdict::Rejected { .. })) else {
                    return;
                };
                let accepted = UpdateAccepted {
                    update_id: update_id.clone(),
                    name: asked.name.clone(),
                    input: asked.input.clone(),
                    identity: asked.identity.clone(),
                    decision_event_id,
                };
                // Who asks, not who judges.
                self.push_by(now, EventKind::UpdateAccepted(accepted), None, asked.by.clone())
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
            let problem = format!("answers update `{}` a second time", answer.update_id);
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
    pub(crate) fn update_is_answered(&mut self, event: &Event, accepted_event_id: EventId, update_id: &str) {
        self.updates.end(accepted_event_id);
        self.remember(key_of_update(update_id), event.id, event.at());
    }

    /// Those that were accepted will not be answered any more: the run has closed.
    pub(crate) fn updates_are_over(&mut self, event: &Event) {
        for (accepted_event_id, it) in self.updates.close() {
            self.remember(key_of_update(&it.update_id), accepted_event_id, event.at());
        }
    }
}

#[cfg(test)]
mod tests;
