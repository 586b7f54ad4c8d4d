//! Options for opening a store, and statistics about opening it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::faults::Faults;

/// Default of [`Options::held_bytes`]. Ours: at a hundred bytes per millisecond, a busy service, this bridges an
/// unreachable archive for an hour and a half; it is also the disk reserve for open runs.
const HELD_BYTES: u64 = 512 << 20;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the store, created if it does not exist. Only one process at a time may have it open.
    pub directory: PathBuf,
    /// Maximum memory for data that is not yet in redb. Commits wait rather than exceed it. Default: 32 MiB.
    pub memory_bytes: usize,
    /// Maximum size of the log that waits for a checkpoint, and thus the maximum read at the next start. Default: 64
    /// MiB.
    pub log_bytes: u64,
    /// Size of a segment of the log. Default: 16 MiB.
    pub segment_bytes: u64,
    /// Memory for redb's cache. Default: 4 MiB; other pages are in the system's cache, from where loading is just as
    /// fast.
    pub cache_bytes: usize,
    /// Maximum size of the log that is kept for a slow or unreachable archive. Beyond it, log is dropped and the
    /// archive starts again with a new base. Default: 512 MiB.
    pub held_bytes: u64,
    /// Verify all pages of `tree.redb` when the store is opened, regardless of its size, which reads the whole file. By
    /// default, files of up to 64 MiB are verified.
    pub verify_all: bool,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl Options {
    /// Returns the default options for a directory.
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

/// Statistics about opening a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Batches of the log that were not yet in redb and were replayed.
    pub batches_replayed: u64,
    /// Bytes of the log that were read.
    pub bytes_read: u64,
    /// Bytes after the last batch that were cut off: a torn batch that was never acknowledged, or the earlier content
    /// of a reused file.
    pub bytes_cut: u64,
    /// Layers of replayed data that were written to redb before the store was open, because of the memory limit.
    pub layers_written: u64,
}
