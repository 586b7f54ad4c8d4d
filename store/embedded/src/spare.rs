//! Room on the disk that the store keeps for itself: to bring what it has taken to where it stays, and to forget runs, once it
//! takes nothing else for want of room. Owns the file `SPARE` and the rule when the disk is full.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;
use store::Error;

use crate::faults::Faults;
use crate::free::FreeSpace;
use crate::options::Options;
use crate::private;

/// The file that takes up the room.
const SPARE: &str = "SPARE";

/// The least that must be free to delete. Ours: a few times what a deletion writes to the log and to redb.
const DELETING_MIN: u64 = 4 << 20;

/// The room of one directory.
#[derive(Debug)]
pub(crate) struct SpareRoom {
    free: FreeSpace,
    faults: Arc<Faults>,
    path: PathBuf,
    bytes: u64,
    /// Whether `SPARE` is there.
    is_held: AtomicBool,
    /// The file system cannot give room to a file that is not written.
    is_refused: AtomicBool,
    was_full: AtomicBool,
}

impl SpareRoom {
    /// Looks whether the room is held. Takes it where there is enough, and lets go of it where the disk is full.
    pub(crate) fn open(options: &Options) -> Self {
        let room = Self {
            free: FreeSpace::of(&options.directory, Arc::clone(&options.faults)),
            faults: Arc::clone(&options.faults),
            path: options.directory.join(SPARE),
            bytes: spare_bytes(options),
            is_held: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            was_full: AtomicBool::new(false),
        };
        match room.path.metadata().map(|file| file.len()) {
            Ok(found) if found == room.bytes => room.is_held.store(true, Ordering::SeqCst),
            // Of a start with other sizes: it would take up room that nobody counts.
            Ok(_) => room.remove(),
            Err(_) => {}
        }
        room.let_go_if_full();
        if room.may_be_taken() {
            room.take();
        }
        room
    }

    /// Bytes that this process may still write; `None` where the system does not tell.
    pub(crate) fn free(&self) -> Option<u64> {
        if let Some(said) = self.faults.disk_free() {
            return Some(said);
        }
        let held = if self.is_held.load(Ordering::SeqCst) { self.bytes } else { 0 };
        self.free.bytes().map(|bytes| bytes + held)
    }

    /// The least that must be free for anything to be taken.
    pub(crate) fn least(&self) -> u64 {
        2 * self.bytes
    }

    /// Whether nothing is taken now.
    pub(crate) fn is_full(&self) -> bool {
        self.must_have().is_err()
    }

    /// Whether there is room for what is to be kept.
    ///
    /// # Errors
    ///
    /// [`Error::Full`].
    pub(crate) fn must_have(&self) -> Result<(), Error> {
        let least = self.least();
        let full = self.free().filter(|free| *free < least);
        if full.is_some() != self.was_full.swap(full.is_some(), Ordering::Relaxed) {
            match full {
                Some(free) => tracing::error!(
                    free,
                    least,
                    "the disk of the store is full: nothing is written until there is room but what deletes; reading goes on"
                ),
                None => tracing::info!("the disk of the store has room again"),
            }
        }
        full.map_or(Ok(()), |free| Err(Error::Full { free, least }))
    }

    /// Whether there is room to delete, once others have used up what was kept for that.
    ///
    /// # Errors
    ///
    /// [`Error::Full`].
    pub(crate) fn must_have_for_deleting(&self) -> Result<(), Error> {
        match self.free() {
            Some(free) if free < DELETING_MIN => Err(Error::Full { free, least: DELETING_MIN }),
            _ => Ok(()),
        }
    }

    /// Whether redb can take so many bytes: pages are written anew before the old ones are let go of.
    pub(crate) fn has_for_redb(&self, bytes: usize) -> bool {
        self.free().is_none_or(|free| free >= 2 * bytes as u64 + DELETING_MIN)
    }

    /// Before anything is written: where the disk is full, this has the room that was kept for it.
    pub(crate) fn let_go_if_full(&self) {
        if self.is_held.load(Ordering::SeqCst) && self.is_full() && self.is_held.swap(false, Ordering::SeqCst) {
            tracing::warn!("the room on the disk that is kept for deleting is used");
            self.remove();
        }
    }

    fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "`{}` could not be removed", self.path.display());
        }
        self.free.ask_again();
    }

    /// Whether the room is not held, and there is enough of it.
    pub(crate) fn may_be_taken(&self) -> bool {
        let is_wanted = !self.is_held.load(Ordering::SeqCst) && !self.is_refused.load(Ordering::SeqCst);
        is_wanted && self.free.bytes().is_some_and(|free| free >= self.least())
    }

    /// Takes the room. Without it the store goes on, and may not have enough to delete when the disk is full.
    pub(crate) fn take(&self) {
        let taken = private::create(&self.path)
            .and_then(|file| Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?));
        match taken {
            Ok(()) => self.is_held.store(true, Ordering::SeqCst),
            Err(error) => {
                tracing::warn!(%error, "no room on the disk can be kept for deleting");
                self.is_refused.store(true, Ordering::SeqCst);
                // What there is of it is of no use.
                drop(std::fs::remove_file(&self.path));
            }
        }
        self.free.ask_again();
    }
}

/// What the store needs to bring what it has taken to where it stays, and to delete: a segment of the log, all that is in memory
/// twice, as redb writes pages anew before it lets go of the old ones, and a little.
fn spare_bytes(options: &Options) -> u64 {
    options.segment_bytes + 2 * options.memory_bytes as u64 + DELETING_MIN
}
