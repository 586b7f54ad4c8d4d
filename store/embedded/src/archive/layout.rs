//! The layout of an archive: one folder per epoch with its small files, and their owners. Contains no run data.
//!
//! ```text
//! ARCHIVE/0000000001/OWNER      owner of the epoch; written once
//!                    LOCK       lock of the writer; only in a directory
//!                    MANIFEST   bases and segments
//!                    NEWEST     current end of the log
//!                    ENDED      the owner has stopped, and everything it acknowledged is here
//!                    chunks/    pieces of bases, each named by its SHA-256
//!                    log/       durable part of the store's segments; in a bucket, a folder of pieces for each
//! ```

use serde::{Deserialize, Serialize};
use store::UnixMs;

use super::ArchiveError;
use super::names::{CHUNKS, LOG, OWNER};
use super::opened::Archive;
use super::place::FileTag;
use crate::names::segment_name;

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

/// Content of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Newest line.
    pub(crate) line: u64,
    /// Bases, oldest first.
    pub(crate) bases: Vec<Base>,
    /// Segments, oldest first.
    pub(crate) segments: Vec<ArchivedSegment>,
    /// Writer of this file; 0 in a directory, where a lock identifies it.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub(crate) writer: u64,
}

/// A snapshot of redb.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// Last batch that the base includes completely.
    pub(crate) position: u64,
    /// Batch up to which the base may include parts of later batches. Together with the batches up to this one it is
    /// the state of the store at this batch.
    pub(crate) whole_at: u64,
    /// Latest possible instant of that state.
    pub(crate) instant: UnixMs,
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// Chunk that lists the other chunks.
    pub(crate) list: String,
    /// Line of the segments that continue this base.
    pub(crate) line: u64,
}

/// A segment of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedSegment {
    pub(crate) number: u64,
    pub(crate) first: u64,
    /// Number of times that the archive has started again. A segment continues only segments of the same line.
    pub(crate) line: u64,
    /// End of the segment; absent while it is being written, when `NEWEST` contains the end.
    pub(crate) end: Option<SegmentEnd>,
}

/// End of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEnd {
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    pub(crate) instant: UnixMs,
    /// Pieces of the segment; absent if it is a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<Vec<PieceRun>>,
}

/// Consecutive pieces of a segment by one writer, up to the pieces of the next writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceRun {
    pub(crate) writer: u64,
    /// Offset of the first piece in the segment.
    pub(crate) from: u64,
}

/// Pieces of a segment being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenPieces {
    pub(crate) runs: Vec<PieceRun>,
    /// Offset of the last piece, or of the next one if the last is complete.
    pub(crate) tail: u64,
    /// Digest of all bytes so far, by which a store recognizes its own log.
    pub(crate) sha256: String,
}

/// Current end of the log, and the time of the last update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest {
    /// The segment being written; 0 if there is none yet.
    pub(crate) segment: u64,
    pub(crate) bytes: u64,
    pub(crate) batch: u64,
    /// Timestamp of that batch.
    pub(crate) instant: UnixMs,
    /// Instant at which everything durable was in the archive.
    pub(crate) at: UnixMs,
    /// The owner stops by itself after failing to update this file for so long; 0 if it continues without the archive.
    pub(crate) lease_ms: u64,
    /// Writer of the epoch; 0 if there is none, and in a directory, where a lock identifies it.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub(crate) writer: u64,
    /// Pieces of the segment; absent if it is a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<OpenPieces>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_unset(writer: &u64) -> bool {
    *writer == 0
}

/// Record that the owner has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpochEnd {
    /// Last batch of the owner.
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

/// Returns the name of a segment that is a single file.
pub(crate) fn segment_file(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{}", segment_name(number))
}

/// Returns the name of the folder with a segment's pieces.
pub(crate) fn pieces_folder(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{number:020}")
}

/// Returns the name of the piece that a writer has put at an offset.
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

/// Returns the owner of an epoch, or `None` if the store that created it has not recorded its name yet or never will.
pub(crate) fn owner(archive: &Archive, epoch: u64) -> Result<Option<Owner>, ArchiveError> {
    let read: Option<(Owner, FileTag)> = archive.read_sealed(&epoch_folder(epoch), OWNER)?;
    Ok(read.map(|(owner, _)| owner))
}

/// Returns whether an epoch exists.
pub(crate) fn is_claimed(archive: &Archive, epoch: u64) -> Result<bool, ArchiveError> {
    archive.place.is_claimed(&epoch_folder(epoch), OWNER)
}

/// Creates the epoch after `after`, which only one store can do. Returns `None` if another store was first.
pub(crate) fn claim(archive: &Archive, after: u64, store: &str) -> Result<Option<u64>, ArchiveError> {
    let epoch = after + 1;
    archive.point("archive: epoch")?;
    let owner = Owner { store: store.to_owned(), epoch };
    Ok(archive.claim(&epoch_folder(epoch), OWNER, &owner)?.then_some(epoch))
}

/// Returns the error for a second writer.
pub(super) fn is_written(archive: &Archive, by: &str) -> ArchiveError {
    ArchiveError::Refused { why: format!("the archive `{archive}` is being written by {by}") }
}

/// Returns the error if another store was first.
pub(crate) fn claimed_by_another(archive: &Archive, epoch: u64) -> ArchiveError {
    let why = format!("another store has just taken epoch {epoch} of the archive `{archive}`");
    ArchiveError::Refused { why }
}
