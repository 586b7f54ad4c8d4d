//! Reserved disk space. It is used when the disk is full and other writes are refused: to write accepted data to redb,
//! and to delete runs. The file `SPARE` occupies the space.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;
use store::Error;

use crate::faults::Faults;
use crate::free::FreeSpace;
use crate::options::Options;
use crate::private;

/// File that occupies the reserved space.
const SPARE: &str = "SPARE";

/// Minimum free space for deletions. Chosen: a few times the amount that a deletion writes to the log and to redb.
const DELETING_MIN: u64 = 4 << 20;

/// Reserved disk space for one data directory.
#[derive(Debug)]
pub(crate) struct SpareSpace {
    free: FreeSpace,
    faults: Arc<Faults>,
    path: PathBuf,
    bytes: u64,
    /// True if `SPARE` exists.
    is_held: AtomicBool,
    /// True if the file system cannot allocate space for a file without writing it.
    is_refused: AtomicBool,
    was_full: AtomicBool,
}

impl SpareSpace {
    /// Checks whether the space is reserved. If it is not, reserves it, provided that the disk has enough space. If the
    /// disk is full, releases the space.
    pub(crate) fn open(options: &Options) -> Self {
        let space = Self {
            free: FreeSpace::of(&options.directory, Arc::clone(&options.faults)),
            faults: Arc::clone(&options.faults),
            path: options.directory.join(SPARE),
            bytes: spare_bytes(options),
            is_held: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            was_full: AtomicBool::new(false),
        };
        match space.path.metadata().map(|file| file.len()) {
            Ok(found) if found == space.bytes => space.is_held.store(true, Ordering::SeqCst),
            // An earlier start with other options created a file of another size. The file is removed, because its
            // space would not be accounted for.
            Ok(_) => space.remove(),
            Err(_) => {}
        }
        space.release_if_full();
        if space.may_be_taken() {
            space.take();
        }
        space
    }

    /// Returns how many bytes this process may still write. Returns `None` if the operating system does not report it.
    pub(crate) fn free(&self) -> Option<u64> {
        if let Some(free) = self.faults.disk_free() {
            return Some(free);
        }
        let held = if self.is_held.load(Ordering::SeqCst) { self.bytes } else { 0 };
        self.free.bytes().map(|bytes| bytes + held)
    }

    /// Returns the number of bytes that must be free for anything except deletions.
    pub(crate) fn least(&self) -> u64 {
        2 * self.bytes
    }

    /// Returns whether the disk is too full for anything except deletions.
    pub(crate) fn is_full(&self) -> bool {
        self.must_have().is_err()
    }

    /// Checks that the disk has space for new data.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the disk has too little space.
    pub(crate) fn must_have(&self) -> Result<(), Error> {
        let least = self.least();
        let full = self.free().filter(|free| *free < least);
        if full.is_some() != self.was_full.swap(full.is_some(), Ordering::Relaxed) {
            match full {
                Some(free) => tracing::error!(
                    free,
                    least,
                    "the disk of the store is full: only deletions are written until there is space again; reads \
                     continue"
                ),
                None => tracing::info!("the disk of the store has space again"),
            }
        }
        full.map_or(Ok(()), |free| Err(Error::Full { free, least }))
    }

    /// Checks that the disk has space for deletions. This can fail if other processes use up the reserved space.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the disk has no space.
    pub(crate) fn must_have_for_deleting(&self) -> Result<(), Error> {
        match self.free() {
            Some(free) if free < DELETING_MIN => Err(Error::Full { free, least: DELETING_MIN }),
            _ => Ok(()),
        }
    }

    /// Returns whether redb has space to write this many bytes. redb writes new pages before it frees old ones.
    pub(crate) fn has_for_redb(&self, bytes: usize) -> bool {
        self.free().is_none_or(|free| free >= 2 * bytes as u64 + DELETING_MIN)
    }

    /// Releases the reserved space if the disk is full. Must be called before a write that may use it.
    pub(crate) fn release_if_full(&self) {
        if self.is_held.load(Ordering::SeqCst) && self.is_full() && self.is_held.swap(false, Ordering::SeqCst) {
            tracing::warn!("the disk space reserved for deletions is now used");
            self.remove();
        }
    }

    fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "cannot remove `{}`", self.path.display());
        }
        self.free.ask_again();
    }

    /// Returns whether the space should be reserved now: it is not reserved yet, and the disk has enough space.
    pub(crate) fn may_be_taken(&self) -> bool {
        let is_wanted = !self.is_held.load(Ordering::SeqCst) && !self.is_refused.load(Ordering::SeqCst);
        is_wanted && self.free.bytes().is_some_and(|free| free >= self.least())
    }

    /// Reserves the space. If this fails, the store continues, but deletions may fail when the disk is full.
    pub(crate) fn take(&self) {
        let taken = private::create(&self.path)
            .and_then(|file| Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?));
        match taken {
            Ok(()) => self.is_held.store(true, Ordering::SeqCst),
            Err(error) => {
                tracing::warn!(%error, "cannot reserve disk space for deletions");
                self.is_refused.store(true, Ordering::SeqCst);
                // The file may occupy a part of the space, which is useless.
                drop(std::fs::remove_file(&self.path));
            }
        }
        self.free.ask_again();
    }
}

/// Returns the space that must be reserved. It must suffice to write all accepted data to redb and to delete runs. It
/// consists of a segment of the log, twice the data in memory, and a margin. Twice the data is needed, because redb
/// writes new pages before it frees old pages.
fn spare_bytes(options: &Options) -> u64 {
    options.segment_bytes + 2 * options.memory_bytes as u64 + DELETING_MIN
}
