//! Turns: a decider gets the events that it has not seen, and decides how the run continues. In the table below, *news*
//! means an event that needs a turn. At most one turn of a run is held by a decider. At most one other turn waits until
//! the held turn has ended.
//!
//! | turn is | input | result |
//! |---|---|---|
//! | not scheduled | `StartTurn` (a poll) | fails with turn-not-waiting |
//! | not scheduled | news | DeciderScheduled |
//! | waiting | `StartTurn` | DeciderStarted |
//! | waiting | a deadline | DeciderTimedOut (`ScheduleToStart`) |
//! | waiting, delayed | `StartTurn` | fails with turn-not-waiting |
//! | waiting or not scheduled | an answer, `FailTurn` or `ReturnTurn` | fails with turn-lost |
//! | held | `StartTurn` | fails with turn-not-waiting |
//! | held | an answer | DeciderCompleted, and the events of its decisions in order |
//! | held | `FailTurn` | DeciderFailed (`Reported`) |
//! | held | `ReturnTurn` (it was not delivered) | DeciderFailed (`DeliveryFailed`) |
//! | held | a deadline | DeciderTimedOut (`StartToClose`) |
//! | held | news | DeciderScheduled: another turn, which waits until the held turn has ended |
//! | completed last | an answer, `FailTurn` or `ReturnTurn` | fails with turn-completed |
//! | waiting or held | the run closes | removed |
//!
//! DeciderFailed and DeciderTimedOut schedule another turn, unless one is already waiting. After a failure that a
//! decider reported, the next turn is delayed. The delay grows with each consecutive failure, from
//! [`TURN_BACKOFF_FIRST`](limits::TURN_BACKOFF_FIRST) to [`TURN_BACKOFF_MAX`](limits::TURN_BACKOFF_MAX). The first turn
//! of a delayed start or of a retry is also delayed, unless a cancel request makes it available (`workflow`).
//!
//! While the run is paused, no turn can be taken, and schedule-to-start timeouts do not run.
//!
//! Turns wait on the task list given at the start of the run. An answer can move later turns to another list, either
//! permanently or until a turn times out.

use crate::command::{TurnAnswer, TurnId};
use crate::event::{
    DeciderCompleted, DeciderFailed, DeciderFailedCause, DeciderScheduled, DeciderStarted, DeciderTimedOut,
    DeciderTimeout, Event, EventId, EventKind, TurnList,
};
use crate::fault::Fault;
use crate::limits;
use crate::links::PollId;
use crate::payload::Payload;
use crate::run::{Deadline, DeadlineKind, FIRST_TURN, ListClocks, LostTurns, Run, Turn, TurnLists, TurnTask};
use crate::time::{Duration, Timestamp};
use crate::transition::{Transition, must_be_open};
use crate::validate;

impl TurnAnswer {
    /// Validates all fields of the answer except its decisions.
    pub(crate) fn validate_fields(&self, is_swf: bool) -> Result<(), Fault> {
        let context_max = if is_swf { limits::SWF_CONTEXT_BYTES_MAX } else { limits::CONTEXT_BYTES_MAX };
        validate::size("context", self.context.as_ref(), context_max)?;
        validate::awaiting(&self.awaiting)?;
        if let Some(list) = &self.next_task_list {
            validate::name("taskList", &list.task_list)?;
            validate::span("taskListScheduleToStart", list.schedule_to_start.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Checks that a decider holds this turn, so that its answer would be accepted.
///
/// # Errors
///
/// [`Fault::TurnCompleted`] if this is the last completed turn. Otherwise [`Fault::RunClosed`] or [`Fault::TurnLost`].
pub fn must_hold(run: &Run, turn: TurnId) -> Result<(), Fault> {
    if run.turn.as_ref().is_some_and(|held| {
        held.scheduled_event_id == turn.scheduled_event_id && held.started_event_id == turn.started_event_id
    }) {
        return Ok(());
    }
    // This check comes before the check of the status, so that a decider that repeats its last answer learns that the
    // answer was accepted.
    if turn.started_event_id == run.previous_started_event_id && turn.started_event_id != 0 {
        return Err(Fault::TurnCompleted);
    }
    must_be_open(run)?;
    Err(Fault::TurnLost)
}

impl Transition {
    /// Schedules a turn, unless one is already waiting or the run is closed.
    pub(crate) fn schedule_turn(&mut self, now: Timestamp) {
        if !self.run.is_open() || self.run.turn_task.is_some() {
            return;
        }
        let given_back = matches!(
            self.events().last().map(|event| &event.kind),
            Some(EventKind::DeciderFailed(DeciderFailed { cause: DeciderFailedCause::Reported, .. }))
        );
        let scheduled = DeciderScheduled {
            task_list: self.run.next_turn_list().to_owned(),
            start_to_close: self.run.started.turn_timeout(),
            schedule_to_start: self.run.next_turn_waits(),
            attempt: self.run.turns_lost.saturating_add(1),
            not_before: if self.run.last_event_id == 1 {
                self.run.started.start_after.map(|_| self.run.started.first_turn_at())
            } else {
                given_back.then(|| now.plus(turn_backoff(self.run.turns_lost)))
            },
            task_priority: self.run.started.priority(),
        };
        self.push(now, EventKind::DeciderScheduled(scheduled));
    }

    pub(crate) fn start_turn(
        &mut self,
        scheduled_event_id: EventId,
        identity: Option<&String>,
        poll: Option<PollId>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::taker_identity(identity.map(String::as_str), self.run.started.is_swf())?;
        must_be_open(&self.run)?;
        let is_free = self.run.turn.is_none() && self.run.paused.is_none();
        let task = self.run.turn_task.as_ref().filter(|_| is_free);
        let waits = task.is_some_and(|task| {
            task.scheduled_event_id == scheduled_event_id && task.not_before.is_none_or(|at| at <= now)
        });
        if !waits {
            return Err(Fault::TurnNotWaiting { scheduled_event_id });
        }
        let identity = identity.cloned();
        self.push(now, EventKind::DeciderStarted(DeciderStarted { scheduled_event_id, identity }));
        self.links.sent.send(scheduled_event_id, poll);
        Ok(())
    }

    pub(crate) fn turn_completed(&mut self, turn: TurnId, answer: &TurnAnswer, now: Timestamp) -> EventId {
        let TurnId { scheduled_event_id, started_event_id } = turn;
        let completed = DeciderCompleted {
            scheduled_event_id,
            started_event_id,
            context: answer.context.clone(),
            awaiting: answer.awaiting.clone(),
            next_task_list: answer.next_task_list.clone(),
        };
        self.push(now, EventKind::DeciderCompleted(completed))
    }

    /// Checks that the decider's credential permits moving turns to this task list.
    pub(crate) fn may_move(&self, to: &TurnList) -> Result<(), Fault> {
        if self.author.may.as_ref().is_none_or(|may| may.iter().any(|may| may.allows_list(&to.task_list))) {
            return Ok(());
        }
        let problem = "is a task list to which this decider's credential may not move turns".to_owned();
        Err(Fault::Invalid { field: "taskList".to_owned(), problem })
    }

    pub(crate) fn fail_turn(
        &mut self,
        turn: TurnId,
        reason: Option<&String>,
        details: Option<&Payload>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::reason("reason", reason.map(String::as_str))?;
        validate::payload("details", details)?;
        must_hold(&self.run, turn)?;
        // If another turn is already waiting, it was scheduled without a delay. This failure delays that turn, too.
        let wait = turn_backoff(self.run.turns_lost.saturating_add(1));
        let next_not_before = self.run.turn_task.as_ref().map(|_| now.plus(wait));
        let failed = DeciderFailed {
            reason: reason.cloned(),
            details: details.cloned(),
            next_not_before,
            ..failed(turn, DeciderFailedCause::Reported)
        };
        self.push(now, EventKind::DeciderFailed(failed));
        Ok(())
    }

    /// Handles a turn that could not be delivered to its decider. If the turn has been sent to another poll in the
    /// meantime, this delivery no longer matters and the command fails.
    pub(crate) fn return_turn(&mut self, turn: TurnId, poll: Option<PollId>, now: Timestamp) -> Result<(), Fault> {
        must_hold(&self.run, turn)?;
        if self.links.sent.poll_of(turn.scheduled_event_id) != poll {
            return Err(Fault::TurnLost);
        }
        self.push(now, EventKind::DeciderFailed(failed(turn, DeciderFailedCause::DeliveryFailed)));
        Ok(())
    }

    pub(crate) fn turn_waited_too_long(&mut self, scheduled_event_id: EventId, now: Timestamp) {
        let timeout = DeciderTimeout::ScheduleToStart;
        let timed_out = DeciderTimedOut { scheduled_event_id, started_event_id: None, timeout };
        self.push(now, EventKind::DeciderTimedOut(timed_out));
    }

    pub(crate) fn turn_took_too_long(&mut self, now: Timestamp) {
        let Some(turn) = &self.run.turn else { return };
        let scheduled_event_id = turn.scheduled_event_id;
        let (started_event_id, timeout) = (Some(turn.started_event_id), DeciderTimeout::StartToClose);
        let timed_out = DeciderTimedOut { scheduled_event_id, started_event_id, timeout };
        self.push(now, EventKind::DeciderTimedOut(timed_out));
    }
}

fn failed(turn: TurnId, cause: DeciderFailedCause) -> DeciderFailed {
    let TurnId { scheduled_event_id, started_event_id } = turn;
    let (reason, details, next_not_before) = (None, None, None);
    DeciderFailed { scheduled_event_id, started_event_id, cause, reason, details, next_not_before }
}

/// Returns the delay of the next turn after this number of consecutive lost turns.
pub(crate) fn turn_backoff(turns_lost: u32) -> Duration {
    let doublings = turns_lost.saturating_sub(1).min(16);
    limits::TURN_BACKOFF_FIRST.times(1 << doublings).min(limits::TURN_BACKOFF_MAX)
}

impl Run {
    pub(crate) fn apply_turn_scheduled(&mut self, event: &Event, it: &DeciderScheduled) {
        let started = &self.started;
        self.turn_task = Some(TurnTask {
            scheduled_event_id: event.id,
            waits_since: event.at(),
            attempt: it.attempt,
            not_before: it.not_before,
            task_list: Some(&it.task_list).filter(|list| **list != started.task_list).cloned(),
            schedule_to_start: it.schedule_to_start.filter(|wait| Some(*wait) != started.decider_schedule_to_start),
        });
    }

    pub(crate) fn apply_turn_started(&mut self, event: &Event, scheduled_event_id: EventId) {
        let (attempt, task_list) = self.turn_task.take().map_or((1, None), |task| (task.attempt, task.task_list));
        let (started_event_id, started_at) = (event.id, event.at());
        self.turn = Some(Turn { scheduled_event_id, started_event_id, started_at, attempt, task_list });
    }

    pub(crate) fn apply_turn_completed(&mut self, event: &Event, it: &DeciderCompleted) {
        self.end_turn(event.at());
        (self.turns_lost, self.lost_turns) = (0, None);
        self.previous_started_event_id = it.started_event_id;
        self.awaiting.clone_from(&it.awaiting);
        if it.context.is_some() {
            self.context_event_id = Some(event.id);
        }
        if let Some(list) = &it.next_task_list {
            self.move_turns(list);
        }
    }

    pub(crate) fn apply_turn_timed_out(&mut self, event: &Event, it: &DeciderTimedOut) {
        self.lose_turn(event);
        self.turn_lists.take_if(|lists| {
            lists.for_now = None;
            lists.for_good.is_none()
        });
        match it.started_event_id {
            Some(_) => self.end_turn(event.at()),
            None => self.turn_task = None,
        }
    }

    pub(crate) fn apply_turn_failed(&mut self, event: &Event, it: &DeciderFailed) {
        // A turn that could not be delivered does not count as a failure of the decider.
        if it.cause == DeciderFailedCause::Reported {
            self.lose_turn(event);
        }
        self.end_turn(event.at());
        if let (Some(task), Some(_)) = (&mut self.turn_task, it.next_not_before) {
            task.not_before = it.next_not_before;
        }
    }

    /// Returns `true` if the first turn is still delayed at `now`.
    pub(crate) fn is_first_turn_held_back(&self, now: Timestamp) -> bool {
        let first = self.turn_task.as_ref().filter(|task| task.scheduled_event_id == FIRST_TURN);
        first.and_then(|task| task.not_before).is_some_and(|at| at > now)
    }

    /// Makes the delayed first turn available at `at`, as if the run had been started with a delay that ends at `at`.
    pub(crate) fn release_first_turn(&mut self, at: Timestamp) {
        let waited = at.since(self.started.at);
        if self.run_from.is_some() || at < self.started.at {
            self.count_first_turn_from(at);
        }
        self.started.start_after = Some(waited).filter(|wait| *wait > Duration::ZERO);
        if let Some(task) = &mut self.turn_task {
            task.not_before = None;
            task.waits_since = at;
        }
    }

    fn move_turns(&mut self, list: &TurnList) {
        let lists = self.turn_lists.get_or_insert_default();
        if list.schedule_to_start.is_some() {
            lists.for_now = Some(list.clone());
        } else {
            **lists = TurnLists { for_good: Some(list.task_list.clone()), for_now: None };
        }
    }

    fn lose_turn(&mut self, event: &Event) {
        self.turns_lost = self.turns_lost.saturating_add(1);
        let since = self.lost_turns.map_or(event.at(), |lost| lost.since);
        self.lost_turns = Some(LostTurns { since, event_id: event.id });
    }

    /// Ends the held turn. If another turn is waiting, it can then be taken.
    fn end_turn(&mut self, at: Timestamp) {
        self.turn = None;
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
    }

    /// Passes the deadline of the held or waiting turn to `show`.
    pub(crate) fn each_turn_deadline(&self, lists: ListClocks<'_>, show: &mut impl FnMut(Deadline)) {
        if let Some(turn) = &self.turn {
            let what = DeadlineKind::TurnStartToClose { scheduled_event_id: turn.scheduled_event_id };
            self.show_deadline_after(turn.started_at, Some(self.started.turn_timeout()), what, show);
        } else if let Some(task) = self.turn_task.as_ref().filter(|_| self.paused.is_none()) {
            let from = task.not_before.map_or(task.waits_since, |at| at.max(task.waits_since));
            let what = DeadlineKind::TurnScheduleToStart { scheduled_event_id: task.scheduled_event_id };
            let stops = lists.stopped.deciders.get(self.list_of_turn(task));
            let limit = task.schedule_to_start.or(self.started.decider_schedule_to_start);
            self.show_wait(from, limit, (lists, stops), what, show);
        }
    }
}

#[cfg(test)]
mod tests;
