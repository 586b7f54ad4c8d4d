//! Copies the data of a store to its archive: durable segments of the log, and bases (snapshots). Also removes expired
//! data.
//!
//! A file is always written before the file that refers to it, so that an interruption at any point is harmless.

mod forget;
mod resume;

use std::fs::File;

use store::UnixMs;
use store_embedded::LogSource;
use store_embedded::files::{Live, LogHold, SEGMENT_HEADER, SegmentHeader, SegmentReader, now};

use super::chunks::{ChunkWriter, WrittenBase};
use super::layout::{
    ArchivedSegment, Base, ENDED, EpochEnd, MANIFEST, Manifest, NEWEST, Newest, SegmentEnd, chunks_folder, is_claimed,
    is_written,
};
use super::opened::Archive;
use super::place::{FileTag, PutWhen};
use super::sealed::seal;
use super::tail::ArchiveTail;
use super::{ArchiveError, CopyProgress};

/// Minimum size of the log since the last base at which a new base is taken. Our choice: about as much log as a store
/// usually reads when it is opened.
const LOG_MIN: u64 = 64 << 20;

/// Id of a process that writes a bucket: a random number, plus a counter of attempts. The names of pieces contain it,
/// so that no two writers put a piece with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArchiveWriter(u64);

impl ArchiveWriter {
    /// Id that stands for no writer, or for a writer that is identified by a lock.
    const NOBODY: Self = Self(0);
    /// Bits of the counter of attempts.
    const COUNT: u64 = 0xffff;

    pub(crate) fn draw() -> Self {
        Self(store_embedded::files::draw_id() & !Self::COUNT | 1)
    }

    /// Returns the id for the next attempt of the same process.
    pub(crate) fn again(self) -> Self {
        Self(self.0 & !Self::COUNT | (self.0 + 1) & Self::COUNT)
    }

    /// Returns whether a recorded id belongs to another process.
    fn is_another(self, found: u64) -> bool {
        found != 0 && found & !Self::COUNT != self.0 & !Self::COUNT
    }
}

/// Returns the segment that begins with this batch.
fn beginning_with(source: &LogSource, batch: u64) -> Result<Live, ArchiveError> {
    source.live().into_iter().find(|live| live.first_batch == batch).ok_or(ArchiveError::Gap { batch })
}

/// Returns the segment that contains this batch or will contain it, or `None` if the batch would begin a segment that
/// does not exist yet.
fn holding(source: &LogSource, batch: u64) -> Result<Option<Live>, ArchiveError> {
    let live = source.live();
    match live.iter().rfind(|live| live.first_batch <= batch) {
        Some(found) => Ok(Some(found.clone())),
        None if live.is_empty() => Ok(None),
        None => Err(ArchiveError::Gap { batch }),
    }
}

/// The log segment that is being copied.
struct OpenCopy {
    from: SegmentReader,
    to: ArchiveTail,
}

/// Writer of one epoch of an archive.
pub(crate) struct Shipper {
    source: LogSource,
    archive: Archive,
    epoch: u64,
    folder: String,
    writer: ArchiveWriter,
    _lock: Option<File>,
    hold: LogHold,
    manifest: Manifest,
    manifest_tag: Option<FileTag>,
    newest: Newest,
    /// Content of `NEWEST` as it was last put, with the version of that file.
    newest_there: Option<(Newest, FileTag)>,
    copy: Option<OpenCopy>,
    /// Next batch to copy. `None` until the first base exists.
    next: Option<u64>,
    /// Segments that may have unneeded pieces, put by earlier writers.
    untidy: Vec<(u64, SegmentEnd)>,
}

impl Shipper {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the last batch that is certainly in the archive.
    pub(crate) fn shipped(&self) -> u64 {
        self.newest.batch
    }

    /// Returns the last time at which the archive contained all durable batches of the store.
    pub(crate) fn at(&self) -> UnixMs {
        self.newest.at
    }

    /// Returns whether a new base is needed. This is so if the archive is new, if its log cannot be continued, or if
    /// the log since the last base is too long.
    pub(crate) fn needs_base(&self) -> bool {
        // A new line (part of the log without gaps) has no bases until its first one is complete.
        let Some(base) = self.manifest.bases.last().filter(|base| base.line == self.manifest.line) else { return true };
        let since = self
            .manifest
            .segments
            .iter()
            .filter(|segment| segment.end.as_ref().is_none_or(|end| end.last > base.position));
        let bytes: u64 = since.map(|segment| segment.end.as_ref().map_or(self.newest.bytes, |end| end.bytes)).sum();
        self.next.is_none() || bytes > base.bytes.max(LOG_MIN)
    }

    /// Returns whether another store has taken over the archive.
    pub(crate) fn is_taken_over(&self) -> Result<bool, ArchiveError> {
        is_claimed(&self.archive, self.epoch + 1)
    }

    fn put_newest(&mut self, newest: Newest) -> Result<(), ArchiveError> {
        let newest = Newest { writer: self.writer.0, ..newest };
        let before = self.newest_there.as_ref().map(|(_, tag)| tag);
        let put = self.archive.replace_sealed(&self.folder, NEWEST, &newest, before)?;
        let Some(tag) = put else { return Err(self.displaced()?) };
        self.newest_there = Some((newest.clone(), tag));
        self.newest = newest;
        Ok(())
    }

    fn put_manifest(&mut self) -> Result<(), ArchiveError> {
        self.manifest.writer = self.writer.0;
        let put = self.archive.replace_sealed(&self.folder, MANIFEST, &self.manifest, self.manifest_tag.as_ref())?;
        let Some(tag) = put else { return Err(self.displaced()?) };
        self.manifest_tag = Some(tag);
        Ok(())
    }

    /// Returns the error for a small file that another writer has changed.
    fn displaced(&self) -> Result<ArchiveError, ArchiveError> {
        let read: Option<(Newest, FileTag)> = self.archive.read_sealed(&self.folder, NEWEST)?;
        if read.is_some_and(|(newest, _)| self.writer.is_another(newest.writer)) {
            return Ok(is_written(&self.archive, "another process, which started later"));
        }
        let why = format!("the archive `{}` was changed by another process", self.archive);
        Ok(ArchiveError::Away { why })
    }

    /// Records that the archive has no writer. The next writer then need not watch for changes first.
    pub(crate) fn release(&mut self) {
        if let Some((newest, _)) = self.newest_there.clone().filter(|_| self.archive.is_bucket()) {
            self.writer = ArchiveWriter::NOBODY;
            if let Err(error) = self.put_newest(newest) {
                tracing::debug!(%error, "cannot release the archive: its next writer will watch for this one");
            }
        }
    }

    /// Copies all new durable data, and records the new end of the archived log. Returns the last batch copied.
    pub(crate) fn catch_up(&mut self) -> Result<u64, ArchiveError> {
        let Some(mut next) = self.next else { return Ok(self.newest.batch) };
        let at = now();
        let durable = self.source.durable();
        let mut last_instant = self.newest.instant;
        while next <= durable {
            let Some(copy) = &mut self.copy else {
                self.roll(next, last_instant)?;
                continue;
            };
            let Some(frames) = copy.from.frames(copy.to.end, next, durable)? else {
                self.roll(next, last_instant)?;
                continue;
            };
            copy.to.write(&self.archive, &frames.bytes)?;
            last_instant = frames.instant.unwrap_or(last_instant);
            next = frames.last + 1;
            self.next = Some(next);
        }
        let mut newest = Newest { batch: next - 1, instant: last_instant, at, ..self.newest.clone() };
        if let Some(copy) = &mut self.copy {
            copy.to.sync(&self.archive)?;
            (newest.segment, newest.bytes, newest.pieces) = (copy.to.number, copy.to.end, copy.to.pieces());
        }
        self.archive.point("archive: newest")?;
        self.put_newest(newest)?;
        self.hold.set(self.newest.batch);
        for (number, end) in std::mem::take(&mut self.untidy) {
            if let Err(error) = self.tidy(number, &end) {
                tracing::debug!(%error, number, "cannot remove unneeded pieces");
            }
        }
        Ok(self.newest.batch)
    }

    /// Starts copying the segment whose first batch is `next`. If no segment was copied before, starts with the segment
    /// that contains `next`.
    fn roll(&mut self, next: u64, last_instant: UnixMs) -> Result<(), ArchiveError> {
        let live = beginning_with(&self.source, next)?;
        if let Some(OpenCopy { mut to, .. }) = self.copy.take() {
            to.sync(&self.archive)?;
            let pieces = to.pieces().map(|open| open.runs);
            let end = SegmentEnd { bytes: to.end, last: next - 1, instant: last_instant, pieces };
            if to.is_resumed() {
                self.untidy.push((to.number, end.clone()));
            }
            self.close_segment(to.number, end);
        }
        self.begin_segment(live.number, live.first_batch)
    }

    fn close_segment(&mut self, number: u64, end: SegmentEnd) {
        if let Some(segment) = self.manifest.segments.iter_mut().find(|segment| segment.number == number) {
            segment.end = Some(end);
        }
    }

    fn begin_segment(&mut self, number: u64, first: u64) -> Result<(), ArchiveError> {
        let is_known = |segment: &ArchivedSegment| {
            segment.number == number && (segment.end.is_some() || number == self.newest.segment)
        };
        if self.manifest.segments.iter().any(is_known) {
            return Err(ArchiveError::Refused {
                why: format!(
                    "the archive `{}` already has segment {number} of this store's log, but not as part of the \
                     shipped log: the data directory is a copy that has diverged. Ship to another directory",
                    self.archive
                ),
            });
        }
        let from = SegmentReader::open(self.source.log(), self.source.id(), number)?;
        let header = from.exactly(0, SEGMENT_HEADER)?;
        if let Err(why) = SegmentHeader::decode(&header) {
            return Err(ArchiveError::Damaged { what: format!("segment {number} of the log: {why}") });
        }
        let to = ArchiveTail::begin(&self.archive, &self.folder, number, &header, self.writer.0)?;
        self.manifest.segments.retain(|segment| segment.number != number);
        let line = self.manifest.line;
        self.manifest.segments.push(ArchivedSegment { number, first, line, end: None });
        self.archive.point("archive: manifest")?;
        self.put_manifest()?;
        self.copy = Some(OpenCopy { from, to });
        Ok(())
    }

    /// Takes a base (a snapshot of the store), and copies new data of the log in the meantime. `tick` receives the
    /// progress. If a restore is already possible, it also receives the last batch that can be restored. If `tick`
    /// returns an error, the base is given up.
    pub(crate) fn take_base(
        &mut self,
        tick: &mut dyn FnMut(CopyProgress, Option<u64>) -> Result<(), ArchiveError>,
    ) -> Result<WrittenBase, ArchiveError> {
        let snapshot = self.source.whole()?;
        // All data in redb was already durable in the log when the snapshot was taken. The base is therefore consistent
        // together with the log up to its current durable end.
        let (whole_at, instant) = (self.source.durable(), now());
        let begins_anew = self.next.is_none();
        if begins_anew {
            self.begin_at(snapshot.position)?;
        }
        let archive = self.archive.clone();
        let between_steps = archive.place.intervals().every;
        let mut writer = ChunkWriter::new(&archive, chunks_folder(&self.folder))?;
        let mut last_step = tokio::time::Instant::now();
        for pair in snapshot.map.all()? {
            let (key, value) = pair?;
            writer.put(&key, &value)?;
            if last_step.elapsed() >= between_steps {
                let shipped = Some(self.catch_up()?).filter(|_| !begins_anew);
                tick(
                    CopyProgress { pairs: writer.pairs(), pairs_in_all: snapshot.pairs, bytes: writer.bytes() },
                    shipped,
                )?;
                last_step = tokio::time::Instant::now();
            }
        }
        if writer.pairs() != snapshot.pairs {
            return Err(ArchiveError::Damaged {
                what: format!(
                    "`tree.redb` has {} of {} entries; nothing was backed up. Restore the directory from a backup",
                    writer.pairs(),
                    snapshot.pairs
                ),
            });
        }
        let written = writer.finish()?;
        self.catch_up()?;
        let (position, list, line) = (snapshot.position, written.list.clone(), self.manifest.line);
        let base = Base { position, whole_at, instant, pairs: written.pairs, bytes: written.bytes, list, line };
        self.manifest.bases.push(base);
        self.archive.point("archive: base")?;
        self.put_manifest()?;
        tick(CopyProgress { pairs: written.pairs, pairs_in_all: written.pairs, bytes: written.bytes }, None)?;
        Ok(written)
    }

    /// Begins a new line (part of the archived log without gaps). The copied log starts with the segment that contains
    /// the batch after `position`. redb contains all batches up to `position`.
    fn begin_at(&mut self, position: u64) -> Result<(), ArchiveError> {
        // The segment that was being copied ends here.
        if self.newest.segment != 0 {
            let Newest { segment, bytes, batch: last, instant, ref pieces, .. } = self.newest;
            let pieces = pieces.as_ref().map(|open| open.runs.clone());
            self.close_segment(segment, SegmentEnd { bytes, last, instant, pieces });
        }
        self.manifest.line += 1;
        // A log segment that was just created has no header yet, and contains no durable data.
        let durable = self.source.durable();
        let next = match holding(&self.source, position + 1)?.filter(|live| live.first_batch <= durable) {
            Some(live) => {
                self.begin_segment(live.number, live.first_batch)?;
                live.first_batch
            }
            None => position + 1,
        };
        self.next = Some(next);
        if self.copy.is_none() {
            let (batch, instant) = (position, now());
            self.newest = Newest { segment: 0, bytes: 0, batch, instant, pieces: None, ..self.newest.clone() };
        }
        Ok(())
    }

    /// Records that the store has stopped, and that the archive contains everything that it acknowledged.
    pub(crate) fn end(&mut self) -> Result<(), ArchiveError> {
        let batch = self.catch_up()?;
        let ended = seal(ENDED, &EpochEnd { batch })?;
        self.archive.put(&format!("{}/{ENDED}", self.folder), &ended, PutWhen::Always)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_recognizes_its_earlier_attempts() {
        let (mine, other) = (ArchiveWriter::draw(), ArchiveWriter::draw());
        let again = mine.again();
        assert_ne!(mine, again);
        assert!(!again.is_another(mine.0) && !mine.is_another(again.0) && mine.is_another(other.0));
        assert!(!mine.is_another(0), "0 means no writer");
    }
}
