//! Brings an archive up to a store: segments of the log as far as they are durable, bases, and what has become too old.
//! Owns the order of the steps that makes an end between any two of them harmless: a file first, then what names it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::UnixMs;

use super::chunks::{ChunkWriter, WrittenBase};
use super::holds::LogHold;
use super::layout::{
    ArchivedSegment, Base, ENDED, EpochEnd, LOCK, MANIFEST, Manifest, NEWEST, Newest, SegmentEnd, chunks_path, claim,
    epoch_path, epochs, is_archive_or_empty, owner, segments_path, store_text,
};
use super::sealed::{Files, read_sealed};
use super::source::{LogSource, SegmentReader};
use super::{ArchiveError, CopyProgress};
use crate::disk::storage_error;
use crate::frame::{SEGMENT_HEADER, SegmentHeader};
use crate::instant;
use crate::log::{segment_path, sync_directory};
use crate::private::{self, LockAttempt};

/// How often the log is shipped while a base is written.
const BETWEEN_STEPS: Duration = Duration::from_millis(100);
/// A new base is taken when at least so much log has come since the last. Ours: what a start may have to read as a rule.
const LOG_MIN: u64 = 64 << 20;
/// How much is compared at a time.
const COMPARE_BYTES: usize = 1 << 20;

/// A segment that is being copied.
struct OpenCopy {
    from: SegmentReader,
    to: File,
    number: u64,
    end: u64,
}

/// Writes one epoch of an archive.
pub(crate) struct Shipper {
    source: LogSource,
    root: PathBuf,
    epoch: u64,
    directory: PathBuf,
    files: Files,
    _lock: File,
    hold: LogHold,
    manifest: Manifest,
    newest: Newest,
    copy: Option<OpenCopy>,
    /// The next batch to be copied; `None` before there is a base.
    next: Option<u64>,
}

impl Shipper {
    /// The epoch that is this store's, made if the archive is new.
    pub(crate) fn open(source: LogSource, root: &Path, files: Files, lease: Duration) -> Result<Self, ArchiveError> {
        // Nothing that may have to be copied goes away while it is found out what has.
        let _hold = source.shared.segments.holds.hold(0);
        private::directory(root, || is_archive_or_empty(root))?;
        let epoch = own_epoch(root, &files, source.id)?;
        Self::open_again(source, root, epoch, files, lease)
    }

    /// An epoch that is known to be this store's, although another may have taken over since.
    pub(crate) fn open_again(
        source: LogSource,
        root: &Path,
        epoch: u64,
        files: Files,
        lease: Duration,
    ) -> Result<Self, ArchiveError> {
        let hold = source.shared.segments.holds.hold(0);
        let directory = epoch_path(root, epoch);
        let lock = directory.join(LOCK);
        let lock = match private::take_lock(&lock).map_err(|error| storage_error(&error, "lock", &lock))? {
            LockAttempt::Ours(file) => file,
            LockAttempt::By(process) => {
                let why = format!("the archive `{}` is being written by process {process}", root.display());
                return Err(ArchiveError::Refused { why });
            }
        };
        let manifest: Manifest = read_sealed(&directory, MANIFEST)?.unwrap_or_default();
        let newest: Option<Newest> = read_sealed(&directory, NEWEST)?;
        let found = newest.is_some();
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let empty = Newest { segment: 0, bytes: 0, batch: 0, instant: 0, at: 0, lease_ms };
        let newest = Newest { lease_ms, ..newest.unwrap_or(empty) };
        let root = root.to_owned();
        let (copy, next) = (None, None);
        let mut shipper =
            Self { source, root, epoch, directory, files, _lock: lock, hold, manifest, newest, copy, next };
        if found {
            shipper.resume()?;
        }
        Ok(shipper)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last batch that is in the archive for certain.
    pub(crate) fn shipped(&self) -> u64 {
        self.newest.batch
    }

    /// When everything that was durable was there.
    pub(crate) fn at(&self) -> UnixMs {
        self.newest.at
    }

    /// Whether nothing can go on where the archive ends: it begins, again, with a base.
    pub(crate) fn needs_base(&self) -> bool {
        let Some(base) = self.manifest.bases.last() else { return true };
        let since =
            self.manifest.segments.iter().filter(|segment| segment.end.is_none_or(|end| end.last > base.position));
        let bytes: u64 = since.map(|segment| segment.end.map_or(self.newest.bytes, |end| end.bytes)).sum();
        self.next.is_none() || bytes > base.bytes.max(LOG_MIN)
    }

    /// Whether somebody has taken over.
    pub(crate) fn is_taken_over(&self) -> Result<bool, ArchiveError> {
        let next = epoch_path(&self.root, self.epoch + 1);
        next.try_exists().map_err(|error| storage_error(&error, "look for", &next).into())
    }

    fn failed<'a>(&'a self, doing: &'static str) -> impl Fn(io::Error) -> ArchiveError + 'a {
        move |error| storage_error(&error, doing, &self.directory).into()
    }

    /// Goes on where the archive ends, where the log still has that place; else it begins again.
    fn resume(&mut self) -> Result<(), ArchiveError> {
        let durable = self.source.durable();
        if self.newest.batch > durable {
            return Err(ArchiveError::Refused {
                why: format!(
                    "the archive `{}` has batch {} of this store, and the data directory ends with batch {durable}: it is an \
                     older copy. `baton restore` makes a newer one from the archive",
                    self.root.display(),
                    self.newest.batch
                ),
            });
        }
        let live = self.source.shared.segments.live();
        let Some(live) = live.into_iter().find(|live| live.number == self.newest.segment) else { return Ok(()) };
        let from = self.source.open(live.number)?;
        let path = segment_path(&segments_path(&self.directory), live.number);
        let failed = |error: io::Error| storage_error(&error, "write", &path);
        let mut to = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        if !is_same(&from, &to, self.newest.bytes).map_err(|error| error.or(failed))? {
            return Err(ArchiveError::Refused {
                why: format!(
                    "`{}` and this store's log are not the same up to batch {}: one of them was changed, or the data directory \
                     is a copy that has gone another way. Ship to another directory, and look at this one with \
                     `baton backup verify`",
                    path.display(),
                    self.newest.batch
                ),
            });
        }
        // A step that was cut short has left its bytes behind, and may have gone over to the next segment already.
        let is_further = |segment: &ArchivedSegment| segment.number > live.number;
        if self.manifest.segments.iter().any(|it| is_further(it) || it.number == live.number && it.end.is_some()) {
            self.manifest.segments.retain(|segment| !is_further(segment));
            if let Some(segment) = self.manifest.segments.iter_mut().find(|segment| segment.number == live.number) {
                segment.end = None;
            }
            self.files.write_sealed(&self.directory, MANIFEST, &self.manifest)?;
        }
        to.set_len(self.newest.bytes).map_err(failed)?;
        to.seek(SeekFrom::End(0)).map_err(failed)?;
        self.next = Some(self.newest.batch + 1);
        self.copy = Some(OpenCopy { from, to, number: live.number, end: self.newest.bytes });
        self.hold.set(self.newest.batch);
        Ok(())
    }

    /// Copies what is durable and not there yet, and says so; answers how far.
    pub(crate) fn catch_up(&mut self) -> Result<u64, ArchiveError> {
        let Some(mut next) = self.next else { return Ok(self.newest.batch) };
        let at = instant::now();
        let durable = self.source.durable();
        let mut last_instant = self.newest.instant;
        while next <= durable {
            let Some(copy) = &mut self.copy else {
                self.roll(next, last_instant)?;
                continue;
            };
            let Some(frames) = copy.from.frames(copy.end, next, durable)? else {
                self.roll(next, last_instant)?;
                continue;
            };
            let written = self.files.write(&mut copy.to, &frames.bytes);
            written.map_err(|error| storage_error(&error, "write the log to", &self.directory))?;
            copy.end += frames.bytes.len() as u64;
            last_instant = frames.instant.unwrap_or(last_instant);
            next = frames.last + 1;
            self.next = Some(next);
        }
        if let Some(copy) = &self.copy {
            self.files.sync(&copy.to).map_err(self.failed("write the log to"))?;
            self.newest.segment = copy.number;
            self.newest.bytes = copy.end;
        }
        self.files.faults.point("archive: newest").map_err(self.failed("write"))?;
        let newest = Newest { batch: next - 1, instant: last_instant, at, ..self.newest.clone() };
        self.files.write_sealed(&self.directory, NEWEST, &newest)?;
        self.newest = newest;
        self.hold.set(self.newest.batch);
        Ok(self.newest.batch)
    }

    /// Goes over to the segment that begins with `next`; before there was one, to the one that holds it.
    fn roll(&mut self, next: u64, last_instant: UnixMs) -> Result<(), ArchiveError> {
        let live = self.source.beginning_with(next).ok_or(ArchiveError::Gap { batch: next })?;
        if let Some(before) = self.copy.take() {
            self.files.sync(&before.to).map_err(self.failed("write the log to"))?;
            self.close_segment(before.number, SegmentEnd { bytes: before.end, last: next - 1, instant: last_instant });
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
                    "the archive `{}` has segment {number} of this store's log already, and not as a part of what is shipped: the \
                     data directory is a copy that has gone another way. Ship to another directory",
                    self.root.display()
                ),
            });
        }
        let from = self.source.open(number)?;
        let directory = segments_path(&self.directory);
        let path = segment_path(&directory, number);
        let failed = |error: io::Error| storage_error(&error, "write", &path);
        let mut to = private::create(&path).map_err(failed)?;
        let header = from.header()?;
        if let Err(why) = SegmentHeader::decode(&header) {
            return Err(ArchiveError::Damaged { what: format!("segment {number} of the log: {why}") });
        }
        self.files.write(&mut to, &header).map_err(failed)?;
        self.files.sync(&to).map_err(failed)?;
        sync_directory(&directory).map_err(failed)?;
        self.manifest.segments.retain(|segment| segment.number != number);
        let line = self.manifest.line;
        self.manifest.segments.push(ArchivedSegment { number, first, line, end: None });
        self.files.faults.point("archive: manifest").map_err(failed)?;
        self.files.write_sealed(&self.directory, MANIFEST, &self.manifest)?;
        self.copy = Some(OpenCopy { from, to, number, end: SEGMENT_HEADER as u64 });
        Ok(())
    }

    /// Takes a base, with the log shipped meanwhile. `tick` is told how far it is, and up to which batch the archive can be
    /// restored already, if it can; and may end it.
    pub(crate) fn take_base(
        &mut self,
        tick: &mut dyn FnMut(CopyProgress, Option<u64>) -> Result<(), ArchiveError>,
    ) -> Result<WrittenBase, ArchiveError> {
        let snapshot = self.source.shared.tree.whole()?;
        // All that redb has was durable before.
        let (whole_at, instant) = (self.source.durable(), instant::now());
        let begins_anew = self.next.is_none();
        if begins_anew {
            self.begin_at(snapshot.position)?;
        }
        let files = self.files.clone();
        let mut writer = ChunkWriter::new(&files, chunks_path(&self.directory));
        let mut last_step = tokio::time::Instant::now();
        for pair in snapshot.map.all()? {
            let (key, value) = pair?;
            writer.put(&key, &value)?;
            if last_step.elapsed() >= BETWEEN_STEPS {
                let shipped = Some(self.catch_up()?).filter(|_| !begins_anew);
                tick(
                    CopyProgress { pairs: writer.pairs(), pairs_in_all: snapshot.pairs, bytes: writer.bytes() },
                    shipped,
                )?;
                last_step = tokio::time::Instant::now();
            }
        }
        let written = writer.finish()?;
        self.catch_up()?;
        let (position, list, line) = (snapshot.position, written.list.clone(), self.manifest.line);
        let base = Base { position, whole_at, instant, pairs: written.pairs, bytes: written.bytes, list, line };
        self.manifest.bases.push(base);
        self.files.faults.point("archive: base").map_err(self.failed("write"))?;
        self.files.write_sealed(&self.directory, MANIFEST, &self.manifest)?;
        tick(CopyProgress { pairs: written.pairs, pairs_in_all: written.pairs, bytes: written.bytes }, None)?;
        Ok(written)
    }

    /// Has the log begin with what redb does not have at this position.
    fn begin_at(&mut self, position: u64) -> Result<(), ArchiveError> {
        // What was being written before is not gone on with.
        if self.newest.segment != 0 {
            let end = SegmentEnd { bytes: self.newest.bytes, last: self.newest.batch, instant: self.newest.instant };
            self.close_segment(self.newest.segment, end);
        }
        self.manifest.line += 1;
        // One that has just been begun has no header yet, and nothing that is durable.
        let durable = self.source.durable();
        let next = match self.source.holding(position + 1)?.filter(|live| live.first_batch <= durable) {
            Some(live) => {
                self.begin_segment(live.number, live.first_batch)?;
                live.first_batch
            }
            None => position + 1,
        };
        self.next = Some(next);
        if self.copy.is_none() {
            self.newest =
                Newest { segment: 0, bytes: 0, batch: position, instant: instant::now(), ..self.newest.clone() };
        }
        Ok(())
    }

    /// Removes what no restore to an instant within `keep` needs.
    pub(crate) fn forget(&mut self, keep: Duration) -> Result<(), ArchiveError> {
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let since = instant::now().saturating_sub(keep);
        let Some(first) = self.manifest.bases.iter().rposition(|base| base.instant <= since).filter(|first| *first > 0)
        else {
            return Ok(());
        };
        self.manifest.bases.drain(..first);
        let position = self.manifest.bases.first().map_or(0, |base| base.position);
        let is_old = |segment: &ArchivedSegment| segment.end.is_some_and(|end| end.last <= position);
        let (old, kept) = std::mem::take(&mut self.manifest.segments).into_iter().partition::<Vec<_>, _>(is_old);
        self.manifest.segments = kept;
        self.files.write_sealed(&self.directory, MANIFEST, &self.manifest)?;
        for segment in old {
            let path = segment_path(&segments_path(&self.directory), segment.number);
            remove(&path).map_err(self.failed("remove what is too old from"))?;
        }
        self.forget_chunks()
    }

    fn forget_chunks(&self) -> Result<(), ArchiveError> {
        let directory = chunks_path(&self.directory);
        let mut kept = std::collections::BTreeSet::new();
        for base in &self.manifest.bases {
            kept.extend(super::chunks::read_list(&directory, &base.list)?);
            kept.insert(base.list.clone());
        }
        let failed = self.failed("remove what is too old from");
        for entry in std::fs::read_dir(&directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            if entry.file_name().to_str().is_some_and(|name| !kept.contains(name)) {
                remove(&entry.path()).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Says that the store has stopped, and that all it has acknowledged is here.
    pub(crate) fn end(&mut self) -> Result<(), ArchiveError> {
        let batch = self.catch_up()?;
        Ok(self.files.write_sealed(&self.directory, ENDED, &EpochEnd { batch })?)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The epoch of an archive that is a store's own; the first is made where there is none.
fn own_epoch(root: &Path, files: &Files, id: u64) -> Result<u64, ArchiveError> {
    let me = store_text(id);
    let found = epochs(root)?;
    let Some(newest) = found.last().copied() else { return Ok(claim(root, files, 0, &me)?) };
    let owners = found.iter().map(|epoch| owner(root, *epoch)).collect::<Result<Vec<_>, _>>()?;
    let is_mine = |owner: &Option<super::layout::Owner>| owner.as_ref().is_some_and(|owner| owner.store == me);
    if owners.last().is_some_and(is_mine) {
        return Ok(newest);
    }
    // Whoever began has not come as far as saying who it is, and nobody was before.
    if owners.iter().all(Option::is_none) {
        return Ok(claim(root, files, newest, &me)?);
    }
    let root = root.display();
    if owners.iter().any(is_mine) {
        return Err(ArchiveError::TakenOver {
            why: format!(
                "epoch {newest} of the archive `{root}` is another store's: that has taken over, and this one must not go on. What \
                 this data directory has is all there still; `baton standby` makes a standby of this machine"
            ),
        });
    }
    Err(ArchiveError::Refused {
        why: format!(
            "the archive `{root}` is another store's. Name another directory; or, for a store that was restored from it and is to \
             go on in its place, restore with --take-over"
        ),
    })
}

/// What comparing files ends with.
enum CompareError {
    Archive(ArchiveError),
    Io(io::Error),
}

impl CompareError {
    fn or(self, failed: impl FnOnce(io::Error) -> store::Error) -> ArchiveError {
        match self {
            Self::Archive(error) => error,
            Self::Io(error) => failed(error).into(),
        }
    }
}

/// Whether both have the same so far.
fn is_same(from: &SegmentReader, to: &File, bytes: u64) -> Result<bool, CompareError> {
    let mut offset = 0;
    while offset < bytes {
        let length = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(COMPARE_BYTES);
        let ours = from.exactly(offset, length).map_err(CompareError::Archive)?;
        let mut theirs = vec![0; ours.len()];
        match to.read_exact_at(&mut theirs, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read.map_err(CompareError::Io)?,
        }
        if ours.len() < length || ours != theirs {
            return Ok(false);
        }
        offset += length as u64;
    }
    Ok(true)
}
