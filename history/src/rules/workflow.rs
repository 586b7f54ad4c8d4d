//! The run as a whole: its start, its close, and its successor.
//!
//! | run is | input | result |
//! |---|---|---|
//! | absent | a start | WorkflowStarted, DeciderScheduled; for a run of a single activity see `one_activity` |
//! | open | a start | fails with workflow-already-open, uses the open run, or terminates it first |
//! | open | `RequestCancel` | WorkflowCancelRequested |
//! | open | Terminate | WorkflowTerminated |
//! | open | a closing decision | the event of the decision, for example WorkflowFailed |
//! | open, with unseen events | a closing decision | WorkflowCloseFailed (`UnhandledEvents`), unless it is forced |
//! | open | its execution or run timeout | WorkflowTimedOut |
//! | closed | a start | WorkflowStarted, or fails with workflow-id-reuse-refused |
//! | closed, with a successor | a start | fails with workflow-already-open |
//! | closed | `RequestCancel` or Terminate | fails with run-closed |
//!
//! The conflict policy and the reuse policy choose between the results of a start. A cancel request and a failed close
//! schedule a turn. In every state, a request whose key was recorded before gets its original response.
//!
//! | run with a retry policy ends with | another attempt |
//! |---|---|
//! | WorkflowFailed, with a retryable reason | after the backoff, if the policy and the execution timeout allow it |
//! | WorkflowTimedOut (`Run`) | the same |
//! | WorkflowTimedOut (`Execution`), or anything else | none |
//! | any of these, after a cancel request | none |
//!
//! A cancel request stays in effect when another run follows:
//!
//! | run with a cancel request is followed by | the request |
//! |---|---|
//! | another attempt | prevents it: the close is final, also for its parent and its schedule |
//! | another attempt that an earlier version of Baton has already planned | is event 3 of the new run |
//! | the run that continues as new | is event 3 of the new run |
//! | a reset to an event after the request | is part of the copied history |
//! | a reset to an event before the request | is handled like a signal: reapplied, or dropped |
//! | a reset after the run closed as canceled | counts as answered and is not reapplied |
//! | the next action of its schedule, or a new start | does not apply to that run |
//!
//! A child is a run like any other. A cancel request from its parent (CancelExternal, or the policy `RequestCancel`)
//! has the same effect as a request from a caller. A cancel request from a schedule's overlap policy also has this
//! effect.
//!
//! | input while the first turn is delayed | result |
//! |---|---|
//! | a cancel request | WorkflowCancelRequested, and the turn becomes available; timeouts count from this event |
//! | a signal, an update or a query | waits for the turn |

mod successor;

pub use successor::is_cancel_request;

use uuid::Uuid;

use crate::author::Author;
use crate::decision::{ContinueAsNew, FailWorkflow};
use crate::decision_context::DecisionContext;
use crate::event::{
    ChildPolicy, CloseDecision, CloseFailedCause, Event, EventId, EventKind, Origin, RequestKey,
    WorkflowCancelRequested, WorkflowCloseFailed, WorkflowContinuedAsNew, WorkflowFailed, WorkflowStarted,
    WorkflowTerminated, WorkflowTimedOut, WorkflowTimeout,
};
use crate::fault::Fault;
use crate::ids::{ConflictPolicy, ReusePolicy};
use crate::links::child_run_id;
use crate::payload::Payload;
use crate::rules::{activity, signal};
use crate::run::{Deadline, DeadlineKind, Run, Status};
use crate::start::Start;
use crate::time::{Duration, Timestamp};
use crate::trace::SpanId;
use crate::transition::{CommandOutcome, Transition, must_be_open};
use crate::validate;

/// Checks that a new run may be started with the workflow id whose newest run is `existing`.
///
/// # Errors
///
/// [`Fault::AlreadyOpen`] if `existing` is open or has a successor. [`Fault::ReuseRefused`] if the reuse policy does
/// not allow another run.
pub fn may_start(existing: &Run, policy: ReusePolicy) -> Result<(), Fault> {
    let (run_id, status) = (existing.started.run_id, existing.status);
    let allowed = match (policy, status) {
        // A run with a successor counts as open, because the successor is about to start.
        (_, Status::Open) => return Err(Fault::AlreadyOpen { run_id }),
        (_, _) if existing.has_successor() => return Err(Fault::AlreadyOpen { run_id }),
        (ReusePolicy::AllowDuplicate, _) => true,
        (ReusePolicy::RejectDuplicate, _) => false,
        (ReusePolicy::AllowDuplicateFailedOnly, status) => status != Status::Success,
    };
    if allowed { Ok(()) } else { Err(Fault::ReuseRefused { run_id, status }) }
}

/// Effect of a start, which depends on the newest run of its workflow id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starting {
    /// A new run starts.
    New,
    /// The start has no effect, because this run has already recorded the request.
    Repeated {
        /// Id of the run.
        run_id: Uuid,
    },
    /// The open run is used. It receives the signal if the start contains one.
    Existing {
        /// Id of the run.
        run_id: Uuid,
    },
    /// The open run is terminated, and then a new run starts.
    TerminateFirst,
}

/// Returns what a start must do. `existing` is the newest run of the workflow id.
///
/// # Errors
///
/// The errors of [`may_start`], and [`Fault::Invalid`] for invalid fields and for policies that contradict each other.
pub fn starting(existing: Option<&Run>, start: &Start) -> Result<Starting, Fault> {
    validate_start(start)?;
    let Some(run) = existing else { return Ok(Starting::New) };
    let run_id = run.started.run_id;
    if let Some(request) = start.key.and_then(|key| run.request(key)) {
        return Ok(Starting::Repeated { run_id: request.run_id });
    }
    match start.conflict_policy {
        ConflictPolicy::UseExisting if run.is_open() => Ok(Starting::Existing { run_id }),
        ConflictPolicy::TerminateExisting if run.is_open() => Ok(Starting::TerminateFirst),
        ConflictPolicy::Fail | ConflictPolicy::UseExisting | ConflictPolicy::TerminateExisting => {
            may_start(run, start.reuse_policy).map(|()| Starting::New)
        }
    }
}

fn validate_start(start: &Start) -> Result<(), Fault> {
    validate::name("workflowId", &start.workflow_id)?;
    start.activity.as_ref().map_or(Ok(()), |it| activity::validate_schedule(&str::to_owned, it, false))?;
    validate::type_name("workflowType", &start.workflow_type)?;
    validate::name("taskList", &start.task_list)?;
    validate::payload("input", start.input.as_ref())?;
    validate::identity(start.identity.as_deref())?;
    validate::timeout("executionTimeout", Some(start.execution_timeout))?;
    validate::timeout("runTimeout", start.run_timeout)?;
    validate::timeout("deciderStartToClose", Some(start.decider_start_to_close))?;
    validate::timeout("deciderScheduleToStart", start.decider_schedule_to_start)?;
    validate::timeouts("activityTimeouts", start.activity_timeouts)?;
    validate::lambda_role("swf.lambdaRole", start.swf.as_ref().and_then(|swf| swf.lambda_role.as_deref()))?;
    validate::concurrency_key("concurrencyKey", start.concurrency_key.as_deref())?;
    validate::span("retention", start.retention)?;
    validate::span("startAfter", start.start_after.unwrap_or_default())?;
    validate::retry_of_workflow("retry", start.retry.as_ref())?;
    start.signal.as_ref().map_or(Ok(()), signal::validate_start_signal)?;
    if start.conflict_policy == ConflictPolicy::TerminateExisting && start.reuse_policy == ReusePolicy::RejectDuplicate
    {
        return Err(Fault::Invalid {
            field: "conflictPolicy".to_owned(),
            problem: "would terminate the open run, but the reusePolicy would then refuse the new one".to_owned(),
        });
    }
    validate::tags("tags", &start.tags, start.swf.is_some())
}

pub(crate) fn validate_fail(field: &impl Fn(&str) -> String, it: &FailWorkflow, is_swf: bool) -> Result<(), Fault> {
    validate::reason_of(&field("reason"), &it.reason, is_swf)?;
    validate::payload(&field("details"), it.details.as_ref())
}

pub(crate) fn validate_continue(
    field: &impl Fn(&str) -> String,
    it: &ContinueAsNew,
    is_swf: bool,
) -> Result<(), Fault> {
    validate::payload(&field("input"), it.input.as_ref())?;
    it.workflow_type.as_ref().map_or(Ok(()), |kind| validate::type_name(&field("workflowType"), kind))?;
    it.task_list.as_ref().map_or(Ok(()), |list| validate::name(&field("taskList"), list))?;
    validate::lambda_role(field("swf.lambdaRole"), it.swf.lambda_role.as_deref())?;
    validate::timeout(field("swf.executionTimeout"), it.swf.execution_timeout)?;
    validate::timeout(field("swf.deciderStartToClose"), it.swf.decider_start_to_close)?;
    validate::tags(&field("tags"), it.tags.as_deref().unwrap_or_default(), is_swf)
}

pub(crate) fn not_closed(decision: CloseDecision, cause: CloseFailedCause, decision_event_id: EventId) -> EventKind {
    EventKind::WorkflowCloseFailed(WorkflowCloseFailed { decision, cause, decision_event_id })
}

/// A request to cancel or terminate a run.
#[derive(Default)]
pub(crate) struct EndRequest<'a> {
    pub(crate) reason: Option<&'a String>,
    pub(crate) details: Option<&'a Payload>,
    pub(crate) identity: Option<&'a String>,
    pub(crate) child_policy: Option<ChildPolicy>,
    pub(crate) key: Option<RequestKey>,
}

impl Transition {
    /// Starts a run: records WorkflowStarted, DeciderScheduled, and the signal if the start contains one. If the run
    /// consists of a single activity, also completes the turn and schedules the activity.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] for an invalid field. [`Fault::StateLimit`] if the state has no space
    /// for the activity of the start.
    pub fn start(start: &Start, run_id: Uuid, now: Timestamp) -> Result<Self, Fault> {
        validate_start(start)?;
        let started = WorkflowStarted {
            workflow_id: start.workflow_id.clone(),
            run_id,
            workflow_type: start.workflow_type.clone(),
            task_list: start.task_list.clone(),
            input: start.input.clone(),
            execution_timeout: start
                .swf
                .as_ref()
                .map_or(start.execution_timeout, |swf| swf.execution_timeout(start.execution_timeout)),
            decider_start_to_close: start.decider_start_to_close,
            decider_schedule_to_start: start.decider_schedule_to_start,
            activity_timeouts: start.activity_timeouts,
            tags: start.tags.clone(),
            retention: start.retention,
            identity: start.identity.clone(),
            start_after: start.start_after.filter(|wait| *wait > Duration::ZERO),
            parent: start.parent.clone(),
            run_timeout: start.run_timeout,
            continued_from: None,
            execution_from: None,
            swf: start.swf.clone(),
            task_priority: start.task_priority,
            retry: start.retry.clone(),
            attempt: start.retry.as_ref().map(|_| 1),
            schedule: start.schedule.clone(),
            traceparent: start.trace.as_ref().map(|trace| trace.traceparent),
            tracestate: start.trace.as_ref().and_then(|trace| trace.tracestate.clone()),
            concurrency_key: start.concurrency_key.clone(),
            one_activity: start.activity.is_some(),
        };
        let run = Run::begin(now, &started, start.key);
        // If the trace begins with this run, the caller sent no trace context.
        let traceparent = started.traceparent.filter(|it| it.span_id() != SpanId::of_run(run_id));
        let (by, author) = (start.by.clone(), Author::named(start.by.clone()).traced(traceparent));
        let event = Event {
            id: 1,
            timestamp: now,
            kind: EventKind::WorkflowStarted(Box::new(started)),
            key: start.key,
            by,
            clock: None,
        };
        let mut transition = Self::beginning(run, vec![event], author);
        transition.schedule_turn(now);
        if let Some(signal) = start.signal.clone() {
            transition.signal_with_start(signal, start.identity.clone(), now);
        }
        if let Some(activity) = &start.activity {
            transition.schedule_only_activity(activity, now)?;
        }
        transition.author = Author::default();
        Ok(transition)
    }

    pub(crate) fn request_cancel(&mut self, request: &EndRequest<'_>, now: Timestamp) -> Result<(), Fault> {
        validate::reason("reason", request.reason.map(String::as_str))?;
        validate::identity(request.identity.map(String::as_str))?;
        must_be_open(&self.run)?;
        let (reason, identity) = (request.reason.cloned(), request.identity.cloned());
        let requested = WorkflowCancelRequested { reason, identity, ..WorkflowCancelRequested::default() };
        let event = self.cancel_request(requested, now);
        self.push_keyed(now, event, request.key);
        Ok(())
    }

    /// Returns the event of a cancel request. If the first turn is delayed, the event makes it available.
    pub(crate) fn cancel_request(&self, request: WorkflowCancelRequested, now: Timestamp) -> EventKind {
        let releases_first_turn = self.run.is_first_turn_held_back(now);
        EventKind::WorkflowCancelRequested(WorkflowCancelRequested { releases_first_turn, ..request })
    }

    pub(crate) fn take_cancel_request(
        &mut self,
        from: &Origin,
        reason: Option<&String>,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        let (reason, origin) = (reason.cloned(), Some(from.clone()));
        let request = WorkflowCancelRequested { reason, origin, ..WorkflowCancelRequested::default() };
        self.take(from, self.cancel_request(request, now), now)
    }

    pub(crate) fn terminate(&mut self, request: &EndRequest<'_>, now: Timestamp) -> Result<(), Fault> {
        let is_swf = self.run.started.is_swf();
        request.reason.map_or(Ok(()), |reason| validate::reason_of("reason", reason, is_swf))?;
        validate::payload("details", request.details)?;
        validate::identity(request.identity.map(String::as_str))?;
        must_be_open(&self.run)?;
        let terminated = WorkflowTerminated {
            reason: request.reason.cloned(),
            details: request.details.cloned(),
            identity: request.identity.cloned(),
            child_policy: request.child_policy.filter(|_| is_swf),
            ..WorkflowTerminated::default()
        };
        self.push_keyed(now, EventKind::WorkflowTerminated(terminated), request.key);
        Ok(())
    }

    pub(crate) fn fail_workflow(&self, it: &FailWorkflow, decision_event_id: EventId, now: Timestamp) -> EventKind {
        let (new_run_id, next_attempt_at) = self.next_attempt(Some(&it.reason), now).unzip();
        EventKind::WorkflowFailed(WorkflowFailed {
            reason: it.reason.clone(),
            details: it.details.clone(),
            decision_event_id,
            new_run_id,
            next_attempt_at,
            has_empty_reason: it.has_empty_reason && it.reason.is_empty(),
        })
    }

    pub(crate) fn continue_as_new(
        &self,
        it: &ContinueAsNew,
        context: &DecisionContext,
        decision_event_id: EventId,
        now: Timestamp,
    ) -> EventKind {
        let started = &self.run.started;
        let in_swf = if started.is_swf() { Some(self.continue_in_swf(it, context)).transpose() } else { Ok(None) };
        let (in_swf, tags) = match in_swf {
            Ok(Some(in_swf)) => (Some(in_swf), None),
            Ok(None) => (None, Some(&started.tags)),
            Err(cause) => return not_closed(CloseDecision::ContinueAsNew, cause, decision_event_id),
        };
        let (list, swf) = in_swf.unzip();
        EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
            new_run_id: child_run_id(started.run_id, decision_event_id, now),
            input: it.input.clone(),
            workflow_type: it.workflow_type.as_ref().unwrap_or(&started.workflow_type).clone(),
            task_list: list.unwrap_or_else(|| it.task_list.as_ref().unwrap_or(&started.task_list).clone()),
            tags: it.tags.as_ref().or(tags).cloned().unwrap_or_default(),
            decision_event_id,
            swf,
        })
    }

    /// Closes the run because it has exceeded its execution timeout or run timeout.
    pub(crate) fn workflow_takes_too_long(&mut self, timeout: WorkflowTimeout, now: Timestamp) {
        let next_attempt = match timeout {
            WorkflowTimeout::Execution => None,
            WorkflowTimeout::Run => self.next_attempt(None, now),
        };
        let (new_run_id, next_attempt_at) = next_attempt.unzip();
        self.push(now, EventKind::WorkflowTimedOut(WorkflowTimedOut { timeout, new_run_id, next_attempt_at }));
    }
}

impl Run {
    pub(crate) fn apply_cancel_requested(&mut self, event: &Event, it: &WorkflowCancelRequested) {
        self.cancel_requested = true;
        if it.releases_first_turn {
            self.release_first_turn(event.at());
        }
    }

    pub(crate) fn apply_terminated(&mut self, event: &Event, it: &WorkflowTerminated) {
        if let (Some(swf), Some(policy)) = (&mut self.started.swf, it.child_policy) {
            swf.child_policy = policy;
        }
        self.close(Status::Terminated, event);
    }

    pub(crate) fn close(&mut self, status: Status, event: &Event) {
        self.status = status;
        self.closed_at = Some(event.at());
        self.left_open = self.count_open();
        self.turn_task = None;
        self.turn = None;
        self.activities.clear();
        self.successes.close();
        self.timers.clear();
        self.externals.clear();
        self.awaiting.clear();
        self.lost_turns = None;
        self.children.clear();
        self.clock.go(event.at());
        self.end_updates(event);
        let followed_by = event.kind.followed_by().filter(|_| status != Status::ContinuedAsNew);
        self.retried_as = followed_by.map(|successor| successor.run_id);
        if !self.has_successor() {
            self.paused = None;
        }
    }

    /// Passes the deadlines of the execution timeout and the run timeout to `show`.
    pub(crate) fn each_workflow_deadline(&self, show: &mut impl FnMut(Deadline)) {
        let started = &self.started;
        self.show_deadline_after(
            started.execution_from(),
            Some(started.execution_timeout),
            DeadlineKind::Execution,
            show,
        );
        let from = self.run_from.unwrap_or_else(|| started.first_turn_at());
        self.show_deadline_after(from, started.run_timeout, DeadlineKind::Run, show);
    }
}

#[cfg(test)]
mod tests;
