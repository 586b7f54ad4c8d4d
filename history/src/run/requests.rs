//! Compact list of a run's recorded requests, oldest first.

use std::collections::VecDeque;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::event::{EventId, RequestKey};

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestEntry {
    pub(super) key: RequestKey,
    /// Id of the event that shows the outcome.
    pub(super) event_id: EventId,
    /// Age of the run in whole hours when the request was recorded.
    pub(super) hours: u32,
}

/// Requests of one run, oldest first. The stored form is a flat array with three numbers per request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requests(VecDeque<RequestEntry>);

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, entry: RequestEntry) {
        self.0.push_back(entry);
    }

    pub(super) fn oldest(&self) -> Option<&RequestEntry> {
        self.0.front()
    }

    pub(super) fn newest(&self) -> Option<&RequestEntry> {
        self.0.back()
    }

    pub(super) fn drop_oldest(&mut self) {
        self.0.pop_front();
    }

    pub(super) fn retain(&mut self, is_kept: impl FnMut(&RequestEntry) -> bool) {
        self.0.retain(is_kept);
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &RequestEntry> {
        self.0.iter()
    }

    /// Returns the event id of the newest request with this key.
    pub(super) fn find(&self, key: RequestKey) -> Option<EventId> {
        self.0.iter().rev().find(|entry| entry.key == key).map(|entry| entry.event_id)
    }
}

impl<C> Encode<C> for Requests {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.array(self.0.len() as u64 * 3)?;
        for entry in &self.0 {
            e.u64(entry.key.0)?.u64(entry.event_id)?.u32(entry.hours)?;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Requests {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let at = d.position();
        let garbled = || DecodeError::message("expected three numbers for each request").at(at);
        let count = d.array()?.filter(|count| count % 3 == 0).ok_or_else(garbled)? / 3;
        let entry = |_| Ok(RequestEntry { key: RequestKey(d.u64()?), event_id: d.u64()?, hours: d.u32()? });
        (0..count).map(entry).collect::<Result<_, DecodeError>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_stored_compactly() {
        let mut requests = Requests::default();
        for number in 0..40 {
            let before = minicbor::to_vec(&requests).unwrap().len();
            requests.push(RequestEntry { key: RequestKey(u64::MAX - number), event_id: 200 + number, hours: 23 });
            let bytes = minicbor::to_vec(&requests).unwrap();
            assert!(bytes.len() - before <= 14, "{number}");
            assert_eq!(minicbor::decode::<Requests>(&bytes).unwrap(), requests);
        }
        assert_eq!(requests.find(RequestKey(u64::MAX - 7)), Some(207));
        let cut = minicbor::to_vec([1_u64, 2]).unwrap();
        assert!(minicbor::decode::<Requests>(&cut).unwrap_err().to_string().contains("three numbers"));
    }
}
