//! A data directory made from an archive. The pairs of a base are written first, then the batches that follow the base,
//! and last a new store id. The directory cannot be opened as a store before all of this is done.

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

/// Bytes written by one transaction. Our choice: large, because no other work waits for the disk.
const PIECE_BYTES: usize = 4 << 20;
/// Size of redb's cache during the copy.
const CACHE_BYTES: usize = 64 << 20;

/// File that records the origin of a store that was restored or has taken over. It stays in the data directory until
/// the service has dealt with all tasks that the old store handed out.
const RESTORED: &str = "RESTORED";
/// File that records the origin of an unfinished copy.
pub(crate) const COPY: &str = "COPY";

/// Origin of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Archive from which the store was made.
    pub archive: ArchiveAddress,
    /// Epoch of the archive.
    pub epoch: u64,
    /// Number of the last batch in the store.
    pub batch: u64,
    /// Time of the last batch, in milliseconds since 1970.
    pub instant: UnixMs,
    /// True if the old store has recorded that it stopped and that the archive contains everything that it
    /// acknowledged.
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

/// Records that all tasks that the store handed out before it was restored have been dealt with. After that,
/// [`restored`] returns `None`.
///
/// # Errors
///
/// [`Error::Failed`] if this cannot be recorded.
pub fn forget_restored(directory: &Path) -> Result<(), Error> {
    let path = directory.join(RESTORED);
    std::fs::remove_file(&path).map_err(|error| store_embedded::files::storage_error(&error, "remove", &path))
}

/// Archive from which an unfinished copy is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Following {
    pub(crate) archive: ArchiveAddress,
    pub(crate) epoch: u64,
    /// Number of the line that is copied. A line is a base with the log that continues it. If a store's log cannot
    /// continue the archived log, the archive begins a new line with a new base.
    pub(crate) line: u64,
    /// First batch at which the copy is a consistent state of the store.
    pub(crate) whole_at: u64,
    /// Id that the new store will have. `None` until the copy is asked to take over.
    pub(crate) claims: Option<u64>,
}

/// A copy in progress.
pub(crate) struct Copy {
    directory: Unfinished,
    tree: Tree,
    pub(crate) files: Files,
    pub(crate) following: Option<Following>,
    /// Number of the last batch in the copy.
    pub(crate) copied: Option<u64>,
    cursor: ReadCursor,
}

impl Copy {
    /// Locks the directory of a copy. It must be empty or missing, or, with `may_continue`, already contain a copy.
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

    /// Starts the copy with a base. Earlier content of the copy is discarded.
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

    /// Applies the batches up to `last`. Returns the time of the last applied batch, if known.
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
    /// Time to which the store is restored, in milliseconds since 1970. `None` restores everything.
    pub to: Option<UnixMs>,
    /// True if the new store takes over the archive: it begins the next epoch of the archive, and the old store stops.
    pub takes_over: bool,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: std::sync::Arc<store_embedded::faults::Faults>,
}

/// Creates a data directory from an archive, with all batches up to an instant.
///
/// # Errors
///
/// * [`ArchiveError::Damaged`] if the archive is damaged.
/// * [`ArchiveError::Refused`] if the directory is in use or not empty, or if the instant is before the first base.
/// * [`ArchiveError::Away`] if files cannot be read or written.
///
/// After an error, the directory may be incomplete. It then cannot be opened, and may be removed.
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
    // It is not known whether the old store has acknowledged more commits, so `is_all` is false.
    let restored = Restored { archive: options.archive.clone(), epoch: view.epoch, batch, instant, is_all: false };
    copy.finish(id, &restored)?;
    Ok(restored)
}
