//! Conversion of spans to OTLP.

use std::sync::Arc;

use bytes::Bytes;
use history::Timestamp;
use history::trace::{Span, SpanEnd, SpanValue};
use prost::Message as _;

use super::proto::{
    AnyValue, AnyValueKind, ExportRequest, KIND_INTERNAL, KeyValue, Link, REMOTE, Resource, ResourceSpans,
    STATUS_ERROR, ScopeMessage, ScopeSpans, SpanEvent, SpanMessage, SpanStatus,
};

/// Parts that all export requests of a service have in common.
pub(super) struct SpanForm {
    resource: Resource,
    scope: ScopeMessage,
}

impl SpanForm {
    /// Returns the common parts of the export requests of a service with this name.
    pub(super) fn of_service(name: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let attributes = vec![text("service.name", name), text("service.version", version)];
        let scope = ScopeMessage { name: "baton".to_owned(), version: version.to_owned() };
        Self { resource: Resource { attributes }, scope }
    }

    /// Encodes an export request with these spans.
    pub(super) fn request(&self, spans: &[(Arc<str>, Span)]) -> Bytes {
        let spans = spans.iter().map(|(domain, span)| message(domain, span)).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(self.scope.clone()), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        ExportRequest { resource_spans }.encode_to_vec().into()
    }
}

fn message(domain: &str, span: &Span) -> SpanMessage {
    let value = |(name, value): &(&'static str, SpanValue)| match value {
        SpanValue::Text(said) => text(name, said),
        SpanValue::Number(number) => key(name, AnyValueKind::Number(i64::try_from(*number).unwrap_or(i64::MAX))),
    };
    let mut attributes = vec![text("baton.domain", domain)];
    attributes.extend(span.attributes.iter().map(value));
    let taken = span.taken_at.map(|at| SpanEvent { time_unix_nano: nanos(at), name: "taken".to_owned() });
    let link = span.link.map(|link| Link {
        trace_id: link.trace_id().bytes().to_vec(),
        span_id: link.span_id().bytes().to_vec(),
        flags: u32::from(link.flags()) | REMOTE,
    });
    let status = match &span.end {
        SpanEnd::Succeeded => None,
        SpanEnd::Failed(why) => Some(SpanStatus { message: why.clone(), code: STATUS_ERROR }),
    };
    SpanMessage {
        trace_id: span.trace_id.bytes().to_vec(),
        span_id: span.span_id.bytes().to_vec(),
        trace_state: span.tracestate.clone().unwrap_or_default(),
        parent_span_id: span.parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: KIND_INTERNAL,
        start_time_unix_nano: nanos(span.began_at),
        end_time_unix_nano: nanos(span.ended_at),
        attributes,
        events: taken.into_iter().collect(),
        links: link.into_iter().collect(),
        status,
        // The flag "sampled" is always set, because only sampled spans are exported.
        flags: 1,
    }
}

fn nanos(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(1_000_000)
}

fn key(name: &str, kind: AnyValueKind) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { kind: Some(kind) }) }
}

fn text(name: &str, said: &str) -> KeyValue {
    key(name, AnyValueKind::Text(said.to_owned()))
}
