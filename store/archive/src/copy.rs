//! A data directory made from an archive: the pairs of a base, then batches, then a new id. It cannot be opened as a
//! store before it is complete. Owns the order of these steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Error, UnixMs};
use store_embedded::files::{BatchOperation, Tree, Unfinished, operations, tree_path};

use super::layout::{Base, claim, claimed_by_another, epochs, store_text};
use super::opened::Archive;
use super::read::{EpochView, ReadCursor, RestorePlan, plan};
use super::sealed::{Files, read_sealed};
use super::{ArchiveAddress, ArchiveError, CopyProgress};

/// Bytes written by one transaction. Ours: large, because no other work waits for the disk.
const PIECE_BYTES: usize = 4 << 20;
/// Size of redb's cache during the copy.
const CACHE_BYTES: usize = 64 << 20;

/// File with the origin of a store that was restored or that took over. It stays in the data directory until the
/// service has dealt with everything that the old store handed out.
const RESTORED: &str = "RESTORED";
/// File with the origin of an unfinished copy.
pub(crate) const COPY: &str = "COPY";

/// Origin of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Archive.
    pub archive: ArchiveAddress,
    /// Epoch of the archive.
    pub epoch: u64,
    /// Last batch.
    pub batch: u64,
    /// Timestamp of the last batch, in milliseconds since 1970.
    pub instant: UnixMs,
    /// Whether it includes everything that the old store acknowledged, according to the old store itself.
    pub is_all: bool,
}

/// Returns the origin of the store in a data directory if it was restored or took over, until [`forget_restored`] is
/// called.
///
/// # Errors
///
/// [`Error::Corrupt`] if this information cannot be read.
pub fn restored(directory: &Path) -> Result<Option<Restored>, Error> {
    read_sealed(directory, RESTORED)
}

/// Records that everything handed out by the store before it was restored has been dealt with.
///
/// # Errors
///
/// [`Error::Failed`] if this cannot be recorded.
pub fn forget_restored(directory: &Path) -> Result<(), Error> {
    let path = directory.join(RESTORED);
    std::fs::remove_file(&path).map_err(|error| store_embedded::files::storage_error(&error, "remove", &path))
}

/// Source of an unfinished copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Following {
    pub(crate) archive: ArchiveAddress,
    pub(crate) epoch: u64,
    /// Line of the epoch.
    pub(crate) line: u64,
    /// First batch at which the copy is complete.
    pub(crate) whole_at: u64,
    /// Id that the store will have, set when it was asked to take over.
    pub(crate) claims: Option<u64>,
}

/// A copy in progress.
pub(crate) struct Copy {
    directory: Unfinished,
    tree: Tree,
    pub(crate) files: Files,
    pub(crate) following: Option<Following>,
    /// Last batch in the copy.
    pub(crate) copied: Option<u64>,
    cursor: ReadCursor,
}

impl Copy {
    /// Locks an empty or missing directory, or, with `may_continue`, one that already is a copy.
    pub(crate) fn take(directory: &Path, files: Files, may_continue: bool) -> Result<Self, ArchiveError> {
        let directory = Unfinished::take(directory, may_continue)?;
        let following = read_sealed(directory.path(), COPY)?;
        let (tree, _) = Tree::open(&tree_path(directory.path()), CACHE_BYTES)?;
        let copied = if following.is_some() { tree.copied()? } else { None };
        Ok(Self { directory, tree, files, following, copied, cursor: ReadCursor::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts with a base, discarding earlier content.
    pub(crate) fn begin(
        &mut self,
        view: &EpochView,
        base: &Base,
        tick: &mut dyn FnMut(CopyProgress),
    ) -> Result<(), ArchiveError> {
        let path = tree_path(self.directory.path());
        self.tree.close();
        std::fs::remove_file(&path).map_err(|error| store_embedded::files::storage_error(&error, "remove", &path))?;
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

    /// Applies batches up to `last`. Returns the timestamp of the last one, if known.
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
                at = store_embedded::files::instant_of(frame).or(at);
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

    /// Turns the copy into a store with this id.
    pub(crate) fn finish(self, id: u64, restored: &Restored) -> Result<(), ArchiveError> {
        self.tree.close();
        self.files.write_sealed(self.directory.path(), RESTORED, restored)?;
        let path = self.directory.path().to_owned();
        let failed = |error: std::io::Error| store_embedded::files::storage_error(&error, "finish", &path);
        self.files.faults.point("copy: finished").map_err(failed)?;
        let copy = path.join(COPY);
        self.directory.finish(id)?;
        std::fs::remove_file(copy).map_err(failed)?;
        Ok(())
    }
}

/// Options of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Archive to restore from.
    pub archive: ArchiveAddress,
    /// Directory to create.
    pub directory: PathBuf,
    /// Instant to restore to, in milliseconds since 1970; `None` restores everything.
    pub to: Option<UnixMs>,
    /// Takes the next epoch of the archive, so that the old store stops and this one may continue the archive.
    pub takes_over: bool,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: std::sync::Arc<store_embedded::faults::Faults>,
}

/// Creates a data directory from an archive, up to the last batch at or before an instant.
///
/// # Errors
///
/// [`ArchiveError::Damaged`] if the archive is damaged, [`ArchiveError::Refused`] if the directory is in use or not
/// empty or the instant is before the first base, [`ArchiveError::Away`] if files cannot be read or written. An
/// incomplete directory cannot be opened and may be removed.
pub fn restore(options: &RestoreOptions, tick: &mut dyn FnMut(CopyProgress)) -> Result<Restored, ArchiveError> {
    let files = Files { faults: std::sync::Arc::clone(&options.faults) };
    let archive = Archive::open(&options.archive, &options.faults)?;
    let RestorePlan { view, base, batch, instant } = plan(&archive, options.to)?;
    let mut copy = Copy::take(&options.directory, files, false)?;
    copy.begin(&view, &base, tick)?;
    copy.apply(&view, batch)?;
    let id = store_embedded::files::draw_id();
    if options.takes_over {
        let newest = epochs(&archive)?.last().copied().unwrap_or(view.epoch);
        let claimed = claim(&archive, newest, &store_text(id))?;
        claimed.ok_or_else(|| claimed_by_another(&archive, newest + 1))?;
    }
    // The old store may have continued elsewhere.
    let restored = Restored { archive: options.archive.clone(), epoch: view.epoch, batch, instant, is_all: false };
    copy.finish(id, &restored)?;
    Ok(restored)
}
