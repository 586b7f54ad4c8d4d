//! Reads the log back: from the checkpoint's position to the end, in order, without a gap. Owns the judgement of what is
//! a torn end, which was never acknowledged and is cut off, and what is damage, at which the store refuses to open.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use store::Error;

use crate::disk::storage_error;
use crate::frame::{Frame, SEGMENT_HEADER, SegmentHeader, frame_at, frame_behind};
use crate::log::{Live, sync_directory};
use crate::names::{find_segments, salt, segment_path};
use crate::staying::LoggedValues;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The last batch of the log.
    pub(crate) last_batch: u64,
    /// Batches after the checkpoint's position, which were handed to `replay`.
    pub(crate) batches_replayed: u64,
    /// Bytes read from the log.
    pub(crate) bytes_read: u64,
    /// Bytes behind the last batch that were cut off.
    pub(crate) bytes_cut: u64,
    /// The segments that hold frames.
    pub(crate) segments: Vec<Live>,
    /// What of them may stay.
    pub(crate) values: LoggedValues,
    /// A number that no segment has had.
    pub(crate) next_number: u64,
}

/// Hands every batch after `position` to `replay`, oldest first, which answers how many bytes of it may stay in the log. The log goes
/// as far as `known` at least, or nothing is changed.
///
/// Segments without frames were made ready and not used, or their first batch was torn; they are removed.
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
        let path = segment_path(directory, number);
        let bytes = std::fs::read(&path).map_err(|error| storage_error(&error, "read", &path))?;
        recovered.bytes_read += bytes.len() as u64;
        let read = FoundSegment { path, bytes, salt: salt(id, number), number };
        if read.replay(directory, position, &mut recovered, &mut replay)? {
            last = Some(read);
        } else {
            // Not its bytes, which may be a whole segment's.
            unused.push((read.used_bytes(0), read.path));
        }
    }
    let least = position.max(known.unwrap_or_default());
    if least > 0 && last.is_none() {
        return Err(missing(directory, position + 1, "no segment of the log is there"));
    }
    if recovered.last_batch < least {
        let found = format!("the log ends with batch {}", recovered.last_batch);
        return Err(missing(directory, recovered.last_batch + 1, &found));
    }
    if let Some(last) = last
        && let Some(live) = recovered.segments.last()
    {
        recovered.bytes_cut += last.cut(live.bytes).map_err(|error| storage_error(&error, "secure", &last.path))?;
    }
    for (used_bytes, path) in unused {
        recovered.bytes_cut += used_bytes;
        std::fs::remove_file(&path).map_err(failed)?;
    }
    sync_directory(directory).map_err(failed)?;
    Ok(recovered)
}

fn missing(directory: &Path, batch: u64, found: &str) -> Error {
    Error::Corrupt {
        what: format!(
            "the log in `{}` should go on with batch {batch}, but {found}; acknowledged commits are missing. Restore the \
             directory from a backup, or put the missing file back",
            directory.display()
        ),
    }
}

struct FoundSegment {
    path: PathBuf,
    bytes: Vec<u8>,
    salt: u64,
    number: u64,
}

impl FoundSegment {
    fn corrupt(&self, offset: usize, why: &str) -> Error {
        let path = self.path.display();
        Error::Corrupt {
            what: format!("segment `{path}` at offset {offset}: {why}. Restore the directory from a backup"),
        }
    }

    fn from(&self, offset: usize) -> &[u8] {
        self.bytes.get(offset..).unwrap_or_default()
    }

    /// Replays the segment's frames; answers whether it has any.
    fn replay(
        &self,
        directory: &Path,
        position: u64,
        recovered: &mut Recovered,
        replay: &mut impl FnMut(&Frame<'_>) -> Result<u64, Error>,
    ) -> Result<bool, Error> {
        // The header is written with the first frame: without the one there cannot be the other.
        let header = match SegmentHeader::decode(&self.bytes) {
            Ok(header) => header,
            Err(_) if frame_behind(self.from(SEGMENT_HEADER), self.salt, 1).is_none() && !self.is_other_format() => {
                return Ok(false);
            }
            Err(why) => return Err(self.corrupt(0, &why)),
        };
        if header.salt != self.salt {
            return Err(self.corrupt(0, "it belongs to another store, or to another place in this one"));
        }
        if recovered.segments.is_empty() && header.first_batch <= position + 1 {
            recovered.last_batch = header.first_batch.saturating_sub(1);
        }
        let mut offset = SEGMENT_HEADER;
        let mut has_frames = false;
        loop {
            let next = recovered.last_batch + 1;
            let Some(frame) = frame_at(self.from(offset), self.salt, next..next + 1) else {
                break;
            };
            if frame.batch > position {
                let stays = replay(&frame)?;
                recovered.batches_replayed += 1;
                recovered.values.note(frame.batch, (self.number, offset as u64), frame.size as u64, stays);
            }
            recovered.last_batch = frame.batch;
            offset += frame.size;
            has_frames = true;
        }
        let next = recovered.last_batch + 1;
        if let Some(behind) = frame_behind(self.from(offset), self.salt, next) {
            if !has_frames && header.first_batch > next {
                let found = format!("segment `{}` begins with batch {}", self.path.display(), header.first_batch);
                return Err(missing(directory, next, &found));
            }
            let behind = offset + behind;
            let why = format!(
                "batch {next} cannot be read, and a later one at offset {behind} can; acknowledged commits are damaged"
            );
            return Err(self.corrupt(offset, &why));
        }
        if has_frames {
            let bytes = offset.min(self.bytes.len()) as u64;
            recovered.segments.push(Live { number: self.number, first_batch: header.first_batch, bytes });
        }
        Ok(has_frames)
    }

    /// Whether the header is whole but of a version that is not known here.
    fn is_other_format(&self) -> bool {
        SegmentHeader::is_other_format(&self.bytes)
    }

    /// How many bytes after `offset` are not zeros.
    fn used_bytes(&self, offset: usize) -> u64 {
        self.from(offset).iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    }

    /// Cuts the last segment where its frames end, and writes it again before anybody is shown what it holds: its last
    /// frames may be in the page cache only, and after a failed sync the kernel takes them for written.
    fn cut(&self, end: u64) -> std::io::Result<u64> {
        let offset = usize::try_from(end).unwrap_or(usize::MAX);
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(self.bytes.get(..offset).unwrap_or_default())?;
        file.sync_all()?;
        Ok(self.used_bytes(offset))
    }
}
