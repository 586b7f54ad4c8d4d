//! Size of an event in JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::Event;
use crate::payload::Payload;

/// Writer that only counts bytes.
struct JsonLength(usize);

impl Write for JsonLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Event {
    /// Returns the length of the JSON form in bytes. Texts stored outside the event are included with their stored
    /// length, so that a reader can stop before it loads more than its limit.
    pub fn json_bytes(&self) -> usize {
        let notes: usize = self.notes_kept().map(|at| at.len as usize).sum();
        let claimed = self.kind.payload().filter(|payload| payload.claim().is_some()).map(Payload::len);
        let written = match claimed {
            None => json_length(self),
            Some(bytes) => {
                // A reference to a payload has no JSON form, so the length is measured with a placeholder.
                let stand_in = Payload::from_trusted("0");
                let stand_in_bytes = stand_in.len();
                let mut event = self.clone();
                if let Some(payload) = event.kind.payload_mut() {
                    *payload = stand_in;
                }
                json_length(&event) - stand_in_bytes + bytes
            }
        };
        written + notes
    }
}

/// Returns the length of a value's JSON form in bytes, or 0 if it has none.
pub fn json_length<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut written = JsonLength(0);
    serde_json::to_writer(&mut written, value).map_or(0, |()| written.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Signal};
    use crate::payload::PackRef;
    use crate::time::Timestamp;

    fn signal(input: Option<Payload>) -> Event {
        let name = "a \"b\"\n\u{e9}".to_owned();
        let kind = EventKind::Signal(Signal { name, input, identity: None, origin: None, traceparent: None });
        Event { id: 7, timestamp: Timestamp::from_millis(0), kind, key: None, by: None, clock: None }
    }

    #[test]
    fn the_size_of_an_event_is_that_of_its_json() {
        for input in [None, Some("null"), Some(r#"{"a":  "\u00e9\n", "b": [1.0]}"#)] {
            let event = signal(input.map(|text| Payload::from_json(text).unwrap()));
            assert_eq!(event.json_bytes(), serde_json::to_string(&event).unwrap().len(), "{input:?}");
        }
    }

    #[test]
    fn a_payload_stored_elsewhere_counts_with_its_size() {
        let text = format!("\"{}\"", "x".repeat(5_000));
        let kept = PackRef { op: 1, offset: 0, len: u32::try_from(text.len()).unwrap() };
        let [here, elsewhere] = [Payload::from_json(&text).unwrap(), Payload::stored(kept)].map(|it| signal(Some(it)));
        assert_eq!(elsewhere.json_bytes(), here.json_bytes());
    }
}
