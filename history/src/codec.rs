//! The stored form of events and run states: CBOR by field number, behind a format byte.
//!
//! Fields are only ever added, with new numbers and as optional ones, so that older bytes stay readable and older
//! programs pass over what they do not know. A change beyond that takes a new [`FORMAT`].

use crate::event::{Event, EventId};
use crate::run::Run;

/// The form of run states. It is the first byte of each.
pub const FORMAT: u8 = 1;

/// The form of events: which kinds there are, and which fields each has. It stands nowhere: that of the directory or of the table speaks
/// for it. A build that does not know a kind cannot read a history that has it.
pub const EVENTS: u32 = 1;

/// Bytes that are not what they should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Written by a later version of Baton.
    #[error("stored format {found}, this version of Baton reads up to {FORMAT}")]
    Format {
        /// The format byte.
        found: u8,
    },
    /// Cut short or garbled.
    #[error("stored bytes are no {what} that this version of Baton knows")]
    Garbled {
        /// What they should be.
        what: &'static str,
        /// Where the decoder stopped.
        #[source]
        source: minicbor::decode::Error,
    },
}

/// Appends an event to `into`. Events stand one behind the other; see [`events`].
pub fn put_event(into: &mut Vec<u8>, event: &Event) {
    minicbor::encode(event, into).expect("writing to memory does not fail");
}

/// Reads events that [`put_event`] wrote, one behind the other.
///
/// # Errors
///
/// [`Error::Garbled`] in place of the first event that cannot be read; nothing follows it.
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

/// Like [`events`], without those before event `first`, which are passed over rather than read.
///
/// # Errors
///
/// As for [`events`].
pub fn events_from(bytes: &[u8], first: EventId) -> impl Iterator<Item = Result<Event, Error>> {
    let mut decoder = minicbor::Decoder::new(bytes);
    while decoder.position() < bytes.len() {
        let mut probe = decoder.probe();
        let id = probe.array().and_then(|_| probe.u64());
        // What is garbled is left for `events` to say.
        if id.is_ok_and(|id| id >= first) || decoder.skip().is_err() {
            break;
        }
    }
    events(bytes.get(decoder.position()..).unwrap_or_default())
}

/// The stored forms of events that stand one behind the other, each with its event's id. What is garbled goes with the last that
/// can be read: no byte is lost.
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

/// Reads what [`put_run`] wrote.
///
/// # Errors
///
/// [`Error::Format`] for bytes of a later version, [`Error::Garbled`] for anything else that is not a run.
pub fn run(bytes: &[u8]) -> Result<Run, Error> {
    let what = "run";
    match bytes.split_first() {
        Some((&FORMAT, rest)) => minicbor::decode(rest).map_err(|source| Error::Garbled { what, source }),
        Some((&found, _)) => Err(Error::Format { found }),
        None => Err(Error::Garbled { what, source: minicbor::decode::Error::end_of_input() }),
    }
}
