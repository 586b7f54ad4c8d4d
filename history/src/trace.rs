//! Trace that a run belongs to, and the ids of the run's spans. These ids are the same on every node at any time.
//!
//! Source: W3C Trace Context, <https://www.w3.org/TR/trace-context/>. As the recommendation requires, malformed values
//! are ignored instead of rejected.

mod ids;
mod spans;
mod traceparent;

pub use ids::{SpanId, TraceId};
pub use spans::{Span, SpanEnd, SpanValue, of_transition};
pub use traceparent::{TraceContext, Traceparent};

use crate::event::EventId;
use crate::ids::RunId;
use crate::run::{Run, RunStart};

/// Id of the event whose span covers the whole run.
const RUN: EventId = 1;

impl SpanId {
    /// Returns the id of a run's span, from its start to its close.
    pub fn of_run(run_id: RunId) -> Self {
        Self::of(run_id, RUN, 0)
    }

    /// Returns the id of the span that begins with this event: a turn, an activity, a timer or a signal.
    pub fn of_event(run_id: RunId, event_id: EventId) -> Self {
        Self::of(run_id, event_id, 0)
    }

    /// Returns the id of the span of one attempt of an activity, identified by its [start
    /// number](crate::TaskId::start).
    pub fn of_attempt(run_id: RunId, scheduled_event_id: EventId, start: u32) -> Self {
        Self::of(run_id, scheduled_event_id, start)
    }
}

impl TraceContext {
    /// Creates the context of a run that begins a trace because its caller sent none. The trace id is derived from
    /// the run, and the parent is the run's own span.
    pub fn root(run_id: RunId, is_sampled: bool) -> Self {
        let traceparent = Traceparent::new(TraceId::of(run_id), SpanId::of_run(run_id), is_sampled);
        Self { traceparent, tracestate: None }
    }
}

impl RunStart {
    /// Returns the trace context for requests that are part of this span of the run, or `None` if the run belongs to no
    /// trace.
    pub fn trace_below(&self, span: SpanId) -> Option<TraceContext> {
        let traceparent = self.traceparent?.with_span(span);
        Some(TraceContext { traceparent, tracestate: self.tracestate.clone() })
    }

    /// Returns the parent of the run's span, or `None` if the run's span is the first of its trace.
    pub fn parent_span(&self) -> Option<SpanId> {
        self.traceparent.map(Traceparent::span_id).filter(|span| *span != SpanId::of_run(self.run_id))
    }
}

impl Run {
    /// Returns `true` if the run's spans are exported.
    pub fn is_traced(&self) -> bool {
        self.started.traceparent.is_some_and(Traceparent::is_sampled)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::decision::ContinueAsNew;
    use crate::event::EventKind;
    use crate::links::{Effect, EffectKind, OutboundAction};
    use crate::scene::{Scene, child, plain, signal_external};
    use crate::start::Start;
    use crate::time::Duration;
    use crate::transition::Transition;

    const RUN_ID: RunId = Uuid::from_u128(7);
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn given() -> Scene {
        Scene::of_run(&Start { trace: TraceContext::of_headers(CALLER, Some("a=b")), ..plain() }, RUN_ID)
    }

    #[test]
    fn effects_on_other_runs_are_below_the_runs_span() {
        let given = given().decide([child("c"), signal_external("w9")]);
        let below = given.run.started.trace_below(SpanId::of_run(RUN_ID)).unwrap();
        assert_eq!(below.traceparent, CALLER.parse::<Traceparent>().unwrap().with_span(SpanId::of_run(RUN_ID)));
        assert_eq!(below.tracestate.as_deref(), Some("a=b"));
        let outbound = |kind: EffectKind, to: &str, name: &str| {
            let event = given.events.iter().find(|event| event.kind.name() == name).unwrap();
            Effect::new(event.id, kind, to).outbound(&given.run.started, event).unwrap()
        };
        let OutboundAction::Start(start) = outbound(EffectKind::StartChild, "c", "ChildScheduled").task else {
            panic!("a start");
        };
        assert_eq!(start.trace, Some(below.clone()));
        assert_eq!(outbound(EffectKind::Signal, "w9", "ExternalSignalScheduled").trace, Some(below));
    }

    #[test]
    fn a_successor_is_in_the_same_trace() {
        let closed = given().decide([ContinueAsNew::default().into()]);
        let Some(EventKind::WorkflowContinuedAsNew(it)) = closed.events.last().map(|event| &event.kind) else {
            panic!("no successor");
        };
        let next = Transition::successor(&closed.run, it, None, None, closed.now);
        assert_eq!(
            next.run().started.trace_below(SpanId::of_run(RUN_ID)),
            closed.run.started.trace_below(SpanId::of_run(RUN_ID))
        );
        assert_eq!(next.run().started.traceparent.map(|it| it.to_string()).as_deref(), Some(CALLER));
        // If a run began its trace, its span is the parent of the spans of all successors.
        let root = Start { trace: Some(TraceContext::root(RUN_ID, true)), ..plain() };
        let root = Scene::of_run(&root, RUN_ID);
        assert_eq!(root.run.started.parent_span(), None);
        let retried =
            Transition::retry(&root.run, Uuid::from_u128(8), None, root.now, None, root.now.plus(Duration::ZERO));
        assert_eq!(retried.run().started.parent_span(), Some(SpanId::of_run(RUN_ID)));
        let again = Transition::retry(retried.run(), Uuid::from_u128(9), None, root.now, None, root.now);
        assert_eq!(again.run().started.parent_span(), Some(SpanId::of_run(RUN_ID)));
    }
}
