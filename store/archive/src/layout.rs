//! The layout of an archive: it has one folder per epoch, with small files about the content. An epoch is the time in
//! which one store writes the archive; that store is its owner.
//!
//! ```text
//! ARCHIVE/0000000001/OWNER      owner of the epoch; written once
//!                    LOCK       lock of the writer; only in a directory
//!                    MANIFEST   bases and segments
//!                    NEWEST     current end of the log
//!                    ENDED      the owner has stopped, and the archive contains everything that it acknowledged
//!                    chunks/    the bases (snapshots of the store) in chunks, each named by its SHA-256
//!                    log/       copies of the store's log segments; in a bucket, one folder of pieces per segment
//! ```

use serde::{Deserialize, Serialize};
use store::UnixMs;

use super::ArchiveError;
use super::names::{CHUNKS, LOG, OWNER};
use super::opened::Archive;
use super::place::FileTag;
use store_embedded::files::segment_name;

pub(super) const MANIFEST: &str = "MANIFEST";
pub(super) const NEWEST: &str = "NEWEST";
pub(super) const ENDED: &str = "ENDED";
pub(super) const LOCK: &str = "LOCK";

/// Owner of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Id of the store in hexadecimal.
    pub(crate) store: String,
    pub(crate) epoch: u64,
}

/// List of the content of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Number of the newest line. A line is a part of the archived log without gaps. If the log cannot be continued, a
    /// new line begins, with a new base.
    pub(crate) line: u64,
    /// Bases, oldest first.
    pub(crate) bases: Vec<Base>,
    /// Segments, oldest first.
    pub(crate) segments: Vec<ArchivedSegment>,
    /// Id of the process that writes this file. 0 in a directory, where a lock identifies the writer.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub(crate) writer: u64,
}

/// A base: a snapshot of the store's key-value pairs. Commits continue while the snapshot is read, so the base may
/// contain parts of batches after `position`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// Last batch that is completely in the base.
    pub(crate) position: u64,
    /// Last batch of which the base may contain parts. The base, together with the log up to this batch, is a
    /// consistent state of the store.
    pub(crate) whole_at: u64,
    /// Latest possible time of the consistent state that the base and the log up to `whole_at` form.
    pub(crate) instant: UnixMs,
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// Name of the chunk that lists all other chunks.
    pub(crate) list: String,
    /// Line (part of the log without gaps) whose segments continue this base.
    pub(crate) line: u64,
}

/// A segment of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedSegment {
    pub(crate) number: u64,
    pub(crate) first: u64,
    /// Line (part of the log without gaps) to which the segment belongs. A segment continues only segments of the same
    /// line.
    pub(crate) line: u64,
    /// End of the segment. Absent while the segment is being written: `NEWEST` then contains the current end.
    pub(crate) end: Option<SegmentEnd>,
}

/// End of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEnd {
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    pub(crate) instant: UnixMs,
    /// Writers of the segment's pieces; absent if the segment is a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<Vec<PieceRun>>,
}

/// Consecutive pieces of a segment that were written by one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceRun {
    pub(crate) writer: u64,
    /// Offset of the first of these pieces in the segment.
    pub(crate) from: u64,
}

/// Pieces of the segment that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenPieces {
    pub(crate) runs: Vec<PieceRun>,
    /// Offset of the last piece. If the last piece is complete, offset of the next piece.
    pub(crate) tail: u64,
    /// Digest of all bytes of the segment so far. A store compares it with its own log before it continues to write the
    /// segment.
    pub(crate) sha256: String,
}

/// Current end of the archived log, and the time of the last update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest {
    /// Number of the segment that is being written; 0 if there is none yet.
    pub(crate) segment: u64,
    pub(crate) bytes: u64,
    pub(crate) batch: u64,
    /// Time of the last batch.
    pub(crate) instant: UnixMs,
    /// Last time at which the archive contained all durable batches of the store.
    pub(crate) at: UnixMs,
    /// Lease of the owner in milliseconds: an owner that could not update this file for this time stops. 0 if the owner
    /// continues without the archive.
    pub(crate) lease_ms: u64,
    /// Id of the process that writes the epoch. 0 if no process writes it. Always 0 in a directory, where a lock
    /// identifies the writer.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub(crate) writer: u64,
    /// Pieces of the segment; absent if the segment is a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<OpenPieces>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_unset(writer: &u64) -> bool {
    *writer == 0
}

/// Record that the owner has stopped, and that the archive is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpochEnd {
    /// Last batch of the owner's log.
    pub(crate) batch: u64,
}

pub(crate) fn store_text(id: u64) -> String {
    format!("{id:016x}")
}

pub(crate) fn epoch_folder(epoch: u64) -> String {
    format!("{epoch:010}")
}

pub(crate) fn chunks_folder(epoch: &str) -> String {
    format!("{epoch}/{CHUNKS}")
}

/// Returns the name of a segment that is stored as a single file.
pub(crate) fn segment_file(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{}", segment_name(number))
}

/// Returns the name of the folder with a segment's pieces.
pub(crate) fn pieces_folder(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{number:020}")
}

/// Returns the name of the piece that a writer has written at an offset.
pub(crate) fn piece_name(offset: u64, writer: u64) -> String {
    format!("{offset:020}.{writer:016x}")
}

/// Returns the existing epochs, oldest first.
pub(crate) fn epochs(archive: &Archive) -> Result<Vec<u64>, ArchiveError> {
    let number = |name: &str| Some(name).filter(|name| name.len() == 10).and_then(|name| name.parse().ok());
    let mut found: Vec<u64> = archive.place.list("")?.iter().filter_map(|listed| number(&listed.name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the owner of an epoch. Returns `None` if the store that created the epoch has not recorded itself as the
/// owner. If the process of that store has died, this never changes.
pub(crate) fn owner(archive: &Archive, epoch: u64) -> Result<Option<Owner>, ArchiveError> {
    let read: Option<(Owner, FileTag)> = archive.read_sealed(&epoch_folder(epoch), OWNER)?;
    Ok(read.map(|(owner, _)| owner))
}

/// Returns whether an epoch exists.
pub(crate) fn is_claimed(archive: &Archive, epoch: u64) -> Result<bool, ArchiveError> {
    archive.place.is_claimed(&epoch_folder(epoch), OWNER)
}

/// Creates the epoch that follows `after`. Returns `None` if another store has created it first.
pub(crate) fn claim(archive: &Archive, after: u64, store: &str) -> Result<Option<u64>, ArchiveError> {
    let epoch = after + 1;
    archive.point("archive: epoch")?;
    let owner = Owner { store: store.to_owned(), epoch };
    Ok(archive.claim(&epoch_folder(epoch), OWNER, &owner)?.then_some(epoch))
}

/// Returns the error for an archive that another process is already writing.
pub(super) fn is_written(archive: &Archive, by: &str) -> ArchiveError {
    ArchiveError::Refused { why: format!("the archive `{archive}` is being written by {by}") }
}

/// Returns the error for an epoch that another store has just created.
pub(crate) fn claimed_by_another(archive: &Archive, epoch: u64) -> ArchiveError {
    let why = format!("another store has just taken epoch {epoch} of the archive `{archive}`");
    ArchiveError::Refused { why }
}
