//! Compression of bytes that would otherwise cost additional units. Events repeat their names and most of their
//! timestamps, so compression saves a third or more.

use bytes::Bytes;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Compression level: the fastest. Chosen: for a kilobyte, higher levels take 50% more time and save hardly a byte.
const LEVEL: u8 = 1;

/// Bytes of an item, in plain or compressed form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Plain(Bytes),
    Deflated(Vec<u8>),
}

/// Compresses bytes that exceed `room`, if that makes them smaller.
pub(crate) fn pack(bytes: &Bytes, room: usize) -> Stored {
    if bytes.len() > room {
        let deflated = compress_to_vec(bytes, LEVEL);
        if deflated.len() < bytes.len() {
            return Stored::Deflated(deflated);
        }
    }
    Stored::Plain(bytes.clone())
}

/// Decompresses bytes. Returns `None` if they are invalid or exceed `max` when decompressed.
pub(crate) fn unpack(deflated: &[u8], max: usize) -> Option<Bytes> {
    decompress_to_vec_with_limit(deflated, max).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_fit_or_cannot_shrink_stay_plain() {
        let even = Bytes::from(vec![7; 300]);
        assert_eq!(pack(&even, 300), Stored::Plain(even.clone()));
        let uneven: Bytes = (0..=255_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_be_bytes()).collect();
        assert_eq!(pack(&uneven, 10), Stored::Plain(uneven.clone()));
    }

    #[test]
    fn compressed_bytes_are_restored_up_to_the_limit() {
        let even = Bytes::from(vec![7; 301]);
        let Stored::Deflated(deflated) = pack(&even, 300) else { panic!("it should be compressed") };
        assert!(deflated.len() < 30, "{}", deflated.len());
        assert_eq!(unpack(&deflated, 301), Some(even));
        assert_eq!(unpack(&deflated, 300), None);
        assert_eq!(unpack(b"nothing of ours", 300), None);
    }
}
