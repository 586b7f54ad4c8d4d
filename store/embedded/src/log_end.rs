//! The end of the log: the writer, a buffer for a batch, and data on the last batch. The thread that writes the log
//! owns it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::directory::record_known_batch;
use crate::frame::Builder;
use crate::log::Tail;
use crate::opening::Opening;

/// Longest last sync after which a caller that commits writes the next batch itself, instead of the committer thread.
/// This blocks the caller's thread, but saves two thread switches of about 0.1 ms. Chosen: on a disk with slower syncs,
/// the saving is small compared with the sync.
pub(crate) const SHORT_SYNC: Duration = Duration::from_micros(500);
/// Maximum size of a batch that a caller writes itself. Chosen: the duration of the last sync does not predict that of
/// a larger batch.
pub(crate) const SMALL_BATCH: usize = 64 << 10;

/// The end of the log. Only the thread that owns it may write.
#[derive(Debug)]
pub(crate) struct LogEnd {
    tail: Tail,
    pub(crate) builder: Builder,
    /// Directory of a store that has no batch yet, otherwise `None`. Before the first batch is acknowledged, the file
    /// `KNOWN` in this directory must record that the log has a batch.
    first: Option<PathBuf>,
    last: Option<LastBatch>,
}

/// Data on the batch that was written last.
#[derive(Debug)]
struct LastBatch {
    at: Instant,
    took: Duration,
    commits: u64,
}

impl LogEnd {
    pub(crate) fn new(tail: Tail, first: Option<PathBuf>) -> Self {
        Self { tail, builder: Builder::default(), first, last: None }
    }

    /// Returns whether a caller that commits should write a batch of this size itself. The batch must be small, and the
    /// last batch must have had a single commit. The log must have been idle for at least as long as the last batch
    /// took. Under more load, concurrent commits should share a sync instead.
    pub(crate) fn allows_writing_inline(&self, bytes: usize) -> bool {
        let is_idle = |last: &LastBatch| last.commits == 1 && last.took <= SHORT_SYNC && last.at.elapsed() > last.took;
        self.last.as_ref().is_some_and(is_idle) && self.first.is_none() && bytes <= SMALL_BATCH && self.tail.fits(bytes)
    }

    /// Writes the buffer as this batch and makes it durable. Returns whether the next segment should be prepared.
    pub(crate) fn append(&mut self, batch: u64, commits: u64, opening: &Opening) -> io::Result<bool> {
        let began = Instant::now();
        let is_half_full = self.tail.append(&mut self.builder, batch)?;
        if let Some(directory) = self.first.take() {
            opening.patiently(|| record_known_batch(&directory, batch))?;
        }
        self.builder.clear();
        let at = Instant::now();
        self.last = Some(LastBatch { at, took: at - began, commits });
        Ok(is_half_full)
    }
}

#[cfg(test)]
impl LogEnd {
    /// Sets the last batch for a test: how long ago it ended, how long it took, and how many commits it had.
    pub(crate) fn set_last_batch(&mut self, ago: Duration, took: Duration, commits: u64) {
        let at = Instant::now().checked_sub(ago).unwrap();
        self.last = Some(LastBatch { at, took, commits });
    }
}
