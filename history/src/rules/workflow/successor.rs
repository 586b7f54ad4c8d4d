//! The run that goes on for another: for one that continued as new, or that failed and is tried again.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{ByHand, Event, EventKind, WorkflowContinuedAsNew, WorkflowPaused, WorkflowStarted};
use crate::ids::RunId;
use crate::links::child_run_id;
use crate::payload::Payload;
use crate::retry;
use crate::run::Run;
use crate::time::{Duration, Timestamp};
use crate::transition::Transition;

impl Transition {
    /// The run that continues `run`, which closed with `it`, as a decider with the credential `by` decided:
    /// WorkflowStarted, DeciderScheduled, and the newest cancel request to `run` (`asked`, see [`is_cancel_request`]).
    /// Every caller that starts it, however often, gets the same run.
    pub fn successor(
        run: &Run,
        it: &WorkflowContinuedAsNew,
        by: Option<CallerName>,
        asked: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        let before = like(run, it.new_run_id);
        // In SWF's dialect the run that goes on has a clock and settings of its own.
        let own = it.swf.clone();
        let started = WorkflowStarted {
            workflow_type: it.workflow_type.clone(),
            task_list: it.task_list.clone(),
            input: it.input.clone(),
            tags: it.tags.clone(),
            // Tries are counted for what is tried again, and this is something new.
            attempt: run.started.retry.as_ref().map(|_| 1),
            execution_timeout: own
                .as_ref()
                .map_or(before.execution_timeout, |own| own.run.execution_timeout(own.execution_timeout)),
            decider_start_to_close: own
                .as_ref()
                .map_or(before.decider_start_to_close, |own| own.decider_start_to_close),
            execution_from: before.execution_from.filter(|_| own.is_none()),
            swf: own.map(|own| own.run),
            ..before
        };
        Self::follow(run, started, by, asked, now)
    }

    /// The run that tries again what `run` failed at, with the `input` of that run. Its first turn is held back until
    /// `not_before`. Every caller that starts it, however often, gets the same run.
    ///
    /// A run that was asked to cancel has no other try; if an earlier version planned one all the same, `asked` is the
    /// newest request, as for [`successor`](Self::successor).
    pub fn retry(
        run: &Run,
        run_id: RunId,
        input: Option<Payload>,
        not_before: Timestamp,
        asked: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        let started = WorkflowStarted {
            input,
            attempt: run.started.attempt.map(|attempt| attempt.saturating_add(1)),
            start_after: Some(not_before.since(now)).filter(|wait| *wait > Duration::ZERO),
            ..like(run, run_id)
        };
        Self::follow(run, started, None, asked, now)
    }

    fn follow(
        run: &Run,
        started: WorkflowStarted,
        by: Option<CallerName>,
        asked: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        // Who repeats the request that started the first run hears of the one that is open now.
        let key = run.known.start();
        let next = Run::begin(now, &started, key);
        let event = Event {
            id: 1,
            timestamp: now,
            kind: EventKind::WorkflowStarted(Box::new(started)),
            key,
            by: by.clone(),
            clock: None,
        };
        let mut transition = Self::beginning(next, vec![event], Author::named(by));
        transition.schedule_turn(now);
        transition.author = Author::default();
        // Its decider has to answer what the decider of the run before it did not.
        if let Some(Event { kind: EventKind::WorkflowCancelRequested(request), by, .. }) = asked {
            let request = transition.cancel_request(request.clone(), now);
            transition.push_by(now, request, None, by.clone());
        }
        // Who goes on for a paused run is paused.
        if let Some(pause) = &run.paused {
            let ByHand { identity, reason } = pause.by_hand.clone();
            let paused = WorkflowPaused { stop_clocks: pause.stops_clock, identity, reason };
            transition.push(now, EventKind::WorkflowPaused(paused));
        }
        transition
    }

    /// The run that tries again, and when, if the run that is about to close may be tried again: it was not asked to
    /// cancel, its policy has another try, that may help after a failure with this reason, and it would begin before
    /// the execution timeout.
    pub(crate) fn next_try(&self, reason: Option<&str>, now: Timestamp) -> Option<(RunId, Timestamp)> {
        if self.run.cancel_requested {
            return None;
        }
        let started = &self.run.started;
        let (policy, attempt) = (started.retry.as_ref()?, started.attempt.unwrap_or(1));
        if !policy.allows_after(attempt) || reason.is_some_and(|reason| !policy.retries(reason)) {
            return None;
        }
        let closing_event_id = self.run.last_event_id + 1;
        let at = now.plus(policy.wait(attempt, retry::chance(started.run_id, closing_event_id, attempt)));
        let ends_at = self.run.clock.reach(started.execution_from(), started.execution_timeout);
        let is_in_time = ends_at.is_none_or(|ends_at| at < ends_at);
        is_in_time.then(|| (child_run_id(started.run_id, closing_event_id, now), at))
    }
}

/// Whether an event is a cancel request, which a run that follows is asked, too.
pub fn is_cancel_request(event: &Event) -> bool {
    matches!(event.kind, EventKind::WorkflowCancelRequested(_))
}

/// A run that is like the one before it in everything that is not its own.
fn like(run: &Run, run_id: RunId) -> WorkflowStarted {
    let before = &run.started;
    // The clock of the execution goes on where it was.
    let execution_from = before.execution_from();
    let stood = run.clock.stood(execution_from, run.closed_at.unwrap_or(run.last_timestamp));
    WorkflowStarted {
        run_id,
        start_after: None,
        continued_from: Some(before.run_id),
        execution_from: Some(execution_from.plus(stood)),
        attempt: None,
        ..WorkflowStarted::clone(before)
    }
}

#[cfg(test)]
mod tests;
