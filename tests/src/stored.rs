//! Decodes and encodes the body of a head, in the format of `service/engine/src/commit/head.rs`.

use bytes::Bytes;
use history::{Links, Run};
use minicbor::{Decode, Encode};
use store::Head;

#[derive(Encode, Decode)]
pub(crate) struct Body {
    #[n(0)]
    pub(crate) run: Run,
    #[n(1)]
    ops: Vec<u64>,
    #[n(2)]
    tail_first: u64,
    #[n(3)]
    offers: u32,
    #[cbor(n(4), skip_if = "Links::is_empty")]
    pub(crate) links: Links,
}

/// Length of the part before the body: its format, and the start of the tail.
const PREFIX: usize = 5;

fn tail_at(head: &Head) -> Option<usize> {
    let length = head.body.get(1..PREFIX)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*length) as usize)
}

/// Returns the encoded events of a head.
pub(crate) fn tail(head: &Head) -> Option<Bytes> {
    tail_at(head).filter(|tail_at| *tail_at <= head.body.len()).map(|tail_at| head.body.slice(tail_at..))
}

/// Returns the encoded state and events in the body of a head.
pub(crate) fn sections(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let tail_at = u32::from_be_bytes(*body.get(1..PREFIX)?.first_chunk::<4>()?) as usize;
    Some((body.get(PREFIX..tail_at)?, body.get(tail_at..)?))
}

pub(crate) fn decode(head: &Head) -> Option<(Body, Bytes)> {
    let body = minicbor::decode(head.body.get(PREFIX..tail_at(head)?)?).ok()?;
    Some((body, tail(head)?))
}

pub(crate) fn encode(body: &Body, tail: &Bytes) -> Bytes {
    let mut bytes = vec![1, 0, 0, 0, 0];
    minicbor::encode(body, &mut bytes).expect("writing to memory does not fail");
    let length = u32::try_from(bytes.len()).expect("a head is small").to_be_bytes();
    bytes.splice(1..PREFIX, length);
    bytes.extend_from_slice(tail);
    bytes.into()
}

/// Returns the same head with the number of marks changed to `count`, which may be more than a test can write. Returns
/// `None` if the run has no marks.
pub fn with_marks(head: &Head, count: u64) -> Option<Head> {
    let (body, tail) = decode(head)?;
    let encoded = minicbor::to_vec(&body).ok()?;
    // The state encodes its marks as an array of three elements that begins with the number and the expiry. The expiry
    // is the only number of eight bytes that follows another number.
    let with = |count: u64| -> Option<Vec<u8>> {
        let mut bytes = vec![0x83];
        bytes.extend(minicbor::to_vec(count).ok()?);
        Some(bytes)
    };
    let (found, wanted) = (with(body.run.marks())?, with(count)?);
    let is_there = |bytes: &[u8]| bytes.starts_with(&found) && bytes.get(found.len()) == Some(&0x1B);
    let at = (0..encoded.len()).find(|at| encoded.get(*at..).is_some_and(is_there))?;
    let rest = encoded.get(at + found.len()..)?;
    let state = [encoded.get(..at)?, &wanted, rest].concat();
    let body: Body = minicbor::decode(&state).ok()?;
    (body.run.marks() == count).then(|| Head { body: encode(&body, &tail), version: head.version + 1, ..head.clone() })
}
