//! Traces: decides which runs are sampled, derives the trace context of tasks, and exports spans. The crate `history`
//! creates the spans.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use history::trace::{self, Span};
use history::{Run, RunStart, SpanId, Start, TraceContext, TraceId, Transition};
use uuid::Uuid;

/// Receiver of the spans of runs. A span is sent when a commit ends it.
pub trait TakesSpans: Send + Sync {
    /// Takes spans of runs of a domain. If it cannot take them at once, it drops them. Must not block, because a run's
    /// worker calls it.
    fn take(&self, domain: &Arc<str>, spans: Vec<Span>);
}

/// Fraction of new traces to sample (0.0–1.0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleRatio(f64);

/// Number of random bits in a trace id, which decide whether the trace is sampled. Source: in W3C Trace Context level
/// 2, the last seven bytes are random.
const DRAWN_BITS: u32 = 56;

impl SampleRatio {
    /// Ratio that samples all traces.
    pub const ALL: Self = Self(1.0);

    /// Creates a ratio. Returns `None` if the value is not from 0 to 1.
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self(ratio))
    }

    /// Returns true if the trace is sampled. The result for a trace is the same on every node.
    #[expect(clippy::cast_precision_loss, reason = "fifty-six bits are drawn, and the last few of them decide nothing")]
    fn has(self, trace_id: TraceId) -> bool {
        let drawn = trace_id.low() & ((1 << DRAWN_BITS) - 1);
        (drawn as f64) < self.0 * (1_u64 << DRAWN_BITS) as f64
    }
}

/// Destination of spans, and fraction of new traces to sample.
#[derive(Clone)]
pub struct SpanExport {
    /// Receiver of the spans.
    pub to: Arc<dyn TakesSpans>,
    /// Fraction of new traces to sample.
    pub ratio: SampleRatio,
}

impl fmt::Debug for SpanExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanExport").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

/// Creates and exports traces of runs; `None` if spans are not exported.
#[derive(Debug)]
pub(crate) struct Traces(Option<SpanExport>);

impl Traces {
    pub(crate) fn new(export: Option<SpanExport>) -> Self {
        Self(export)
    }

    /// Returns the parameters of a run's start. If the caller sent no trace context, the result contains a new trace.
    pub(crate) fn rooted<'a>(&self, start: &'a Start, run_id: Uuid) -> Cow<'a, Start> {
        let root = if start.trace.is_none() { self.root(run_id) } else { None };
        root.map_or(Cow::Borrowed(start), |root| Cow::Owned(Start { trace: Some(root), ..start.clone() }))
    }

    /// Returns a new trace for a run; `None` if spans are not exported.
    fn root(&self, run_id: Uuid) -> Option<TraceContext> {
        let ratio = self.0.as_ref()?.ratio;
        let is_sampled = ratio.has(TraceContext::root(run_id, false).traceparent.trace_id());
        Some(TraceContext::root(run_id, is_sampled))
    }

    /// Returns the trace context of a task. The parent in this context is the task's span, which has the id `span`. If
    /// spans are not exported, the task's span will not exist, so the parent is the span to which the run's start
    /// belongs.
    pub(crate) fn of_task(&self, started: &RunStart, span: SpanId) -> Option<TraceContext> {
        let given = started.traceparent?.span_id();
        started.trace_below(if self.0.is_some() { span } else { given })
    }

    /// Returns the spans that end with a transition that is about to be committed.
    pub(crate) fn ended(&self, before: Option<&Run>, made: &Transition) -> Vec<Span> {
        if self.0.is_some() { trace::of_transition(before, made) } else { Vec::new() }
    }

    /// Sends spans to the receiver, if spans are exported.
    pub(crate) fn send(&self, domain: &Arc<str>, spans: Vec<Span>) {
        if let Some(export) = self.0.as_ref().filter(|_| !spans.is_empty()) {
            export.to.take(domain, spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use history::Timestamp;

    use super::*;

    struct Nowhere;

    impl TakesSpans for Nowhere {
        fn take(&self, _: &Arc<str>, _: Vec<Span>) {}
    }

    fn exporting(ratio: f64) -> Traces {
        Traces::new(Some(SpanExport { to: Arc::new(Nowhere), ratio: SampleRatio::new(ratio).unwrap() }))
    }

    #[test]
    fn the_sampled_fraction_of_traces_is_as_configured() {
        let runs = || (1..=10_000_u128).map(|run| Uuid::from_u128(run << 64 | run));
        let wanted = |ratio: f64| {
            let traces = exporting(ratio);
            runs().filter(|run_id| traces.root(*run_id).unwrap().traceparent.is_sampled()).collect::<Vec<_>>()
        };
        assert_eq!(wanted(0.0).len(), 0);
        assert_eq!(wanted(1.0).len(), 10_000);
        let tenth = wanted(0.1);
        assert!((900..1_100).contains(&tenth.len()), "{}", tenth.len());
        assert_eq!(wanted(0.1), tenth);
        assert!(tenth.iter().all(|run_id| wanted(0.5).contains(run_id)), "with a larger ratio there are more of them");
        assert_eq!(Traces::new(None).root(Uuid::from_u128(1)), None);
        for ratio in [-0.1, 1.1, f64::NAN] {
            assert_eq!(SampleRatio::new(ratio), None);
        }
    }

    #[test]
    fn without_export_tasks_have_the_parent_span_of_the_run() {
        let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = TraceContext::of_headers(caller, None);
        let start = Start { trace, ..Start::new("w", "t", "l") };
        let run_id = Uuid::from_u128(7);
        let made = Transition::start(&start, run_id, Timestamp::from_millis(1)).unwrap();
        let (started, span) = (&made.run().started, SpanId::of_event(run_id, 2));
        let told = |traces: &Traces| traces.of_task(started, span).unwrap().traceparent;
        assert_eq!(told(&Traces::new(None)).to_string(), caller);
        assert_eq!(told(&exporting(0.0)).span_id(), span, "the ratio is for traces that begin here");
    }
}
