//! The bytes of the log: the header of a segment, and frames. A frame is one batch of commits. It is written with one
//! write, made durable with one sync, and is either complete or absent.
//!
//! ```text
//! segment: magic "BATONLOG" | format u32 | crc u32 | first batch u64 | salt u64 | frames … | anything
//! frame:   length u32 | crc u32 | batch u64 | operations (length bytes) | padding to 8 bytes
//! put:     1 | key length u32 | value length u32 | key | value
//! delete:  2 | key length u32 | 0 u32            | key
//! ```
//!
//! Numbers are little-endian. The checksum of a frame (CRC-32) covers the salt of the segment, the length, the batch
//! number and the operations. The salt is derived from the random id of the store and the number of the segment.
//! Therefore the earlier content of a reused file, or a payload that looks like a frame, cannot be mistaken for a
//! frame. A frame can be recognized even if the header of its segment is lost.

use store::Error;

use crate::forms::LOG;
use crate::logged_values::may_be_logged;

/// Size of the header of a segment.
pub const SEGMENT_HEADER: usize = 32;
pub(crate) const FRAME_HEADER: usize = 16;
/// Size of the fields that precede the key of an operation.
const OPERATION_HEADER: usize = 9;
/// Number of bytes needed to decide whether a frame may begin at a position.
pub(crate) const PROBE: usize = FRAME_HEADER + OPERATION_HEADER;
/// Maximum size of a frame. A larger frame is never written, and is not accepted when the log is read.
pub(crate) const FRAME_MAX: usize = 256 << 20;

const MAGIC: &[u8; 8] = b"BATONLOG";
const ALIGNMENT: usize = 8;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// Maximum distance of a plausible batch number from the expected number. Batches are numbered consecutively, and no
/// segment contains so many of them.
const AHEAD_MAX: u64 = 1 << 32;

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// First batch of the segment.
    pub first_batch: u64,
    /// Salt of the checksums of the segment's frames.
    pub salt: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&LOG.to_le_bytes());
        bytes.extend_from_slice(&self.crc().to_le_bytes());
        bytes.extend_from_slice(&self.first_batch.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        let mut header = [0; SEGMENT_HEADER];
        header.copy_from_slice(&bytes);
        header
    }

    fn crc(self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(MAGIC);
        hasher.update(&LOG.to_le_bytes());
        hasher.update(&self.first_batch.to_le_bytes());
        hasher.update(&self.salt.to_le_bytes());
        hasher.finalize()
    }

    /// Returns whether this is a header of an unknown format.
    pub(crate) fn is_other_format(bytes: &[u8]) -> bool {
        let mut fields = Fields(bytes);
        fields.array::<8>() == Some(*MAGIC) && fields.u32() != Some(LOG)
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// A description of what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields(bytes);
        let read = (|| Some((fields.array::<8>()?, fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?)))();
        let Some((magic, format, crc, first_batch, salt)) = read else {
            return Err("it is too short for a header".to_owned());
        };
        if magic != *MAGIC {
            return Err("it does not begin with `BATONLOG`".to_owned());
        }
        if format != LOG {
            return Err(format!("it has format {format}; this version of Baton reads format {LOG}"));
        }
        let header = Self { first_batch, salt };
        if crc == header.crc() { Ok(header) } else { Err("its header's checksum is wrong".to_owned()) }
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// A batch that is being filled. It consists of space for the frame header, followed by the operations.
#[derive(Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Bytes of large values that may stay in the log.
    pub(crate) logged_bytes: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self { bytes: vec![0; FRAME_HEADER], logged_bytes: 0 }
    }
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() <= FRAME_HEADER
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an operation that sets a value. Returns the offset of the value in the frame.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> u32 {
        self.operation(PUT, key, value);
        if may_be_logged(key, value.len()) {
            self.logged_bytes += value.len() as u64;
        }
        // The lengths have been checked against `FRAME_MAX` before.
        u32::try_from(self.bytes.len() - value.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.operation(DELETE, key, &[]);
    }

    /// Returns the number of bytes that an operation takes in a frame.
    pub(crate) fn size_of(key: &[u8], value: &[u8]) -> usize {
        OPERATION_HEADER + key.len() + value.len()
    }

    fn operation(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&length_field(key.len()));
        self.bytes.extend_from_slice(&length_field(value.len()));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Completes the frame with its header, and returns its bytes.
    pub(crate) fn seal(&mut self, salt: u64, batch: u64) -> &[u8] {
        let bytes = &mut self.bytes;
        let length = length_field(bytes.len().saturating_sub(FRAME_HEADER));
        let crc = frame_crc(salt, length, batch, bytes.get(FRAME_HEADER..).unwrap_or_default());
        if let Some(header) = bytes.first_chunk_mut::<FRAME_HEADER>() {
            let fields = u128::from(u32::from_le_bytes(length)) | u128::from(crc) << 32 | u128::from(batch) << 64;
            *header = fields.to_le_bytes();
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    /// Empties the builder for the next batch. If the batch was unusually large, its memory is released.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(FRAME_HEADER);
        self.bytes.shrink_to(4 << 20);
        self.logged_bytes = 0;
    }
}

/// Encodes a length. It has been checked against `FRAME_MAX` before.
fn length_field(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn frame_crc(salt: u64, length: [u8; 4], batch: u64, operations: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&length);
    hasher.update(&batch.to_le_bytes());
    hasher.update(operations);
    hasher.finalize()
}

/// A complete frame.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Number of the batch.
    pub batch: u64,
    /// Operations of the batch, encoded.
    pub operations: &'a [u8],
    /// Size of the frame with its padding, which is the distance to the next frame.
    pub size: usize,
}

/// Returns the size of the frame that may begin with `bytes`. Returns `None` if no frame can begin with these bytes.
pub(crate) fn frame_size(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(Fields(bytes).u32()?).ok()?;
    (length <= FRAME_MAX).then(|| (FRAME_HEADER + length).next_multiple_of(ALIGNMENT))
}

/// Returns the frame at the beginning of `bytes`. Returns `None` if it is not complete or its batch is not in `wanted`.
pub fn frame_at(bytes: &[u8], salt: u64, wanted: std::ops::Range<u64>) -> Option<Frame<'_>> {
    let mut fields = Fields(bytes);
    let length = fields.array::<4>()?;
    let crc = fields.u32()?;
    let batch = fields.u64()?;
    if !wanted.contains(&batch) {
        return None;
    }
    let operations = fields.take(usize::try_from(u32::from_le_bytes(length)).ok()?)?;
    if operations.is_empty() || frame_crc(salt, length, batch, operations) != crc {
        return None;
    }
    Some(Frame { batch, operations, size: (FRAME_HEADER + operations.len()).next_multiple_of(ALIGNMENT) })
}

/// Returns the offsets in `bytes` at which a frame of batch `from` or later may begin, with the size of that frame. The
/// batch number and the first operation are checked, but not the checksum. The last [`PROBE`] bytes are not examined.
pub(crate) fn may_begin(bytes: &[u8], from: u64) -> impl Iterator<Item = (usize, usize)> {
    let wanted = from..from + AHEAD_MAX;
    // The batch number is the second word of a frame. This check excludes almost every position.
    let words = bytes.as_chunks::<ALIGNMENT>().0.iter().enumerate().skip(1);
    let numbered = words.filter(move |(_, word)| wanted.contains(&u64::from_le_bytes(**word)));
    numbered.filter_map(|(index, _)| {
        let offset = (index - 1) * ALIGNMENT;
        let size = frame_size(bytes.get(offset..)?)?;
        // Many words look like batch numbers. The operation after the number is checked next, because checking the
        // checksum may require reading megabytes.
        let (_, key, value) = operation_header(&mut Fields(bytes.get(offset + FRAME_HEADER..)?))?;
        (PROBE + key + value <= size).then_some((offset, size))
    })
}

/// An operation of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchOperation<'a> {
    /// Sets a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Offset of the value in the frame.
        at: u32,
    },
    /// Deletes a value.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// Returns the operations of a frame, in order.
pub fn operations(bytes: &[u8]) -> impl Iterator<Item = Result<BatchOperation<'_>, Error>> {
    let mut fields = Fields(bytes);
    std::iter::from_fn(move || {
        if fields.0.is_empty() {
            return None;
        }
        let operation = operation(&mut fields, bytes.len());
        if operation.is_none() {
            fields.0 = &[];
        }
        Some(operation.ok_or_else(|| Error::Corrupt {
            what: "a complete frame contains an operation that cannot be read".to_owned(),
        }))
    })
}

/// Returns the next operation. All operations of the frame together have `whole` bytes.
fn operation<'a>(fields: &mut Fields<'a>, whole: usize) -> Option<BatchOperation<'a>> {
    let (is_put, key, value) = operation_header(fields)?;
    let key = fields.take(key)?;
    let at = (FRAME_HEADER + whole).checked_sub(fields.0.len()).and_then(|at| u32::try_from(at).ok())?;
    let value = fields.take(value)?;
    Some(if is_put { BatchOperation::Put { key, value, at } } else { BatchOperation::Delete { key } })
}

/// Returns whether the operation sets a value (instead of deleting it), and the lengths of its key and value.
fn operation_header(fields: &mut Fields<'_>) -> Option<(bool, usize, usize)> {
    let [kind] = fields.array()?;
    let (key, value) = (usize::try_from(fields.u32()?).ok()?, usize::try_from(fields.u32()?).ok()?);
    matches!(kind, PUT | DELETE).then_some((kind == PUT, key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(salt: u64, batch: u64) -> Vec<u8> {
        let mut builder = Builder::default();
        assert_eq!(builder.put(b"key", b"value"), 28);
        builder.delete(b"gone");
        builder.seal(salt, batch).to_vec()
    }

    #[test]
    fn a_decoded_frame_equals_the_encoded_one() {
        let bytes = frame(7, 42);
        let found = frame_at(&bytes, 7, 42..43).unwrap();
        assert_eq!((found.batch, found.size), (42, bytes.len()));
        let found: Vec<_> = operations(found.operations).map(Result::unwrap).collect();
        assert_eq!(
            found,
            [BatchOperation::Put { key: b"key", value: b"value", at: 28 }, BatchOperation::Delete { key: b"gone" }]
        );
        assert_eq!(&bytes[28..33], b"value");
    }

    #[test]
    fn every_flipped_bit_outside_the_padding_is_detected() {
        let bytes = frame(7, 42);
        let padded_from = FRAME_HEADER + Builder::size_of(b"key", b"value") + Builder::size_of(b"gone", b"");
        for bit in 0..padded_from * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(frame_at(&bytes, 7, 0..u64::MAX).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_of_another_segment_or_batch_is_rejected() {
        let bytes = frame(7, 42);
        assert!(frame_at(&bytes, 8, 42..43).is_none());
        assert!(frame_at(&bytes, 7, 43..44).is_none());
    }

    #[test]
    fn a_frame_may_begin_after_a_hole_unless_it_is_old() {
        let mut bytes = vec![0xAB; 64];
        let frame = frame(7, 42);
        bytes.extend(&frame);
        let found = |from| may_begin(&bytes, from).collect::<Vec<_>>();
        assert_eq!([found(41), found(42)], [[(64, frame.len())]; 2]);
        assert_eq!(found(43), []);
        // The first [`PROBE`] bytes of a frame suffice.
        assert_eq!(may_begin(&bytes[..64 + PROBE], 42).count(), 1);
    }

    #[test]
    fn a_changed_segment_header_is_rejected() {
        let header = SegmentHeader { first_batch: 9, salt: 5 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for at in 0..SEGMENT_HEADER {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert!(SegmentHeader::decode(&bytes).is_err(), "byte {at}");
        }
    }
}
