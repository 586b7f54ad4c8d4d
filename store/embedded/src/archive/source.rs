//! What is copied from: the log of a store that is open, read from its files as far as it is durable.

use std::path::PathBuf;
use std::sync::Arc;

use super::ArchiveError;
use crate::frame::frame_at;
use crate::instant;
use crate::log::Live;
use crate::segment::SegmentReader;
use crate::shared::Shared;

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
}

impl SegmentReader {
    /// Frames from `offset` on, the first of which is batch `next`, none beyond `durable`. `None` where it is not there.
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
        // What fills a frame up to eight bytes may lie beyond what was read.
        let padded = end.next_multiple_of(8);
        bytes.resize(padded.max(end), 0);
        bytes.truncate(padded);
        Ok(Some(ReadFrames { bytes, last, instant }))
    }
}
