//! Reads an archive, which a service may be writing at the same time: lists its content, verifies it, and plans the
//! restore to an instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use store::UnixMs;
use store_embedded::files::{
    BatchOperation, COUNT, Frame, SEGMENT_HEADER, SegmentHeader, frame_at, instant_of, operations, salt,
};

use super::chunks::{lengths, pairs, read_chunk, read_list};
use super::layout::{
    ArchivedSegment, Base, ENDED, EpochEnd, MANIFEST, Manifest, NEWEST, Newest, chunks_folder, epoch_folder, epochs,
    owner,
};
use super::opened::Archive;
use super::pieces::{SegmentView, ViewedPieces, read_log};
use super::place::FileTag;
use super::{ArchiveAddress, ArchiveError, CopyProgress};

/// Content of an epoch of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochReport {
    /// Number of the epoch.
    pub epoch: u64,
    /// Id of the store that writes the epoch.
    pub store: String,
    /// Number of bases, which are snapshots of the store.
    pub bases: usize,
    /// Total size of the chunks of these bases.
    pub chunk_bytes: u64,
    /// Number of log segments.
    pub segments: usize,
    /// Bytes of these segments.
    pub log_bytes: u64,
    /// Number of batches of commits in these segments.
    pub batches: u64,
    /// Periods in milliseconds since 1970, oldest first. The store can be restored to any instant within a period.
    pub spans: Vec<(UnixMs, UnixMs)>,
    /// Number of runs in the store at the end of the last of these periods.
    pub runs: u64,
    /// True if the store has recorded that it stopped and that the archive is complete.
    pub has_ended: bool,
}

/// An epoch, as described by its small files.
#[derive(Debug, Clone)]
pub(crate) struct EpochView {
    pub(crate) archive: Archive,
    pub(crate) epoch: u64,
    pub(crate) store: String,
    id: u64,
    folder: String,
    pub(crate) manifest: Manifest,
    pub(crate) newest: Newest,
    pub(crate) ended: Option<EpochEnd>,
}

/// Position of a reader in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadCursor {
    segment: u64,
    offset: u64,
    /// Number of the batch that begins at this position.
    next: u64,
}

/// Base and batches needed for a restore.
#[derive(Debug, Clone)]
pub(crate) struct RestorePlan {
    pub(crate) view: EpochView,
    pub(crate) base: Base,
    pub(crate) batch: u64,
    pub(crate) instant: UnixMs,
}

/// Returns the epochs that have a base, oldest first.
pub(crate) fn read_epochs(archive: &Archive) -> Result<Vec<EpochView>, ArchiveError> {
    if !archive.place.is_there()? {
        return Err(ArchiveError::Refused { why: format!("there is no archive `{archive}`") });
    }
    let mut views = Vec::new();
    for epoch in epochs(archive)? {
        views.extend(EpochView::read(archive, epoch)?);
    }
    if views.is_empty() {
        return Err(no_archive(archive));
    }
    Ok(views)
}

/// Returns the error for an archive from which nothing can be restored.
pub(crate) fn no_archive(archive: &Archive) -> ArchiveError {
    let why = format!("`{archive}` is not an archive, or does not contain a complete base yet");
    ArchiveError::Refused { why }
}

impl EpochView {
    /// Reads the small files of an epoch. Returns `None` if the epoch has no base yet.
    pub(crate) fn read(archive: &Archive, epoch: u64) -> Result<Option<Self>, ArchiveError> {
        let folder = epoch_folder(epoch);
        let Some(owner) = owner(archive, epoch)? else { return Ok(None) };
        let damaged = |what: &str| ArchiveError::Damaged { what: format!("`{}` {what}", archive.shown(&folder)) };
        let id = u64::from_str_radix(&owner.store, 16).map_err(|_| damaged("has an owner without an id"))?;
        // `ENDED` is read first, so that the content that is read afterwards is not older.
        let ended = sealed(archive, &folder, ENDED)?;
        let newest: Option<Newest> = sealed(archive, &folder, NEWEST)?;
        let manifest: Manifest = sealed(archive, &folder, MANIFEST)?.unwrap_or_default();
        if manifest.bases.is_empty() {
            return Ok(None);
        }
        let newest = newest.ok_or_else(|| damaged("has bases but no NEWEST: it is incomplete"))?;
        let (archive, store) = (archive.clone(), owner.store);
        Ok(Some(Self { archive, epoch, store, id, folder, manifest, newest, ended }))
    }

    fn segments(&self) -> Vec<SegmentView> {
        let view = |segment: &ArchivedSegment| {
            let (number, first, line) = (segment.number, segment.first, segment.line);
            match &segment.end {
                Some(end) => {
                    let pieces = end.pieces.clone().map(|runs| ViewedPieces { runs, tail: None });
                    Some(SegmentView { number, first, line, bytes: end.bytes, last: end.last, pieces })
                }
                None if number == self.newest.segment => {
                    let Newest { bytes, batch: last, ref pieces, .. } = self.newest;
                    let viewed = |open: &super::layout::OpenPieces| ViewedPieces {
                        runs: open.runs.clone(),
                        tail: Some(open.tail),
                    };
                    let pieces = pieces.as_ref().map(viewed);
                    Some(SegmentView { number, first, line, bytes, last, pieces })
                }
                // The segment was begun after `NEWEST` was read, so its current end is unknown.
                None => None,
            }
        };
        self.manifest.segments.iter().filter_map(view).collect()
    }

    /// Returns the segments that continue a base without a gap.
    fn run_of(&self, base: &Base) -> Vec<SegmentView> {
        let mut next = base.position + 1;
        let mut run = Vec::new();
        let is_behind = |segment: &SegmentView| segment.line == base.line && segment.last > base.position;
        for segment in self.segments().into_iter().filter(is_behind) {
            if segment.first > next {
                break;
            }
            next = segment.last + 1;
            run.push(segment);
        }
        run
    }

    /// Returns the last batch that can be restored with this base.
    fn end_of(&self, base: &Base) -> u64 {
        self.run_of(base).last().map_or(base.position, |segment| segment.last)
    }

    /// Returns the newest base with which a consistent state can be restored.
    pub(crate) fn last_base(&self) -> Option<&Base> {
        self.manifest.bases.iter().rfind(|base| base.whole_at <= self.end_of(base))
    }

    /// Returns the last batch that can be restored.
    pub(crate) fn end(&self) -> u64 {
        self.last_base().map_or(0, |base| self.end_of(base))
    }

    /// Returns whether the archived log contains batch `next` in this line (a log without gaps), so that a reader of
    /// the line can continue.
    pub(crate) fn continues(&self, line: u64, next: u64) -> bool {
        let has = |it: &SegmentView| it.line == line && it.first <= next && next <= it.last;
        let is_newest = self.last_base().is_some_and(|base| base.line == line);
        is_newest && (next == self.newest.batch + 1 || self.segments().iter().any(has))
    }

    /// Passes each batch of a segment to `each`, and advances the cursor. If the cursor is in this segment, reading
    /// starts at the cursor.
    fn frames(
        &self,
        segment: &SegmentView,
        cursor: &mut ReadCursor,
        mut each: impl FnMut(&Frame<'_>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let salt = salt(self.id, segment.number);
        let is_begun = cursor.segment == segment.number;
        let from = if is_begun { cursor.offset } else { 0 };
        let read = read_log(&self.archive, &self.folder, segment, from)?;
        let damaged = |offset: u64, what: &str| {
            let name = self.archive.shown(read.name_at(offset));
            ArchiveError::Damaged { what: format!("`{name}` {what}") }
        };
        let mut offset = 0;
        if !is_begun {
            let header = read.bytes.first_chunk::<SEGMENT_HEADER>().ok_or_else(|| damaged(0, "is truncated"))?;
            let header =
                SegmentHeader::decode(header).map_err(|why| damaged(0, &format!("is not a segment: {why}")))?;
            if header.salt != salt || header.first_batch != segment.first {
                return Err(damaged(0, "is a segment of another store, or of another position in this one"));
            }
            offset = SEGMENT_HEADER;
            *cursor = ReadCursor { segment: segment.number, offset: offset as u64, next: segment.first };
        }
        while cursor.next <= segment.last {
            let next = cursor.next;
            let rest = read.bytes.get(offset..).unwrap_or_default();
            let Some(frame) = frame_at(rest, salt, next..next + 1) else {
                let what = format!("was changed: batch {next} at offset {} cannot be read", cursor.offset);
                return Err(damaged(cursor.offset, &what));
            };
            each(&frame)?;
            offset += frame.size;
            cursor.offset += frame.size as u64;
            cursor.next = next + 1;
        }
        Ok(())
    }

    /// Passes the batches of a line (a log without gaps) from `next` to `last` to `each`. `cursor` remembers the
    /// position between calls.
    pub(crate) fn batches(
        &self,
        line: u64,
        next: u64,
        last: u64,
        cursor: &mut ReadCursor,
        mut each: impl FnMut(&Frame<'_>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut expected = next;
        if cursor.next > next {
            *cursor = ReadCursor::default();
        }
        let is_wanted = |it: &SegmentView| it.line == line && it.last >= next && it.first <= last;
        for segment in self.segments().into_iter().filter(is_wanted) {
            self.frames(&segment, cursor, |frame| {
                if frame.batch == expected && frame.batch <= last {
                    expected += 1;
                    return each(frame);
                }
                Ok(())
            })?;
        }
        if expected <= last { Err(ArchiveError::Gap { batch: expected }) } else { Ok(()) }
    }

    /// Passes each pair of a base to `each`.
    pub(crate) fn base_pairs(
        &self,
        base: &Base,
        mut each: impl FnMut(Bytes, Bytes, u64) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let folder = chunks_folder(&self.folder);
        let (mut read, mut bytes) = (0, 0);
        for name in read_list(&self.archive, &folder, &base.list)? {
            let chunk = read_chunk(&self.archive, &folder, &name)?;
            bytes += chunk.len() as u64;
            for (key, value) in pairs(&chunk)? {
                read += 1;
                each(key, value, bytes)?;
            }
        }
        if read == base.pairs {
            return Ok(());
        }
        let shown = self.archive.shown(&self.folder);
        let what = format!("a base of `{shown}` should have {} pairs, but has {read}", base.pairs);
        Err(ArchiveError::Damaged { what })
    }

    /// Returns the plan to restore this base and the batches after it: up to the instant `to`, or all batches if `to`
    /// is `None`. Returns `None` if the base is newer than the instant.
    fn plan(&self, base: &Base, to: Option<UnixMs>) -> Result<Option<RestorePlan>, ArchiveError> {
        let end = self.end_of(base);
        if end < base.whole_at {
            return Ok(None);
        }
        let wanted = to.unwrap_or(UnixMs::MAX);
        let mut found = (base.instant <= wanted || to.is_none()).then_some((base.whole_at, base.instant));
        let mut last_known = None;
        let read = self.batches(base.line, base.position + 1, end, &mut ReadCursor::default(), |frame| {
            let at = instant_of(frame).or(last_known);
            last_known = at;
            if frame.batch >= base.whole_at && at.unwrap_or_default() <= wanted {
                found = Some((frame.batch, at.unwrap_or(base.instant)));
            }
            Ok(())
        });
        // A failure to read batches after the wanted instant does not matter.
        if last_known.is_none_or(|at| at <= wanted) {
            read?;
        }
        let (base, view) = (base.clone(), self.clone());
        Ok(found.map(|(batch, instant)| RestorePlan { view, base, batch, instant }))
    }

    /// Verifies an epoch by reading all of its data.
    pub(crate) fn verify(&self, tick: &mut dyn FnMut(CopyProgress)) -> Result<EpochReport, ArchiveError> {
        let mut counts = BTreeMap::new();
        let mut chunk_bytes = 0;
        let mut seen = std::collections::BTreeSet::new();
        let last = self.last_base();
        let in_all: u64 = self.manifest.bases.iter().map(|base| base.pairs).sum();
        let mut read = 0;
        for base in &self.manifest.bases {
            // Bases with the same list of chunks are read only once. Other bases are read completely, even if they
            // share chunks. Shared chunks are counted once.
            if !seen.insert(base.list.clone()) {
                continue;
            }
            self.base_pairs(base, |key, value, bytes| {
                read += 1;
                if read % 10_000 == 0 {
                    tick(CopyProgress { pairs: read, pairs_in_all: in_all, bytes });
                }
                if Some(base) == last && key.first() == Some(&COUNT) {
                    counts.insert(key.to_vec(), value.to_vec());
                }
                Ok(())
            })?;
        }
        let folder = chunks_folder(&self.folder);
        let lengths = lengths(&self.archive, &folder)?;
        for base in &self.manifest.bases {
            for name in read_list(&self.archive, &folder, &base.list)? {
                let length = lengths.get(&name).copied().unwrap_or_default();
                chunk_bytes += if seen.insert(name) { length } else { 0 };
            }
        }
        let (mut batches, mut log_bytes) = (0, 0);
        let segments = self.segments();
        for segment in &segments {
            log_bytes += segment.bytes;
            self.frames(segment, &mut ReadCursor::default(), |frame| {
                batches += 1;
                if last.is_some_and(|base| base.line == segment.line && frame.batch > base.position) {
                    count(&mut counts, frame)?;
                }
                Ok(())
            })?;
        }
        Ok(EpochReport {
            epoch: self.epoch,
            store: self.store.clone(),
            bases: self.manifest.bases.len(),
            chunk_bytes,
            segments: segments.len(),
            log_bytes,
            batches,
            spans: self.spans()?,
            runs: counts.values().filter_map(|value| value.as_slice().try_into().ok()).map(u64::from_be_bytes).sum(),
            has_ended: self.ended.is_some(),
        })
    }

    /// Returns the periods within which the store can be restored to any instant.
    fn spans(&self) -> Result<Vec<(UnixMs, UnixMs)>, ArchiveError> {
        let mut spans: Vec<((u64, u64), (UnixMs, UnixMs))> = Vec::new();
        for base in &self.manifest.bases {
            let end = self.end_of(base);
            if end < base.whole_at || spans.last().is_some_and(|(known, _)| *known == (base.line, end)) {
                continue;
            }
            let (mut from, mut to) = (None, base.instant);
            self.batches(base.line, base.position + 1, end, &mut ReadCursor::default(), |frame| {
                if let Some(at) = instant_of(frame) {
                    if frame.batch >= base.whole_at {
                        from = from.or(Some(at));
                    }
                    to = to.max(at);
                }
                Ok(())
            })?;
            // Until `newest.at`, the archive was complete and the store had no further batches.
            if base.line == self.manifest.line && end == self.newest.batch {
                to = to.max(self.newest.at);
            }
            spans.push(((base.line, end), (from.unwrap_or(base.instant).min(base.instant), to)));
        }
        Ok(spans.into_iter().map(|(_, span)| span).collect())
    }
}

/// Applies the operations of a batch to the stored counts of rows. Other operations are ignored.
fn count(counts: &mut BTreeMap<Vec<u8>, Vec<u8>>, frame: &Frame<'_>) -> Result<(), ArchiveError> {
    for operation in operations(frame.operations) {
        match operation? {
            BatchOperation::Put { key, value, .. } if key.first() == Some(&COUNT) => {
                counts.insert(key.to_vec(), value.to_vec());
            }
            BatchOperation::Delete { key } if key.first() == Some(&COUNT) => {
                counts.remove(key);
            }
            BatchOperation::Put { .. } | BatchOperation::Delete { .. } => {}
        }
    }
    Ok(())
}

fn sealed<T: DeserializeOwned>(archive: &Archive, folder: &str, name: &str) -> Result<Option<T>, ArchiveError> {
    let read: Option<(T, FileTag)> = archive.read_sealed(folder, name)?;
    Ok(read.map(|(value, _)| value))
}

/// Returns the plan to restore the archive to an instant, or to its end if `to` is `None`.
pub(crate) fn plan(archive: &Archive, to: Option<UnixMs>) -> Result<RestorePlan, ArchiveError> {
    let views = read_epochs(archive)?;
    for view in views.iter().rev() {
        for base in view.manifest.bases.iter().rev() {
            if let Some(plan) = view.plan(base, to)? {
                return Ok(plan);
            }
        }
    }
    let first = views.iter().flat_map(|view| &view.manifest.bases).map(|base| base.instant).min();
    Err(ArchiveError::TooEarly { archive: archive.address.clone(), first: first.unwrap_or_default() })
}

/// Verifies an archive by reading all of its data. Returns the content of each epoch, oldest first. `tick` receives the
/// progress.
///
/// # Errors
///
/// * [`ArchiveError::Damaged`] for the first file that is truncated, was changed, or has an unknown format.
/// * [`ArchiveError::Refused`] if there is no archive.
/// * [`ArchiveError::Away`] if the archive cannot be read.
pub fn verify(
    archive: impl Into<ArchiveAddress>,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<Vec<EpochReport>, ArchiveError> {
    let archive = Archive::open(&archive.into(), &Arc::default())?;
    read_epochs(&archive)?.iter().map(|view| view.verify(tick)).collect()
}
