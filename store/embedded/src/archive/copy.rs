//! A data directory that is made from an archive: pairs of a base, then batches, then an id of its own. Nobody can open it as
//! a store before it is whole. Owns the order of the steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::UnixMs;

use super::layout::{Base, claim, claimed_by_another, epochs, store_text};
use super::opened::Archive;
use super::read::{EpochView, ReadCursor, RestorePlan, plan};
use super::sealed::{Files, read_sealed};
use super::{ArchiveAddress, ArchiveError, CopyProgress};
use crate::directory::{Unfinished, tree_path};
use crate::frame::{BatchOperation, operations};
use crate::tree::Tree;

/// How much one transaction writes. Ours: nobody else waits for the disk.
const PIECE_BYTES: usize = 4 << 20;
/// redb's cache meanwhile.
const CACHE_BYTES: usize = 64 << 20;

/// Where a store comes from that was restored, or that took over; in its data directory until the service has seen to what
/// the old life of the store has handed out.
pub(crate) const RESTORED: &str = "RESTORED";
/// Where a copy comes from that is not finished.
pub(crate) const COPY: &str = "COPY";

/// What a store was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The archive.
    pub archive: ArchiveAddress,
    /// The epoch in it.
    pub epoch: u64,
    /// The last batch.
    pub batch: u64,
    /// Its instant, in milliseconds since 1970.
    pub instant: UnixMs,
    /// Whether everything that the old store has acknowledged is there: it said so itself.
    pub is_all: bool,
}

/// What an unfinished copy follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Following {
    pub(crate) archive: ArchiveAddress,
    pub(crate) epoch: u64,
    /// The line in that.
    pub(crate) line: u64,
    /// The first batch at which it is whole.
    pub(crate) whole_at: u64,
    /// The id that the store is to have, once it has been asked to take over.
    pub(crate) claims: Option<u64>,
}

/// A copy that is being made.
pub(crate) struct Copy {
    directory: Unfinished,
    tree: Tree,
    pub(crate) files: Files,
    pub(crate) following: Option<Following>,
    /// The last batch that is in it.
    pub(crate) copied: Option<u64>,
    cursor: ReadCursor,
}

impl Copy {
    /// Takes an empty directory, or one that is not there, or with `goes_on` one that is a copy already.
    pub(crate) fn take(directory: &Path, files: Files, goes_on: bool) -> Result<Self, ArchiveError> {
        let directory = Unfinished::take(directory, goes_on)?;
        let following = read_sealed(directory.path(), COPY)?;
        let (tree, _) = Tree::open(&tree_path(directory.path()), CACHE_BYTES)?;
        let copied = if following.is_some() { tree.copied()? } else { None };
        Ok(Self { directory, tree, files, following, copied, cursor: ReadCursor::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Begins with a base; what was there goes.
    pub(crate) fn begin(
        &mut self,
        view: &EpochView,
        base: &Base,
        tick: &mut dyn FnMut(CopyProgress),
    ) -> Result<(), ArchiveError> {
        let path = tree_path(self.directory.path());
        self.tree.close();
        std::fs::remove_file(&path).map_err(|error| crate::disk::storage_error(&error, "remove", &path))?;
        (self.tree, _) = Tree::open(&path, CACHE_BYTES)?;
        (self.copied, self.cursor) = (None, ReadCursor::default());
        let following = Following {
            archive: view.archive.address.clone(),
            epoch: view.epoch,
            line: base.line,
            whole_at: base.whole_at,
            claims: None,
        };
        self.files.write_sealed(self.directory.path(), COPY, &following)?;
        self.following = Some(following);
        let mut piece: Vec<(Bytes, Bytes)> = Vec::new();
        let (mut size, mut pairs) = (0, 0);
        let tree = &self.tree;
        let point = |name| self.files.faults.point(name).map_err(|error| ArchiveError::Away { why: error.to_string() });
        let write = |piece: &mut Vec<(Bytes, Bytes)>, copied| {
            point("copy: piece")?;
            let written = tree.write_copy(piece.iter().map(|(key, value)| (&key[..], Some(&value[..]))), copied);
            piece.clear();
            written.map_err(ArchiveError::from)
        };
        view.base_pairs(base, |key, value, bytes| {
            pairs += 1;
            size += key.len() + value.len();
            piece.push((key, value));
            if size >= PIECE_BYTES {
                size = 0;
                tick(CopyProgress { pairs, pairs_in_all: base.pairs, bytes });
                return write(&mut piece, None);
            }
            Ok(())
        })?;
        write(&mut piece, Some(base.position))?;
        self.copied = Some(base.position);
        Ok(())
    }

    /// Goes on up to batch `last`; answers the instant of it where that is known.
    pub(crate) fn apply(&mut self, view: &EpochView, last: u64) -> Result<Option<UnixMs>, ArchiveError> {
        let next = self.copied.unwrap_or_default() + 1;
        let mut pairs: BTreeMap<Vec<u8>, Option<Bytes>> = BTreeMap::new();
        let (mut size, mut at, mut copied) = (0, None, self.copied);
        let tree = &self.tree;
        let write = |pairs: &mut BTreeMap<Vec<u8>, Option<Bytes>>, copied| {
            let written = tree.write_copy(pairs.iter().map(|(key, value)| (&key[..], value.as_deref())), copied);
            pairs.clear();
            written.map_err(ArchiveError::from)
        };
        let mut cursor = self.cursor;
        view.batches(
            self.following.as_ref().map_or(0, |following| following.line),
            next,
            last,
            &mut cursor,
            |frame| {
                for operation in operations(frame.operations) {
                    match operation? {
                        BatchOperation::Put { key, value, .. } => {
                            size += key.len() + value.len();
                            pairs.insert(key.to_vec(), Some(Bytes::copy_from_slice(value)));
                        }
                        BatchOperation::Delete { key } => drop(pairs.insert(key.to_vec(), None)),
                    }
                }
                at = crate::instant::of(frame).or(at);
                copied = Some(frame.batch);
                if size >= PIECE_BYTES {
                    size = 0;
                    return write(&mut pairs, copied);
                }
                Ok(())
            },
        )?;
        if !pairs.is_empty() {
            write(&mut pairs, copied)?;
        }
        (self.copied, self.cursor) = (copied, cursor);
        Ok(at)
    }

    /// Makes a store of it, of this id.
    pub(crate) fn finish(self, id: u64, restored: &Restored) -> Result<(), ArchiveError> {
        self.tree.close();
        self.files.write_sealed(self.directory.path(), RESTORED, restored)?;
        let path = self.directory.path().to_owned();
        let failed = |error: std::io::Error| crate::disk::storage_error(&error, "finish", &path);
        self.files.faults.point("copy: finished").map_err(failed)?;
        let copy = path.join(COPY);
        self.directory.finish(id)?;
        std::fs::remove_file(copy).map_err(failed)?;
        Ok(())
    }
}

/// How to restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The archive.
    pub archive: ArchiveAddress,
    /// The directory to make.
    pub directory: PathBuf,
    /// Up to this instant, in milliseconds since 1970; everything where `None`.
    pub to: Option<UnixMs>,
    /// Take the next epoch of the archive, so that the old store stops and this one may go on in the archive.
    pub takes_over: bool,
    /// Failures on demand, for tests.
    #[doc(hidden)]
    pub faults: std::sync::Arc<crate::faults::Faults>,
}

/// Makes a data directory from an archive, up to the last batch at or before an instant.
///
/// # Errors
///
/// [`ArchiveError::Damaged`] for an archive that is not whole, [`ArchiveError::Refused`] for a directory that is in use or not
/// empty and for an instant before the first base, [`ArchiveError::Away`] where it cannot be read or written. What was made of
/// the directory by then cannot be opened, and may be removed.
pub fn restore(options: &RestoreOptions, tick: &mut dyn FnMut(CopyProgress)) -> Result<Restored, ArchiveError> {
    let files = Files { faults: std::sync::Arc::clone(&options.faults) };
    let archive = Archive::open(&options.archive, &options.faults)?;
    let RestorePlan { view, base, batch, instant } = plan(&archive, options.to)?;
    let mut copy = Copy::take(&options.directory, files, false)?;
    copy.begin(&view, &base, tick)?;
    copy.apply(&view, batch)?;
    let id = crate::directory::draw_id();
    if options.takes_over {
        let newest = epochs(&archive)?.last().copied().unwrap_or(view.epoch);
        let claimed = claim(&archive, newest, &store_text(id))?;
        claimed.ok_or_else(|| claimed_by_another(&archive, newest + 1))?;
    }
    // The old store may have gone on elsewhere.
    let restored = Restored { archive: options.archive.clone(), epoch: view.epoch, batch, instant, is_all: false };
    copy.finish(id, &restored)?;
    Ok(restored)
}
