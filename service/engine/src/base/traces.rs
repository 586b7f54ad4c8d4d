//! Traces: which runs begin one, what is handed out with tasks, and where spans go. What spans there are, `history` says.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use history::trace::{self, Span};
use history::{Run, RunStart, SpanId, Start, TraceContext, TraceId, Transition};
use uuid::Uuid;

/// Takes the spans of runs as commits end them.
pub trait TakesSpans: Send + Sync {
    /// Takes spans of runs of a domain, or drops them. Must not wait: whoever calls works on a run.
    fn take(&self, domain: &Arc<str>, spans: Vec<Span>);
}

/// How many of the traces that begin here are wanted: from none to all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleRatio(f64);

/// The bits of a trace's id that it is drawn by. Source: W3C Trace Context level 2, whose random part is the last seven bytes.
const DRAWN_BITS: u32 = 56;

impl SampleRatio {
    /// All of them.
    pub const ALL: Self = Self(1.0);

    /// `None` unless it is a number from 0 to 1.
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self(ratio))
    }

    /// Whether this trace is one of them: always the same for the same trace, at every node.
    #[expect(clippy::cast_precision_loss, reason = "fifty-six bits are drawn, and the last few of them decide nothing")]
    fn has(self, trace_id: TraceId) -> bool {
        let drawn = trace_id.low() & ((1 << DRAWN_BITS) - 1);
        (drawn as f64) < self.0 * (1_u64 << DRAWN_BITS) as f64
    }
}

/// Where spans go, and of how many of the traces that begin here.
#[derive(Clone)]
pub struct SpanExport {
    /// Who takes them.
    pub to: Arc<dyn TakesSpans>,
    /// Of how many.
    pub ratio: SampleRatio,
}

impl fmt::Debug for SpanExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanExport").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Traces(Option<SpanExport>);

impl Traces {
    pub(crate) fn new(export: Option<SpanExport>) -> Self {
        Self(export)
    }

    /// The start of a run, which begins a trace where nobody said to which one it belongs.
    pub(crate) fn rooted<'a>(&self, start: &'a Start, run_id: Uuid) -> Cow<'a, Start> {
        let root = if start.trace.is_none() { self.root(run_id) } else { None };
        root.map_or(Cow::Borrowed(start), |root| Cow::Owned(Start { trace: Some(root), ..start.clone() }))
    }

    /// The trace that a run begins; none where spans go nowhere.
    fn root(&self, run_id: Uuid) -> Option<TraceContext> {
        let ratio = self.0.as_ref()?.ratio;
        let is_sampled = ratio.has(TraceContext::root(run_id, false).traceparent.trace_id());
        Some(TraceContext::root(run_id, is_sampled))
    }

    /// What whoever takes a task with this span is below. Where spans go nowhere there will be none such, and it is what the run is
    /// below.
    pub(crate) fn of_task(&self, started: &RunStart, span: SpanId) -> Option<TraceContext> {
        let given = started.traceparent?.span_id();
        started.trace_below(if self.0.is_some() { span } else { given })
    }

    /// The spans that a transition ends which is about to be committed.
    pub(crate) fn ended(&self, before: Option<&Run>, made: &Transition) -> Vec<Span> {
        if self.0.is_some() { trace::of_transition(before, made) } else { Vec::new() }
    }

    /// Sends spans on their way.
    pub(crate) fn tell(&self, domain: &Arc<str>, spans: Vec<Span>) {
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
    fn of_the_traces_that_begin_here_as_many_are_wanted_as_was_said_and_always_the_same() {
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
    fn where_spans_go_nowhere_tasks_are_below_what_the_run_is_below() {
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
