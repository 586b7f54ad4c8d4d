//! Ids of traces and spans, derived from immutable attributes of a run.

use std::fmt;

use crate::event::EventId;
use crate::ids::RunId;
use crate::mix::mix;

/// Trace id: 16 bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// Span id: 8 bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// Creates an id, or returns `None` if all bytes are zero.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns the last eight bytes as a number. It is random in most traces.
    pub fn low(self) -> u64 {
        let [.., last] = self.0.as_chunks::<8>().0 else { return 0 };
        u64::from_be_bytes(*last)
    }

    /// Derives the id of the trace that begins with a run.
    pub(super) fn of(run_id: RunId) -> Self {
        let (high, low) = run_id.as_u64_pair();
        let first = mix(low ^ mix(high));
        let number = u128::from(first) << 64 | u128::from(mix(first ^ high));
        Self(number.max(1).to_be_bytes())
    }
}

impl SpanId {
    /// Creates an id, or returns `None` if all bytes are zero.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// Derives the id of the span of an event or of an activity's attempt. The function must never change, because
    /// nodes of different versions report parts of the same span.
    pub(super) fn of(run_id: RunId, event_id: EventId, start: u32) -> Self {
        let (high, low) = run_id.as_u64_pair();
        let number = mix(low ^ mix(high ^ mix(event_id ^ mix(u64::from(start)))));
        Self(number.max(1).to_be_bytes())
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn trace_and_span_ids_are_deterministic_and_unique() {
        let run_id = Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc);
        // Nodes of different versions report these ids to collectors, so they must never change.
        assert_eq!(TraceId::of(run_id).to_string(), "f2848f3cc52b9a0e7d2146cbda5e5f20");
        assert_eq!(SpanId::of(run_id, 5, 0).to_string(), "486ebe73f25d4026");
        assert_eq!(SpanId::of(run_id, 5, 1).to_string(), "7aab15745b2eb970");
        let runs = (0..64).map(|bit| Uuid::from_u128(run_id.as_u128() ^ (1 << bit)));
        let spans =
            runs.flat_map(|run| (1..100).flat_map(move |id| (0..10).map(move |start| SpanId::of(run, id, start))));
        assert_eq!(spans.collect::<BTreeSet<_>>().len(), 64 * 99 * 10);
    }
}
