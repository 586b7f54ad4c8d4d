//! Stored form of a run's head: the run's state, the engine's own records, and the tail of events.

use bytes::Bytes;
use history::{Heartbeat, Links, PackRef, Payload, Run, Timestamp};
use minicbor::{Decode, Encode};

use crate::Refusal;
use crate::base::numbers::HEADS;

/// Content of a head's body, without the tail of events.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Body {
    /// State of the run, computed from its whole history.
    #[n(0)]
    pub(crate) run: Box<Run>,
    /// Operation ids of the newest commits, oldest first. After a commit with an unknown outcome, the engine searches
    /// this list for the commit's id.
    #[n(1)]
    pub(crate) ops: Vec<u64>,
    /// Id of the first event in the tail, which contains the newest events. All earlier events are in chunks.
    #[n(2)]
    pub(crate) tail_first: u64,
    /// Number of times that the run's waiting tasks were offered again.
    #[n(3)]
    pub(crate) offers: u32,
    /// The run's links with other runs. If there are none, the field is not encoded.
    #[cbor(n(4), skip_if = "Links::is_empty")]
    pub(crate) links: Links,
    /// Locations of the pieces of the tail if the tail is not in the head. A commit with very many events writes the
    /// tail to packs, and the next commit moves the events to chunks.
    #[cbor(n(5), default, skip_if = "Vec::is_empty")]
    pub(crate) tail_in: Vec<PackRef>,
}

/// A head's body, decoded only as far as the run's links.
#[derive(Decode)]
struct JustLinks {
    #[cbor(n(4), default)]
    links: Links,
}

/// Encodes a body: format, length of the encoded [`Body`], encoded [`Body`], tail. Also returns the position of the
/// tail.
pub(crate) fn encode(body: &Body, tail: &[&[u8]]) -> (Bytes, usize) {
    let mut bytes = Vec::with_capacity(512 + tail.iter().map(|part| part.len()).sum::<usize>());
    bytes.extend_from_slice(&[HEADS, 0, 0, 0, 0]);
    minicbor::encode(body, &mut bytes).expect("writing to memory does not fail");
    let tail_at = bytes.len();
    let length = u32::try_from(tail_at).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(place) = bytes.get_mut(1..5) {
        place.copy_from_slice(&length);
    }
    for part in tail {
        bytes.extend_from_slice(part);
    }
    (bytes.into(), tail_at)
}

/// Decodes a body and returns it with its tail.
pub(crate) fn decode(bytes: &Bytes) -> Result<(Body, Bytes), Refusal> {
    let tail_at = tail_at(bytes)?;
    Ok((decode_first(bytes, tail_at)?, bytes.slice(tail_at..)))
}

/// Decodes only the run's links with other runs.
pub(crate) fn decode_links(bytes: &Bytes) -> Result<Links, Refusal> {
    let JustLinks { links } = decode_first(bytes, tail_at(bytes)?)?;
    Ok(links)
}

fn garbled(what: &str) -> Refusal {
    Refusal::Corrupt { what: format!("a run's head: {what}") }
}

fn decode_first<'b, T: Decode<'b, ()>>(bytes: &'b Bytes, tail_at: usize) -> Result<T, Refusal> {
    let first = bytes.get(5..tail_at).ok_or_else(|| garbled("truncated"))?;
    minicbor::decode(first).map_err(|error| garbled(&error.to_string()))
}

/// Returns the position of the tail in a body.
fn tail_at(bytes: &Bytes) -> Result<usize, Refusal> {
    let (&format, rest) = bytes.split_first().ok_or_else(|| garbled("empty"))?;
    if format != HEADS {
        return Err(garbled(&format!("format {format}, this version of Baton reads {HEADS}")));
    }
    let length = rest.first_chunk::<4>().ok_or_else(|| garbled("truncated"))?;
    let tail_at = u32::from_be_bytes(*length) as usize;
    if tail_at > bytes.len() {
        return Err(garbled("truncated"));
    }
    Ok(tail_at)
}

/// Stored form of a heartbeat.
#[derive(Encode, Decode)]
struct StoredHeartbeat {
    #[n(0)]
    at: Timestamp,
    #[n(1)]
    details: Option<Payload>,
}

/// Encodes a heartbeat.
pub(crate) fn encode_heartbeat(beat: &Heartbeat) -> Bytes {
    let stored = StoredHeartbeat { at: beat.at, details: beat.details.clone() };
    minicbor::to_vec(stored).expect("writing to memory does not fail").into()
}

/// Decodes a heartbeat.
pub(crate) fn decode_heartbeat(scheduled_event_id: u64, bytes: &[u8]) -> Result<Heartbeat, Refusal> {
    let StoredHeartbeat { at, details } =
        minicbor::decode(bytes).map_err(|error| Refusal::Corrupt { what: format!("a heartbeat: {error}") })?;
    Ok(Heartbeat { scheduled_event_id, at, details })
}
