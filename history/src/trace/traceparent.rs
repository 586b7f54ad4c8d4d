//! The trace headers `traceparent` and `tracestate`, as defined by W3C.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{SpanId, TraceId};
use crate::limits;

/// Trace id, parent span id and sampling flag. Its text form is like
/// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traceparent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
}

/// Flag of a sampled trace. Its spans are exported.
const SAMPLED: u8 = 0x01;

/// Flag of a random trace id. Source: level 2 of the recommendation.
const RANDOM: u8 = 0x02;

/// Length of the text form in version 00.
const TEXT_LEN: usize = 55;

/// Length of the stored form in bytes.
const STORED_LEN: usize = 25;

impl Traceparent {
    /// Creates a context with this span as the parent.
    pub fn new(trace_id: TraceId, span_id: SpanId, is_sampled: bool) -> Self {
        Self { trace_id, span_id, flags: if is_sampled { SAMPLED } else { 0 } }
    }

    /// Returns the trace id.
    pub fn trace_id(self) -> TraceId {
        self.trace_id
    }

    /// Returns the id of the parent span.
    pub fn span_id(self) -> SpanId {
        self.span_id
    }

    /// Returns `true` if the spans of the trace are exported.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the flags, which outgoing requests repeat.
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// Returns a context of the same trace with another parent span.
    #[must_use]
    pub fn with_span(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }

    /// Parses a text, or returns `None` if it is malformed. If the version is later than 00, only the fields of version
    /// 00 are used.
    fn read(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(TEXT_LEN)?;
        let mut fields = head.split('-').map(|field| (field, hex(field)));
        let (version, trace_id, span_id, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let lengths = [(version.0, 2), (trace_id.0, 32), (span_id.0, 16), (flags.0, 2)];
        if fields.next().is_some() || lengths.iter().any(|(field, len)| field.len() != *len) {
            return None;
        }
        let is_whole = match version.1? {
            0 => rest.is_empty(),
            // The version ff is invalid.
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let trace_id = TraceId::from_bytes(trace_id.1?.to_be_bytes())?;
        let span_id = SpanId::from_bytes(u64::try_from(span_id.1?).ok()?.to_be_bytes())?;
        let flags = u8::try_from(flags.1?).ok()? & (SAMPLED | RANDOM);
        is_whole.then_some(Self { trace_id, span_id, flags })
    }
}

/// Parses lowercase hexadecimal digits. `from_str_radix` alone would also accept uppercase digits and a sign.
fn hex(field: &str) -> Option<u128> {
    let is_lower = field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(field, 16).ok().filter(|_| is_lower)
}

/// Error for a malformed `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a `traceparent` such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`")]
pub struct NoTraceparent;

impl FromStr for Traceparent {
    type Err = NoTraceparent;

    fn from_str(text: &str) -> Result<Self, NoTraceparent> {
        Self::read(text).ok_or(NoTraceparent)
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Traceparent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Traceparent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, "a `traceparent`")
    }
}

impl<C> Encode<C> for Traceparent {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        let mut bytes = Vec::with_capacity(STORED_LEN);
        bytes.extend(self.trace_id.bytes());
        bytes.extend(self.span_id.bytes());
        bytes.push(self.flags);
        e.bytes(&bytes)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Traceparent {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let stored = |bytes: &[u8]| {
            let (trace_id, rest) = bytes.split_first_chunk::<16>()?;
            let (span_id, rest) = rest.split_first_chunk::<8>()?;
            let [flags] = *rest else { return None };
            Some(Self { trace_id: TraceId::from_bytes(*trace_id)?, span_id: SpanId::from_bytes(*span_id)?, flags })
        };
        stored(d.bytes()?).ok_or_else(|| DecodeError::message("invalid stored traceparent"))
    }
}

/// Trace context: the `traceparent`, and the `tracestate` of the tracing vendors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// Trace id, parent span and flags.
    pub traceparent: Traceparent,
    /// Data of the tracing vendors, which outgoing requests repeat unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Parses the values of the two headers, or returns `None` if `traceparent` is malformed. A `tracestate` is ignored
    /// if it is longer than [`limits::TRACESTATE_BYTES_MAX`] or contains characters that headers do not allow.
    pub fn of_headers(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let traceparent = traceparent.trim_ascii().parse().ok()?;
        let is_kept = |state: &&str| {
            let is_plain = state.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
            !state.is_empty() && state.len() <= limits::TRACESTATE_BYTES_MAX && is_plain
        };
        let tracestate = tracestate.map(str::trim_ascii).filter(is_kept).map(str::to_owned);
        Some(Self { traceparent, tracestate })
    }

    /// Returns the names and values of the headers for outgoing requests.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.tracestate.clone().map(|state| ("tracestate", state));
        std::iter::once(("traceparent", self.traceparent.to_string())).chain(state)
    }

    /// Returns the `traceparent` and the `tracestate`.
    pub fn split(self) -> (Traceparent, Option<String>) {
        (self.traceparent, self.tracestate)
    }
}

impl From<Traceparent> for TraceContext {
    fn from(traceparent: Traceparent) -> Self {
        Self { traceparent, tracestate: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_stored_in_twenty_five_bytes() {
        let traceparent: Traceparent = TEXT.parse().unwrap();
        assert!(traceparent.is_sampled());
        assert_eq!(traceparent.to_string(), TEXT);
        assert_eq!(serde_json::from_str::<Traceparent>(&format!("\"{TEXT}\"")).unwrap(), traceparent);
        assert_eq!(serde_json::to_string(&traceparent).unwrap(), format!("\"{TEXT}\""));
        let stored = minicbor::to_vec(traceparent).unwrap();
        assert_eq!(stored.len(), 2 + STORED_LEN);
        assert_eq!(minicbor::decode::<Traceparent>(&stored).unwrap(), traceparent);
        for bytes in [&[0; STORED_LEN][..], &[1; STORED_LEN - 1], &[1; STORED_LEN + 1]] {
            let stored = minicbor::to_vec(minicbor::bytes::ByteVec::from(bytes.to_vec())).unwrap();
            assert!(minicbor::decode::<Traceparent>(&stored).is_err());
        }
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        let with = |place: usize, text: &str| {
            let mut changed = TEXT.to_owned();
            changed.replace_range(place..place + text.len(), text);
            changed
        };
        for (text, is_read) in [
            (TEXT.to_owned(), true),
            (with(53, "00"), true),
            // Unknown flags are dropped.
            (with(53, "ff"), true),
            // Versions later than 00 may have more fields.
            (with(0, "cc"), true),
            (with(0, "cc") + "-what-the-future-has", true),
            (with(0, "cc") + "x", false),
            (with(0, "ff"), false),
            (TEXT.to_owned() + "-", false),
            (TEXT.to_owned() + "0", false),
            (TEXT[..54].to_owned(), false),
            (with(3, &"0".repeat(32)), false),
            (with(36, &"0".repeat(16)), false),
            (with(3, "4BF92F"), false),
            (with(3, "+bf92f"), false),
            (with(3, "4bf-2f"), false),
            (with(2, "_"), false),
            (with(53, "0g"), false),
            (with(52, "é"), false),
            (String::new(), false),
            ("é".repeat(40), false),
        ] {
            assert_eq!(TraceContext::of_headers(&text, None).is_some(), is_read, "{text}");
        }
        let later: Traceparent = with(53, "ff").parse().unwrap();
        assert_eq!(later.to_string(), with(53, "03"));
        assert!(!with(53, "02").parse::<Traceparent>().unwrap().is_sampled());
    }

    #[test]
    fn a_tracestate_above_its_limit_is_dropped() {
        let longest = format!("a={}", "v".repeat(limits::TRACESTATE_BYTES_MAX - 2));
        let kept = |state: &str| TraceContext::of_headers(TEXT, Some(state)).unwrap().tracestate;
        for state in ["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", &longest] {
            assert_eq!(kept(state).as_deref(), Some(state));
        }
        for state in ["", " ", "a=\nb", "a=é", &(longest.clone() + "v")] {
            assert_eq!(kept(state), None, "{state}");
        }
    }
}
