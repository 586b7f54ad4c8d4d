//! What lies where in an archive, and who has it: one directory for each epoch, and its small files. Owns no bytes of runs.
//!
//! ```text
//! ARCHIVE/0000000001/OWNER      whose epoch this is; written once
//!                    LOCK       who writes
//!                    MANIFEST   bases and segments
//!                    NEWEST     how far the log goes
//!                    ENDED      the owner has stopped, and all it acknowledged is here
//!                    chunks/    pieces of bases, each called by its SHA-256
//!                    log/       segments as the store has them, as far as they are durable
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::{Error, UnixMs};

use super::sealed::{Files, read_sealed};
use crate::disk::storage_error;
use crate::log::sync_directory;
use crate::private;

pub(super) const OWNER: &str = "OWNER";
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEnd {
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    pub(crate) instant: UnixMs,
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

pub(crate) fn epoch_path(root: &Path, epoch: u64) -> PathBuf {
    root.join(format!("{epoch:010}"))
}

pub(crate) fn chunks_path(epoch: &Path) -> PathBuf {
    epoch.join("chunks")
}

pub(crate) fn segments_path(epoch: &Path) -> PathBuf {
    epoch.join("log")
}

/// The epochs that were begun, oldest first.
pub(crate) fn epochs(root: &Path) -> Result<Vec<u64>, Error> {
    let failed = |error: io::Error| storage_error(&error, "list the archive", root);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number: Option<u64> = name.to_str().filter(|name| name.len() == 10).and_then(|name| name.parse().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a directory is an archive, or empty.
pub(crate) fn is_archive_or_empty(root: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.path().join(OWNER).exists() {
            return Ok(true);
        }
        is_empty &= entry.file_name() == "lost+found";
    }
    Ok(is_empty)
}

/// Whose an epoch is; `None` where whoever took it has not said so yet, or never will.
pub(crate) fn owner(root: &Path, epoch: u64) -> Result<Option<Owner>, Error> {
    read_sealed(&epoch_path(root, epoch), OWNER)
}

/// Takes the epoch after `after`, which only one can do: [`Error::InUse`] for whoever comes second.
pub(crate) fn claim(root: &Path, files: &Files, after: u64, store: &str) -> Result<u64, Error> {
    let epoch = after + 1;
    let directory = epoch_path(root, epoch);
    let failed = |error: io::Error| storage_error(&error, "begin an epoch in", root);
    files.faults.point("archive: epoch").map_err(failed)?;
    match DirBuilder::new().mode(0o700).create(&directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::InUse { by: format!("whoever has taken epoch {epoch} of `{}`", root.display()) });
        }
        Err(error) => return Err(failed(error)),
    }
    sync_directory(root).map_err(failed)?;
    for made in [chunks_path(&directory), segments_path(&directory)] {
        private::directory(&made, || Ok(true))?;
    }
    files.write_sealed(&directory, OWNER, &Owner { store: store.to_owned(), epoch })?;
    Ok(epoch)
}
