//! What lies where in an archive, and who has it: one folder for each epoch, and its small files. Owns no bytes of runs.
//!
//! ```text
//! ARCHIVE/0000000001/OWNER      whose epoch this is; written once
//!                    LOCK       who writes; in a directory
//!                    MANIFEST   bases and segments
//!                    NEWEST     how far the log goes
//!                    ENDED      the owner has stopped, and all it acknowledged is here
//!                    chunks/    pieces of bases, each called by its SHA-256
//!                    log/       segments as the store has them, as far as they are durable; in a bucket, a folder of pieces for each
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

/// Whose an epoch is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The store's id, in letters.
    pub(crate) store: String,
    pub(crate) epoch: u64,
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The newest.
    pub(crate) line: u64,
    /// Oldest first.
    pub(crate) bases: Vec<Base>,
    /// Oldest first.
    pub(crate) segments: Vec<ArchivedSegment>,
    /// Who has written this; 0 in a directory, where a lock says so.
    #[serde(default, skip_serializing_if = "is_nobody")]
    pub(crate) writer: u64,
}

/// What redb held at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// Every batch up to here is in it.
    pub(crate) position: u64,
    /// Some of later ones may be, up to here: with the batches in between it is what the store was at this batch.
    pub(crate) whole_at: u64,
    /// When that was, at the latest.
    pub(crate) instant: UnixMs,
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// The chunk that lists the others.
    pub(crate) list: String,
    /// The segments that lead on from it have the same number.
    pub(crate) line: u64,
}

/// A segment of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedSegment {
    pub(crate) number: u64,
    pub(crate) first: u64,
    /// Counts the times that the archive began anew: a segment leads on from those of its own line alone.
    pub(crate) line: u64,
    /// Absent while it is written: `NEWEST` says how far it goes.
    pub(crate) end: Option<SegmentEnd>,
}

/// Where a segment ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEnd {
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    pub(crate) instant: UnixMs,
    /// Which pieces it has; absent where it is one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<Vec<PieceRun>>,
}

/// Pieces of a segment that one writer has put, one behind the other, up to where the next writer's begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceRun {
    pub(crate) writer: u64,
    /// The offset in the segment at which the first begins.
    pub(crate) from: u64,
}

/// The pieces of a segment that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenPieces {
    pub(crate) runs: Vec<PieceRun>,
    /// The offset at which the last one begins, or the next where that has been put whole.
    pub(crate) tail: u64,
    /// Of all bytes so far, by which a store knows its own log.
    pub(crate) sha256: String,
}

/// How far the log goes, and when that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest {
    /// The segment that is being written; 0 where there is none yet.
    pub(crate) segment: u64,
    pub(crate) bytes: u64,
    pub(crate) batch: u64,
    /// Of that batch.
    pub(crate) instant: UnixMs,
    /// When everything that was durable was here.
    pub(crate) at: UnixMs,
    /// The owner stops by itself when it has not been able to say this for so long; 0 where it goes on.
    pub(crate) lease_ms: u64,
    /// Who writes; 0 where nobody does, and in a directory, where a lock says so.
    #[serde(default, skip_serializing_if = "is_nobody")]
    pub(crate) writer: u64,
    /// Absent where the segment is one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<OpenPieces>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_nobody(writer: &u64) -> bool {
    *writer == 0
}

/// The owner has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpochEnd {
    /// The last batch.
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

/// A segment that is one file.
pub(crate) fn segment_file(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{}", segment_name(number))
}

/// The pieces of a segment.
pub(crate) fn pieces_folder(epoch: &str, number: u64) -> String {
    format!("{epoch}/{LOG}/{number:020}")
}

/// The piece that a writer has put at an offset.
pub(crate) fn piece_name(offset: u64, writer: u64) -> String {
    format!("{offset:020}.{writer:016x}")
}

/// The epochs that were begun, oldest first.
pub(crate) fn epochs(archive: &Archive) -> Result<Vec<u64>, ArchiveError> {
    let number = |name: &str| Some(name).filter(|name| name.len() == 10).and_then(|name| name.parse().ok());
    let mut found: Vec<u64> = archive.place.list("")?.iter().filter_map(|listed| number(&listed.name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Whose an epoch is; `None` where whoever took it has not said so yet, or never will.
pub(crate) fn owner(archive: &Archive, epoch: u64) -> Result<Option<Owner>, ArchiveError> {
    let read: Option<(Owner, FileTag)> = archive.read_sealed(&epoch_folder(epoch), OWNER)?;
    Ok(read.map(|(owner, _)| owner))
}

/// Whether somebody has taken an epoch.
pub(crate) fn is_claimed(archive: &Archive, epoch: u64) -> Result<bool, ArchiveError> {
    archive.place.is_claimed(&epoch_folder(epoch), OWNER)
}

/// Takes the epoch after `after`, which only one can do; `None` for whoever comes second.
pub(crate) fn claim(archive: &Archive, after: u64, store: &str) -> Result<Option<u64>, ArchiveError> {
    let epoch = after + 1;
    archive.point("archive: epoch")?;
    let owner = Owner { store: store.to_owned(), epoch };
    Ok(archive.claim(&epoch_folder(epoch), OWNER, &owner)?.then_some(epoch))
}

/// What whoever may not write says of whoever does.
pub(super) fn is_written(archive: &Archive, by: &str) -> ArchiveError {
    ArchiveError::Refused { why: format!("the archive `{archive}` is being written by {by}") }
}

/// What is said to whoever comes second.
pub(crate) fn claimed_by_another(archive: &Archive, epoch: u64) -> ArchiveError {
    let why = format!("epoch {epoch} of the archive `{archive}` has just been taken by another store");
    ArchiveError::Refused { why }
}
