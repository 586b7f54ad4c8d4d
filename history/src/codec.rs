//! Stored form of events and run states: CBOR with numbered fields. A format byte precedes each run state.
//!
//! Compatible changes only add optional fields with new numbers, so that new programs can read old bytes and old
//! programs skip unknown fields. Any other change requires a new [`FORMAT`].

use crate::event::{Event, EventId};
use crate::run::Run;

/// Format version of stored run states. It is the first byte of each stored state.
pub const FORMAT: u8 = 1;

/// Version of the set of event kinds and their attributes. It is stored once per data directory or table, not per
/// event. A build cannot read a history that contains kinds unknown to it.
pub const EVENTS: u32 = 1;

/// Error for bytes that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes were written by a later version of Baton.
    #[error("stored format {found}, this version of Baton reads up to {FORMAT}")]
    Format {
        /// Format byte that was found.
        found: u8,
    },
    /// The bytes are truncated or corrupted.
    #[error("stored bytes are not a valid {what} for this version of Baton")]
    Garbled {
        /// Expected content.
        what: &'static str,
        /// Error of the decoder.
        #[source]
        source: minicbor::decode::Error,
    },
}

/// Appends an event to `into`. Consecutive events are stored without separators; [`events`] reads them.
pub fn put_event(into: &mut Vec<u8>, event: &Event) {
    minicbor::encode(event, into).expect("writing to memory does not fail");
}

/// Reads consecutive events written by [`put_event`].
///
/// # Errors
///
/// The iterator yields [`Error::Garbled`] for the first event that cannot be read, and then ends.
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Result<Event, Error>> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken || decoder.position() >= bytes.len() {
            return None;
        }
        let event = decoder.decode().map_err(|source| Error::Garbled { what: "event", source });
        broken = event.is_err();
        Some(event)
    })
}

/// Reads consecutive events like [`events`], but skips the events before `first` without decoding them.
///
/// # Errors
///
/// The same errors as [`events`].
pub fn events_from(bytes: &[u8], first: EventId) -> impl Iterator<Item = Result<Event, Error>> {
    let mut decoder = minicbor::Decoder::new(bytes);
    while decoder.position() < bytes.len() {
        let mut probe = decoder.probe();
        let id = probe.array().and_then(|_| probe.u64());
        // Stop at corrupted bytes, so that `events` reports them.
        if id.is_ok_and(|id| id >= first) || decoder.skip().is_err() {
            break;
        }
    }
    events(bytes.get(decoder.position()..).unwrap_or_default())
}

/// Splits consecutive stored events, and returns the id and the bytes of each. Bytes that cannot be read are returned
/// together with the last readable event, so that no byte is lost.
pub fn stored(bytes: &[u8]) -> impl Iterator<Item = (EventId, &[u8])> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let mut last = 0;
    std::iter::from_fn(move || {
        let from = decoder.position();
        let mut probe = decoder.probe();
        let id = probe.array().and_then(|_| probe.u64());
        let is_whole = id.is_ok() && decoder.skip().is_ok();
        last = id.unwrap_or(last);
        let to = if is_whole { decoder.position() } else { bytes.len() };
        decoder.set_position(to);
        (from < to).then(|| (last, bytes.get(from..to).unwrap_or_default()))
    })
}

/// Appends the state of a run to `into`.
pub fn put_run(into: &mut Vec<u8>, run: &Run) {
    into.push(FORMAT);
    minicbor::encode(run, into).expect("writing to memory does not fail");
}

/// Reads a run state written by [`put_run`].
///
/// # Errors
///
/// [`Error::Format`] for bytes of a later version, [`Error::Garbled`] for other bytes that are not a run state.
pub fn run(bytes: &[u8]) -> Result<Run, Error> {
    let what = "run";
    match bytes.split_first() {
        Some((&FORMAT, rest)) => minicbor::decode(rest).map_err(|source| Error::Garbled { what, source }),
        Some((&found, _)) => Err(Error::Format { found }),
        None => Err(Error::Garbled { what, source: minicbor::decode::Error::end_of_input() }),
    }
}
