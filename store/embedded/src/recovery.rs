//! Reads the log when a store is opened: from the position of the last checkpoint to the end, in order and without
//! gaps. If the last batch was not written completely, it was never acknowledged and is cut off. If anything else is
//! unreadable, acknowledged data is damaged, and the store is not opened.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use store::Error;

use crate::disk::storage_error;
use crate::frame::{Frame, SEGMENT_HEADER, SegmentHeader, frame_at};
use crate::log::{Live, sync_directory};
use crate::logged_values::LoggedValues;
use crate::names::find_segments;
use crate::segment::SegmentReader;

/// Result of reading the log.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Number of the last batch of the log.
    pub(crate) last_batch: u64,
    /// Number of batches after the position of the checkpoint. They were passed to `replay`.
    pub(crate) batches_replayed: u64,
    /// Number of bytes that were read from the log.
    pub(crate) bytes_read: u64,
    /// Number of bytes after the last batch that were cut off.
    pub(crate) bytes_cut: u64,
    /// Segments that contain frames. Each frame is one batch.
    pub(crate) segments: Vec<Live>,
    /// Large values that may stay in the log, in these segments.
    pub(crate) values: LoggedValues,
    /// Smallest number that no segment has used.
    pub(crate) next_number: u64,
}

/// Passes every batch after `position` to `replay`, oldest first. `replay` returns how many bytes of the batch are
/// values that may stay in the log. If the log ends before the batch `known`, this fails and changes nothing.
///
/// Segments without frames are removed: they were prepared but not used, or their first batch was not written
/// completely.
pub(crate) fn recover(
    directory: &Path,
    id: u64,
    position: u64,
    known: Option<u64>,
    mut replay: impl FnMut(&Frame<'_>) -> Result<u64, Error>,
) -> Result<Recovered, Error> {
    let failed = |error: std::io::Error| storage_error(&error, "list or clear the log's segments in", directory);
    let numbers = find_segments(directory).map_err(failed)?;
    let mut recovered = Recovered { last_batch: position, next_number: 1, ..Recovered::default() };
    let mut unused = Vec::new();
    let mut last = None;
    for number in numbers {
        recovered.next_number = number + 1;
        let (segment, read) = (SegmentReader::open(directory, id, number)?, crc32fast::Hasher::new());
        recovered.bytes_read += segment.bytes()?;
        let mut found = FoundSegment { segment, number, end: 0, read };
        if found.replay(directory, position, &mut recovered, &mut replay)? {
            last = Some(found);
        } else {
            unused.push(found.segment);
        }
    }
    let least = position.max(known.unwrap_or_default());
    if least > 0 && last.is_none() {
        return Err(missing(directory, position + 1, "there is no segment of the log"));
    }
    if recovered.last_batch < least {
        let found = format!("the log ends with batch {}", recovered.last_batch);
        return Err(missing(directory, recovered.last_batch + 1, &found));
    }
    if let Some(last) = last {
        recovered.bytes_cut += last.cut()?;
    }
    for segment in unused {
        recovered.bytes_cut += segment.used_bytes(0)?;
        std::fs::remove_file(&segment.path).map_err(failed)?;
    }
    sync_directory(directory).map_err(failed)?;
    Ok(recovered)
}

fn missing(directory: &Path, batch: u64, found: &str) -> Error {
    Error::Corrupt {
        what: format!(
            "the log in `{}` should continue with batch {batch}, but {found}; acknowledged commits are missing. \
             Restore the directory from a backup, or put the missing file back",
            directory.display()
        ),
    }
}

struct FoundSegment {
    segment: SegmentReader,
    number: u64,
    /// Offset at which the frames of the segment end. `read` is the checksum of all bytes before this offset.
    end: u64,
    read: crc32fast::Hasher,
}

impl FoundSegment {
    fn corrupt(&self, offset: u64, why: &str) -> Error {
        let path = self.segment.path.display();
        Error::Corrupt {
            what: format!("segment `{path}` at offset {offset}: {why}. Restore the directory from a backup"),
        }
    }

    /// Passes the batches of the segment to the store. Returns whether there are any.
    fn replay(
        &mut self,
        directory: &Path,
        position: u64,
        recovered: &mut Recovered,
        replay: &mut impl FnMut(&Frame<'_>) -> Result<u64, Error>,
    ) -> Result<bool, Error> {
        let (first, salt) = (self.segment.exactly(0, SEGMENT_HEADER)?, self.segment.salt);
        // The header is written together with the first frame. A segment without a header therefore has no frames.
        let header = match SegmentHeader::decode(&first) {
            Ok(header) => header,
            Err(why) => {
                let has_frames = self.segment.frame_behind(SEGMENT_HEADER as u64, 1)?.is_some();
                let is_unused = !has_frames && !SegmentHeader::is_other_format(&first);
                return if is_unused { Ok(false) } else { Err(self.corrupt(0, &why)) };
            }
        };
        if header.salt != salt {
            return Err(self.corrupt(0, "it belongs to another store, or to another position in this one"));
        }
        if recovered.segments.is_empty() && header.first_batch <= position + 1 {
            recovered.last_batch = header.first_batch.saturating_sub(1);
        }
        self.passed(&first);
        loop {
            let piece = self.segment.piece(self.end)?;
            let mut rest = piece.as_slice();
            while let Some(frame) = frame_at(rest, salt, recovered.last_batch + 1..recovered.last_batch + 2) {
                if frame.batch > position {
                    let logged = replay(&frame)?;
                    recovered.batches_replayed += 1;
                    let offset = self.end + (piece.len() - rest.len()) as u64;
                    recovered.values.note(frame.batch, (self.number, offset), frame.size as u64, logged);
                }
                recovered.last_batch = frame.batch;
                // The padding of a frame may be beyond the bytes that were read, or beyond the end of the file.
                rest = rest.get(frame.size..).unwrap_or_default();
            }
            let frames = piece.len() - rest.len();
            if frames == 0 {
                break;
            }
            self.passed(piece.get(..frames).unwrap_or_default());
        }
        let next = recovered.last_batch + 1;
        let has_frames = self.end > SEGMENT_HEADER as u64;
        if let Some(behind) = self.segment.frame_behind(self.end, next)? {
            if !has_frames && header.first_batch > next {
                let (path, first) = (self.segment.path.display(), header.first_batch);
                let found = format!("segment `{path}` begins with batch {first}");
                return Err(missing(directory, next, &found));
            }
            let why = format!(
                "batch {next} cannot be read, but a later one at offset {behind} can; acknowledged commits are damaged"
            );
            return Err(self.corrupt(self.end, &why));
        }
        if has_frames {
            recovered.segments.push(Live { number: self.number, first_batch: header.first_batch, bytes: self.end });
        }
        Ok(has_frames)
    }

    fn passed(&mut self, bytes: &[u8]) {
        self.read.update(bytes);
        self.end += bytes.len() as u64;
    }

    /// Truncates the last segment after its frames, and writes its content again, because the last frames may be only
    /// in the page cache. This can happen after a failed sync: the kernel then treats the frames as written although
    /// they are not.
    fn cut(self) -> Result<u64, Error> {
        let Self { segment, end, read, .. } = self;
        let used_bytes = segment.used_bytes(end)?;
        let failed = |error: std::io::Error| storage_error(&error, "secure", &segment.path);
        let file = OpenOptions::new().write(true).open(&segment.path).map_err(failed)?;
        file.set_len(end).map_err(failed)?;
        let mut written = crc32fast::Hasher::new();
        for piece in segment.pieces(0, end) {
            let (offset, bytes) = piece?;
            file.write_all_at(&bytes, offset).map_err(failed)?;
            written.update(&bytes);
        }
        if written.finalize() != read.finalize() {
            return Err(failed(std::io::Error::other("it has changed since it was read; start again")));
        }
        file.sync_all().map_err(failed)?;
        Ok(used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Builder;

    #[test]
    fn a_segment_changed_after_replay_is_not_made_durable() {
        let directory = tempfile::tempdir().unwrap();
        let path = crate::names::segment_path(directory.path(), 1);
        let salt = crate::names::salt(7, 1);
        let mut builder = Builder::default();
        builder.put(b"key", b"value");
        let mut bytes = SegmentHeader { first_batch: 1, salt }.encode().to_vec();
        bytes.extend_from_slice(builder.seal(salt, 1));
        let end = bytes.len();
        bytes.extend_from_slice(b"torn");
        std::fs::write(&path, &bytes).unwrap();
        let replayed = || {
            let segment = SegmentReader::open(directory.path(), 7, 1).unwrap();
            let mut found = FoundSegment { segment, number: 1, end: 0, read: crc32fast::Hasher::new() };
            assert!(found.replay(directory.path(), 0, &mut Recovered::default(), &mut |_| Ok(0)).unwrap());
            found
        };
        let found = replayed();
        bytes[end - 5] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let message = found.cut().unwrap_err().to_string();
        assert!(message.contains("has changed since it was read"), "{message}");
        bytes[end - 5] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(replayed().cut().unwrap(), 4);
        assert_eq!(std::fs::read(&path).unwrap(), bytes[..end]);
    }
}
