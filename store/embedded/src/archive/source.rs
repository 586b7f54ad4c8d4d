//! What is copied from: the log of a store that is open, read from its files as far as it is durable.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::ArchiveError;
use crate::disk::storage_error;
use crate::frame::{FRAME_HEADER, FRAME_MAX, SEGMENT_HEADER, frame_at};
use crate::instant;
use crate::log::Live;
use crate::names::{salt, segment_path};
use crate::shared::Shared;

/// How much is read at a time, unless a frame is larger.
const READ_BYTES: usize = 256 << 10;

/// A store that is open.
#[derive(Debug, Clone)]
pub(crate) struct LogSource {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: PathBuf,
    pub(crate) id: u64,
}

/// Whole frames of a segment.
pub(crate) struct ReadFrames {
    pub(crate) bytes: Vec<u8>,
    pub(crate) last: u64,
    /// Of the last; `None` where none of them says.
    pub(crate) instant: Option<u64>,
}

impl LogSource {
    pub(crate) fn durable(&self) -> u64 {
        self.shared.lock().durable_batch
    }

    /// The segment that begins with this batch.
    pub(crate) fn beginning_with(&self, batch: u64) -> Option<Live> {
        self.shared.segments.live().into_iter().find(|live| live.first_batch == batch)
    }

    /// The segment in which this batch is, or will be; `None` where it begins one that is not there yet.
    pub(crate) fn holding(&self, batch: u64) -> Result<Option<Live>, ArchiveError> {
        let live = self.shared.segments.live();
        match live.iter().rfind(|live| live.first_batch <= batch) {
            Some(found) => Ok(Some(found.clone())),
            None if live.is_empty() => Ok(None),
            None => Err(ArchiveError::Gap { batch }),
        }
    }

    pub(crate) fn open(&self, number: u64) -> Result<SegmentReader, ArchiveError> {
        let path = segment_path(&self.log, number);
        let file = File::open(&path).map_err(|error| storage_error(&error, "read", &path))?;
        Ok(SegmentReader { file, path, salt: salt(self.id, number) })
    }
}

/// A segment of the log.
pub(crate) struct SegmentReader {
    file: File,
    path: PathBuf,
    salt: u64,
}

impl SegmentReader {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(storage_error(&error, "read", &self.path).into()),
            }
        }
        Ok(read)
    }

    pub(crate) fn header(&self) -> Result<Vec<u8>, ArchiveError> {
        self.exactly(0, SEGMENT_HEADER)
    }

    /// So many bytes, or fewer at the end of the file.
    pub(crate) fn exactly(&self, offset: u64, length: usize) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = vec![0; length];
        let read = self.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Frames from `offset` on, the first of which is batch `next`, none beyond `durable`. `None` where it is not there.
    pub(crate) fn frames(&self, offset: u64, next: u64, durable: u64) -> Result<Option<ReadFrames>, ArchiveError> {
        let mut length = READ_BYTES;
        let head = self.exactly(offset, FRAME_HEADER)?;
        if let Some(operations) = head.first_chunk::<4>() {
            let operations = usize::try_from(u32::from_le_bytes(*operations)).unwrap_or(usize::MAX);
            if operations <= FRAME_MAX {
                length = length.max(FRAME_HEADER + operations);
            }
        }
        let mut bytes = self.exactly(offset, length)?;
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
        // What fills a frame up to eight bytes may lie beyond what was read.
        let padded = end.next_multiple_of(8);
        bytes.resize(padded.max(end), 0);
        bytes.truncate(padded);
        Ok(Some(ReadFrames { bytes, last, instant }))
    }
}
