//! Spans that end with a commit: spans of the run, of turns, of activities and their attempts, of timers, and of
//! signals.
//!
//! | span of | start | end | parent |
//! |---|---|---|---|
//! | a run | WorkflowStarted | the closing event | the span of the caller or of the parent run |
//! | a turn | DeciderStarted | the answer, a failure or a timeout | the run |
//! | an activity | ActivityScheduled | the event that closes it | the run |
//! | an attempt, with a retry policy | a runner takes it | its result or a timeout | the activity |
//! | a timer | TimerScheduled | TimerExpired or TimerCanceled | the run |
//! | a signal | Signal | the same time | the run, with a link to the sender's span |
//!
//! When the run closes, all its open spans end.

use std::sync::Arc;

use super::{SpanId, TraceId, Traceparent};
use crate::event::{
    ActivityTimeout, DeciderFailedCause, DeciderTimeout, Event, EventId, EventKind, Signal, WorkflowStarted,
};
use crate::run::{PendingActivity, PendingTimer, Run, Status, Turn};
use crate::time::Timestamp;
use crate::transition::Transition;

/// A completed span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Trace that the span belongs to.
    pub trace_id: TraceId,
    /// Id of the span.
    pub span_id: SpanId,
    /// Id of the parent span; `None` for the first span of its trace.
    pub parent: Option<SpanId>,
    /// The `tracestate`, with data of the tracing vendors.
    pub tracestate: Option<String>,
    /// Short name. Names must have few distinct values, so they contain no ids.
    pub name: String,
    /// Start time.
    pub began_at: Timestamp,
    /// End time.
    pub ended_at: Timestamp,
    /// Time at which a decider or runner took the task, if the span includes the wait for the decider or runner.
    pub taken_at: Option<Timestamp>,
    /// Outcome of the operation.
    pub end: SpanEnd,
    /// Further attributes, by name.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Span in another trace that caused this span.
    pub link: Option<Traceparent>,
}

/// Outcome of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanEnd {
    /// Success.
    Succeeded,
    /// Failure, with a short code.
    Failed(String),
}

/// Value of a span attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// Text.
    Text(String),
    /// Number.
    Number(u64),
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for SpanValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// Returns the spans that end with a transition. `before` is the state of the run before the transition. The list is
/// empty if the run is not [traced](Run::is_traced).
pub fn of_transition(before: Option<&Run>, made: &Transition) -> Vec<Span> {
    let run = made.run();
    let Some(traceparent) = run.started.traceparent.filter(|traceparent| traceparent.is_sampled()) else {
        return Vec::new();
    };
    let before = before.filter(|before| before.started.run_id == run.started.run_id);
    // Spans of copied events have already been exported for the original run.
    let events = made.events().get(made.copied()..).unwrap_or_default();
    let mut maker = Maker { run, traceparent, before, events, spans: Vec::new() };
    maker.end_failed_attempt_spans();
    for event in events {
        maker.event(event);
    }
    if let Some(closed_at) = run.closed_at.filter(|_| before.is_none_or(Run::is_open)) {
        maker.push_run_span(closed_at);
    }
    maker.spans
}

struct Maker<'a> {
    run: &'a Run,
    traceparent: Traceparent,
    before: Option<&'a Run>,
    events: &'a [Event],
    spans: Vec<Span>,
}

impl Maker<'_> {
    fn event(&mut self, event: &Event) {
        let at = event.at();
        match &event.kind {
            // The service decides the turns of a run with a single activity, which take no time.
            EventKind::DeciderCompleted(_) if self.run.started.one_activity => {}
            EventKind::DeciderCompleted(it) => self.end_turn_span(it.started_event_id, at, SpanEnd::Succeeded),
            EventKind::DeciderFailed(it) if it.cause == DeciderFailedCause::Reported => {
                self.end_turn_span(it.started_event_id, at, failed(it.reason.as_deref().unwrap_or("failed")));
            }
            EventKind::DeciderTimedOut(it) => {
                // A turn that no decider has taken has no span.
                if let (Some(started_event_id), DeciderTimeout::StartToClose) = (it.started_event_id, it.timeout) {
                    self.end_turn_span(started_event_id, at, failed("timed-out"));
                }
            }
            EventKind::ActivitySuccess(it) => self.end_activity_span(it.scheduled_event_id, at, &SpanEnd::Succeeded),
            EventKind::ActivityFailed(it) => self.end_activity_span(it.scheduled_event_id, at, &failed(&it.reason)),
            EventKind::ActivityCanceled(it) => self.end_activity_span(it.scheduled_event_id, at, &SpanEnd::Succeeded),
            EventKind::ActivityTimedOut(it) => {
                self.end_activity_span(it.scheduled_event_id, at, &failed(timeout_word(it.timeout)));
            }
            EventKind::ActivityScheduledTimeout(it) => {
                self.end_activity_span(it.scheduled_event_id, at, &failed("schedule-to-start"));
            }
            EventKind::TimerExpired(it) => self.end_timer_span(&it.timer_id, it.scheduled_event_id, at),
            EventKind::TimerCanceled(it) => self.end_timer_span(&it.timer_id, it.scheduled_event_id, at),
            EventKind::Signal(it) => self.push_signal_span(event, it),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => {}
        }
    }

    /// Creates a span whose parent is the run's span.
    fn child_of_run(&self, event_id: EventId, name: String, began_at: Timestamp, ended_at: Timestamp) -> Span {
        let run_id = self.run.started.run_id;
        let parent = Some(SpanId::of_run(run_id));
        self.span(SpanId::of_event(run_id, event_id), parent, name, began_at, ended_at)
    }

    fn span(
        &self,
        span_id: SpanId,
        parent: Option<SpanId>,
        name: String,
        began_at: Timestamp,
        ended_at: Timestamp,
    ) -> Span {
        let started: &WorkflowStarted = &self.run.started;
        let run_id = started.run_id.to_string();
        let attributes = vec![
            ("baton.workflow.id", started.workflow_id.as_str().into()),
            ("baton.run.id", run_id.as_str().into()),
            ("baton.workflow.type", started.workflow_type.as_str().into()),
        ];
        Span {
            trace_id: self.traceparent.trace_id(),
            span_id,
            parent,
            tracestate: started.tracestate.clone(),
            name,
            began_at: began_at.min(ended_at),
            ended_at,
            taken_at: None,
            end: SpanEnd::Succeeded,
            attributes,
            link: None,
        }
    }

    /// Returns the turn that a decider took before this commit or in it.
    fn turn(&self, started_event_id: EventId) -> Option<Turn> {
        let held = self.before.and_then(|before| before.turn.as_ref());
        let held = held.filter(|turn| turn.started_event_id == started_event_id).cloned();
        held.or_else(|| {
            let started = self.events.iter().find(|event| event.id == started_event_id)?;
            let EventKind::DeciderStarted(it) = &started.kind else { return None };
            let scheduled_event_id = it.scheduled_event_id;
            let scheduled = self.events.iter().find(|event| event.id == scheduled_event_id).map(|event| &event.kind);
            let attempt = match scheduled {
                Some(EventKind::DeciderScheduled(it)) => it.attempt,
                _ => self.before.and_then(|before| before.turn_task.as_ref()).map_or(1, |task| task.attempt),
            };
            let started_at = started.at();
            Some(Turn { scheduled_event_id, started_event_id, started_at, attempt, task_list: None })
        })
    }

    fn end_turn_span(&mut self, started_event_id: EventId, at: Timestamp, end: SpanEnd) {
        if let Some(turn) = self.turn(started_event_id) {
            self.push_turn_span(&turn, at, end);
        }
    }

    fn push_turn_span(&mut self, turn: &Turn, at: Timestamp, end: SpanEnd) {
        let name = format!("turn {}", self.run.started.workflow_type);
        let mut span = self.child_of_run(turn.scheduled_event_id, name, turn.started_at, at);
        span.attributes.push(("baton.event.id", turn.scheduled_event_id.into()));
        span.attributes.push(("baton.attempt", u64::from(turn.attempt).into()));
        span.end = end;
        self.spans.push(span);
    }

    /// Returns the activity in the state before the commit, or as the commit scheduled it.
    fn activity(&self, scheduled_event_id: EventId) -> Option<Arc<PendingActivity>> {
        let before = self.before.and_then(|before| before.activities.get(&scheduled_event_id)).cloned();
        before.or_else(|| {
            let scheduled = self.events.iter().find(|event| event.id == scheduled_event_id)?;
            let EventKind::ActivityScheduled(it) = &scheduled.kind else { return None };
            Some(Arc::new(PendingActivity::new(it, scheduled.at())))
        })
    }

    fn end_activity_span(&mut self, scheduled_event_id: EventId, at: Timestamp, end: &SpanEnd) {
        let Some(activity) = self.activity(scheduled_event_id) else { return };
        let mut span = self.of_activity(scheduled_event_id, &activity, at);
        span.end = end.clone();
        self.spans.push(span);
        self.end_attempt_span(scheduled_event_id, &activity, at, end);
    }

    fn of_activity(&self, scheduled_event_id: EventId, activity: &PendingActivity, at: Timestamp) -> Span {
        let name = format!("activity {}", activity.activity_type);
        let mut span = self.child_of_run(scheduled_event_id, name, activity.scheduled_at, at);
        span.attributes.extend([
            ("baton.event.id", scheduled_event_id.into()),
            ("baton.activity.id", activity.activity_id.as_str().into()),
            ("baton.activity.type", activity.activity_type.as_str().into()),
            ("baton.task_list", activity.task_list.as_str().into()),
            ("baton.attempt", u64::from(activity.attempt()).into()),
        ]);
        span.taken_at = activity.started_at;
        span
    }

    /// Ends the span of the attempt that a runner holds, if the activity has a retry policy.
    fn end_attempt_span(
        &mut self,
        scheduled_event_id: EventId,
        activity: &PendingActivity,
        at: Timestamp,
        end: &SpanEnd,
    ) {
        let Some(attempts) = activity.attempts.as_deref() else { return };
        let Some(held) = &attempts.held else { return };
        let run_id = self.run.started.run_id;
        let span_id = SpanId::of_attempt(run_id, scheduled_event_id, attempts.starts);
        let parent = Some(SpanId::of_event(run_id, scheduled_event_id));
        let of_activity = self.of_activity(scheduled_event_id, activity, at);
        let name = format!("try {}", activity.activity_type);
        let span =
            Span { span_id, parent, name, began_at: held.at.min(at), taken_at: None, end: end.clone(), ..of_activity };
        self.spans.push(span);
    }

    /// Ends the spans of attempts that have failed and are followed by other attempts. Attempts have no events, so they
    /// are found by comparing the states.
    fn end_failed_attempt_spans(&mut self) {
        let Some(before) = self.before else { return };
        for (scheduled_event_id, activity) in before.activities.iter() {
            let next = self.run.activities.get(scheduled_event_id);
            let Some(next) = next.filter(|next| next.attempt() > activity.attempt()) else { continue };
            let Some(failure) = next.last_failure() else { continue };
            let word = failure.reason.as_deref().or(failure.timeout.map(timeout_word));
            self.end_attempt_span(*scheduled_event_id, activity, failure.at, &failed(word.unwrap_or("failed")));
        }
    }

    fn end_timer_span(&mut self, timer_id: &str, scheduled_event_id: EventId, at: Timestamp) {
        let timer = self.before.and_then(|before| before.timers.get(timer_id));
        let timer = timer.filter(|timer| timer.scheduled_event_id == scheduled_event_id);
        let set = || self.events.iter().find(|event| event.id == scheduled_event_id).map(Event::at);
        if let Some(set_at) = timer.and_then(|timer| timer.set_at).or_else(set) {
            self.push_timer_span(timer_id, scheduled_event_id, set_at, at);
        }
    }

    fn push_timer_span(&mut self, timer_id: &str, scheduled_event_id: EventId, set_at: Timestamp, at: Timestamp) {
        let mut span = self.child_of_run(scheduled_event_id, "timer".to_owned(), set_at, at);
        span.attributes.push(("baton.event.id", scheduled_event_id.into()));
        span.attributes.push(("baton.timer.id", timer_id.into()));
        self.spans.push(span);
    }

    fn push_signal_span(&mut self, event: &Event, signal: &Signal) {
        let name = format!("signal {}", signal.name);
        let mut span = self.child_of_run(event.id, name, event.at(), event.at());
        span.attributes.push(("baton.event.id", event.id.into()));
        span.link = signal.traceparent;
        self.spans.push(span);
    }

    fn push_run_span(&mut self, at: Timestamp) {
        self.end_open_spans(at);
        let run = self.run;
        let started = &run.started;
        let name = format!("workflow {}", started.workflow_type);
        let mut span = self.span(SpanId::of_run(started.run_id), started.parent_span(), name, started.at, at);
        span.attributes.push(("baton.status", run.status.word().into()));
        let before = run.branched.as_ref().map(|branched| branched.run_id).or(started.continued_from);
        span.link = before.map(|before| self.traceparent.with_span(SpanId::of_run(before)));
        span.end = match run.status {
            Status::Failed | Status::TimedOut | Status::Terminated => failed(run.status.word()),
            Status::Open | Status::Success | Status::Canceled | Status::ContinuedAsNew => SpanEnd::Succeeded,
        };
        self.spans.push(span);
    }

    /// Ends all open spans when the run closes, because workers may already have exported spans that are their
    /// children.
    fn end_open_spans(&mut self, at: Timestamp) {
        let Some(before) = self.before else { return };
        let end = failed("run-closed");
        let is_exported = |spans: &[Span], event_id: EventId| {
            let span_id = SpanId::of_event(before.started.run_id, event_id);
            spans.iter().any(|span| span.span_id == span_id)
        };
        for (scheduled_event_id, activity) in before.activities.iter() {
            if !is_exported(&self.spans, *scheduled_event_id) {
                let mut span = self.of_activity(*scheduled_event_id, activity, at);
                span.end = end.clone();
                self.spans.push(span);
                self.end_attempt_span(*scheduled_event_id, activity, at, &end);
            }
        }
        for (timer_id, PendingTimer { scheduled_event_id, set_at, .. }) in &before.timers {
            if let Some(set_at) = set_at.filter(|_| !is_exported(&self.spans, *scheduled_event_id)) {
                self.push_timer_span(timer_id, *scheduled_event_id, set_at, at);
            }
        }
        if let Some(turn) = before.turn.as_ref().filter(|turn| !is_exported(&self.spans, turn.scheduled_event_id)) {
            self.push_turn_span(turn, at, end);
        }
    }
}

fn failed(word: &str) -> SpanEnd {
    SpanEnd::Failed(word.to_owned())
}

fn timeout_word(timeout: ActivityTimeout) -> &'static str {
    match timeout {
        ActivityTimeout::StartToClose => "start-to-close",
        ActivityTimeout::ScheduleToClose => "schedule-to-close",
        ActivityTimeout::Heartbeat => "heartbeat",
    }
}

#[cfg(test)]
mod tests;
