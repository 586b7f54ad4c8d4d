//! Trace context of calls and tasks.

use history::TraceContext;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body::{ActivityTask, DeciderTask};

impl DeciderTask {
    /// Returns the parent span for the decider in the run's trace; `None` if the run has no trace.
    pub fn trace(&self) -> Option<TraceContext> {
        Some(TraceContext { traceparent: self.traceparent?, tracestate: self.tracestate.clone() })
    }
}

impl ActivityTask {
    /// Returns the parent span for the runner in the run's trace; `None` if the run has no trace.
    pub fn trace(&self) -> Option<TraceContext> {
        Some(TraceContext { traceparent: self.traceparent?, tracestate: self.tracestate.clone() })
    }
}

/// Returns the headers that transmit a trace context.
pub(crate) fn headers_of(trace: &TraceContext) -> HeaderMap {
    let header = |(name, value): (&'static str, String)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
    };
    trace.headers().filter_map(header).collect()
}

/// Makes the trace context of a task the parent of a span. Requires the feature `opentelemetry` and a layer of
/// `tracing-opentelemetry`; otherwise does nothing.
pub fn put_below(span: &tracing::Span, trace: Option<&TraceContext>) {
    #[cfg(feature = "opentelemetry")]
    if let Some(trace) = trace {
        bridge::put_below(span, trace);
    }
    #[cfg(not(feature = "opentelemetry"))]
    let _ = (span, trace);
}

/// Returns the trace context of the current span. Requires the feature `opentelemetry` and a layer of
/// `tracing-opentelemetry`; otherwise returns `None`.
pub(crate) fn current() -> Option<TraceContext> {
    #[cfg(feature = "opentelemetry")]
    return bridge::current();
    #[cfg(not(feature = "opentelemetry"))]
    None
}

#[cfg(feature = "opentelemetry")]
mod bridge {
    use history::{SpanId, TraceContext, TraceId, Traceparent};
    use opentelemetry::trace::{SpanContext, TraceContextExt as _, TraceFlags, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    pub(super) fn put_below(span: &tracing::Span, trace: &TraceContext) {
        let given = trace.traceparent;
        let state = trace.tracestate.as_ref().and_then(|state| state.parse::<TraceState>().ok());
        let remote = SpanContext::new(
            opentelemetry::trace::TraceId::from_bytes(given.trace_id().bytes()),
            opentelemetry::trace::SpanId::from_bytes(given.span_id().bytes()),
            TraceFlags::new(given.flags()),
            true,
            state.unwrap_or_default(),
        );
        // `set_parent` fails if no layer is installed or the span is disabled. In both cases no change is needed.
        drop(span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote)));
    }

    pub(super) fn current() -> Option<TraceContext> {
        let context = tracing::Span::current().context();
        let span = context.span();
        let span = span.span_context();
        let trace_id = TraceId::from_bytes(span.trace_id().to_bytes())?;
        let span_id = SpanId::from_bytes(span.span_id().to_bytes())?;
        let state = span.trace_state().header();
        let tracestate = (!state.is_empty()).then_some(state);
        Some(TraceContext { traceparent: Traceparent::new(trace_id, span_id, span.is_sampled()), tracestate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_said_in_two_headers() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let plain = headers_of(&TraceContext::of_headers(given, None).unwrap());
        assert_eq!((plain.len(), plain["traceparent"].as_bytes()), (1, given.as_bytes()));
        let stated = headers_of(&TraceContext::of_headers(given, Some("a=b")).unwrap());
        assert_eq!((stated.len(), stated["tracestate"].as_bytes()), (2, &b"a=b"[..]));
    }
}
