//! How a store is opened, and what opening it took.

use std::path::PathBuf;
use std::sync::Arc;

use crate::faults::Faults;

/// Ours: at a hundred bytes a millisecond, which is a busy service, an hour and a half of an archive that is away; and as much as is
/// kept of the disk for what is open.
const HELD_BYTES: u64 = 512 << 20;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it lives; created when it is not there. One process at a time.
    pub directory: PathBuf,
    /// Bytes of memory for what is not yet in redb. Commits wait rather than pass it. 32 MiB unless set.
    pub memory_bytes: usize,
    /// Bytes of log that may wait for a checkpoint, and so the most that is read at the next start. 64 MiB unless set.
    pub log_bytes: u64,
    /// Bytes of a segment of the log. 16 MiB unless set.
    pub segment_bytes: u64,
    /// Bytes of memory for redb's cache. 4 MiB unless set: what it has not is in the system's cache, from where a load takes no longer.
    pub cache_bytes: usize,
    /// Bytes of log that are kept at most for an archive that is slow or away; what is beyond goes, and the archive begins
    /// again with a new base. 512 MiB unless set.
    pub held_bytes: u64,
    /// Verify all pages of `tree.redb` when the store is opened, however large it is: that reads the whole file. `false` unless set, and
    /// then files of up to 64 MiB are verified.
    pub verify_all: bool,
    /// Failures on demand, for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl Options {
    /// The defaults, for a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            memory_bytes: 32 << 20,
            log_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            cache_bytes: 4 << 20,
            held_bytes: HELD_BYTES,
            verify_all: false,
            faults: Arc::default(),
        }
    }
}

/// What opening took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Batches of the log that were not yet in redb and were read again.
    pub batches_replayed: u64,
    /// Bytes of the log that were read.
    pub bytes_read: u64,
    /// Bytes behind the last batch that were cut off: a batch that was torn and never acknowledged, or what a file held
    /// before it was used again.
    pub bytes_cut: u64,
    /// Layers of what was replayed that were written to redb before the store was open, for want of memory.
    pub layers_written: u64,
}
