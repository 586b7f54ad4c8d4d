//! The source of a copy: the log of an open store. It is read from the log files, up to the last durable batch.

use std::path::PathBuf;
use std::sync::Arc;

use super::ArchiveError;
use crate::frame::frame_at;
use crate::instant;
use crate::log::Live;
use crate::segment::SegmentReader;
use crate::shared::Shared;

/// An open store whose log is copied.
#[derive(Debug, Clone)]
pub(crate) struct LogSource {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: PathBuf,
    pub(crate) id: u64,
}

/// Frames of a segment that were read. Each frame is one batch of commits.
pub(crate) struct ReadFrames {
    pub(crate) bytes: Vec<u8>,
    pub(crate) last: u64,
    /// Time of the last batch. `None` if none of the batches has a time.
    pub(crate) instant: Option<u64>,
}

impl LogSource {
    pub(crate) fn durable(&self) -> u64 {
        self.shared.lock().durable_batch
    }

    /// Returns the log segment that begins with this batch.
    pub(crate) fn beginning_with(&self, batch: u64) -> Option<Live> {
        self.shared.segments.live().into_iter().find(|live| live.first_batch == batch)
    }

    /// Returns the log segment that contains this batch or will contain it. Returns `None` if the batch will begin a
    /// segment that does not exist yet.
    pub(crate) fn holding(&self, batch: u64) -> Result<Option<Live>, ArchiveError> {
        let live = self.shared.segments.live();
        match live.iter().rfind(|live| live.first_batch <= batch) {
            Some(found) => Ok(Some(found.clone())),
            None if live.is_empty() => Ok(None),
            None => Err(ArchiveError::Gap { batch }),
        }
    }
}

impl SegmentReader {
    /// Reads frames from `offset` on. The first one must be batch `next`, and batches after `durable` are not returned.
    /// Returns `None` if there is no such frame.
    pub(crate) fn frames(&self, offset: u64, next: u64, durable: u64) -> Result<Option<ReadFrames>, ArchiveError> {
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
        // A frame is padded to eight bytes, and the padding may not have been read.
        let padded = end.next_multiple_of(8);
        bytes.resize(padded.max(end), 0);
        bytes.truncate(padded);
        Ok(Some(ReadFrames { bytes, last, instant }))
    }
}
