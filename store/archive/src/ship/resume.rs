//! Opens an archive for writing. Determines the owner of the epoch, whether another process is writing it, and where
//! the archived log ends.

use std::time::Duration;

use tokio::time::Instant;

use super::{ArchiveWriter, OpenCopy, Shipper};
use crate::ArchiveError;
use crate::layout::{
    ArchivedSegment, LOCK, MANIFEST, Manifest, NEWEST, Newest, Owner, claim, claimed_by_another, epoch_folder, epochs,
    is_written, owner, store_text,
};
use crate::opened::Archive;
use crate::place::FileTag;
use crate::tail::{ArchiveTail, check_form};
use store_embedded::LogSource;
use store_embedded::files::{SegmentReader, now, storage_error};
use store_embedded::private::{self, LockAttempt};

/// Time without an update after which another writer is considered gone. Our choice: several times the longest interval
/// between the updates of an active writer.
const SILENT: Duration = Duration::from_secs(30);

impl Shipper {
    /// Opens this store's epoch of the archive. If the archive is new, creates its first epoch.
    pub(crate) fn open(
        source: LogSource,
        archive: &Archive,
        lease: Duration,
        writer: ArchiveWriter,
    ) -> Result<Self, ArchiveError> {
        // This hold keeps the whole log until it is known how much of the log has been copied.
        let _hold = source.hold(0);
        archive.place.prepare()?;
        let epoch = own_epoch(archive, source.id())?;
        Self::open_again(source, archive, epoch, lease, writer)
    }

    /// Opens an epoch that belongs to this store. Fails if another store has taken over the archive in the meantime.
    pub(crate) fn open_again(
        source: LogSource,
        archive: &Archive,
        epoch: u64,
        lease: Duration,
        writer: ArchiveWriter,
    ) -> Result<Self, ArchiveError> {
        let hold = source.hold(0);
        let folder = epoch_folder(epoch);
        let mut lock = None;
        if let Some(root) = archive.place.directory() {
            let path = root.join(&folder).join(LOCK);
            lock = match private::take_lock(&path).map_err(|error| storage_error(&error, "lock", &path))? {
                LockAttempt::Ours(file) => Some(file),
                LockAttempt::By(process) => return Err(is_written(archive, &format!("process {process}"))),
            };
        }
        let writer = if lock.is_none() { writer } else { ArchiveWriter::NOBODY };
        let read: Option<(Newest, FileTag)> = archive.read_sealed(&folder, NEWEST)?;
        let newest_there = read.clone();
        let newest = read.map(|(newest, _)| newest);
        if let Some(newest) = &newest
            && is_being_written(archive, &folder, newest, writer)?
        {
            return Err(is_written(archive, "another process"));
        }
        newest.as_ref().map_or(Ok(()), |newest| check_form(archive, newest))?;
        let read: Option<(Manifest, FileTag)> = archive.read_sealed(&folder, MANIFEST)?;
        let (manifest, manifest_tag) = read.unzip();
        let found = newest.is_some();
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let empty = Newest { segment: 0, bytes: 0, batch: 0, instant: 0, at: 0, lease_ms, writer: 0, pieces: None };
        let newest = Newest { lease_ms, ..newest.unwrap_or(empty) };
        let (archive, manifest) = (archive.clone(), manifest.unwrap_or_default());
        let (copy, next, untidy) = (None, None, Vec::new());
        let mut shipper = Self {
            source,
            archive,
            epoch,
            folder,
            writer,
            _lock: lock,
            hold,
            manifest,
            manifest_tag,
            newest,
            newest_there,
            copy,
            next,
            untidy,
        };
        let is_changed = found && shipper.resume()?;
        if shipper.archive.is_bucket() {
            // If a previous writer still exists, its next put fails because of these puts.
            shipper.put_newest(shipper.newest.clone())?;
            shipper.put_manifest()?;
        } else if is_changed {
            shipper.put_manifest()?;
        }
        if let Some(copy) = &mut shipper.copy {
            copy.to.trim()?;
        }
        Ok(shipper)
    }

    /// Continues at the end of the archived log if the store's log still contains this position. Otherwise a new base
    /// is needed. Returns whether the manifest must be written again.
    fn resume(&mut self) -> Result<bool, ArchiveError> {
        let durable = self.source.durable();
        if self.newest.batch > durable {
            return Err(ArchiveError::Refused {
                why: format!(
                    "the archive `{}` has batch {} of this store, but the data directory ends with batch {durable}: \
                     it is an older copy. `baton restore` creates a newer one from the archive",
                    self.archive, self.newest.batch
                ),
            });
        }
        let live = self.source.live();
        let Some(live) = live.into_iter().find(|live| live.number == self.newest.segment) else { return Ok(false) };
        let from = SegmentReader::open(self.source.log(), self.source.id(), live.number)?;
        let resumed = ArchiveTail::resume(&self.archive, &self.folder, &self.newest, &from, self.writer.0)?;
        let Some(to) = resumed else {
            return Err(ArchiveError::Refused {
                why: format!(
                    "segment {} of the archive `{}` differs from this store's log before batch {}: one of them was \
                     changed, or the data directory is a copy that has diverged. Ship to another location, and check \
                     this one with `baton backup verify`",
                    live.number, self.archive, self.newest.batch
                ),
            });
        };
        // An interrupted step may have copied more bytes than were recorded. It may even have begun the next segment.
        let is_further = |segment: &ArchivedSegment| segment.number > live.number;
        let is_changed = |it: &ArchivedSegment| is_further(it) || it.number == live.number && it.end.is_some();
        let is_changed = self.manifest.segments.iter().any(is_changed);
        self.manifest.segments.retain(|segment| !is_further(segment));
        if let Some(segment) = self.manifest.segments.iter_mut().find(|segment| segment.number == live.number) {
            segment.end = None;
        }
        self.next = Some(self.newest.batch + 1);
        self.copy = Some(OpenCopy { from, to });
        self.hold.set(self.newest.batch);
        Ok(is_changed)
    }
}

/// Watches an epoch of a bucket for changes. Returns whether another process is writing it.
fn is_being_written(
    archive: &Archive,
    folder: &str,
    newest: &Newest,
    writer: ArchiveWriter,
) -> Result<bool, ArchiveError> {
    let silent = Duration::from_millis(now().saturating_sub(newest.at));
    if !writer.is_another(newest.writer) || silent > SILENT {
        return Ok(false);
    }
    let (watch, began) = (archive.place.intervals().watch, Instant::now());
    while began.elapsed() < watch {
        std::thread::sleep(watch / 10);
        let read: Option<(Newest, FileTag)> = archive.read_sealed(folder, NEWEST)?;
        match read {
            Some((now, _)) if now.writer == 0 => return Ok(false),
            Some((now, _)) if now != *newest => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// Returns the epoch that the store owns. If the archive is new, creates its first epoch.
fn own_epoch(archive: &Archive, id: u64) -> Result<u64, ArchiveError> {
    let me = store_text(id);
    let take = |after: u64| claim(archive, after, &me)?.ok_or_else(|| claimed_by_another(archive, after + 1));
    let found = epochs(archive)?;
    let Some(newest) = found.last().copied() else { return take(0) };
    let owners = found.iter().map(|epoch| owner(archive, *epoch)).collect::<Result<Vec<_>, _>>()?;
    let is_mine = |owner: &Option<Owner>| owner.as_ref().is_some_and(|owner| owner.store == me);
    if owners.last().is_some_and(is_mine) {
        return Ok(newest);
    }
    // No store has recorded itself as the owner of any epoch, so the archive counts as new. The epochs may remain from
    // stores that died while they created them.
    if owners.iter().all(Option::is_none) {
        return take(newest);
    }
    if owners.iter().any(is_mine) {
        return Err(ArchiveError::TakenOver {
            why: format!(
                "epoch {newest} of the archive `{archive}` belongs to another store: it has taken over, and this \
                 store must not continue. The data in this directory is intact; `baton standby` turns this machine \
                 into a standby"
            ),
        });
    }
    Err(ArchiveError::Refused {
        why: format!(
            "the archive `{archive}` belongs to another store. Name another location; or, if this store was restored \
             from it and is to replace the other one, restore it with --take-over"
        ),
    })
}
