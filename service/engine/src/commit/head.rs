//! The stored form of a run's head: its state, what the engine itself must remember, and the tail of its events.

use bytes::Bytes;
use history::{Heartbeat, Links, PackRef, Payload, Run, Timestamp};
use minicbor::{Decode, Encode};

use crate::Refusal;
use crate::base::numbers::HEADS;

/// What a head's body holds beside the tail.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Body {
    /// The state of the run: the fold of its whole history.
    #[n(0)]
    pub(crate) run: Box<Run>,
    /// The newest operations that were committed, to recognize a commit of unknown outcome; oldest first.
    #[n(1)]
    pub(crate) ops: Vec<u64>,
    /// The id of the tail's first event. Everything before it is in chunks.
    #[n(2)]
    pub(crate) tail_first: u64,
    /// How often the waiting tasks of this run have been offered again.
    #[n(3)]
    pub(crate) offers: u32,
    /// What the run keeps of its dealings with others; no byte when that is nothing.
    #[cbor(n(4), skip_if = "Links::is_empty")]
    pub(crate) links: Links,
    /// Where the tail is, in pieces, when it has no room in the head: a commit with very many events has put it there, and
    /// the next one makes chunks of it.
    #[cbor(n(5), default, skip_if = "Vec::is_empty")]
    pub(crate) tail_in: Vec<PackRef>,
}

/// Of a head, only the run's outbox.
#[derive(Decode)]
struct JustLinks {
    #[cbor(n(4), default)]
    links: Links,
}

/// Writes a body: format, length of the first part, first part, tail.
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

/// Reads a body; the second part is the tail.
pub(crate) fn decode(bytes: &Bytes) -> Result<(Body, Bytes), Refusal> {
    let tail_at = tail_at(bytes)?;
    Ok((decode_first(bytes, tail_at)?, bytes.slice(tail_at..)))
}

/// Reads what a run keeps of its dealings with others, and passes over the rest.
pub(crate) fn decode_links(bytes: &Bytes) -> Result<Links, Refusal> {
    let JustLinks { links } = decode_first(bytes, tail_at(bytes)?)?;
    Ok(links)
}

fn garbled(what: &str) -> Refusal {
    Refusal::Corrupt { what: format!("a run's head: {what}") }
}

fn decode_first<'b, T: Decode<'b, ()>>(bytes: &'b Bytes, tail_at: usize) -> Result<T, Refusal> {
    let first = bytes.get(5..tail_at).ok_or_else(|| garbled("cut short"))?;
    minicbor::decode(first).map_err(|error| garbled(&error.to_string()))
}

/// Where the tail begins.
fn tail_at(bytes: &Bytes) -> Result<usize, Refusal> {
    let (&format, rest) = bytes.split_first().ok_or_else(|| garbled("empty"))?;
    if format != HEADS {
        return Err(garbled(&format!("format {format}, this version of Baton reads {HEADS}")));
    }
    let length = rest.first_chunk::<4>().ok_or_else(|| garbled("cut short"))?;
    let tail_at = u32::from_be_bytes(*length) as usize;
    if tail_at > bytes.len() {
        return Err(garbled("cut short"));
    }
    Ok(tail_at)
}

/// The stored form of a heartbeat.
#[derive(Encode, Decode)]
struct StoredBeat {
    #[n(0)]
    at: Timestamp,
    #[n(1)]
    details: Option<Payload>,
}

/// Writes a heartbeat.
pub(crate) fn encode_beat(beat: &Heartbeat) -> Bytes {
    let stored = StoredBeat { at: beat.at, details: beat.details.clone() };
    minicbor::to_vec(stored).expect("writing to memory does not fail").into()
}

/// Reads a heartbeat.
pub(crate) fn decode_beat(scheduled_event_id: u64, bytes: &[u8]) -> Result<Heartbeat, Refusal> {
    let StoredBeat { at, details } =
        minicbor::decode(bytes).map_err(|error| Refusal::Corrupt { what: format!("a heartbeat: {error}") })?;
    Ok(Heartbeat { scheduled_event_id, at, details })
}
