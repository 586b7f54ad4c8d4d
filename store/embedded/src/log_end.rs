//! The end of the log, which whoever writes has: the segment that is written, room for a batch, and what is known of the last one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::directory::make_known;
use crate::frame::Builder;
use crate::log::Tail;
use crate::opening::Opening;

/// The longest sync after which whoever commits does the next: its thread does nothing else meanwhile. Ours: two threads' switches are
/// saved, which take some 0.1 ms; a disk that is slower gains little by it.
pub(crate) const SHORT_SYNC: Duration = Duration::from_micros(500);
/// The largest batch that whoever commits writes. Ours: what is larger takes longer than the last one did.
pub(crate) const SMALL_BATCH: usize = 64 << 10;

/// The end of the log, and what it takes to write on there. Whoever has it writes.
#[derive(Debug)]
pub(crate) struct LogEnd {
    tail: Tail,
    pub(crate) builder: Builder,
    /// The directory of a store that has no batch yet: before the first is acknowledged, it is made known there that there is one.
    first: Option<PathBuf>,
    last: Option<LastBatch>,
}

/// The last batch that was written.
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

    /// Whether the thread that commits so many bytes may as well write them: that does not take long; and the last batch was of one commit, and was
    /// over for at least as long as it took, so that what comes at the same time still shares a sync.
    pub(crate) fn is_rested_for(&self, bytes: usize) -> bool {
        let is_rested =
            |last: &LastBatch| last.commits == 1 && last.took <= SHORT_SYNC && last.at.elapsed() > last.took;
        self.last.as_ref().is_some_and(is_rested)
            && self.first.is_none()
            && bytes <= SMALL_BATCH
            && self.tail.has_room(bytes)
    }

    /// Writes what was put into its room as this batch, of so many commits, durably. Answers whether the next segment should be made ready.
    pub(crate) fn append(&mut self, batch: u64, commits: u64, opening: &Opening) -> io::Result<bool> {
        let began = Instant::now();
        let is_half_full = self.tail.append(&mut self.builder, batch)?;
        if let Some(directory) = self.first.take() {
            opening.patiently(|| make_known(&directory, batch))?;
        }
        self.builder.clear();
        let at = Instant::now();
        self.last = Some(LastBatch { at, took: at - began, commits });
        Ok(is_half_full)
    }
}

#[cfg(test)]
impl LogEnd {
    /// As if the last batch had been over for so long, and had taken so long for so many commits.
    pub(crate) fn was_used(&mut self, ago: Duration, took: Duration, commits: u64) {
        let at = Instant::now().checked_sub(ago).unwrap();
        self.last = Some(LastBatch { at, took, commits });
    }
}
