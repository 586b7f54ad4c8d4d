//! Reads a segment of the log in pieces. `frame.rs` interprets the bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use store::{Error, UnixMs};

use crate::disk::storage_error;
use crate::frame::{FRAME_HEADER, PROBE, frame_at, frame_size, may_begin};
use crate::instant;
use crate::names::{salt, segment_path};

/// Number of bytes that are read at a time. For a larger frame, more bytes are read.
const READ_BYTES: usize = 256 << 10;

/// A segment of the log, opened for reading.
pub struct SegmentReader {
    file: File,
    /// Path of the segment's file.
    pub path: PathBuf,
    /// Salt of the checksums of the segment's frames.
    pub salt: u64,
}

/// Complete frames of a segment.
#[derive(Debug)]
pub struct ReadFrames {
    /// The frames with their padding.
    pub bytes: Vec<u8>,
    /// The last batch.
    pub last: u64,
    /// Timestamp of the last batch that has one, or `None` if no batch has one.
    pub instant: Option<UnixMs>,
}

impl SegmentReader {
    /// Opens segment `number` of the log of store `id`.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the file cannot be opened.
    pub fn open(log: &Path, id: u64, number: u64) -> Result<Self, Error> {
        let path = segment_path(log, number);
        let file = File::open(&path).map_err(|error| storage_error(&error, "read", &path))?;
        Ok(Self { file, path, salt: salt(id, number) })
    }

    /// Returns the size of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the size cannot be read.
    pub fn bytes(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(|error| storage_error(&error, "read", &self.path))?.len())
    }

    /// Reads this many bytes, or fewer at the end of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the file cannot be read.
    pub fn exactly(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(storage_error(&error, "read", &self.path)),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads a piece at `offset`, extended to the size of the frame that begins there.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the file cannot be read.
    pub fn piece(&self, offset: u64) -> Result<Vec<u8>, Error> {
        let head = self.exactly(offset, FRAME_HEADER)?;
        self.exactly(offset, frame_size(&head).unwrap_or_default().max(READ_BYTES))
    }

    /// Reads frames from `offset` on. The first frame must contain batch `next`. Frames of batches after `durable` are
    /// not read. Returns `None` if no frame was read.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the segment cannot be read.
    pub fn frames(&self, offset: u64, next: u64, durable: u64) -> Result<Option<ReadFrames>, Error> {
        let mut bytes = self.piece(offset)?;
        let (mut end, mut last, mut instant) = (0, next.saturating_sub(1), None);
        while last < durable
            && let Some(frame) = frame_at(bytes.get(end..).unwrap_or_default(), self.salt, last + 1..last + 2)
        {
            last = frame.batch;
            instant = instant::of(&frame).or(instant);
            end = (end + frame.size).min(bytes.len());
        }
        if end == 0 {
            return Ok(None);
        }
        // The padding of a frame to eight bytes may be beyond the bytes read.
        let padded = end.next_multiple_of(8);
        bytes.resize(padded.max(end), 0);
        bytes.truncate(padded);
        Ok(Some(ReadFrames { bytes, last, instant }))
    }

    /// Searches for a readable frame of batch `from` or later after an unreadable frame, and returns its offset. If
    /// such a frame exists, the unreadable frame is damaged, because a batch is written only after the previous batch
    /// is durable. If no such frame exists, the unreadable frame is the last batch, which was not written completely.
    pub(crate) fn frame_behind(&self, mut offset: u64, from: u64) -> Result<Option<u64>, Error> {
        // The padding of the last frame may be missing. A frame that would extend beyond the padded end is invalid, and
        // is not read.
        let end = self.bytes()?.next_multiple_of(8);
        while offset < end {
            // The pieces overlap, so that the beginning of each frame is completely in one of them.
            let piece = self.exactly(offset, READ_BYTES + PROBE)?;
            let places = may_begin(&piece, from).map(|(place, size)| (offset + place as u64, size));
            for (place, size) in places.filter(|(place, size)| place + *size as u64 <= end) {
                if frame_at(&self.exactly(place, size)?, self.salt, from..u64::MAX).is_some() {
                    return Ok(Some(place));
                }
            }
            offset += READ_BYTES as u64;
        }
        Ok(None)
    }

    /// Reads the bytes from `from` to `end` in pieces. Returns each with its offset. Stops at the end of the file.
    pub fn pieces(&self, from: u64, end: u64) -> impl Iterator<Item = Result<(u64, Vec<u8>), Error>> {
        (from..end).step_by(READ_BYTES).map(move |offset| {
            let length = usize::try_from(end - offset).unwrap_or(usize::MAX).min(READ_BYTES);
            Ok((offset, self.exactly(offset, length)?))
        })
    }

    /// Returns the number of bytes from `offset` to the last byte that is not zero.
    pub(crate) fn used_bytes(&self, offset: u64) -> Result<u64, Error> {
        let mut used = 0;
        for piece in self.pieces(offset, self.bytes()?) {
            let (at, bytes) = piece?;
            used = bytes.iter().rposition(|byte| *byte != 0).map_or(used, |last| at + last as u64 + 1 - offset);
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Builder;

    /// Creates a segment of one and a half pieces. It contains `bytes` at `offset`, and zeros elsewhere.
    fn segment_with(bytes: &[u8], offset: usize) -> (tempfile::TempDir, SegmentReader) {
        let directory = tempfile::tempdir().unwrap();
        let mut whole = vec![0; READ_BYTES / 2 * 3];
        whole[offset..offset + bytes.len()].copy_from_slice(bytes);
        std::fs::write(segment_path(directory.path(), 1), whole).unwrap();
        let segment = SegmentReader::open(directory.path(), 7, 1).unwrap();
        (directory, segment)
    }

    #[test]
    fn a_frame_after_a_hole_is_found_across_pieces() {
        let mut builder = Builder::default();
        builder.put(b"key", b"value");
        let frame = builder.seal(salt(7, 1), 42).to_vec();
        for offset in (READ_BYTES - 64..READ_BYTES + 64).step_by(8).chain([READ_BYTES / 2 * 3 - frame.len()]) {
            let (_directory, segment) = segment_with(&frame, offset);
            let found = |from| segment.frame_behind(0, from).unwrap();
            assert_eq!((found(41), found(42), found(43)), (Some(offset as u64), Some(offset as u64), None));
            // If the file ends within the padding, the frame is found. If the file ends earlier, the frame is not
            // found.
            for (cut, is_found) in [(7, true), (8, false)] {
                let file = std::fs::File::options().write(true).open(&segment.path).unwrap();
                file.set_len((offset + frame.len() - cut) as u64).unwrap();
                assert_eq!(segment.frame_behind(0, 42).unwrap().is_some(), is_found, "at {offset} without {cut}");
            }
            // These bytes look like a frame, but they have the checksum of a frame in another segment.
            let (_directory, segment) = segment_with(builder.seal(salt(7, 2), 42), offset);
            assert_eq!(segment.frame_behind(0, 42).unwrap(), None, "at {offset}");
        }
    }

    #[test]
    fn used_bytes_end_at_the_last_non_zero_byte() {
        for last in [8, READ_BYTES - 1, READ_BYTES, READ_BYTES + 7, READ_BYTES / 2 * 3 - 1] {
            let (_directory, segment) = segment_with(&[1], last);
            let used = |offset| segment.used_bytes(offset).unwrap();
            assert_eq!((used(0), used(8), used(last as u64 + 1)), (last as u64 + 1, last as u64 - 7, 0));
        }
    }
}
