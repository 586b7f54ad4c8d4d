//! The end of the log, owned by the thread that writes: the current segment, a buffer for a batch, and data about the
//! last batch.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::directory::record_known_batch;
use crate::frame::Builder;
use crate::log::Tail;
use crate::opening::Opening;

/// Maximum duration of the last sync for a committing caller to write the next batch itself, which blocks its thread.
/// Ours: this saves two thread switches of about 0.1 ms; a slower disk would gain little.
pub(crate) const SHORT_SYNC: Duration = Duration::from_micros(500);
/// Maximum size of a batch that a committing caller writes itself. Ours: a larger one takes longer than the last one
/// suggests.
pub(crate) const SMALL_BATCH: usize = 64 << 10;

/// The end of the log. Its owner is the only one who may write.
#[derive(Debug)]
pub(crate) struct LogEnd {
    tail: Tail,
    pub(crate) builder: Builder,
    /// Directory of a store without any batch. Before its first batch is acknowledged, the existence of the log must be
    /// recorded there.
    first: Option<PathBuf>,
    last: Option<LastBatch>,
}

/// Data about the last written batch.
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

    /// Returns whether a committing caller should write a batch of this size itself: it is quick, the last batch had a
    /// single commit, and it ended at least as long ago as it took. Otherwise concurrent commits could no longer share
    /// a sync.
    pub(crate) fn allows_writing_inline(&self, bytes: usize) -> bool {
        let is_idle = |last: &LastBatch| last.commits == 1 && last.took <= SHORT_SYNC && last.at.elapsed() > last.took;
        self.last.as_ref().is_some_and(is_idle) && self.first.is_none() && bytes <= SMALL_BATCH && self.tail.fits(bytes)
    }

    /// Writes the buffer as this batch, durably. Returns whether the next segment should be prepared.
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
    /// Pretends that the last batch ended this long ago and took this long for this many commits.
    pub(crate) fn set_last_batch(&mut self, ago: Duration, took: Duration, commits: u64) {
        let at = Instant::now().checked_sub(ago).unwrap();
        self.last = Some(LastBatch { at, took, commits });
    }
}
