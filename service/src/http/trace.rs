//! Trace context of a request, from its headers.
//!
//! Source: W3C Trace Context. A malformed context is ignored, so that the request does not fail because of it.

use axum::http::HeaderMap;
use history::TraceContext;

/// Returns the trace context of a request. Several `traceparent` headers are invalid; several `tracestate` headers
/// are joined.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut given = headers.get_all("traceparent").iter();
    let (traceparent, None) = (given.next()?, given.next()) else { return None };
    let states: Option<Vec<&str>> = headers.get_all("tracestate").iter().map(|value| value.to_str().ok()).collect();
    TraceContext::of_headers(traceparent.to_str().ok()?, Some(&*states.unwrap_or_default().join(",")))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &str)]) -> Option<TraceContext> {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        trace_of(&headers.iter().map(pair).collect())
    }

    #[test]
    fn a_malformed_trace_header_is_ignored() {
        let plain = TraceContext::from(GIVEN.parse::<history::Traceparent>().unwrap());
        let with = |state: &str| Some(TraceContext { tracestate: Some(state.to_owned()), ..plain.clone() });
        assert_eq!(read(&[("traceparent", GIVEN)]), Some(plain.clone()));
        assert_eq!(read(&[("traceparent", GIVEN), ("tracestate", "a=b")]), with("a=b"));
        assert_eq!(read(&[("traceparent", GIVEN), ("tracestate", "a=b"), ("tracestate", "c=d")]), with("a=b,c=d"));
        for state in ["", "é", &"v".repeat(513)] {
            assert_eq!(read(&[("traceparent", GIVEN), ("tracestate", state)]), Some(plain.clone()), "{state}");
        }
        assert_eq!(read(&[("traceparent", GIVEN), ("traceparent", GIVEN)]), None);
        assert_eq!(read(&[("tracestate", "a=b")]), None);
        for malformed in ["", "é", "00", &GIVEN.to_uppercase(), &format!("{GIVEN}0"), &GIVEN.repeat(100)] {
            assert_eq!(read(&[("traceparent", malformed)]), None, "{malformed}");
        }
    }
}
