//! Successors: the new run after a run continued as new, or after it failed or timed out and is retried.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{Event, EventKind, OperatorAction, WorkflowContinuedAsNew, WorkflowPaused, WorkflowStarted};
use crate::ids::RunId;
use crate::links::child_run_id;
use crate::payload::Payload;
use crate::retry;
use crate::run::Run;
use crate::time::{Duration, Timestamp};
use crate::transition::Transition;

impl Transition {
    /// Creates the successor of `run`, which continued as new with the event `it`. `by` is the credential of the
    /// decider that made this decision.
    ///
    /// The successor begins with WorkflowStarted and DeciderScheduled. They are followed by `cancel_request`, the
    /// newest cancel request to `run`, if there is one (see [`is_cancel_request`]). The same arguments always yield the
    /// same result.
    pub fn successor(
        run: &Run,
        it: &WorkflowContinuedAsNew,
        by: Option<CallerName>,
        cancel_request: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        let before = like(run, it.new_run_id);
        // In an SWF run, the successor's execution timeout and settings come from the decision.
        let own = it.swf.clone();
        let started = WorkflowStarted {
            workflow_type: it.workflow_type.clone(),
            task_list: it.task_list.clone(),
            input: it.input.clone(),
            tags: it.tags.clone(),
            // The new run has a new input, so its attempts are counted from the beginning.
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
        Self::follow(run, started, by, cancel_request, now)
    }

    /// Creates the run that makes the next attempt. `input` is the input of the failed run, and the first turn is
    /// delayed until `not_before`. The same arguments always yield the same result.
    ///
    /// A run with a cancel request is not retried. But an earlier version of Baton may have planned a retry in spite of
    /// the request. In this case, `cancel_request` is the newest cancel request, as for [`successor`](Self::successor).
    pub fn retry(
        run: &Run,
        run_id: RunId,
        input: Option<Payload>,
        not_before: Timestamp,
        cancel_request: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        let started = WorkflowStarted {
            input,
            attempt: run.started.attempt.map(|attempt| attempt.saturating_add(1)),
            start_after: Some(not_before.since(now)).filter(|wait| *wait > Duration::ZERO),
            ..like(run, run_id)
        };
        Self::follow(run, started, None, cancel_request, now)
    }

    fn follow(
        run: &Run,
        started: WorkflowStarted,
        by: Option<CallerName>,
        cancel_request: Option<&Event>,
        now: Timestamp,
    ) -> Self {
        // If a caller repeats the start of the first run, the response names the new run, because only the new run is
        // open.
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
        // The decider of the closed run has not answered the cancel request, so the new run receives it.
        if let Some(Event { kind: EventKind::WorkflowCancelRequested(request), by, .. }) = cancel_request {
            let request = transition.cancel_request(request.clone(), now);
            transition.push_by(now, request, None, by.clone());
        }
        // The successor of a paused run begins paused.
        if let Some(pause) = &run.paused {
            let OperatorAction { identity, reason } = pause.operator.clone();
            let paused = WorkflowPaused { stop_clocks: pause.stops_clock, identity, reason };
            transition.push(now, EventKind::WorkflowPaused(paused));
        }
        transition
    }

    /// Returns the id and the start time of the next attempt. The run is about to close. Returns `None` if the run must
    /// not be retried. A retry requires all of these:
    ///
    /// * There is no cancel request.
    /// * The retry policy allows another attempt, and the reason is retryable.
    /// * The attempt can start before the execution timeout expires.
    pub(crate) fn next_attempt(&self, reason: Option<&str>, now: Timestamp) -> Option<(RunId, Timestamp)> {
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

/// Returns `true` for a cancel request. A successor must receive the cancel requests to its predecessor.
pub fn is_cancel_request(event: &Event) -> bool {
    matches!(event.kind, EventKind::WorkflowCancelRequested(_))
}

/// Returns start attributes for a successor, copied from this run.
fn like(run: &Run, run_id: RunId) -> WorkflowStarted {
    let before = &run.started;
    // The successor continues the execution timeout of this run. The periods in which the run's clock was stopped do
    // not count.
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
