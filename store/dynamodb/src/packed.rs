//! Bytes that would cost more units as they are, deflated. Events repeat their names and most of their timestamps, so that a
//! third of them and more goes away.

use bytes::Bytes;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Fast: of a kilobyte, higher levels take half as long again and save hardly a byte.
const LEVEL: u8 = 1;

/// Whether bytes of an item stand there as they are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Plain(Bytes),
    Deflated(Vec<u8>),
}

/// Deflates what does not fit into `room` bytes, where that makes it smaller.
pub(crate) fn pack(bytes: &Bytes, room: usize) -> Stored {
    if bytes.len() > room {
        let deflated = compress_to_vec(bytes, LEVEL);
        if deflated.len() < bytes.len() {
            return Stored::Deflated(deflated);
        }
    }
    Stored::Plain(bytes.clone())
}

/// Reads deflated bytes; `None` when they are not that, or more than `max` when they are inflated.
pub(crate) fn unpack(deflated: &[u8], max: usize) -> Option<Bytes> {
    decompress_to_vec_with_limit(deflated, max).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_room_or_cannot_be_made_smaller_stays_as_it_is() {
        let even = Bytes::from(vec![7; 300]);
        assert_eq!(pack(&even, 300), Stored::Plain(even.clone()));
        let uneven: Bytes = (0..=255_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_be_bytes()).collect();
        assert_eq!(pack(&uneven, 10), Stored::Plain(uneven.clone()));
    }

    #[test]
    fn what_was_made_smaller_comes_back_and_no_more_than_allowed() {
        let even = Bytes::from(vec![7; 301]);
        let Stored::Deflated(deflated) = pack(&even, 300) else { panic!("it can be made smaller") };
        assert!(deflated.len() < 30, "{}", deflated.len());
        assert_eq!(unpack(&deflated, 301), Some(even));
        assert_eq!(unpack(&deflated, 300), None);
        assert_eq!(unpack(b"nothing of ours", 300), None);
    }
}
